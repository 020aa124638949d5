//! What a client has done to an export: the last changes and refusals in order, and totals of everything.
//!
//! Reading is counted, not recorded: a build reads more files than anybody wants to see. Names that only hold the
//! place of a file that is still open (`.fuse_hidden…`) are left out.

use std::{
    collections::{BTreeSet, VecDeque},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use tokio::sync::watch;

/// How many records are kept; a reader that wants all of them follows more closely than this many changes.
const RECORDS_MAX: usize = 4096;

/// How many paths that were changed are remembered: a build of a large program makes as many.
const TOUCHED_MAX: usize = 20_000;

/// How sshfs renames what is removed while it is open.
const HIDDEN_PREFIX: &[u8] = b".fuse_hidden";

#[derive(Debug)]
pub(crate) struct Audit {
    records: Mutex<Records>,
    latest: watch::Sender<u64>,
    totals: Totals,
}

#[derive(Debug, Default)]
struct Records {
    kept: VecDeque<Record>,
    next: u64,
    touched: Touched,
}

/// Every path that may have been changed, as the client sees it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Touched {
    pub paths: BTreeSet<PathBuf>,
    /// There were more than are remembered.
    pub is_more: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) read_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) opened: AtomicU64,
    pub(crate) changed: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// What went over an export so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    pub read_bytes: u64,
    /// Everything that was written, also over older bytes.
    pub written_bytes: u64,
    /// By how much the workspace has grown; counted only under a quota.
    pub grown_bytes: u64,
    pub opened_files: u64,
    pub changes: u64,
    pub refusals: u64,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// Counts from 0 without gaps; what is missing at the front has been dropped.
    pub sequence: u64,
    pub at: SystemTime,
    pub act: Act,
}

/// Paths are as the client sees them: `workspace/…`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Act {
    /// For writing.
    Opened {
        path: PathBuf,
    },
    /// Told when the file is closed.
    Wrote {
        path: PathBuf,
        bytes: u64,
    },
    Renamed {
        from: PathBuf,
        to: PathBuf,
    },
    Linked {
        from: PathBuf,
        to: PathBuf,
    },
    LinkMade {
        path: PathBuf,
        target: PathBuf,
    },
    Removed {
        path: PathBuf,
    },
    FolderMade {
        path: PathBuf,
    },
    FolderRemoved {
        path: PathBuf,
    },
    AttributesSet {
        path: PathBuf,
    },
    /// The path is what the client said, whatever that was.
    Refused {
        path: PathBuf,
        why: &'static str,
    },
}

impl Audit {
    pub(crate) fn new() -> Audit {
        Audit {
            records: Mutex::default(),
            latest: watch::Sender::new(0),
            totals: Totals::default(),
        }
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn record(&self, act: Act) {
        let total = match act {
            Act::Opened { .. } => None,
            Act::Refused { .. } => Some(&self.totals.refused),
            _ => Some(&self.totals.changed),
        };
        if let Some(total) = total {
            total.fetch_add(1, Ordering::Relaxed);
        }
        if act.is_hidden() {
            return;
        }
        let mut records = self.records();
        if records.kept.len() == RECORDS_MAX {
            records.kept.pop_front();
        }
        for path in act.changed() {
            records.touched.add(path);
        }
        let sequence = records.next;
        records.next += 1;
        records.kept.push_back(Record {
            sequence,
            at: SystemTime::now(),
            act,
        });
        self.latest.send_replace(sequence + 1);
    }

    pub(crate) fn since(&self, sequence: u64) -> Vec<Record> {
        let records = self.records();
        let is_later = |record: &&Record| record.sequence >= sequence;
        records.kept.iter().filter(is_later).cloned().collect()
    }

    pub(crate) fn touched(&self) -> Touched {
        self.records().touched.clone()
    }

    /// Resolves when there is a record with this number or a later one.
    pub(crate) async fn reached(&self, sequence: u64) {
        let mut latest = self.latest.subscribe();
        // The sender lives in self, so the wait cannot fail.
        let _ = latest.wait_for(|next| *next > sequence).await;
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Touched {
    fn add(&mut self, path: &Path) {
        match is_hidden(path) || self.paths.contains(path) {
            true => {}
            false if self.paths.len() >= TOUCHED_MAX => self.is_more = true,
            false => {
                self.paths.insert(path.to_owned());
            }
        }
    }
}

impl Act {
    /// The paths that are different from then on, or may be.
    fn changed(&self) -> Vec<&Path> {
        match self {
            Act::Opened { path }
            | Act::Wrote { path, .. }
            | Act::LinkMade { path, .. }
            | Act::Removed { path }
            | Act::FolderMade { path }
            | Act::FolderRemoved { path }
            | Act::AttributesSet { path } => vec![path],
            Act::Renamed { from, to } => vec![from, to],
            Act::Linked { to, .. } => vec![to],
            Act::Refused { .. } => Vec::new(),
        }
    }

    fn is_hidden(&self) -> bool {
        match self {
            Act::Opened { path }
            | Act::Wrote { path, .. }
            | Act::LinkMade { path, .. }
            | Act::Removed { path }
            | Act::FolderMade { path }
            | Act::FolderRemoved { path }
            | Act::AttributesSet { path } => is_hidden(path),
            // To the one who asked, the file was removed.
            Act::Renamed { .. } | Act::Linked { .. } | Act::Refused { .. } => false,
        }
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_bytes().starts_with(HIDDEN_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_records_are_kept_and_their_numbers_tell_what_is_missing() {
        let audit = Audit::new();
        for number in 0..RECORDS_MAX + 3 {
            audit.record(Act::Removed {
                path: number.to_string().into(),
            });
        }
        audit.record(Act::Removed {
            path: "workspace/.fuse_hidden0001".into(),
        });
        let records = audit.since(0);
        assert_eq!(records.len(), RECORDS_MAX);
        assert_eq!(records[0].sequence, 3);
        assert_eq!(audit.since(RECORDS_MAX as u64 + 2).len(), 1);
    }

    #[test]
    fn every_path_that_was_changed_is_remembered_once_and_refusals_are_not() {
        let audit = Audit::new();
        for _ in 0..2 {
            audit.record(Act::Wrote {
                path: "workspace/a".into(),
                bytes: 1,
            });
        }
        audit.record(Act::Renamed {
            from: "workspace/b".into(),
            to: "workspace/.fuse_hidden0001".into(),
        });
        audit.record(Act::Refused {
            path: "workspace/c".into(),
            why: "no",
        });
        let paths = ["workspace/a", "workspace/b"].map(PathBuf::from);
        assert_eq!(audit.touched().paths, BTreeSet::from(paths));
        for number in 0..=TOUCHED_MAX {
            audit.record(Act::Removed {
                path: number.to_string().into(),
            });
        }
        let touched = audit.touched();
        assert_eq!((touched.paths.len(), touched.is_more), (TOUCHED_MAX, true));
    }
}
