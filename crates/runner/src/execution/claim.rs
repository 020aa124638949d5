//! The right to take a run up, which one process at a time has.

use std::path::{Path, PathBuf};

use platform::files::{self, FileLock, Lock};

use crate::refused::StartError;

/// The file in the folder of a run that whoever takes the run up holds.
const FILE: &str = "claim";

/// Held until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    _lock: FileLock,
}

impl Claim {
    pub(super) fn take(runs: &Path, id: &str) -> Result<Self, StartError> {
        let folder = folder(runs, id)?;
        match files::lock_exclusive(&folder.join(FILE)) {
            Ok(Lock::Acquired(lock)) => Ok(Self { _lock: lock }),
            Ok(Lock::Held { .. }) => Err(StartError::Busy { id: id.to_owned() }),
            Err(source) => Err(StartError::Lock { source }),
        }
    }
}

/// The folder of a run, which is made.
pub(super) fn folder(runs: &Path, id: &str) -> Result<PathBuf, StartError> {
    let folder = runs.join(id);
    let made = files::create_private_dir(runs).and_then(|()| files::create_private_dir(&folder));
    made.map_err(|source| StartError::Folder { source })?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_has_it_and_it_is_free_afterwards() {
        let runs = tempfile::tempdir().unwrap();
        let first = Claim::take(runs.path(), "r-1").unwrap();
        let second = Claim::take(runs.path(), "r-1").unwrap_err();
        assert_eq!(
            second.to_string(),
            "somebody else is at work on the run r-1"
        );
        Claim::take(runs.path(), "r-2").unwrap();
        drop(first);
        Claim::take(runs.path(), "r-1").unwrap();
    }
}
