//! A thread that owns one connection. The writer commits whatever is waiting in one transaction, so that many callers
//! share the price of a commit.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
};

use rusqlite::{Connection, ErrorCode, Transaction};
use tokio::sync::{oneshot, watch};

use crate::{
    blobs::{BlobError, Blobs},
    change::Change,
};

/// Jobs that may wait: each is a lifecycle step or a batch of events, so this is far beyond what a node has under way,
/// and a caller that finds it full waits on a thread of its own rather than growing us.
const JOBS_MAX: usize = 4096;

/// How many jobs share one commit; beyond it latency would suffer more than throughput gains.
const BATCH_MAX: usize = 256;

/// Why a read or a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("could not write to the store")]
    Write { source: WriteError },
    #[error("could not read {what} from the store")]
    Read {
        what: &'static str,
        source: rusqlite::Error,
    },
    #[error("the store is overloaded: {JOBS_MAX} jobs are waiting")]
    Full,
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the disk is full, failing or not to be written to, which is for its owner to mend.
    pub fn is_of_the_disk(&self) -> bool {
        let of_rows = |error: &rusqlite::Error| {
            matches!(
                error.sqlite_error_code(),
                Some(
                    ErrorCode::DiskFull
                        | ErrorCode::SystemIoFailure
                        | ErrorCode::ReadOnly
                        | ErrorCode::CannotOpen
                )
            )
        };
        match self {
            Self::Write {
                source: WriteError::Rows(error),
            }
            | Self::Read { source: error, .. } => of_rows(error),
            Self::Write {
                source: WriteError::Body(_),
            } => true,
            Self::Full | Self::Closed => false,
        }
    }
}

/// What went wrong with a write.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum WriteError {
    Rows(#[from] rusqlite::Error),
    Body(#[from] BlobError),
}

/// Whoever waits for a write.
type Done = oneshot::Sender<Result<(), StoreError>>;

enum Job {
    Write {
        changes: Vec<Change>,
        done: Done,
    },
    Read(Box<dyn FnOnce(&Connection) + Send>),
    /// A transaction of its own.
    Transact(Box<dyn FnOnce(&mut Connection) + Send>),
}

/// The handle of the thread; dropping it ends the thread after the jobs that wait.
#[derive(Debug)]
pub(crate) struct Worker {
    jobs: Option<mpsc::SyncSender<Job>>,
    thread: Option<thread::JoinHandle<()>>,
    lines: watch::Receiver<u64>,
}

impl Worker {
    pub(crate) fn start(connection: Connection, blobs: Arc<Blobs>, name: &str) -> io::Result<Self> {
        let (jobs, inbox) = mpsc::sync_channel(JOBS_MAX);
        let (written, lines) = watch::channel(0);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(connection, &blobs, &inbox, &written))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
            lines,
        })
    }

    /// Counts the lines of the journal that were written.
    pub(crate) fn lines(&self) -> watch::Receiver<u64> {
        self.lines.clone()
    }

    pub(crate) async fn write(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        let (done, answer) = oneshot::channel();
        self.submit(Job::Write { changes, done })?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        what: &'static str,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (done, answer) = oneshot::channel();
        self.submit(Job::Read(Box::new(move |connection| {
            let _ = done.send(read(connection)); // The asker may have left.
        })))?;
        match answer.await {
            Ok(result) => result.map_err(|source| StoreError::Read { what, source }),
            Err(_) => Err(StoreError::Closed),
        }
    }

    /// A transaction that is more than a list of changes.
    pub(crate) async fn transact<T: Send + 'static>(
        &self,
        what: &'static str,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (done, answer) = oneshot::channel();
        self.submit(Job::Transact(Box::new(move |connection| {
            let _ = done.send(transact(connection, act)); // The asker may have left.
        })))?;
        match answer.await {
            Ok(result) => result.map_err(|source| StoreError::Read { what, source }),
            Err(_) => Err(StoreError::Closed),
        }
    }

    fn submit(&self, job: Job) -> Result<(), StoreError> {
        let jobs = self.jobs.as_ref().ok_or(StoreError::Closed)?;
        jobs.try_send(job).map_err(|error| match error {
            mpsc::TrySendError::Full(_) => StoreError::Full,
            mpsc::TrySendError::Disconnected(_) => StoreError::Closed,
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic there has been reported by the panic hook.
        }
    }
}

fn run(
    mut connection: Connection,
    blobs: &Blobs,
    inbox: &mpsc::Receiver<Job>,
    written: &watch::Sender<u64>,
) {
    while let Ok(first) = inbox.recv() {
        let mut batch = Vec::new();
        for job in std::iter::once(first).chain(inbox.try_iter().take(BATCH_MAX - 1)) {
            match job {
                Job::Write { changes, done } => batch.push((changes, done)),
                Job::Read(read) => read(&connection),
                // What was asked for before it is written before it.
                Job::Transact(act) => {
                    commit(&mut connection, blobs, std::mem::take(&mut batch), written);
                    act(&mut connection);
                }
            }
        }
        commit(&mut connection, blobs, batch, written);
    }
}

/// One transaction for all; if it fails, each by itself, so that one bad write does not take the others with it.
fn commit(
    connection: &mut Connection,
    blobs: &Blobs,
    batch: Vec<(Vec<Change>, Done)>,
    written: &watch::Sender<u64>,
) {
    if batch.is_empty() {
        return;
    }
    let together = write(
        connection,
        blobs,
        batch.iter().flat_map(|(changes, _)| changes),
    );
    let alone = together.is_err() && batch.len() > 1;
    let mut together = Some(together);
    let mut lines = 0;
    for (changes, done) in batch {
        let result = match together.take() {
            _ if alone => write(connection, blobs, &changes),
            Some(Err(source)) => Err(source),
            Some(Ok(())) | None => {
                together = Some(Ok(()));
                Ok(())
            }
        };
        if result.is_ok() {
            let is_line = |change: &&Change| matches!(change, Change::Journal(_));
            lines += changes.iter().filter(is_line).count() as u64;
        }
        let _ = done.send(result.map_err(|source| StoreError::Write { source })); // The asker may have left.
    }
    if lines > 0 {
        written.send_modify(|written| *written += lines);
    }
}

fn transact<T>(
    connection: &mut Connection,
    act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction()?;
    let result = act(&transaction)?;
    transaction.commit()?;
    Ok(result)
}

fn write<'a>(
    connection: &mut Connection,
    blobs: &Blobs,
    changes: impl IntoIterator<Item = &'a Change>,
) -> Result<(), WriteError> {
    let transaction = connection.transaction()?;
    for change in changes {
        change.apply(&transaction, blobs)?;
    }
    Ok(transaction.commit()?)
}
