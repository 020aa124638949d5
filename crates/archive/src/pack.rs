//! Packing: a tree becomes a tar, compressed with zstd and summed with SHA-256, in chunks as it is read.

use std::io::{self, BufWriter, Read, Write};

use tar::{Builder, EntryType, Header};
use zstd::stream::write::Encoder;

use crate::{
    ArchiveError, Checksum, Content, Entry, EntryPath, Folder, Kind, LeftOut, Limits, Manifest,
    Mtime, Problem,
    checksum::Summing,
    error::{failed, writing},
    path::Target,
    walk::{Found, Ignore, walk},
};

/// How much the sink gets at once.
const CHUNK: usize = 64 << 10;

/// zstd's own default: much smaller than gzip, and faster than a disk.
const LEVEL: i32 = 3;

/// What was packed.
#[derive(Debug)]
pub struct Packed {
    /// What the archive holds.
    pub manifest: Manifest,
    /// Of the archive.
    pub checksum: Checksum,
    /// Of the archive.
    pub bytes: u64,
    /// What could not travel.
    pub left_out: Vec<LeftOut>,
}

/// Packs everything below `folder` that is not ignored, as `.tar.zst`.
pub fn pack(
    folder: &Folder,
    ignore: Ignore<'_>,
    limits: &Limits,
    sink: impl Write,
) -> Result<Packed, ArchiveError> {
    let mut tarball = Tarball::new(sink)?;
    let mut manifest = Manifest::default();
    let mut budget = Budget::new(limits);
    let left_out = walk(folder, ignore, limits, &mut |found: Found<'_>| {
        let entry = tarball.add(b"", &found, &mut budget)?;
        manifest.entries.insert(found.path.clone(), entry);
        Ok(())
    })?;
    let (checksum, bytes) = tarball.finish()?;
    Ok(Packed {
        manifest,
        checksum,
        bytes,
        left_out,
    })
}

/// What the files may still hold, all together.
pub(crate) struct Budget<'a> {
    limits: &'a Limits,
    left: u64,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            left: limits.bytes,
        }
    }

    /// Takes a file's bytes from what is left.
    pub(crate) fn take(&mut self, path: &EntryPath, bytes: u64) -> Result<(), Problem> {
        let max = self.limits.file_bytes;
        if bytes > max {
            let path = path.clone();
            return Err(Problem::TooLargeFile { path, bytes, max });
        }
        self.left = self.left.checked_sub(bytes).ok_or(Problem::TooManyBytes {
            max: self.limits.bytes,
        })?;
        Ok(())
    }
}

/// An archive that is being written.
pub(crate) struct Tarball<W: Write> {
    builder: Builder<Encoder<'static, Summing<BufWriter<W>>>>,
}

impl<W: Write> Tarball<W> {
    pub(crate) fn new(sink: W) -> Result<Self, ArchiveError> {
        let summing = Summing::new(BufWriter::with_capacity(CHUNK, sink));
        let encoder = Encoder::new(summing, LEVEL).map_err(writing)?;
        Ok(Self {
            builder: Builder::new(encoder),
        })
    }

    /// Adds what was found, below `prefix`, and says what it was.
    pub(crate) fn add(
        &mut self,
        prefix: &[u8],
        found: &Found<'_>,
        budget: &mut Budget<'_>,
    ) -> Result<Entry, ArchiveError> {
        let path = found.path;
        let name = [prefix, path.as_bytes()].concat();
        let (mut mode, mut mtime) = (found.looked.mode, found.looked.mtime);
        let content = match found.kind {
            Kind::Dir => {
                self.dir(&name, mode, mtime)?;
                Content::Dir
            }
            Kind::Link => {
                let target = found.folder.link_target(found.name);
                let target = target.map_err(failed("read", path))?;
                self.link(&name, &target, mtime)?;
                Content::Link {
                    target: Target(target),
                }
            }
            Kind::File => {
                let opened = found.folder.read(found.name);
                let (file, looked) = opened.map_err(failed("open", path))?;
                budget.take(path, looked.size)?;
                (mode, mtime) = (looked.mode, looked.mtime);
                let mut summing = Summing::new(file.take(looked.size));
                self.file(&name, mode, mtime, looked.size, &mut summing)?;
                let (_, hash, size) = summing.finish();
                if size != looked.size {
                    return Err(ArchiveError::Changed { path: path.clone() });
                }
                Content::File { size, hash }
            }
        };
        Ok(Entry {
            mode,
            mtime,
            content,
        })
    }

