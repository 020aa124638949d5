//! Reading a tar, block by block: long names and times of both GNU and pax, nothing that hides, ends early or repeats.
//!
//! The headers are parsed by a library; the loop is ours, so that no extension is read without a bound and an archive
//! that was cut at the end of an entry is not taken for a whole one.

use std::io::{self, Read};

use tar::{EntryType, Header};

use crate::{ArchiveError, EntryPath, Limits, Mtime, Problem, error::reading, plant::Planting};

const BLOCK: usize = 512;

/// What a pax extension may hold; a path and a few times need far less.
const PAX_BYTES_MAX: u64 = 64 << 10;

/// Reads entries into the tree until the end mark.
pub(crate) fn read_tar<R: Read>(
    source: &mut R,
    planting: &mut Planting<'_>,
    limits: &Limits,
) -> Result<(), ArchiveError> {
    let mut extensions = Extensions::default();
    while let Some(header) = next_header(source)? {
        let size = header
            .entry_size()
            .map_err(|error| Problem::malformed(error.to_string()))?;
        let mut content = source.by_ref().take(size);
        let kind = header.entry_type();
        if kind.is_gnu_longname() || kind.is_gnu_longlink() {
            let name = read_name(&mut content, limits)?;
            let slot = if kind.is_gnu_longname() {
                &mut extensions.path
            } else {
                &mut extensions.target
            };
            put(slot, name)?;
        } else if kind.is_pax_local_extensions() {
            let records = read_all(&mut content, PAX_BYTES_MAX)?;
            extensions.read_pax(&records)?;
        } else if kind.is_pax_global_extensions() {
            let records = read_all(&mut content, PAX_BYTES_MAX)?;
            let mut global = Extensions::default();
            global.read_pax(&records)?;
            if global.path.is_some() || global.target.is_some() || global.size.is_some() {
                return Err(Problem::malformed("one name for all entries").into());
            }
        } else {
            let entry = Named::new(&header, std::mem::take(&mut extensions), size, limits)?;
            entry.plant(planting, &mut content)?;
        }
        skip(&mut content)?;
        let padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
        let mut padding = source.by_ref().take(padding);
        skip(&mut padding)?;
    }
    if extensions != Extensions::default() {
        return Err(Problem::malformed("it ends with a name that names nothing").into());
    }
    Ok(())
}

/// The next header; None at the end mark, and an error where the archive just stops.
fn next_header(source: &mut impl Read) -> Result<Option<Header>, ArchiveError> {
    let mut header = Header::new_old();
    source.read_exact(header.as_mut_bytes()).map_err(reading)?;
    let bytes = header.as_bytes();
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let sum = |range: &[u8]| range.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let sum = sum(&bytes[..148]) + 8 * 32 + sum(&bytes[156..]);
    match header.cksum() {
        Ok(announced) if announced == sum => Ok(Some(header)),
        Ok(_) | Err(_) => Err(Problem::malformed("a header has a wrong sum").into()),
    }
}

/// What stands before an entry and is about it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Extensions {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    mtime: Option<Mtime>,
    size: Option<u64>,
}

