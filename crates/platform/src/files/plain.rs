//! Plain acts on paths of our own: look, list, copy, link, append.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::fd::AsFd,
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{Durability, FileError, Mode, read_bounded, write_atomic};

/// The largest file that is copied whole: a user's own text beside ours, not a disk image.
const COPY_MAX: u64 = 256 * 1024 * 1024;

/// Whether anything has that name; a link that leads nowhere counts.
pub fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Whether a path leads to a folder, through links too.
pub fn is_folder(path: &Path) -> bool {
    path.is_dir()
}

/// Where a path really leads: links are followed as far as the path exists, the rest stays as it is.
pub fn resolve(path: &Path) -> PathBuf {
    for known in path.ancestors() {
        if let Ok(real) = known.canonicalize() {
            let rest = path.strip_prefix(known).unwrap_or(Path::new(""));
            return if rest.as_os_str().is_empty() {
                real
            } else {
                real.join(rest)
            };
        }
    }
    path.to_owned()
}

/// Whether it is a Unix socket.
pub fn is_socket(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// Whether it is a link, wherever that leads.
pub fn is_link(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.is_symlink())
}

/// Everything in a folder, in no order.
pub fn list(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let failed = |source| FileError::Read {
        path: folder.to_owned(),
        source,
    };
    fs::read_dir(folder)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()).map_err(failed))
        .collect()
}

/// Makes a folder and its parents where they are missing.
pub fn create_dir_all(folder: &Path) -> Result<(), FileError> {
    let made = DirBuilder::new().recursive(true).create(folder);
    made.map_err(|source| FileError::CreateDir {
        path: folder.to_owned(),
        source,
    })
}

/// Copies a file with its permissions; the copy is there whole or not at all.
pub fn copy_atomic(from: &Path, to: &Path) -> Result<(), FileError> {
    let bytes = read_bounded(from, COPY_MAX)?;
    let metadata = from.metadata().map_err(|source| FileError::Read {
        path: from.to_owned(),
        source,
    })?;
    write_atomic(
        to,
        &bytes,
        Mode(metadata.permissions().mode() & 0o7777),
        Durability::ProcessDeath,
    )
}

/// Makes `link` lead to `target`.
pub fn symlink(target: &Path, link: &Path) -> Result<(), FileError> {
    std::os::unix::fs::symlink(target, link).map_err(|source| FileError::Write {
        path: link.to_owned(),
        source,
    })
}

/// A folder with something in it stays, and so does one that is not ours to remove.
pub fn remove_dir_if_empty(folder: &Path) {
    let _ = fs::remove_dir(folder); // It says so itself when it is not empty.
}

/// Removes a file or a link; one that is not there is removed already.
pub fn remove_file_if_there(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FileError::Remove {
            path: path.to_owned(),
            source: error,
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// What is seen of each file below a folder without reading it, by its path from there.
pub type Fingerprint = BTreeMap<String, (u64, SystemTime)>;

/// Looks at every file below `folder` but files and folders called one of `skip`; links are not followed. Looks at no more
/// than `max` entries, and passes over what it may not see.
pub fn fingerprint(folder: &Path, skip: &[&str], max: usize) -> Fingerprint {
    let mut found = Fingerprint::new();
    let mut folders = vec![folder.to_owned()];
    let mut seen = 0;
    while let Some(current) = folders.pop() {
        let Ok(entries) = fs::read_dir(&current) else {
            continue;
        };
        for entry in entries.flatten() {
            seen += 1;
            if seen > max {
                return found;
            }
            if skip.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if let Ok(path) = entry.path().strip_prefix(folder) {
                let changed = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                found.insert(
                    path.to_string_lossy().into_owned(),
                    (metadata.len(), changed),
                );
            }
        }
    }
    found
}

/// Appends to a log. When it would grow beyond `max` it becomes `NAME.old` first, so there are never more than two.
pub fn append_bounded(path: &Path, bytes: &[u8], max: u64) -> Result<(), FileError> {
    let failed = |source| FileError::Write {
        path: path.to_owned(),
        source,
    };
    let length = path.metadata().map_or(0, |metadata| metadata.len());
    if length > 0 && length + bytes.len() as u64 > max {
        let mut former = path.as_os_str().to_owned();
        former.push(".old");
        fs::rename(path, former).map_err(failed)?;
    }
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(Mode::PRIVATE.0)
        .open(path);
    file.and_then(|mut file| file.write_all(bytes))
        .map_err(failed)
}

/// Bounds a log that somebody keeps open for appending, such as a process's stderr: beyond `max` its bytes become
/// `NAME.old`, and it is emptied.
pub fn empty_grown_log(path: &Path, max: u64) -> Result<(), FileError> {
    if path.metadata().map_or(0, |metadata| metadata.len()) <= max {
        return Ok(());
    }
    let mut former = path.as_os_str().to_owned();
    former.push(".old");
    let emptied = fs::copy(path, former)
        .and_then(|_| OpenOptions::new().write(true).open(path))
        .and_then(|file| file.set_len(0));
    emptied.map_err(|source| FileError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Whether what we write to stderr ends up in this file.
pub fn is_stderr(path: &Path) -> bool {
    let stderr = io::stderr().as_fd().try_clone_to_owned();
    let stderr = stderr.and_then(|stderr| fs::File::from(stderr).metadata());
    let place = |file: fs::Metadata| (file.dev(), file.ino());
    match (path.metadata().map(place), stderr.map(place)) {
        (Ok(file), Ok(stderr)) => file == stderr,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_kept_open_goes_on_in_the_emptied_file() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("daemon.log");
        let mut open = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        open.write_all(&[b'x'; 100]).unwrap();
        empty_grown_log(&log, 100).unwrap();
        assert_eq!(log.metadata().unwrap().len(), 100);
        open.write_all(b"y").unwrap();
        empty_grown_log(&log, 100).unwrap();
        open.write_all(b"later").unwrap();
        assert_eq!(fs::read(&log).unwrap(), b"later");
        let former = fs::read(folder.path().join("daemon.log.old")).unwrap();
        assert_eq!(former.len(), 101);
        assert!(!is_stderr(&log));
        empty_grown_log(&folder.path().join("none"), 1).unwrap();
    }

    #[test]
    fn a_log_never_grows_beyond_two_files_of_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("agent.log");
        for _ in 0..10 {
            append_bounded(&log, &[b'x'; 40], 100).unwrap();
        }
        let mut sizes: Vec<u64> = list(folder.path())
            .unwrap()
            .iter()
            .map(|path| path.metadata().unwrap().len())
            .collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [80, 80]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_there_and_can_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink(Path::new("nowhere"), &link).unwrap();
        assert!(is_there(&link));
        remove_file_if_there(&link).unwrap();
        remove_file_if_there(&link).unwrap();
        assert!(!is_there(&link));
    }
}
