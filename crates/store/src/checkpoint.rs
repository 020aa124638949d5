//! The write-ahead log on its way into the database: on a thread of its own, so that no commit waits for the disk.

use std::{
    io,
    path::PathBuf,
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
};

use rusqlite::{Connection, hooks::Wal};

use crate::open::{Durability, connect};

/// Pages of the log after which they are brought into the database; what SQLite takes by itself.
const PAGES: i32 = 1000;

/// Pages at which the writer waits until all are: commits that never pause would let the log grow for ever. 32 MiB.
const PAGES_MAX: i32 = 8 * 1024;

/// The thread; dropping it waits for its end, which comes with the end of the writer.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    thread: Option<thread::JoinHandle<()>>,
}

impl Checkpoints {
    /// Starts the thread, and has the writer call it.
    pub(crate) fn start(
        writer: &mut Connection,
        path: PathBuf,
        durability: Durability,
    ) -> io::Result<Self> {
        // One call that waits is enough: whoever takes it takes everything that is there.
        let (calls, inbox) = mpsc::sync_channel(1);
        let mut called_at = 0;
        let hooked = writer.wal_hook(Some(move |wal: &mut Wal, pages| {
            on_commit(wal, pages, &mut called_at, &calls);
            Ok(())
        }));
        hooked.map_err(io::Error::other)?;
        let thread = thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || run(&path, durability, &inbox))?;
        Ok(Self {
            thread: Some(thread),
        })
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic there has been reported by the panic hook.
        }
    }
}

/// The log starts over only when all of it is in the database at the moment of a commit. Under load it rarely is, and what
/// was brought over stays counted: so what decides is how much came since the last call, which was at `called_at`.
fn on_commit(wal: &mut Wal, pages: i32, called_at: &mut i32, calls: &SyncSender<()>) {
    if pages < *called_at {
        *called_at = 0; // It has started over.
    }
    if pages >= PAGES_MAX {
        // What the thread has done already is not done again. That it could not finish is no failure of the commit.
        let _ = wal.checkpoint();
    } else if pages - *called_at >= PAGES {
        *called_at = pages;
        let _ = calls.try_send(()); // One waits already.
    }
}

fn run(path: &std::path::Path, durability: Durability, inbox: &Receiver<()>) {
    let mut connection = None;
    while inbox.recv().is_ok() {
        if connection.is_none() {
            connection = connect(path, durability).ok();
        }
        let Some(connection) = &connection else {
            continue; // The writer takes over at the limit.
        };
        let done = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = done {
            tracing::warn!(%error, "the log of the store could not be brought into it");
        }
    }
}
