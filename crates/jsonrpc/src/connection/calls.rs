//! Who waits for which answer.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::{CallError, Id};

pub(super) type Answer = Result<Box<RawValue>, CallError>;

#[derive(Debug)]
pub(super) struct Calls {
    table: Mutex<Table>,
    next_id: AtomicU64,
    calls_max: usize,
}

#[derive(Debug, Default)]
struct Table {
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    closed: bool,
}

impl Calls {
    pub(super) fn new(calls_max: usize) -> Calls {
        Calls {
            table: Mutex::default(),
            next_id: AtomicU64::new(1),
            calls_max,
        }
    }

    /// An id that no other call on this connection has or will have.
    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Enters a call, to be answered or forgotten.
    pub(super) fn enter(&self, id: u64) -> Result<oneshot::Receiver<Answer>, CallError> {
        let mut table = self.lock();
        if table.closed {
            return Err(CallError::Closed);
        }
        if table.waiting.len() >= self.calls_max {
            return Err(CallError::TooManyCalls {
                calls_max: self.calls_max,
            });
        }
        let (sender, receiver) = oneshot::channel();
        table.waiting.insert(id, sender);
        Ok(receiver)
    }

    /// Whether a call with this id waits.
    pub(super) fn waits_for(&self, id: &Id) -> Option<u64> {
        id.as_u64()
            .filter(|id| self.lock().waiting.contains_key(id))
    }

    /// Gives the call its answer; one that was forgotten meanwhile has nobody to tell.
    pub(super) fn answer(&self, id: u64, answer: Answer) {
        let sender = self.lock().waiting.remove(&id);
        if let Some(sender) = sender {
            let _ = sender.send(answer); // The caller left.
        }
    }

    /// Forgets a call; true if it was still waiting.
    pub(super) fn forget(&self, id: u64) -> bool {
        self.lock().waiting.remove(&id).is_some()
    }

    /// Ends all calls: their senders drop, which their receivers take for a closed connection.
    pub(super) fn close(&self) {
        let waiting = {
            let mut table = self.lock();
            table.closed = true;
            std::mem::take(&mut table.waiting)
        };
        drop(waiting); // Outside the lock: it wakes every caller.
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
