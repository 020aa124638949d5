//! How much an export may grow: counted where files grow and shrink, refused before the first byte too many.
//!
//! What a file loses is given back, but not while somebody still has it open after its name is gone: until then it
//! takes its room on the disk.

use std::{
    collections::HashMap,
    os::fd::AsFd,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::fs::{FileType, Stat, fstat};

use crate::protocol::Status;

const REACHED: Status = Status::failure("The quota is reached");

#[derive(Debug)]
pub(crate) struct Quota {
    limit: Option<u64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    grown: u64,
    hit: Option<QuotaHit>,
    /// How often each file is open.
    open: HashMap<FileId, usize>,
}

/// The first write that was refused because of the quota.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QuotaHit {
    pub quota_bytes: u64,
    /// By how much the workspace had grown.
    pub used_bytes: u64,
    /// By how much the refused write would have made it grow.
    pub refused_bytes: u64,
}

impl std::fmt::Display for QuotaHit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the quota of {} bytes is reached: {} bytes are used, and {} more were refused",
            self.quota_bytes, self.used_bytes, self.refused_bytes
        )
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(stat: &Stat) -> FileId {
        FileId {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

impl Quota {
    pub(crate) fn new(limit: Option<u64>) -> Quota {
        Quota {
            limit,
            state: Mutex::default(),
        }
    }

    pub(crate) fn limit(&self) -> Option<u64> {
        self.limit
    }

    pub(crate) fn grown(&self) -> u64 {
        self.state().grown
    }

    pub(crate) fn hit(&self) -> Option<QuotaHit> {
        self.state().hit
    }

    /// Runs `act`, which brings the file from its size to that of `resized(size)`, if the quota allows it. The lock is
    /// held meanwhile, so that two writers cannot both take the last of it.
    pub(crate) fn resize<T>(
        &self,
        file: impl AsFd,
        resized: impl FnOnce(u64) -> u64,
        act: impl FnOnce() -> Result<T, Status>,
    ) -> Result<T, Status> {
        let Some(limit) = self.limit else {
            return act();
        };
        let mut state = self.state();
        let before = fstat(file.as_fd())?.st_size.unsigned_abs();
        let growth = resized(before).saturating_sub(before);
        if growth > 0 && state.grown.saturating_add(growth) > limit {
            let used_bytes = state.grown;
            state.hit.get_or_insert(QuotaHit {
                quota_bytes: limit,
                used_bytes,
                refused_bytes: growth,
            });
            return Err(REACHED);
        }
        let done = act();
        // What really happened counts: a write may have failed half-way.
        let after = fstat(file.as_fd())?.st_size.unsigned_abs();
        state.grown = (state.grown + after.saturating_sub(before))
            .saturating_sub(before.saturating_sub(after));
        done
    }

    /// A name of this file is gone.
    pub(crate) fn removed(&self, stat: &Stat) {
        if self.limit.is_none() || !is_last_name(stat) {
            return;
        }
        let mut state = self.state();
        if !state.open.contains_key(&FileId::of(stat)) {
            state.grown = state.grown.saturating_sub(stat.st_size.unsigned_abs());
        }
    }

    pub(crate) fn opened(&self, file: FileId) {
        if self.limit.is_some() {
            *self.state().open.entry(file).or_default() += 1;
        }
    }

    /// Called while the file is still open, for the last look at it.
    pub(crate) fn closing(&self, id: FileId, file: impl AsFd) {
        if self.limit.is_none() {
            return;
        }
        let mut state = self.state();
        match state.open.get_mut(&id) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                state.open.remove(&id);
                if let Ok(stat) = fstat(file)
                    && stat.st_nlink == 0
                {
                    state.grown = state.grown.saturating_sub(stat.st_size.unsigned_abs());
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_last_name(stat: &Stat) -> bool {
    stat.st_nlink == 1 && FileType::from_raw_mode(stat.st_mode).is_file()
}
