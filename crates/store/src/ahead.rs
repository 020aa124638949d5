//! Writes on their way to the database: kept in a log at once, brought into the database together.
//!
//! A write is kept when its bytes are in a file, which costs whoever writes a few microseconds on their own thread. What
//! came within a moment is one transaction, in which documents that changed several times are written once. Whoever reads
//! has everything brought into the database first. After a death the log is read back: see [`Ahead::open`].
//!
//! The log is two files that take turns, so that one is never written over before the database has all of it. Writes have
//! numbers, and the database knows the last one it has.

mod bytes;
mod merge;

use std::{
    borrow::Cow,
    fs::{File, Metadata, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension};
use tracing::error;

use crate::{
    blobs::Blobs,
    change::Change,
    worker::{StoreError, WriteError, write},
};

/// How long a write may wait for others to share a transaction with.
const APPLY_AFTER: Duration = Duration::from_millis(20);

/// The same after a transaction that failed, so that a full disk is not asked all the time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A file of the log that is longer than this makes way for the other one.
const FILE_MAX: u64 = 1024 * 1024;

/// A write of more than this goes to the database by itself, rather than to the disk twice.
const WRITE_MAX: usize = 128 * 1024;

/// How much may wait in memory before whoever writes waits for the database.
const WAITING_MAX: usize = 8 * 1024 * 1024;

/// How long whoever has the log is waited for: a process that ends lets go of it in a moment.
const HELD_MAX: Duration = Duration::from_secs(5);

/// The pause before the next look whether they have.
const HELD_PAUSE: Duration = Duration::from_millis(5);

/// The fact that says which write the database has as its last.
const APPLIED: &str = "store.applied";

/// What became of a write.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It is kept. Whether the writer is to be called, which knows of no write that waits.
    Kept { call: bool },
    /// The database is to have it at once.
    Not(Vec<Change>),
}

/// Writes that the database does not have yet.
#[derive(Debug)]
pub(crate) struct Ahead {
    state: Mutex<State>,
    /// The numbers of the last write that was taken, and of the last that the database has.
    taken: AtomicU64,
    applied: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Nothing, where nothing is to survive.
    log: Option<Log>,
    waiting: Vec<Waiting>,
    bytes: usize,
    due: Option<Instant>,
    /// The last transaction has failed: nothing more is taken until one succeeds.
    is_stuck: bool,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    changes: Vec<Change>,
}

#[derive(Debug)]
struct Log {
    paths: [PathBuf; 2],
    files: [File; 2],
    /// Which of them is written to, and where.
    current: usize,
    at: u64,
    /// The last write in the other one.
    other_last: u64,
}

impl Ahead {
    /// Brings what a dead process has left in the log into the database. With `is_kept`, writes survive this process.
    pub(crate) fn open(
        path: &Path,
        connection: &mut Connection,
        blobs: &Blobs,
        is_kept: bool,
    ) -> Result<Self, StoreError> {
        let (log, last) = match is_kept {
            true => {
                let (log, left) = Log::open(path).map_err(WriteError::Log).map_err(failed)?;
                let last = recover(connection, blobs, left)?;
                log.empty().map_err(WriteError::Log).map_err(failed)?;
                (Some(log), last)
            }
            false => (None, 0),
        };
        Ok(Self {
            state: Mutex::new(State {
                log,
                waiting: Vec::new(),
                bytes: 0,
                due: None,
                is_stuck: false,
            }),
            taken: AtomicU64::new(last),
            applied: AtomicU64::new(last),
        })
    }

    /// Keeps a write.
    pub(crate) fn take(&self, changes: Vec<Change>) -> Result<Taken, StoreError> {
        let size = changes.iter().map(size).sum::<usize>();
        let mut state = self.lock();
        if state.is_stuck || size > WRITE_MAX || state.bytes + size > WAITING_MAX {
            return Ok(Taken::Not(changes));
        }
        let number = self.taken.load(Ordering::Relaxed) + 1;
        if let Some(log) = &mut state.log {
            log.append(&bytes::frame(number, &changes))
                .map_err(WriteError::Log)
                .map_err(failed)?;
        }
        self.taken.store(number, Ordering::Release);
        state.bytes += size;
        state.waiting.push(Waiting { number, changes });
        let call = state.due.is_none();
        state
            .due
            .get_or_insert_with(|| Instant::now() + APPLY_AFTER);
        Ok(Taken::Kept { call })
    }

