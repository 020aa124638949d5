//! A lock that the kernel frees when its holder dies, with the holder's pid inside the file.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::mpsc,
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};

/// A pid has at most ten digits; more than this was not written by us.
const HOLDER_BYTES_MAX: u64 = 32;

/// How often the lock is tried again when the file is replaced between opening and locking it.
const ATTEMPTS_MAX: usize = 8;

/// What came of the attempt.
#[derive(Debug)]
#[must_use]
pub enum Lock {
    Acquired(FileLock),
    /// Somebody else has it; who, if they have written it already.
    Held {
        by: Option<u32>,
    },
}

/// Held until it is dropped. The file stays, as removing it would let two holders lock two files of one name.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("could not open the lock {path}")]
    Open { path: PathBuf, source: io::Error },
    #[error("could not lock {path}")]
    Lock { path: PathBuf, source: io::Error },
    #[error("could not write our pid into the lock {path}")]
    Sign { path: PathBuf, source: io::Error },
}

/// Takes the lock, or says who has it; never waits.
pub fn lock_exclusive(path: &Path) -> Result<Lock, LockError> {
    let open_error = |source| LockError::Open {
        path: path.to_owned(),
        source,
    };
    for _ in 0..ATTEMPTS_MAX {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(open_error)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Ok(Lock::Held { by: holder(&file) });
            }
            Err(error) => {
                return Err(LockError::Lock {
                    path: path.to_owned(),
                    source: error.into(),
                });
            }
        }
        let locked = file.metadata().map_err(open_error)?;
        let same =
            |named: std::fs::Metadata| (named.dev(), named.ino()) == (locked.dev(), locked.ino());
        if path.metadata().is_ok_and(same) {
            return FileLock::sign(file, path).map(Lock::Acquired);
        }
    }
    Err(LockError::Lock {
        path: path.to_owned(),
        source: io::Error::other("the file was replaced again and again"),
    })
}

/// As `lock_exclusive`, for a lock that is held for moments: waits so long for whoever has it. Blocks.
pub fn lock_within(path: &Path, patience: Duration) -> Result<Lock, LockError> {
    let begin = Instant::now();
    loop {
        let left = patience.saturating_sub(begin.elapsed());
        match lock_exclusive(path)? {
            Lock::Held { .. } if !left.is_zero() => wait_until_free(path, left)?,
            lock => return Ok(lock),
        }
    }
}

/// The kernel says when the lock is free, to a thread that may wait longer than we do: it lets go of what it gets then.
fn wait_until_free(path: &Path, patience: Duration) -> Result<(), LockError> {
    let file = File::open(path).map_err(|source| LockError::Open {
        path: path.to_owned(),
        source,
    })?;
    let (told, free) = mpsc::channel();
    std::thread::spawn(move || {
        let waited = flock(&file, FlockOperation::LockExclusive);
        drop(file); // Whoever is told finds it free.
        let _ = told.send(waited); // They may have given up.
    });
    match free.recv_timeout(patience) {
        Ok(Err(error)) => Err(LockError::Lock {
            path: path.to_owned(),
            source: error.into(),
        }),
        Ok(Ok(())) | Err(_) => Ok(()),
    }
}

/// The process that holds the lock, found without touching it; nothing where the system does not tell.
pub fn lock_holder(path: &Path) -> Option<u32> {
    let inode = path.metadata().ok()?.ino();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 1234 fe:00:56789 0 EOF`
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let place = words.get(5)?.rsplit(':').next()?;
        let is_it = words.get(1) == Some(&"FLOCK") && place.parse() == Ok(inode);
        is_it.then(|| words.get(4)?.parse().ok())?
    })
}

impl FileLock {
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn sign(mut file: File, path: &Path) -> Result<FileLock, LockError> {
        let mut sign = || {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(format!("{}\n", std::process::id()).as_bytes())
        };
        sign().map_err(|source| LockError::Sign {
            path: path.to_owned(),
            source,
        })?;
        Ok(FileLock {
            file,
            path: path.to_owned(),
        })
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let _ = self.file.set_len(0); // An old pid inside misleads nobody but a reader of the file.
        // A child between fork and exec still shares the open file, so closing alone might keep the lock a moment.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

fn holder(file: &File) -> Option<u32> {
    let bytes = super::read_up_to(file, HOLDER_BYTES_MAX).ok()??;
    std::str::from_utf8(&bytes).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_who_has_it_and_gets_it_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let Lock::Acquired(first) = lock_exclusive(&path).unwrap() else {
            panic!("nobody else can have it");
        };
        let ourselves = Some(std::process::id());
        assert!(matches!(lock_exclusive(&path).unwrap(), Lock::Held { by } if by == ourselves));
        drop(first);
        assert!(matches!(lock_exclusive(&path).unwrap(), Lock::Acquired(_)));
    }

    #[test]
    fn whoever_is_patient_gets_the_lock_when_its_holder_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let Lock::Acquired(first) = lock_exclusive(&path).unwrap() else {
            panic!("nobody else can have it");
        };
        assert!(matches!(
            lock_within(&path, Duration::ZERO).unwrap(),
            Lock::Held { .. }
        ));
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || lock_within(&path, Duration::from_secs(60)).unwrap()
        });
        drop(first);
        assert!(matches!(waiting.join().unwrap(), Lock::Acquired(_)));
    }

    #[test]
    fn a_lock_in_a_missing_folder_is_an_error_that_names_it() {
        let error = lock_exclusive(Path::new("/nowhere/at/all/lock")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not open the lock /nowhere/at/all/lock"
        );
    }
}