impl Extensions {
    /// Records are `LENGTH KEY=VALUE\n`, and the length counts all of it.
    fn read_pax(&mut self, mut records: &[u8]) -> Result<(), Problem> {
        let broken = || Problem::malformed("a pax extension is broken");
        while !records.is_empty() {
            let space = records.iter().position(|byte| *byte == b' ');
            let space = space.ok_or_else(broken)?;
            let length = str::from_utf8(&records[..space]).ok();
            let length: usize = length
                .and_then(|text| text.parse().ok())
                .ok_or_else(broken)?;
            let record = records.get(space + 1..length).ok_or_else(broken)?;
            records = &records[length..];
            let record = record.strip_suffix(b"\n").ok_or_else(broken)?;
            let equals = record.iter().position(|byte| *byte == b'=');
            let (key, value) = record.split_at(equals.ok_or_else(broken)?);
            self.record(key, &value[1..])?;
        }
        Ok(())
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<(), Problem> {
        let text = || str::from_utf8(value).ok();
        match key {
            b"path" => put(&mut self.path, value.to_owned()),
            b"linkpath" => put(&mut self.target, value.to_owned()),
            b"mtime" => {
                self.mtime = text().and_then(Mtime::from_pax);
                Ok(())
            }
            b"size" => {
                self.size = text().and_then(|text| text.parse().ok());
                Ok(())
            }
            _ if key.starts_with(b"GNU.sparse") => {
                Err(Problem::malformed("sparse files are not unpacked"))
            }
            _ => Ok(()),
        }
    }
}

/// Readers disagree on which of two names holds, so there may be only one.
fn put(slot: &mut Option<Vec<u8>>, name: Vec<u8>) -> Result<(), Problem> {
    match slot.replace(name) {
        None => Ok(()),
        Some(_) => Err(Problem::malformed("an entry has two names")),
    }
}

/// An entry with everything known of it.
struct Named {
    /// None is the folder itself.
    path: Option<EntryPath>,
    name: Vec<u8>,
    target: Vec<u8>,
    kind: EntryType,
    mode: u32,
    mtime: Mtime,
    size: u64,
}

impl Named {
    fn new(
        header: &Header,
        extensions: Extensions,
        size: u64,
        limits: &Limits,
    ) -> Result<Self, Problem> {
        if extensions.size.is_some_and(|other| other != size) {
            return Err(Problem::malformed("an entry has two sizes"));
        }
        let name = extensions
            .path
            .unwrap_or_else(|| header.path_bytes().into_owned());
        let target = extensions.target.unwrap_or_else(|| {
            let target = header.link_name_bytes();
            target.map(|target| target.into_owned()).unwrap_or_default()
        });
        let secs = header
            .mtime()
            .ok()
            .and_then(|secs| i64::try_from(secs).ok());
        let mtime = Mtime {
            secs: secs.unwrap_or(0),
            nanos: 0,
        };
        Ok(Self {
            path: EntryPath::parse(&name, limits)?,
            name,
            target,
            kind: header.entry_type(),
            mode: header.mode().unwrap_or(0o644),
            mtime: extensions.mtime.unwrap_or(mtime),
            size,
        })
    }

    fn plant(
        self,
        planting: &mut Planting<'_>,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        let Some(path) = self.path else {
            return match self.kind {
                EntryType::Directory => Ok(()),
                _ => Err(Problem::Path {
                    name: ".".into(),
                    why: "it is the folder itself",
                }
                .into()),
            };
        };
        let kind = match self.kind {
            EntryType::Directory => return planting.dir(path, self.mode, self.mtime),
            EntryType::Symlink => return planting.link(path, &self.target, self.mtime),
            EntryType::Regular | EntryType::Continuous => {
                if self.name.ends_with(b"/") {
                    return Err(Problem::Kind {
                        path,
                        kind: "file with the name of a folder",
                    }
                    .into());
                }
                return planting.file(path, self.mode, self.mtime, self.size, content);
            }
            EntryType::Link => "hard link",
            EntryType::Char | EntryType::Block => "device",
            EntryType::Fifo => "pipe",
            EntryType::GNUSparse => "sparse file",
            _ => "kind of entry we do not know",
        };
        Err(Problem::Kind { path, kind }.into())
    }
}

fn read_all(content: &mut io::Take<impl Read>, max: u64) -> Result<Vec<u8>, ArchiveError> {
    let size = content.limit();
    if size > max {
        return Err(Problem::malformed("a name or an extension is too long").into());
    }
    let mut bytes = Vec::new();
    content.read_to_end(&mut bytes).map_err(reading)?;
    if (bytes.len() as u64) < size {
        return Err(Problem::Truncated.into());
    }
    Ok(bytes)
}

fn read_name(content: &mut io::Take<impl Read>, limits: &Limits) -> Result<Vec<u8>, ArchiveError> {
    let mut name = read_all(content, limits.path_bytes as u64 + 1)?;
    // GNU ends it with a NUL; one inside would make two names of it.
    if name.last() == Some(&0) {
        name.pop();
    }
    Ok(name)
}

/// Passes over the rest, which must be there.
fn skip(content: &mut io::Take<impl Read>) -> Result<(), ArchiveError> {
    let expected = content.limit();
    let skipped = io::copy(content, &mut io::sink()).map_err(reading)?;
    if skipped < expected {
        return Err(Problem::Truncated.into());
    }
    Ok(())
}
