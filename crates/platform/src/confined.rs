//! A folder that others may name paths in: opened once, and the kernel keeps every path below it.
//!
//! Links and `..` may be used as long as they stay inside. The last step of a change (rename, unlink, mkdir) happens
//! by one plain name in an opened parent, where the kernel follows nothing.

#[cfg(test)]
mod tests;

use std::{
    ffi::{OsStr, OsString},
    fs::Metadata,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::PermissionsExt},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, Dir, FileType, Mode, OFlags, fchmod, mkdirat, openat, renameat, statat, unlinkat,
    },
    io::Errno,
};

/// What is opened below a folder.
pub use std::fs::File;

use crate::files::{read_up_to, temp_name};

/// With `..` in a path the kernel gives up when somebody renames folders meanwhile; this often it is asked again.
const RACE_ATTEMPTS_MAX: usize = 64;

/// A folder with more entries than this is refused rather than held in memory.
const LIST_MAX: usize = 100_000;

/// An opened folder. Moving or replacing the folder's path does not change which one is meant.
#[derive(Debug)]
pub struct ConfinedDir {
    root: OwnedFd,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    Read,
    /// An existing file, not truncated.
    ReadWrite,
    /// A file that must not exist.
    CreateNew,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    File,
    Dir,
    Link,
    Other,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    pub name: OsString,
    pub kind: Kind,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfinedError {
    #[error("could not open the folder {path}")]
    OpenRoot { path: PathBuf, source: io::Error },
    #[error("{path:?} is not a path below the folder: it is empty, absolute or holds a NUL")]
    BadPath { path: PathBuf },
    #[error("{path:?} does not end in a name")]
    NoName { path: PathBuf },
    #[error("{path} leads outside the folder")]
    Outside { path: PathBuf },
    #[error("{path} is not a regular file")]
    NotAFile { path: PathBuf },
    #[error("{path} is longer than {max} bytes")]
    TooLarge { path: PathBuf, max: u64 },
    #[error("{path} holds more than {LIST_MAX} entries")]
    TooMany { path: PathBuf },
    #[error("could not {act} {path}")]
    Failed {
        act: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl ConfinedError {
    /// The path does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, ConfinedError::Failed { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl ConfinedDir {
    pub fn open(path: &Path) -> Result<ConfinedDir, ConfinedError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(root) => Ok(ConfinedDir { root }),
            Err(error) => Err(ConfinedError::OpenRoot {
                path: path.to_owned(),
                source: error.into(),
            }),
        }
    }

    /// Reads a regular file of at most `max` bytes.
    pub fn read(&self, path: impl AsRef<Path>, max: u64) -> Result<Vec<u8>, ConfinedError> {
        let path = path.as_ref();
        let file = self.open_file(path, Access::Read)?;
        match read_up_to(&file, max) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(ConfinedError::TooLarge {
                path: path.to_owned(),
                max,
            }),
            Err(source) => Err(failed("read", path, source)),
        }
    }

    /// Replaces the file in one step, keeping its permissions; a link in its place is replaced. The parent must exist.
    pub fn write_atomic(&self, path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), ConfinedError> {
        self.replace(path.as_ref(), None, |file| file.write_all(bytes))
    }