    pub(crate) fn dir(&mut self, name: &[u8], mode: u32, mtime: Mtime) -> Result<(), ArchiveError> {
        let name = [name, b"/"].concat();
        let header = header(EntryType::Directory, mode, mtime);
        self.append(header, &name, b"", mtime, &mut io::empty())
    }

    fn link(&mut self, name: &[u8], target: &[u8], mtime: Mtime) -> Result<(), ArchiveError> {
        let header = header(EntryType::Symlink, 0o777, mtime);
        self.append(header, name, target, mtime, &mut io::empty())
    }

    pub(crate) fn file(
        &mut self,
        name: &[u8],
        mode: u32,
        mtime: Mtime,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        let mut header = header(EntryType::Regular, mode, mtime);
        header.set_size(size);
        self.append(header, name, b"", mtime, content)
    }

    /// Names go in as they are, to the byte. What does not fit the header goes before it, in one extension: of two,
    /// some readers take only the last.
    fn append(
        &mut self,
        mut header: Header,
        name: &[u8],
        target: &[u8],
        mtime: Mtime,
        mut content: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        let time = mtime.to_pax();
        let mut extensions = Vec::new();
        if mtime.nanos != 0 || mtime.secs < 0 {
            extensions.push(("mtime", time.as_bytes()));
        }
        let old = header.as_old_mut();
        for (field, key, bytes) in [
            (&mut old.name, "path", name),
            (&mut old.linkname, "linkpath", target),
        ] {
            let fits = bytes.len().min(field.len());
            field[..fits].copy_from_slice(&bytes[..fits]);
            if fits < bytes.len() {
                extensions.push((key, bytes));
            }
        }
        header.set_cksum();
        let extended = self.builder.append_pax_extensions(extensions);
        extended.map_err(writing)?;
        self.builder.append(&header, &mut content).map_err(writing)
    }

    pub(crate) fn finish(self) -> Result<(Checksum, u64), ArchiveError> {
        let encoder = self.builder.into_inner().map_err(writing)?;
        let summing = encoder.finish().map_err(writing)?;
        let (mut sink, checksum, bytes) = summing.finish();
        sink.flush().map_err(writing)?;
        Ok((checksum, bytes))
    }
}

fn header(kind: EntryType, mode: u32, mtime: Mtime) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(u64::try_from(mtime.secs).unwrap_or(0));
    header.set_size(0);
    header
}

const NANOS: u32 = 1_000_000_000;

impl Mtime {
    /// As the pax format writes times: a decimal number.
    fn to_pax(self) -> String {
        if self.secs < 0 && self.nanos > 0 {
            let (whole, part) = (-(self.secs + 1), NANOS - self.nanos);
            return format!("-{whole}.{part:09}");
        }
        format!("{}.{:09}", self.secs, self.nanos)
    }

    /// Reads a pax time; more digits than nanoseconds have are cut.
    pub(crate) fn from_pax(text: &str) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let secs: i64 = whole.parse().ok().filter(|secs| *secs >= 0)?;
        if !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let nanos: u32 = format!("{part:0<9}").get(..9)?.parse().ok()?;
        Some(match (negative, nanos) {
            (false, nanos) => Self { secs, nanos },
            (true, 0) => Self { secs: -secs, nanos },
            (true, nanos) => Self {
                secs: -secs - 1,
                nanos: NANOS - nanos,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read_as_decimals() {
        let cases = [
            ((0, 1), "0.000000001"),
            ((12, 500_000_000), "12.500000000"),
            ((-2, 500_000_000), "-1.500000000"),
            ((-5, 0), "-5.000000000"),
        ];
        for ((secs, nanos), text) in cases {
            let mtime = Mtime { secs, nanos };
            assert_eq!(mtime.to_pax(), text);
            assert_eq!(Mtime::from_pax(text), Some(mtime), "{text}");
        }
        let short = Some(Mtime {
            secs: 7,
            nanos: 250_000_000,
        });
        assert_eq!(Mtime::from_pax("7.25"), short);
        for wrong in [
            "",
            "x",
            "1.x",
            "--1",
            "-",
            "1.-5",
            "99999999999999999999",
            "1.é",
            "1.12345678é",
            "1.123456789x",
        ] {
            assert_eq!(Mtime::from_pax(wrong), None, "{wrong}");
        }
    }
}
