//! The kernel's table of mounts, which can be read without touching a file system that may hang.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use platform::files::read_bounded;

/// A machine with more than this in its table has some ten thousand mounts.
const TABLE_BYTES_MAX: u64 = 4 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct MountTable {
    points: Vec<PathBuf>,
}

impl MountTable {
    /// Where it cannot be read nothing is mounted, as far as anybody can tell.
    pub(super) fn read() -> MountTable {
        let text =
            read_bounded(Path::new("/proc/self/mountinfo"), TABLE_BYTES_MAX).unwrap_or_default();
        MountTable::parse(&text)
    }

    fn parse(text: &[u8]) -> MountTable {
        let point = |line: &[u8]| {
            let field = line.split(|byte| *byte == b' ').nth(4)?;
            Some(PathBuf::from(OsStr::from_bytes(&unescape(field))))
        };
        let lines = text.split(|byte| *byte == b'\n');
        MountTable {
            points: lines.filter_map(point).collect(),
        }
    }

    /// The path is compared with its links followed, as the kernel keeps it, except for the last name.
    pub(super) fn holds(&self, point: &Path) -> bool {
        let real = match (point.parent(), point.file_name()) {
            (Some(parent), Some(name)) => platform::files::resolve(parent).join(name),
            _ => point.to_owned(),
        };
        self.points.contains(&real)
    }
}

/// Blanks, tabs, line breaks and backslashes are written in octal.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = |digits: &[u8; 3]| {
            let digit = |byte: u8| (b'0'..=b'7').contains(&byte).then(|| byte - b'0');
            let [high, middle, low] = *digits;
            Some((digit(high)? & 3) << 6 | digit(middle)? << 3 | digit(low)?)
        };
        match (first, after.first_chunk::<3>().and_then(octal)) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_are_found() {
        let table = MountTable::parse(
            b"36 35 98:0 / / rw - ext4 x rw\n40 36 0:5 / /no\\040such/a\\134b rw - fuse.sshfs x rw\n",
        );
        assert!(table.holds(Path::new("/no such/a\\b")));
        assert!(!table.holds(Path::new("/no such")));
    }
}
