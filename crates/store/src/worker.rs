//! A thread that owns one connection. The writer commits whatever is waiting in one transaction, so that many callers
//! share the price of a commit, and brings what is kept ahead of the database into it.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
    time::Instant,
};

use rusqlite::{Connection, ErrorCode, Transaction};
use tokio::sync::{oneshot, watch};

use crate::{
    ahead::{Ahead, Taken},
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
        match self {
            Self::Write { source } => source.is_of_the_disk(),
            Self::Read { source, .. } => is_of_the_disk(source),
            Self::Full | Self::Closed => false,
        }
    }
}

fn is_of_the_disk(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
        )
    )
}

/// What went wrong with a write.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Rows(#[from] rusqlite::Error),
    #[error(transparent)]
    Body(#[from] BlobError),
    #[error("could not write to the log")]
    Log(#[source] io::Error),
}

impl WriteError {
    fn is_of_the_disk(&self) -> bool {
        match self {
            Self::Rows(error) => is_of_the_disk(error),
            Self::Body(_) | Self::Log(_) => true,
        }
    }

    /// Whether the same write may succeed later.
    pub(crate) fn may_pass(&self) -> bool {
        let is_busy = matches!(self, Self::Rows(error)
            if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)));
        is_busy || self.is_of_the_disk()
    }
}

/// Whoever waits for a write.
type Done = oneshot::Sender<Result<(), StoreError>>;

enum Job {
    Write {
        changes: Vec<Change>,
        done: Done,
    },
    /// What is kept ahead of the database is to be in it.
    Settle {
        done: Done,
    },
    /// The first write of some waits ahead of the database.
    Waits,
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
    ahead: Option<Arc<Ahead>>,
}

impl Worker {
    pub(crate) fn start(
        connection: Connection,
        blobs: Arc<Blobs>,
        ahead: Option<Arc<Ahead>>,
        name: &str,
    ) -> io::Result<Self> {
        let (jobs, inbox) = mpsc::sync_channel(JOBS_MAX);
        let (written, lines) = watch::channel(0);
        let mut thread = Thread {
            connection,
            blobs,
            ahead: ahead.clone(),
            written,
        };
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || thread.run(&inbox))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
            lines,
            ahead,
        })
    }

    /// Counts the lines of the journal that were written.
    pub(crate) fn lines(&self) -> watch::Receiver<u64> {
        self.lines.clone()
    }

    pub(crate) async fn write(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        let changes = match &self.ahead {
            None => changes,
            Some(ahead) => match ahead.take(changes)? {
                Taken::Kept { call } => {
                    if call {
                        // A writer with so much to do looks at what is due by itself.
                        let _ = self.submit(Job::Waits);
                    }
                    return Ok(());
                }
                Taken::Not(changes) => changes,
            },
        };
        let (done, answer) = oneshot::channel();
        self.submit(Job::Write { changes, done })?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// When it returns, whoever reads the database sees every write that was kept before.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        if !self.ahead.as_ref().is_some_and(|ahead| ahead.is_behind()) {
            return Ok(());
        }
        let (done, answer) = oneshot::channel();
        self.submit(Job::Settle { done })?;
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

/// What the thread has.
struct Thread {
    connection: Connection,
    blobs: Arc<Blobs>,
    ahead: Option<Arc<Ahead>>,
    written: watch::Sender<u64>,
}

impl Thread {
    fn run(&mut self, inbox: &mpsc::Receiver<Job>) {
        loop {
            let due = self.ahead.as_ref().and_then(|ahead| ahead.due());
            let first = match due {
                None => inbox
                    .recv()
                    .map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                Some(due) => inbox.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            match first {
                Ok(first) => self.work(first, inbox),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            if due.is_some_and(|due| due <= Instant::now()) {
                self.settle_untold();
            }
        }
        self.settle_untold();
        if let Some(ahead) = &self.ahead {
            ahead.close();
        }
    }

    /// A job, and those that wait behind it.
    fn work(&mut self, first: Job, inbox: &mpsc::Receiver<Job>) {
        let mut batch = Vec::new();
        for job in std::iter::once(first).chain(inbox.try_iter().take(BATCH_MAX - 1)) {
            match job {
                Job::Write { changes, done } => batch.push((changes, done)),
                Job::Settle { done } => {
                    let _ = done.send(self.settle()); // The asker may have left.
                }
                Job::Waits => {}
                Job::Read(read) => read(&self.connection),
                // What was asked for before it is written before it.
                Job::Transact(act) => {
                    self.commit(std::mem::take(&mut batch));
                    self.settle_untold();
                    act(&mut self.connection);
                }
            }
        }
        self.commit(batch);
    }

    /// Brings what is kept into the database.
    fn settle(&mut self) -> Result<(), StoreError> {
        if let Some(ahead) = &self.ahead {
            let lines = ahead.apply(&mut self.connection, &self.blobs)?;
            self.tell(lines);
        }
        Ok(())
    }

    fn settle_untold(&mut self) {
        if let Err(error) = self.settle() {
            tracing::warn!(%error, "what is kept could not be brought into the database yet");
        }
    }

    fn tell(&self, lines: u64) {
        if lines > 0 {
            self.written.send_modify(|written| *written += lines);
        }
    }

    /// One transaction for all; if it fails, each by itself, so that one bad write does not take the others with it.
    fn commit(&mut self, mut batch: Vec<(Vec<Change>, Done)>) {
        // What was kept before must not come after it.
        while !batch.is_empty()
            && let Err(error) = self.settle()
        {
            let (_, done) = batch.remove(0);
            let _ = done.send(Err(error)); // The asker may have left.
        }
        if batch.is_empty() {
            return;
        }
        let (connection, blobs) = (&mut self.connection, &self.blobs);
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
        self.tell(lines);
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

pub(crate) fn write<'a>(
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
