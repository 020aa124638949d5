//! Calls that a computer carries out: each once, a number at a time, within its time, until it is cancelled.
//!
//! A call is known by who asks, by its id and by what it asks for: ids are the agents' own, and many of them count.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::{Semaphore, SemaphorePermit, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use wire::smcp::{CALL_SCOPE, ToolCall};

use crate::convert;

/// Calls that are remembered after their end.
const ANSWERED_MAX: usize = 2048;

/// Calls that are not answered, at work or waiting for their turn: several agents' worth; what is beyond is refused.
const UNANSWERED_MAX: usize = 2048;

/// Calls at work at once, since each may hold a server busy; the others wait for their turn within their own time.
const AT_WORK_MAX: usize = 256;

/// Answers larger than this are not kept for a repetition.
const KEPT_ANSWER_MAX: usize = 256 * 1024;

/// Bytes of all kept answers; the oldest are given up first.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long a call is remembered, which is as long as the office server remembers it.
const KEPT_FOR: Duration = domain::office::ANSWER_TTL;

/// Which call a request stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CallId {
    /// Whose agent asks, as the office server says; empty if it does not.
    scope: String,
    agent: String,
    request: String,
    /// What it asks for: an id that comes back with something else is another call.
    fingerprint: u64,
}

impl CallId {
    pub(crate) fn of(call: &ToolCall, body: &Value) -> Self {
        let mut hasher = DefaultHasher::new();
        call.tool_name.hash(&mut hasher);
        body.get("params").hash(&mut hasher);
        Self {
            scope: body[CALL_SCOPE].as_str().unwrap_or_default().to_owned(),
            agent: call.agent.clone(),
            request: call.req_id.clone(),
            fingerprint: hasher.finish(),
        }
    }
}

/// The answer to a call, for whoever repeats it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kept {
    Answer(Value),
    /// It was given, and was too large to be kept, or had to make room.
    Gone,
}

type Answer = watch::Receiver<Option<Kept>>;

#[derive(Debug)]
pub(crate) struct Calls {
    book: Mutex<Book>,
    turns: Semaphore,
}

#[derive(Debug, Default)]
struct Book {
    calls: HashMap<CallId, Entry>,
    unanswered: usize,
    /// Answered calls, the oldest first.
    answered: VecDeque<(Instant, CallId)>,
    /// How many of the oldest have no answer any more.
    emptied: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    cancel: CancellationToken,
    answer: watch::Sender<Option<Kept>>,
    size: usize,
}

/// What to do with a call.
pub(crate) enum Begin {
    /// It is new: carry it out, and publish its answer.
    Carry(Carrying),
    /// It is known: this is where its answer appears.
    Known(Answer),
    Busy,
}

/// The right to carry out one call; dropped without an answer, the call was never there.
pub(crate) struct Carrying {
    pub(crate) cancel: CancellationToken,
    calls: Arc<Calls>,
    id: CallId,
    is_answered: bool,
}

impl Carrying {
    pub(crate) fn publish(mut self, answer: &Value) {
        let size = convert::size(answer);
        self.is_answered = true;
        self.calls.book().answered(&self.id, answer, size);
    }
}

impl Drop for Carrying {
    fn drop(&mut self) {
        if !self.is_answered {
            let mut book = self.calls.book();
            book.calls.remove(&self.id);
            book.unanswered -= 1;
        }
    }
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            book: Mutex::default(),
            turns: Semaphore::new(AT_WORK_MAX),
        }
    }
}

impl Calls {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(self: &Arc<Self>, id: CallId) -> Begin {
        let mut book = self.book();
        book.forget(Instant::now());
        if let Some(entry) = book.calls.get(&id) {
            return Begin::Known(entry.answer.subscribe());
        }
        if book.unanswered >= UNANSWERED_MAX {
            return Begin::Busy;
        }
        let cancel = CancellationToken::new();
        let entry = Entry {
            cancel: cancel.clone(),
            answer: watch::Sender::new(None),
            size: 0,
        };
        book.calls.insert(id.clone(), entry);
        book.unanswered += 1;
        drop(book);
        Begin::Carry(Carrying {
            cancel,
            calls: Arc::clone(self),
            id,
            is_answered: false,
        })
    }

    /// Waits until the call may be carried out.
    pub(crate) async fn turn(&self) -> SemaphorePermit<'_> {
        let turn = self.turns.acquire().await;
        turn.expect("the semaphore is never closed")
    }

    /// Forgets what nobody will ask for again.
    pub(crate) fn forget(&self) {
        self.book().forget(Instant::now());
    }

    /// Cancels the calls of an agent that have this id; without an agent, whoever asked.
    pub(crate) fn cancel(&self, agent: Option<&str>, request: &str) {
        let is_meant =
            |id: &CallId| id.request == request && agent.is_none_or(|agent| id.agent == agent);
        let book = self.book();
        for (_, entry) in book.calls.iter().filter(|(id, _)| is_meant(id)) {
            entry.cancel.cancel();
        }
    }

    /// Cancels whatever is under way.
    pub(crate) fn cancel_all(&self) {
        for entry in self.book().calls.values() {
            entry.cancel.cancel();
        }
    }
}

impl Book {
    fn answered(&mut self, id: &CallId, answer: &Value, size: usize) {
        let Some(entry) = self.calls.get_mut(id) else {
            return; // A call that is not answered is never forgotten.
        };
        let kept = if size > KEPT_ANSWER_MAX {
            Kept::Gone
        } else {
            entry.size = size;
            Kept::Answer(answer.clone())
        };
        self.bytes += entry.size;
        entry.answer.send_replace(Some(kept));
        self.unanswered -= 1;
        let now = Instant::now();
        self.answered.push_back((now, id.clone()));
        self.forget(now);
    }

    fn forget(&mut self, now: Instant) {
        while let Some((answered, _)) = self.answered.front()
            && (self.answered.len() > ANSWERED_MAX || now.duration_since(*answered) >= KEPT_FOR)
        {
            let oldest = self.answered.pop_front();
            self.emptied = self.emptied.saturating_sub(1);
            let entry = oldest.and_then(|(_, id)| self.calls.remove(&id));
            self.bytes -= entry.map_or(0, |entry| entry.size);
        }
        // The call stays known, so that nothing is done twice.
        while self.bytes > KEPT_BYTES_MAX
            && let Some((_, id)) = self.answered.get(self.emptied)
        {
            self.emptied += 1;
            if let Some(entry) = self.calls.get_mut(id) {
                self.bytes -= std::mem::take(&mut entry.size);
                entry.answer.send_replace(Some(Kept::Gone));
            }
        }
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
