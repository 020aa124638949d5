//! Unpacking a zip of the released dialect, with the same checks as any other archive.

use std::io::{self, Read, Seek};

use zip::{CompressionMethod, ExtraField, ZipArchive, read::ZipFile, result::ZipError};

use crate::{
    ArchiveError, EntryPath, Folder, Kind, Limits, Manifest, Mtime, Problem, error::reading,
    limits::RATIO_FROM, plant::Planting,
};

/// The part of a mode that says what something is, and its values.
const KIND_MASK: u32 = 0o170_000;
const KIND_FILE: u32 = 0o100_000;
const KIND_DIR: u32 = 0o040_000;
const KIND_LINK: u32 = 0o120_000;

/// Unpacks into `into`, which must be empty. After an error it holds part of the tree, and its owner removes it.
pub fn unpack_zip(
    source: impl Read + Seek,
    into: &Folder,
    limits: &Limits,
) -> Result<Manifest, ArchiveError> {
    let mut planting = Planting::new(into, limits)?;
    let mut archive = ZipArchive::new(source).map_err(unzipping)?;
    check(&mut archive, limits)?;
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).map_err(unzipping)?;
        plant(&mut planting, &mut file, limits)?;
    }
    planting.finish()
}

/// What can be said before anything is unpacked.
fn check<R: Read + Seek>(archive: &mut ZipArchive<R>, limits: &Limits) -> Result<(), ArchiveError> {
    let max = limits.entries;
    if archive.len() as u64 > max {
        return Err(Problem::TooManyEntries { max }.into());
    }
    if archive.has_duplicate_names() {
        return Err(Problem::malformed("a name is there twice").into());
    }
    if archive.has_overlapping_entries().map_err(unzipping)? {
        return Err(Problem::malformed("entries share their bytes").into());
    }
    let (mut packed, mut bytes) = (0_u64, 0_u64);
    for index in 0..archive.len() {
        let file = archive.by_index_raw(index).map_err(unzipping)?;
        packed = packed.saturating_add(file.compressed_size());
        bytes = bytes.saturating_add(file.size());
        let known = matches!(
            file.compression(),
            CompressionMethod::Stored | CompressionMethod::Deflated
        );
        if !known || file.encrypted() {
            return Err(Problem::malformed("an entry is encrypted or oddly packed").into());
        }
    }
    let max = limits.bytes;
    if bytes > max {
        return Err(Problem::TooManyBytes { max }.into());
    }
    let max = limits.ratio;
    if bytes > RATIO_FROM && bytes / max > packed {
        return Err(Problem::Ratio { max }.into());
    }
    Ok(())
}

fn plant<R: Read>(
    planting: &mut Planting<'_>,
    file: &mut ZipFile<'_, R>,
    limits: &Limits,
) -> Result<(), ArchiveError> {
    let name = file.name_raw().to_vec();
    if name.contains(&b'\\') {
        return Err(Problem::Path {
            name: String::from_utf8_lossy(&name).into_owned(),
            why: "it holds a backslash, which some read as a slash",
        }
        .into());
    }
    let is_dir_name = name.ends_with(b"/");
    let path = EntryPath::parse(&name, limits)?;
    let Some(path) = path else {
        return Ok(());
    };
    let mode = file.unix_mode();
    let kind = match mode.map(|mode| mode & KIND_MASK) {
        None | Some(0) if is_dir_name => Kind::Dir,
        None | Some(0) => Kind::File,
        Some(KIND_DIR) => Kind::Dir,
        Some(KIND_FILE) if !is_dir_name => Kind::File,
        Some(KIND_LINK) if !is_dir_name => Kind::Link,
        Some(_) => {
            return Err(Problem::Kind {
                path,
                kind: "special file",
            }
            .into());
        }
    };
    let permissions = mode.map(|mode| mode & 0o777);
    let mtime = mtime(file);
    match kind {
        Kind::Dir => planting.dir(path, permissions.unwrap_or(0o755), mtime),
        Kind::File => {
            let size = file.size();
            planting.file(
                path.clone(),
                permissions.unwrap_or(0o644),
                mtime,
                size,
                file,
            )?;
            // The announced size must be the real one, and reading to the end checks the sum.
            let more = io::copy(&mut file.take(1), &mut io::sink()).map_err(unsummed)?;
            if more > 0 {
                return Err(Problem::malformed("a file is longer than announced").into());
            }
            Ok(())
        }
        Kind::Link => {
            let mut target = Vec::new();
            let max = limits.path_bytes as u64 + 1;
            file.take(max).read_to_end(&mut target).map_err(unsummed)?;
            planting.link(path, &target, mtime)
        }
    }
}

fn mtime<R: Read>(file: &ZipFile<'_, R>) -> Mtime {
    let fields = file.extra_data_fields();
    let exact = fields.filter_map(|field| match field {
        ExtraField::ExtendedTimestamp(times) => times.mod_time(),
        _ => None,
    });
    // The format keeps it in 32 bits; whether they have a sign depends on whom one asks.
    let exact = exact.map(i64::from).next();
    let secs = exact.or_else(|| file.last_modified().map(seconds));
    Mtime {
        secs: secs.unwrap_or(0),
        nanos: 0,
    }
}

/// The format's own time, which says nothing of its zone: that of the sender's clock, taken for UTC.
fn seconds(time: zip::DateTime) -> i64 {
    let (year, month) = (i64::from(time.year()), i64::from(time.month()));
    // Years begin in March here, so that the day that is not always there comes last.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + i64::from(time.day()) - 1;
    let since_1970 = days - 719_468;
    let hours = since_1970 * 24 + i64::from(time.hour());
    (hours * 60 + i64::from(time.minute())) * 60 + i64::from(time.second())
}

fn unsummed(error: io::Error) -> ArchiveError {
    reading(error)
}

fn unzipping(error: ZipError) -> ArchiveError {
    match error {
        ZipError::Io(source) => reading(source),
        other => Problem::malformed(other.to_string()).into(),
    }
}
