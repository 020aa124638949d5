//! What a client sees: `/` with `workspace` and, if there is one, `meta`. Real paths stay on this side.
//!
//! A client's path is made plain by its text alone, so `..` never reaches the kernel; whatever links do below the two
//! folders, the kernel keeps below them.

use std::{
    ffi::OsStr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use platform::{ConfinedDir, confined::ConfinedError};
use rustix::{
    fs::{Mode, OFlags, Stat, fstat},
    io::Errno,
};

use crate::protocol::{Attributes, PATH_BYTES_MAX, Status, StatusCode};

/// The lent folder, as everybody who comes sees it.
pub const WORKSPACE: &str = "workspace";
pub(crate) const META: &str = "meta";

/// A folder by its permissions as everybody may see it: nothing can be made in it.
const ROOT_MODE: u32 = 0o040_555;

#[derive(Debug)]
pub(crate) struct View {
    pub(crate) workspace: ConfinedDir,
    pub(crate) meta: Option<ConfinedDir>,
}

/// Where a client's path leads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    Root,
    Below(Below),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Area {
    Workspace,
    Meta,
}

/// A path below one of the two folders, without `.`, `..` and empty names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Below {
    pub(crate) area: Area,
    /// `.` is the folder itself.
    relative: Vec<u8>,
}

impl Place {
    pub(crate) fn of(path: &[u8]) -> Result<Place, Status> {
        let names = plain_names(path)?;
        let Some((first, rest)) = names.split_first() else {
            return Ok(Place::Root);
        };
        let area = match *first {
            b"workspace" => Area::Workspace,
            b"meta" => Area::Meta,
            _ => return Err(Status::from(Errno::NOENT)),
        };
        let relative = match rest {
            [] => b".".to_vec(),
            names => names.join(&b'/'),
        };
        Ok(Place::Below(Below { area, relative }))
    }
}

impl Below {
    pub(crate) fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.relative))
    }

    /// As the client sees it, without the slash at its beginning.
    pub(crate) fn seen(&self) -> PathBuf {
        let area = Path::new(match self.area {
            Area::Workspace => WORKSPACE,
            Area::Meta => META,
        });
        match self.is_area() {
            true => area.to_owned(),
            false => area.join(self.path()),
        }
    }

    pub(crate) fn is_area(&self) -> bool {
        self.relative == b"."
    }

    /// The folder above and the last name; the area itself has neither.
    fn split(&self) -> Option<(&Path, &OsStr)> {
        if self.is_area() {
            return None;
        }
        let (parent, name) = match self.relative.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.relative[..slash], &self.relative[slash + 1..]),
            None => (&b"."[..], &self.relative[..]),
        };
        Some((
            Path::new(OsStr::from_bytes(parent)),
            OsStr::from_bytes(name),
        ))
    }
}

impl View {
    pub(crate) fn folder(&self, area: Area) -> Result<&ConfinedDir, Status> {
        match area {
            Area::Workspace => Ok(&self.workspace),
            Area::Meta => self.meta.as_ref().ok_or(Status::from(Errno::NOENT)),
        }
    }

    pub(crate) fn open(&self, below: &Below, flags: OFlags, mode: Mode) -> Result<OwnedFd, Status> {
        self.folder(below.area)?
            .open_with(below.path(), flags, mode)
            .map_err(refused)
    }

    /// The opened folder of the last name, and that name.
    pub(crate) fn parent<'a>(&self, below: &'a Below) -> Result<(OwnedFd, &'a OsStr), Status> {
        let (parent, name) = below.split().ok_or(Status::denied("Permission denied"))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let parent = self
            .folder(below.area)?
            .open_with(parent, flags, Mode::empty())
            .map_err(refused)?;
        Ok((parent, name))
    }

    /// Of the root, which exists nowhere: it looks like a folder that nobody may change.
    pub(crate) fn root_attributes(&self) -> Result<Attributes, Status> {
        let stat: Stat = fstat(self.workspace.as_fd())?;
        Ok(Attributes {
            permissions: Some(ROOT_MODE),
            ..Attributes::from(&stat)
        })
    }

    /// The names in the root.
    pub(crate) fn areas(&self) -> impl Iterator<Item = (&'static str, &ConfinedDir)> {
        let meta = self.meta.as_ref().map(|meta| (META, meta));
        std::iter::once((WORKSPACE, &self.workspace)).chain(meta)
    }
}

/// The path as the client may say it, made plain: the answer to REALPATH.
pub(crate) fn plain(path: &[u8]) -> Result<Vec<u8>, Status> {
    let names = plain_names(path)?;
    Ok([&b"/"[..], &names.join(&b'/')].concat())
}

fn plain_names(path: &[u8]) -> Result<Vec<&[u8]>, Status> {
    if path.len() > PATH_BYTES_MAX {
        return Err(Status::from(Errno::NAMETOOLONG));
    }
    if path.contains(&0) {
        return Err(Status::new(
            StatusCode::NoSuchFile,
            "A name cannot hold a NUL",
        ));
    }
    let mut names = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop(); // Above the root is the root.
            }
            name => names.push(name),
        }
    }
    Ok(names)
}

fn refused(error: ConfinedError) -> Status {
    Status::from(match &error {
        ConfinedError::Outside { .. } => Errno::XDEV,
        ConfinedError::Failed { source, .. } => {
            Errno::from_io_error(source).unwrap_or(Errno::ACCESS)
        }
        _ => Errno::ACCESS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_plain_without_looking() {
        for (path, expected) in [
            ("", "/"),
            (".", "/"),
            ("/../..", "/"),
            ("workspace//a/./b/", "/workspace/a/b"),
            ("/workspace/a/../../meta/x", "/meta/x"),
            ("/workspace/../../../etc/passwd", "/etc/passwd"),
        ] {
            let plain = plain(path.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(plain).unwrap(), expected, "{path}");
        }
    }

    #[test]
    fn only_the_two_folders_are_there() {
        let below = |area, relative: &str| {
            Ok(Place::Below(Below {
                area,
                relative: relative.into(),
            }))
        };
        for (path, expected) in [
            ("/", Ok(Place::Root)),
            ("/workspace", below(Area::Workspace, ".")),
            ("/workspace/a/b", below(Area::Workspace, "a/b")),
            ("meta/x", below(Area::Meta, "x")),
            ("/etc/passwd", Err(Status::from(Errno::NOENT))),
            ("/workspaces", Err(Status::from(Errno::NOENT))),
        ] {
            assert_eq!(Place::of(path.as_bytes()), expected, "{path}");
        }
    }
}
