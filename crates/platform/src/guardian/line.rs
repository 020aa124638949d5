//! The lines of the guardian's pipe: `=o HOME:BOOT` first, then `+g PGID`, `-g PGID`, `+m PATH`, `-m PATH`.
//!
//! Paths are raw bytes up to the line break. Every line fits one atomic write.

use std::{
    ffi::OsStr,
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::{owner::Owner, pid::pid_of};

/// The kernel writes up to PIPE_BUF bytes in one piece; POSIX promises 512, Linux 4096, and paths need the latter.
pub(super) const LINE_BYTES_MAX: usize = 4096;

/// `+g `, ten digits, the line break.
pub(super) const GROUP_LINE_BYTES_MAX: usize = 14;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Line {
    Owner(Owner),
    AddGroup(u32),
    RemoveGroup(u32),
    AddMount(PathBuf),
    RemoveMount(PathBuf),
}

impl Line {
    /// With its line break; `None` when it does not fit one atomic write or one line.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let numbered = |mark: &str, group: &u32| format!("{mark} {group}").into_bytes();
        let pathed = |mark: &[u8], path: &Path| [mark, b" ", path.as_os_str().as_bytes()].concat();
        let mut bytes = match self {
            Line::Owner(owner) => format!("=o {}:{}", owner.home(), owner.boot()).into_bytes(),
            Line::AddGroup(group) => numbered("+g", group),
            Line::RemoveGroup(group) => numbered("-g", group),
            Line::AddMount(path) => pathed(b"+m", path),
            Line::RemoveMount(path) => pathed(b"-m", path),
        };
        if bytes.contains(&b'\n') || bytes.len() >= LINE_BYTES_MAX {
            return None;
        }
        bytes.push(b'\n');
        Some(bytes)
    }

    /// Without its line break; `None` for anything that is not a line of ours, groups 0 and 1 included.
    pub(super) fn parse(line: &[u8]) -> Option<Line> {
        let (mark, rest) = line.split_at_checked(3)?;
        let group = || {
            let group: u32 = std::str::from_utf8(rest).ok()?.parse().ok()?;
            pid_of(group).map(|_| group)
        };
        let path = || (!rest.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(rest)));
        match mark {
            b"=o " => {
                let (home, boot) = std::str::from_utf8(rest).ok()?.split_once(':')?;
                Owner::new(home, boot).ok().map(Line::Owner)
            }
            b"+g " => group().map(Line::AddGroup),
            b"-g " => group().map(Line::RemoveGroup),
            b"+m " => path().map(Line::AddMount),
            b"-m " => path().map(Line::RemoveMount),
            _ => None,
        }
    }
}

/// For messages.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Owner(owner) => write!(f, "the owner {}:{}", owner.home(), owner.boot()),
            Line::AddGroup(group) => write!(f, "the new group {group}"),
            Line::RemoveGroup(group) => write!(f, "the end of group {group}"),
            Line::AddMount(path) => write!(f, "the new mount {}", path.display()),
            Line::RemoveMount(path) => write!(f, "the end of mount {}", path.display()),
        }
    }
}

/// `+g PGID` without allocation, for a forked child.
pub(super) fn encode_group(group: u32, buffer: &mut [u8; GROUP_LINE_BYTES_MAX]) -> &[u8] {
    let mut start = buffer.len() - 1;
    buffer[start] = b'\n';
    let mut rest = group;
    loop {
        start -= 1;
        // A digit is below ten, so it fits the byte.
        buffer[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    start -= 3;
    buffer[start..start + 3].copy_from_slice(b"+g ");
    &buffer[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_reads_as_it_was_written() {
        let lines = [
            Line::Owner(Owner::new("home", "boot").unwrap()),
            Line::AddGroup(77),
            Line::RemoveGroup(4_194_304),
            Line::AddMount("/a b/\u{fc}".into()),
            Line::RemoveMount(OsStr::from_bytes(b"/\xff").into()),
        ];
        for line in lines {
            let bytes = line.encode().unwrap();
            assert_eq!(Line::parse(bytes.strip_suffix(b"\n").unwrap()), Some(line));
        }
    }

    #[test]
    fn what_is_not_a_line_of_ours_is_refused() {
        for bad in [
            "", "+g", "+g ", "+g 0", "+g 1", "+g -5", "+g 5 ", "+m ", "*g 5", "=o a", "=o :",
        ] {
            assert_eq!(Line::parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(Line::AddMount("/a\nb".into()).encode(), None);
        assert_eq!(
            Line::AddMount("x".repeat(LINE_BYTES_MAX).into()).encode(),
            None
        );
    }

    #[test]
    fn a_forked_child_writes_the_same_line() {
        for group in [2, 10, 4_194_304, u32::MAX] {
            let mut buffer = [0; GROUP_LINE_BYTES_MAX];
            let expected = Line::AddGroup(group).encode().unwrap();
            assert_eq!(encode_group(group, &mut buffer), expected);
        }
    }
}
