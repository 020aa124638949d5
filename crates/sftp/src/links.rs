//! Which symbolic links are shown and made: those that cannot lead out of the folder they are in, whoever follows them.
//!
//! A client resolves links on its own machine, and people on this machine follow them too, so the kernel's confinement
//! is not enough. A target may climb only at its beginning and not further than the folder: after a name, `..`
//! depends on what that name is at the moment, which nobody can promise.

use std::{
    ffi::OsStr,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat},
    io::Errno,
};

use crate::protocol::{PATH_BYTES_MAX, Status};

/// No path within the kernel's bound has more folders.
const DEPTH_MAX: usize = PATH_BYTES_MAX / 2;

/// How much of a tree is looked through before it may be moved towards the root; larger ones stay where they are.
const SCAN_MAX: usize = 100_000;

const LEADS_OUTSIDE: Status = Status::denied("The link leads outside");

/// How many folders a target climbs. `None` if nobody can say where it leads.
pub(crate) fn climbs(target: &[u8]) -> Option<usize> {
    if target.is_empty() || target.starts_with(b"/") || target.contains(&0) {
        return None;
    }
    let mut climbed = 0;
    let mut named = false;
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if named => return None,
            b".." => climbed += 1,
            _ => named = true,
        }
    }
    Some(climbed)
}

/// Refuses a target that, from a link in `parent`, leads out of `root`.
pub(crate) fn check(
    target: &[u8],
    root: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
) -> Result<(), Status> {
    match climbs(target).ok_or(LEADS_OUTSIDE)? {
        0 => Ok(()),
        climbed if climbed <= depth(root, parent)? => Ok(()),
        _ => Err(LEADS_OUTSIDE),
    }
}

/// Reads a link and refuses to tell a target that leads outside.
pub(crate) fn read(
    name: &OsStr,
    root: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
) -> Result<Vec<u8>, Status> {
    let target = readlinkat(parent, name, Vec::new())?.into_bytes();
    check(&target, root, parent)?;
    Ok(target)
}

/// Refuses to move something to a folder from where links in it would lead outside that did not before.
pub(crate) fn check_move(
    name: &OsStr,
    stat: &Stat,
    root: BorrowedFd<'_>,
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
) -> Result<(), Status> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => check(readlinkat(from, name, Vec::new())?.as_bytes(), root, to),
        FileType::Directory => {
            let (before, after) = (depth(root, from)?, depth(root, to)?);
            if after >= before {
                return Ok(());
            }
            let mut left = SCAN_MAX;
            let depths = Depths { before, after };
            check_tree(&open_folder(from, name)?, 1, depths, &mut left)
        }
        _ => Ok(()),
    }
}

/// How deep the folder above a tree is, before and after the tree is moved.
#[derive(Clone, Copy)]
struct Depths {
    before: usize,
    after: usize,
}

/// `below` is how deep this folder is in the tree.
fn check_tree(
    folder: &OwnedFd,
    below: usize,
    depths: Depths,
    left: &mut usize,
) -> Result<(), Status> {
    if below > DEPTH_MAX {
        return Err(Status::from(Errno::NAMETOOLONG));
    }
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        *left = left
            .checked_sub(1)
            .ok_or(Status::failure("Too large to be moved towards the root"))?;
        let kind = match entry.file_type() {
            FileType::Unknown => {
                FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
            }
            known => known,
        };
        if kind == FileType::Directory {
            let inner = open_folder(folder.as_fd(), name)?;
            check_tree(&inner, below + 1, depths, left)?;
        } else if kind == FileType::Symlink {
            let target = readlinkat(folder, name, Vec::new())?;
            let climbed = climbs(target.as_bytes()).unwrap_or(0);
            let (before, after) = (depths.before + below, depths.after + below);
            // One that led outside already was made on this machine, and is no worse elsewhere.
            if climbed > after && climbed <= before {
                return Err(LEADS_OUTSIDE);
            }
        }
    }
    Ok(())
}

fn open_folder(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Status> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// How many folders are between an opened folder and the root, by walking up: names may have been links.
fn depth(root: BorrowedFd<'_>, folder: BorrowedFd<'_>) -> Result<usize, Status> {
    let identity = |stat: Stat| (stat.st_dev, stat.st_ino);
    let root = identity(fstat(root)?);
    let mut at = identity(fstat(folder)?);
    let mut above: Option<OwnedFd> = None;
    for depth in 0..DEPTH_MAX {
        if at == root {
            return Ok(depth);
        }
        let here = above.as_ref().map_or(folder, AsFd::as_fd);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let next = openat(here, "..", flags, Mode::empty())?;
        let next_at = identity(fstat(&next)?);
        if next_at == at {
            break; // The top of the machine: the folder has been moved out meanwhile.
        }
        (at, above) = (next_at, Some(next));
    }
    Err(Status::from(Errno::XDEV))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_may_climb_at_its_beginning_only() {
        for (target, expected) in [
            ("a", Some(0)),
            ("./a/b", Some(0)),
            ("../a", Some(1)),
            (".././../a", Some(2)),
            ("..", Some(1)),
            ("...", Some(0)),
            ("a/..", None),
            ("../a/../../b", None),
            ("/a", None),
            ("", None),
            ("a\0b", None),
        ] {
            assert_eq!(climbs(target.as_bytes()), expected, "{target:?}");
        }
    }
}
