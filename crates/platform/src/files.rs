//! Files of our own: written whole or not at all, read with a bound, private where they must be, removed without
//! following links. All of it blocks. Paths that others choose go through `confined` instead.

mod lock;
mod plain;

use std::{
    ffi::OsString,
    fs::{DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::OnceLock,
};

pub use lock::{FileLock, Lock, LockError, lock_exclusive, lock_holder, lock_within};
pub use plain::{
    Fingerprint, append_bounded, copy_atomic, create_dir_all, empty_grown_log, fingerprint,
    is_folder, is_link, is_socket, is_stderr, is_there, list, remove_dir_if_empty,
    remove_file_if_there, resolve, symlink,
};

use crate::pid::ProcessRef;

/// How files that are not finished are called, so that a later start can tell them from everybody's own.
pub(crate) const TEMP_PREFIX: &str = ".agentcraft-tmp-";

/// The permissions of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mode(pub u32);

impl Mode {
    pub const PRIVATE: Mode = Mode(0o600);
    pub const SHARED: Mode = Mode(0o644);
    pub const EXECUTABLE: Mode = Mode(0o755);
}

/// What a finished write survives.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Durability {
    /// The death of our process at any instant.
    #[default]
    ProcessDeath,
    /// That, and the loss of power: waits for the disk.
    PowerLoss,
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{path} does not name a file")]
    NoName { path: PathBuf },
    #[error("could not write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("could not read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is longer than {max} bytes")]
    TooLarge { path: PathBuf, max: u64 },
    #[error("{path} is not a regular file")]
    NotAFile { path: PathBuf },
    #[error("could not create the private folder {path}")]
    CreateDir { path: PathBuf, source: io::Error },
    #[error("the folder {path} belongs to user {uid}, not to us")]
    ForeignDir { path: PathBuf, uid: u32 },
    #[error("could not remove {path}")]
    Remove { path: PathBuf, source: io::Error },
}

impl FileError {
    /// The file or folder does not exist.
    pub fn is_not_found(&self) -> bool {
        match self {
            FileError::Write { source, .. }
            | FileError::Read { source, .. }
            | FileError::CreateDir { source, .. }
            | FileError::Remove { source, .. } => source.kind() == io::ErrorKind::NotFound,
            FileError::NoName { .. }
            | FileError::TooLarge { .. }
            | FileError::NotAFile { .. }
            | FileError::ForeignDir { .. } => false,
        }
    }
}

/// Replaces the file in one step: readers see the old bytes or the new ones, never a part. A link is replaced, not followed.
pub fn write_atomic(
    path: &Path,
    bytes: &[u8],
    mode: Mode,
    durability: Durability,
) -> Result<(), FileError> {
    let (Some(folder), Some(_)) = (path.parent(), path.file_name()) else {
        return Err(FileError::NoName {
            path: path.to_owned(),
        });
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let temp = folder.join(temp_name());
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temp)?;
        file.write_all(bytes)?;
        if mode != Mode::PRIVATE {
            file.set_permissions(Permissions::from_mode(mode.0))?;
        }
        if durability == Durability::PowerLoss {
            file.sync_all()?;
        }
        std::fs::rename(&temp, path)?;
        if durability == Durability::PowerLoss {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    };
    write().map_err(|source| {
        let _ = std::fs::remove_file(&temp); // It may not have been made, or been renamed already.
        FileError::Write {
            path: path.to_owned(),
            source,
        }
    })
}

/// Reads a regular file of at most `max` bytes.
pub fn read_bounded(path: &Path, max: u64) -> Result<Vec<u8>, FileError> {
    let failed = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    // A pipe in the place of the file would block the open.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(path)
        .map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(FileError::NotAFile {
            path: path.to_owned(),
        });
    }
    match read_up_to(&file, max).map_err(failed)? {
        Some(bytes) => Ok(bytes),
        None => Err(FileError::TooLarge {
            path: path.to_owned(),
            max,
        }),
    }
}