    /// Whether the database lacks something that is kept.
    pub(crate) fn is_behind(&self) -> bool {
        self.applied.load(Ordering::Acquire) < self.taken.load(Ordering::Acquire)
    }

    /// When the next transaction is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.lock().due
    }

    /// Brings everything that waits into the database. Says how many lines of the journal that were.
    pub(crate) fn apply(
        &self,
        connection: &mut Connection,
        blobs: &Blobs,
    ) -> Result<u64, StoreError> {
        let waiting = {
            let mut state = self.lock();
            state.due = None;
            state.bytes = 0;
            let waiting = std::mem::take(&mut state.waiting);
            let applied = self.applied.load(Ordering::Relaxed);
            if let (Some(log), Some(last)) = (&mut state.log, waiting.last()) {
                log.turn(applied, last.number);
            }
            waiting
        };
        let Some(last) = waiting.last().map(|last| last.number) else {
            return Ok(0);
        };
        let lines = waiting.iter().flat_map(|waiting| &waiting.changes);
        let lines = lines.filter(|change| matches!(change, Change::Journal(_)));
        let lines = lines.count() as u64;
        match all(connection, blobs, &waiting) {
            Ok(()) => {}
            Err((from, error)) => {
                self.give_back(waiting, from);
                return Err(failed(error));
            }
        }
        self.applied.store(last, Ordering::Release);
        self.lock().is_stuck = false;
        Ok(lines)
    }

    /// What could not be written waits on, before what came meanwhile.
    fn give_back(&self, mut waiting: Vec<Waiting>, from: usize) {
        let left = waiting.split_off(from);
        if let Some(done) = waiting.last() {
            self.applied.store(done.number, Ordering::Release);
        }
        let mut state = self.lock();
        let bytes = left.iter().flat_map(|waiting| &waiting.changes).map(size);
        state.bytes += bytes.sum::<usize>();
        let newer = std::mem::replace(&mut state.waiting, left);
        state.waiting.extend(newer);
        state.is_stuck = true;
        state.due = Some(Instant::now() + AGAIN_AFTER);
    }

    /// The database has everything, and there is nothing to read back.
    pub(crate) fn close(&self) {
        if self.is_behind() {
            return; // The next process finds it in the log.
        }
        if let Some(log) = self.lock().log.take() {
            for path in log.paths {
                let _ = std::fs::remove_file(path); // It holds nothing that the database does not have.
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// The log beside a database, and what is in it.
    fn open(path: &Path) -> io::Result<(Self, Vec<bytes::Frame>)> {
        let paths = ["-ahead-0", "-ahead-1"].map(|ending| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        });
        let read = |path: &PathBuf| std::fs::read(path).map(|bytes| bytes::frames(&bytes));
        let files = [held(&paths[0])?, open(&paths[1])?];
        let mut left = [read(&paths[0])?, read(&paths[1])?];
        left.sort_by_key(|frames| frames.first().map(|frame| frame.number));
        let log = Self {
            paths,
            files,
            current: 0,
            at: 0,
            other_last: 0,
        };
        Ok((log, left.into_iter().flatten().collect()))
    }

    /// What is in it is in the database, or was given up.
    fn empty(&self) -> io::Result<()> {
        self.files.iter().try_for_each(|file| file.set_len(0))
    }

    /// A part of a frame that did not get through is written over by the next one.
    fn append(&mut self, frame: &[u8]) -> io::Result<()> {
        self.files[self.current].write_all_at(frame, self.at)?;
        self.at += frame.len() as u64;
        Ok(())
    }

    /// Turns to the other file once this one is long, if the database has all of the other.
    fn turn(&mut self, applied: u64, last: u64) {
        if self.at > FILE_MAX && self.other_last <= applied {
            self.other_last = last;
            self.current = 1 - self.current;
            self.at = 0;
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).read(true).write(true).truncate(false);
    options.mode(0o600).open(path)
}

/// A file that is ours alone until it is closed: two that write to one log would write over each other.
fn held(path: &Path) -> io::Result<File> {
    let deadline = Instant::now() + HELD_MAX;
    loop {
        let file = open(path)?;
        match file.try_lock() {
            // Whoever had it may have removed it when they were done.
            Ok(()) => {
                let ours = file.metadata()?;
                let is_ours =
                    |named: Metadata| (named.dev(), named.ino()) == (ours.dev(), ours.ino());
                if path.metadata().is_ok_and(is_ours) {
                    return Ok(file);
                }
            }
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {
                if Instant::now() >= deadline {
                    let said = format!("another process has {} open", path.display());
                    return Err(io::Error::new(io::ErrorKind::ResourceBusy, said));
                }
                thread::sleep(HELD_PAUSE);
            }
        }
    }
}

/// What the log has and the database has not, without a gap: that is what was promised. Says the last number of all.
fn recover(
    connection: &mut Connection,
    blobs: &Blobs,
    left: Vec<bytes::Frame>,
) -> Result<u64, StoreError> {
    let read = |source| StoreError::Read {
        what: "what the database has of the log",
        source,
    };
    let applied = connection
        .query_row("SELECT value FROM facts WHERE key = ?1", [APPLIED], |row| {
            row.get::<_, String>(0)
        })
        .optional()
        .map_err(read)?;
    let applied: u64 = applied.and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut last = applied;
    let mut waiting = Vec::new();
    for frame in left {
        if frame.number == last + 1 {
            last = frame.number;
            waiting.push(Waiting {
                number: frame.number,
                changes: frame.changes,
            });
        } else if frame.number > last {
            let number = frame.number;
            error!(
                last,
                number, "writes are missing before this one in the log, which is left out"
            );
        }
    }
    if !waiting.is_empty() {
        all(connection, blobs, &waiting).map_err(|(_, error)| failed(error))?;
    }
    Ok(last)
}

/// One transaction for all. If it fails for what is in it, each write by itself, so that a bad one does not take the others
/// with it. Where the disk is to blame, says from which write on the database lacks them.
fn all(
    connection: &mut Connection,
    blobs: &Blobs,
    waiting: &[Waiting],
) -> Result<(), (usize, WriteError)> {
    let changes: Vec<&Change> = waiting
        .iter()
        .flat_map(|waiting| &waiting.changes)
        .collect();
    let merged = merge::merged(&changes);
    let last = waiting.last().map_or(0, |waiting| waiting.number);
    match counted(connection, blobs, &merged, last) {
        Ok(()) => return Ok(()),
        Err(error) if error.may_pass() => return Err((0, error)),
        Err(error) => error!(%error, "writes do not go together, and are tried one by one"),
    }
    for (index, waiting) in waiting.iter().enumerate() {
        let changes: Vec<_> = waiting.changes.iter().map(Cow::Borrowed).collect();
        match counted(connection, blobs, &changes, waiting.number) {
            Ok(()) => {}
            Err(error) if error.may_pass() => return Err((index, error)),
            Err(error) => error!(%error, "a write makes no sense, and is left out"),
        }
    }
    Ok(())
}

/// Changes, and the number of the write that they end with.
fn counted(
    connection: &mut Connection,
    blobs: &Blobs,
    changes: &[Cow<'_, Change>],
    number: u64,
) -> Result<(), WriteError> {
    let counted = Change::PutFact {
        key: APPLIED.to_owned(),
        value: number.to_string(),
    };
    let changes = changes.iter().map(AsRef::as_ref);
    write(connection, blobs, changes.chain([&counted]))
}

fn failed(source: WriteError) -> StoreError {
    StoreError::Write { source }
}

/// About how many bytes a change holds.
fn size(change: &Change) -> usize {
    match change {
        Change::PutAgent { record, .. } => record.len(),
        Change::DeleteAgent { .. } | Change::DeleteRecord { .. } => 64,
        Change::PutFact { value, .. } => value.len(),
        Change::Journal(entry) => entry.body.len() + 64,
        Change::PutSession(row) => row.record.len(),
        Change::AppendEvents(batch) => batch.lines.len(),
        Change::PutRecord(row) | Change::PutLiveRecord(row) => row.record.len(),
    }
}
