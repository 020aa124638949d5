//! An opened folder, and what can be done by one plain name in it. Nothing here follows a link.
//!
//! The kernel never gets a path of more than one name, so no link in the tree, planted at whatever moment, can lead
//! anybody elsewhere.

use std::{
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use platform::ConfinedDir;
use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, fchmod,
        fstat, futimens, mkdirat, openat, readlinkat, renameat, renameat_with, statat, symlinkat,
        unlinkat, utimensat,
    },
    io::Errno,
};

use crate::{EntryPath, Kind, Mtime};

/// An opened folder. Moving or replacing its path does not change which one is meant.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
}

/// What the kernel says of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Looked {
    /// None: a device, a pipe or a socket.
    pub(crate) kind: Option<Kind>,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) mtime: Mtime,
    pub(crate) inode: u64,
}

/// That, and when anything of it was changed: a time that nobody can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) looked: Looked,
    changed: Mtime,
}

impl Looked {
    fn from(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some(Kind::File),
            FileType::Directory => Some(Kind::Dir),
            FileType::Symlink => Some(Kind::Link),
            _ => None,
        };
        let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
        Self {
            kind,
            mode: stat.st_mode & 0o777,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime: Mtime {
                secs: stat.st_mtime,
                nanos,
            },
            inode: stat.st_ino,
        }
    }
}

impl Seen {
    fn from(stat: &Stat) -> Self {
        Self {
            looked: Looked::from(stat),
            changed: Mtime {
                secs: stat.st_ctime,
                nanos: u32::try_from(stat.st_ctime_nsec).unwrap_or(0),
            },
        }
    }

    /// Nothing of it was changed in that second or since.
    pub(crate) fn is_before(&self, secs: i64) -> bool {
        self.changed.secs < secs
    }

    /// Of a file or a link, for whoever looks again later.
    pub(crate) fn to_text(self) -> String {
        let Looked {
            kind,
            mode,
            size,
            mtime,
            inode,
        } = self.looked;
        let kind = match kind {
            Some(Kind::Link) => "l",
            Some(Kind::File | Kind::Dir) | None => "f",
        };
        format!(
            "{kind} {mode} {size} {} {} {inode} {} {}",
            mtime.secs, mtime.nanos, self.changed.secs, self.changed.nanos
        )
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let kind = match words.next()? {
            "f" => Kind::File,
            "l" => Kind::Link,
            _ => return None,
        };
        let looked = Looked {
            kind: Some(kind),
            mode: words.next()?.parse().ok()?,
            size: words.next()?.parse().ok()?,
            mtime: Mtime {
                secs: words.next()?.parse().ok()?,
                nanos: words.next()?.parse().ok()?,
            },
            inode: words.next()?.parse().ok()?,
        };
        let changed = Mtime {
            secs: words.next()?.parse().ok()?,
            nanos: words.next()?.parse().ok()?,
        };
        Some(Self { looked, changed })
    }
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Folder {
    /// Opens the folder at `path`, which the caller trusts.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty())?;
        Ok(Self { fd })
    }

    /// The folder that others are confined to.
    pub fn within(dir: &ConfinedDir) -> io::Result<Self> {
        let fd = openat(dir.as_fd(), ".", FOLDER, Mode::empty())?;
        Ok(Self { fd })
    }

    /// A folder below it; no name on the way may be a link.
    pub fn below(&self, path: &EntryPath) -> io::Result<Self> {
        Ok(self.descend(Some(path))?)
    }

    /// How many bytes the file at this path below it has; none if there is no file.
    pub fn size_of(&self, path: &EntryPath) -> io::Result<u64> {
        let (parent, name) = path.split();
        let looked = match self.descend(parent.as_ref()) {
            Ok(parent) => parent.look(name)?,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
            Err(error) => return Err(error.into()),
        };
        let file = looked.filter(|looked| looked.kind == Some(Kind::File));
        Ok(file.map_or(0, |looked| looked.size))
    }

    pub(crate) fn again(&self) -> Result<Self, Errno> {
        let fd = openat(&self.fd, ".", FOLDER, Mode::empty())?;
        Ok(Self { fd })
    }

    /// A folder in it; a link to one is not one.
    pub(crate) fn child(&self, name: &[u8]) -> Result<Self, Errno> {
        let fd = openat(&self.fd, name, FOLDER, Mode::empty())?;
        Ok(Self { fd })
    }

    /// A folder below it, name by name.
    pub(crate) fn descend(&self, path: Option<&EntryPath>) -> Result<Self, Errno> {
        let mut folder = self.again()?;
        for name in path.iter().flat_map(|path| path.parts()) {
            folder = folder.child(name)?;
        }
        Ok(folder)
    }