/// Makes the folder, and those above it, for nobody but us; one that exists must be ours and is made private.
pub fn create_private_dir(path: &Path) -> Result<(), FileError> {
    let failed = |source| FileError::CreateDir {
        path: path.to_owned(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed)?;
    let metadata = path.metadata().map_err(failed)?;
    if metadata.uid() != crate::system::effective_uid() {
        return Err(FileError::ForeignDir {
            path: path.to_owned(),
            uid: metadata.uid(),
        });
    }
    if metadata.permissions().mode() & 0o777 != 0o700 {
        std::fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

/// Removes a folder with all it holds, a file, or a link itself. Links are never followed; nothing there is no error.
pub fn remove_tree(path: &Path) -> Result<(), FileError> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                // Caches of build tools hold folders without write permission; ours to open and remove.
                make_folders_writable(path);
                std::fs::remove_dir_all(path)
            }
            other => other,
        },
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(FileError::Remove {
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}

/// Removes the unfinished files in this folder whose writers have died; returns how many.
pub fn remove_stale_temps(folder: &Path) -> Result<usize, FileError> {
    let failed = |source| FileError::Read {
        path: folder.to_owned(),
        source,
    };
    let mut removed = 0;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let stale = entry
            .file_name()
            .to_str()
            .and_then(|name| name.strip_prefix(TEMP_PREFIX))
            .is_some_and(|rest| !writer_of(rest).is_some_and(ProcessRef::alive));
        if stale && std::fs::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// A name nobody else uses. It says who writes, so that a live writer's file is not taken for a leftover.
pub(crate) fn temp_name() -> OsString {
    // Asked once: files are written more often than processes begin.
    static OURSELVES: OnceLock<Option<ProcessRef>> = OnceLock::new();
    let pid = std::process::id();
    let ourselves = OURSELVES.get_or_init(|| ProcessRef::of(pid));
    let start_time = ourselves
        .filter(|ourselves| ourselves.pid == pid)
        .map_or(0, |ourselves| ourselves.start_time);
    let unique = uuid::Uuid::new_v4().simple();
    format!("{TEMP_PREFIX}{pid}-{start_time}-{unique}").into()
}

/// `None` if there is more than `max`.
pub(crate) fn read_up_to(file: &File, max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= max).then_some(bytes))
}

fn writer_of(rest: &str) -> Option<ProcessRef> {
    let mut parts = rest.split('-');
    Some(ProcessRef {
        pid: parts.next()?.parse().ok()?,
        start_time: parts.next()?.parse().ok()?,
    })
}

/// As far as it goes; what still cannot be removed is reported by the removal.
fn make_folders_writable(path: &Path) {
    use rustix::fs::{Mode as FileMode, OFlags, fchmod, open};
    // The descriptor is of a folder and not of a link's target, whatever is swapped meanwhile.
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(folder) = open(path, flags, FileMode::empty()) else {
        return;
    };
    if fchmod(&folder, FileMode::RWXU).is_err() {
        return;
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_folders_writable(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::test_support::Sleeper;

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().into_string().unwrap()
        };
        let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_replaces_the_file_with_its_mode_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        for (bytes, mode, durability) in [
            (&b"one"[..], Mode::SHARED, Durability::ProcessDeath),
            (b"two", Mode::PRIVATE, Durability::PowerLoss),
        ] {
            write_atomic(&path, bytes, mode, durability).unwrap();
            assert_eq!(read_bounded(&path, 3).unwrap(), bytes);
            assert_eq!(
                path.metadata().unwrap().permissions().mode() & 0o777,
                mode.0
            );
        }
        assert_eq!(names(folder.path()), ["state"]);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_temporary_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        std::fs::create_dir_all(path.join("inside")).unwrap();
        let write = |path: &Path| write_atomic(path, b"x", Mode::PRIVATE, Durability::default());
        assert!(matches!(write(&path), Err(FileError::Write { .. })));
        assert_eq!(names(folder.path()), ["taken"]);
        assert!(
            write(&folder.path().join("missing/file"))
                .unwrap_err()
                .is_not_found()
        );
        assert!(matches!(
            write(Path::new("/")),
            Err(FileError::NoName { .. })
        ));
    }

    #[test]
    fn a_link_is_replaced_and_its_target_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        std::fs::write(&target, "kept").unwrap();
        symlink(&target, &link).unwrap();
        write_atomic(&link, b"new", Mode::PRIVATE, Durability::default()).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"kept");
        assert!(link.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn reading_is_bounded_and_refuses_what_is_not_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert!(matches!(
            read_bounded(&path, 4),
            Err(FileError::TooLarge { max: 4, .. })
        ));
        assert!(matches!(
            read_bounded(folder.path(), 4),
            Err(FileError::NotAFile { .. })
        ));
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(matches!(
            read_bounded(&fifo, 4),
            Err(FileError::NotAFile { .. })
        ));
        assert!(
            read_bounded(&folder.path().join("none"), 4)
                .unwrap_err()
                .is_not_found()
        );
    }

    #[test]
    fn a_private_folder_is_ours_alone_even_if_it_was_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        create_private_dir(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        create_private_dir(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn removing_a_tree_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let (outside, tree) = (folder.path().join("outside"), folder.path().join("tree"));
        std::fs::create_dir_all(tree.join("deep")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "").unwrap();
        symlink(&outside, tree.join("deep/link")).unwrap();
        std::fs::set_permissions(tree.join("deep"), Permissions::from_mode(0o500)).unwrap();
        remove_tree(&tree).unwrap();
        symlink(&outside, &tree).unwrap();
        remove_tree(&tree).unwrap();
        remove_tree(&tree).unwrap();
        assert_eq!(names(folder.path()), ["outside"]);
        assert_eq!(names(&outside), ["kept"]);
    }

    #[test]
    fn only_the_temporary_files_of_dead_writers_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let sleeper = Sleeper::start();
        let process = ProcessRef::of(sleeper.pid()).unwrap();
        let named = |start_time: u64| format!("{TEMP_PREFIX}{}-{start_time}-x", process.pid);
        let (live, dead) = (named(process.start_time), named(process.start_time - 1));
        for name in [&live, &dead, "own", &format!("{TEMP_PREFIX}odd")] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(remove_stale_temps(folder.path()).unwrap(), 2);
        assert_eq!(names(folder.path()), [live.as_str(), "own"]);
    }
}