    /// Copies a file of at most `max` bytes from outside to this path in one step, with its permissions.
    pub fn copy_in(
        &self,
        source: &File,
        path: impl AsRef<Path>,
        max: u64,
    ) -> Result<u64, ConfinedError> {
        let path = path.as_ref();
        let metadata = source
            .metadata()
            .map_err(|source| failed("copy to", path, source))?;
        let mode = Mode::from_raw_mode(metadata.permissions().mode() as _) & PERMISSIONS;
        let too_large = || ConfinedError::TooLarge {
            path: path.to_owned(),
            max,
        };
        if metadata.len() > max {
            return Err(too_large());
        }
        let mut copied = 0;
        let copy = |file: &mut File| {
            copied = io::copy(&mut source.take(max.saturating_add(1)), file)?;
            // It grew while it was copied.
            if copied > max {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok(())
        };
        match self.replace(path, Some(mode), copy) {
            Ok(()) => Ok(copied),
            Err(_) if copied > max => Err(too_large()),
            Err(error) => Err(error),
        }
    }

    /// Makes the folder and those above it; existing ones are no error. `..` is refused.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<(), ConfinedError> {
        let path = path.as_ref();
        check(path)?;
        let mut reached = PathBuf::from(".");
        let mut parent = self.open_beneath(&reached, PARENT_FLAGS, Mode::empty(), "open")?;
        for component in path.components() {
            match component {
                Component::CurDir => continue,
                Component::Normal(name) => {
                    reached.push(name);
                    match mkdirat(&parent, name, PERMISSIONS) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(failed("create", path, error.into())),
                    }
                    parent = self.open_beneath(&reached, PARENT_FLAGS, Mode::empty(), "create")?;
                }
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(ConfinedError::NoName {
                        path: path.to_owned(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Removes a file, or a link itself.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<(), ConfinedError> {
        let path = path.as_ref();
        let (parent, name) = self.open_parent(path, "remove")?;
        unlinkat(&parent, name, AtFlags::empty())
            .map_err(|error| failed("remove", path, error.into()))
    }

    /// Gives a file, or a link itself, another name, in place of a file that has it.
    pub fn rename(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
    ) -> Result<(), ConfinedError> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let (old, old_name) = self.open_parent(from, "rename")?;
        let (new, new_name) = self.open_parent(to, "rename")?;
        renameat(&old, old_name, &new, new_name)
            .map_err(|error| failed("rename", from, error.into()))
    }

    /// Removes an empty folder.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<(), ConfinedError> {
        let path = path.as_ref();
        let (parent, name) = self.open_parent(path, "remove")?;
        unlinkat(&parent, name, AtFlags::REMOVEDIR)
            .map_err(|error| failed("remove", path, error.into()))
    }

    /// Of the thing itself: links that stay inside are followed.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata, ConfinedError> {
        let path = path.as_ref();
        check(path)?;
        let file = self.open_beneath(path, LOOK_FLAGS, Mode::empty(), "look at")?;
        File::from(file)
            .metadata()
            .map_err(|source| failed("look at", path, source))
    }

    /// A path that leads outside is an error, not an absence.
    pub fn exists(&self, path: impl AsRef<Path>) -> Result<bool, ConfinedError> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a regular file. Pipes and devices are refused without waiting for them.
    pub fn open_file(&self, path: impl AsRef<Path>, access: Access) -> Result<File, ConfinedError> {
        let path = path.as_ref();
        check(path)?;
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::ReadWrite => OFlags::RDWR,
            Access::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mode = match access {
            Access::CreateNew => Mode::from_raw_mode(0o666),
            Access::Read | Access::ReadWrite => Mode::empty(),
        };
        let file = File::from(self.open_beneath(path, flags, mode, "open")?);
        match file.metadata() {
            Ok(metadata) if metadata.is_file() => Ok(file),
            Ok(_) => Err(ConfinedError::NotAFile {
                path: path.to_owned(),
            }),
            Err(source) => Err(failed("open", path, source)),
        }
    }

    /// Opens a path with flags of the caller's own, below the folder like everything else: for servers that pass on what
    /// their clients may ask of an open file. Whether it is a pipe or a device is the caller's to check.
    pub fn open_with(
        &self,
        path: impl AsRef<Path>,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, ConfinedError> {
        let path = path.as_ref();
        check(path)?;
        self.open_beneath(path, flags | OFlags::CLOEXEC, mode, "open")
    }

    /// The entries of a folder, by name; `.` is the folder itself.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<Entry>, ConfinedError> {
        let path = path.as_ref();
        check(path)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = self.open_beneath(path, flags, Mode::empty(), "list")?;
        let list_error = |error: Errno| failed("list", path, error.into());
        let mut entries = Vec::new();
        for entry in Dir::new(folder).map_err(list_error)? {
            let entry = entry.map_err(list_error)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if entries.len() == LIST_MAX {
                return Err(ConfinedError::TooMany {
                    path: path.to_owned(),
                });
            }
            let kind = match entry.file_type() {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Dir,
                FileType::Symlink => Kind::Link,
                _ => Kind::Other,
            };
            entries.push(Entry {
                name: OsStr::from_bytes(name).to_owned(),
                kind,
            });
        }
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(entries)
    }

    fn replace(
        &self,
        path: &Path,
        mode: Option<Mode>,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), ConfinedError> {
        let (parent, name) = self.open_parent(path, "write")?;
        let existing = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let mode = mode
            .or_else(|| {
                existing
                    .filter(|stat| FileType::from_raw_mode(stat.st_mode).is_file())
                    .map(|stat| Mode::from_raw_mode(stat.st_mode) & PERMISSIONS)
            })
            .unwrap_or(Mode::from_raw_mode(0o644));
        let temp = temp_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fill = || {
            let private = Mode::RUSR | Mode::WUSR;
            let mut file = File::from(openat(&parent, &temp, flags, private)?);
            write(&mut file)?;
            fchmod(&file, mode)?;
            renameat(&parent, &temp, &parent, name)?;
            Ok(())
        };
        fill().map_err(|source| {
            let _ = unlinkat(&parent, &temp, AtFlags::empty()); // It may not have been made.
            failed("write", path, source)
        })
    }

    /// The opened folder of the last name, and that name.
    fn open_parent<'a>(
        &self,
        path: &'a Path,
        act: &'static str,
    ) -> Result<(OwnedFd, &'a OsStr), ConfinedError> {
        check(path)?;
        let no_name = || ConfinedError::NoName {
            path: path.to_owned(),
        };
        // `a/..` and `a/.` name a folder, and `Path` would quietly read the latter as `a`.
        let bytes = path.as_os_str().as_bytes();
        let plain = !(bytes.ends_with(b"/") || bytes.ends_with(b"/.") || bytes == b".");
        let name = path.file_name().filter(|_| plain).ok_or_else(no_name)?;
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        match self.open_beneath(parent, PARENT_FLAGS, Mode::empty(), act) {
            Ok(parent) => Ok((parent, name)),
            // The error names what was asked for, not a part of it.
            Err(ConfinedError::Failed { act, source, .. }) => Err(failed(act, path, source)),
            Err(ConfinedError::Outside { .. }) => Err(ConfinedError::Outside {
                path: path.to_owned(),
            }),
            Err(error) => Err(error),
        }
    }

    #[cfg(target_os = "linux")]
    fn open_beneath(
        &self,
        path: &Path,
        flags: OFlags,
        mode: Mode,
        act: &'static str,
    ) -> Result<OwnedFd, ConfinedError> {
        use rustix::fs::{ResolveFlags, openat2};
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut attempts = 0;
        loop {
            attempts += 1;
            match openat2(&self.root, path, flags, mode, resolve) {
                Ok(file) => return Ok(file),
                Err(Errno::AGAIN | Errno::INTR) if attempts < RACE_ATTEMPTS_MAX => {}
                Err(Errno::XDEV) => {
                    return Err(ConfinedError::Outside {
                        path: path.to_owned(),
                    });
                }
                Err(error) => return Err(failed(act, path, error.into())),
            }
        }
    }

    /// Without openat2 no link and no `..` is followed at all.
    #[cfg(not(target_os = "linux"))]
    fn open_beneath(
        &self,
        path: &Path,
        flags: OFlags,
        mode: Mode,
        act: &'static str,
    ) -> Result<OwnedFd, ConfinedError> {
        let outside = || ConfinedError::Outside {
            path: path.to_owned(),
        };
        let open = |folder: &OwnedFd, name: &OsStr, flags: OFlags, mode: Mode| {
            openat(folder, name, flags | OFlags::NOFOLLOW, mode).map_err(|error| match error {
                Errno::LOOP => outside(),
                error => failed(act, path, error.into()),
            })
        };
        let names: Vec<&OsStr> = path
            .components()
            .filter_map(|component| match component {
                Component::CurDir => None,
                Component::Normal(name) => Some(Ok(name)),
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    Some(Err(outside()))
                }
            })
            .collect::<Result<_, _>>()?;
        let Some((last, folders)) = names.split_last() else {
            return open(&self.root, OsStr::new("."), flags, mode);
        };
        let mut folder = open(&self.root, OsStr::new("."), PARENT_FLAGS, Mode::empty())?;
        for name in folders {
            folder = open(&folder, name, PARENT_FLAGS, Mode::empty())?;
        }
        open(&folder, last, flags, mode)
    }
}

impl AsFd for ConfinedDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

/// Everything but set-user-id, set-group-id and the sticky bit, which nobody outside may plant.
const PERMISSIONS: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

#[cfg(target_os = "linux")]
const PARENT_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const PARENT_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

#[cfg(target_os = "linux")]
const LOOK_FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const LOOK_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

fn check(path: &Path) -> Result<(), ConfinedError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.starts_with(b"/") || bytes.contains(&0) {
        return Err(ConfinedError::BadPath {
            path: path.to_owned(),
        });
    }
    Ok(())
}

fn failed(act: &'static str, path: &Path, source: io::Error) -> ConfinedError {
    ConfinedError::Failed {
        act,
        path: path.to_owned(),
        source,
    }
}