    /// The names in it, sorted, without `.` and `..`.
    pub(crate) fn names(&self) -> Result<Vec<Box<[u8]>>, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.into());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// None: there is nothing by this name.
    pub(crate) fn look(&self, name: &[u8]) -> Result<Option<Looked>, Errno> {
        Ok(self.look_closely(name)?.map(|seen| seen.looked))
    }

    pub(crate) fn look_closely(&self, name: &[u8]) -> Result<Option<Seen>, Errno> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Seen::from(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a regular file, without waiting for anything else that might have its name.
    pub(crate) fn read(&self, name: &[u8]) -> Result<(Open, Looked), Errno> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = Open(openat(&self.fd, name, flags, Mode::empty())?);
        let looked = Looked::from(&fstat(&file.0)?);
        match looked.kind {
            Some(Kind::File) => Ok((file, looked)),
            Some(Kind::Dir | Kind::Link) | None => Err(Errno::INVAL),
        }
    }

    /// Makes a file that must not exist, for us alone until its mode is set.
    pub(crate) fn create(&self, name: &[u8]) -> Result<Open, Errno> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR).map(Open)
    }

    pub(crate) fn make_dir(&self, name: &[u8]) -> Result<(), Errno> {
        mkdirat(&self.fd, name, Mode::RWXU)
    }

    pub(crate) fn link_target(&self, name: &[u8]) -> Result<Box<[u8]>, Errno> {
        Ok(readlinkat(&self.fd, name, Vec::new())?.into_bytes().into())
    }

    pub(crate) fn make_link(&self, target: &[u8], name: &[u8], mtime: Mtime) -> Result<(), Errno> {
        symlinkat(target, &self.fd, name)?;
        utimensat(&self.fd, name, &mtime.into(), AtFlags::SYMLINK_NOFOLLOW)
    }

    pub(crate) fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        unlinkat(&self.fd, name, AtFlags::empty())
    }

    pub(crate) fn remove_dir(&self, name: &[u8]) -> Result<(), Errno> {
        unlinkat(&self.fd, name, AtFlags::REMOVEDIR)
    }

    /// Moves a name to another, which must be free.
    pub(crate) fn move_to(&self, name: &[u8], to: &Self, to_name: &[u8]) -> Result<(), Errno> {
        renameat_with(&self.fd, name, &to.fd, to_name, RenameFlags::NOREPLACE)
    }

    /// Moves a name in this folder over another.
    pub(crate) fn replace(&self, name: &[u8], over: &[u8]) -> Result<(), Errno> {
        renameat(&self.fd, name, &self.fd, over)
    }

    pub(crate) fn inode(&self) -> Result<u64, Errno> {
        Ok(fstat(&self.fd)?.st_ino)
    }

    /// The inode of what has this name, however its letters are written.
    pub(crate) fn look_any_case(&self, name: &str) -> Result<Option<u64>, Errno> {
        let names = self.names()?;
        let found = names
            .iter()
            .find(|it| it.eq_ignore_ascii_case(name.as_bytes()));
        let looked = found.map(|found| self.look(found)).transpose()?.flatten();
        Ok(looked.map(|looked| looked.inode))
    }

    /// Swaps two names in one step.
    pub(crate) fn swap(&self, name: &[u8], with: &Self, with_name: &[u8]) -> Result<(), Errno> {
        renameat_with(&self.fd, name, &with.fd, with_name, RenameFlags::EXCHANGE)
    }

    /// Sets mode and time of the folder itself.
    pub(crate) fn dress(&self, mode: u32, mtime: Option<Mtime>) -> Result<(), Errno> {
        dress(&self.fd, mode, mtime)
    }

    /// Removes the tree by this name, if there is one.
    pub(crate) fn remove_tree(&self, name: &[u8]) -> Result<(), Errno> {
        match self.remove(name) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error),
        }
        let folder = self.child(name)?;
        for name in folder.names()? {
            folder.remove_tree(&name)?;
        }
        self.remove_dir(name)
    }
}

fn dress(fd: impl AsFd + Copy, mode: u32, mtime: Option<Mtime>) -> Result<(), Errno> {
    fchmod(fd, Mode::from_raw_mode(mode & 0o777))?;
    match mtime {
        Some(mtime) => futimens(fd, &mtime.into()),
        None => Ok(()),
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Open(OwnedFd);

impl Open {
    pub(crate) fn set_mode(&self, mode: u32) -> Result<(), Errno> {
        dress(&self.0, mode, None)
    }

    pub(crate) fn dress(&self, mode: u32, mtime: Mtime) -> Result<(), Errno> {
        dress(&self.0, mode, Some(mtime))
    }
}

impl Read for Open {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, buffer)?)
    }
}

impl Write for Open {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<Mtime> for Timestamps {
    fn from(mtime: Mtime) -> Self {
        let time = Timespec {
            tv_sec: mtime.secs,
            tv_nsec: mtime.nanos.into(),
        };
        Self {
            last_access: time,
            last_modification: time,
        }
    }
}
