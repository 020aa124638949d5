//! Calls that a computer carries out: each request id once, within its time, until it is cancelled.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Calls that are remembered: those under way and those that may be repeated.
const CALLS_MAX: usize = 1024;

/// Calls under way at once; what is beyond is refused, since each may hold a server busy.
const UNDER_WAY_MAX: usize = 256;

/// Answers larger than this are not kept for a repetition.
const KEPT_ANSWER_MAX: usize = 256 * 1024;

type Answer = watch::Receiver<Option<Value>>;

#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    calls: HashMap<String, Entry>,
    order: VecDeque<String>,
}

#[derive(Debug)]
struct Entry {
    cancel: CancellationToken,
    answer: Answer,
}

/// What to do with a call.
pub(crate) enum Begin {
    /// It is new: carry it out, and publish its answer.
    Carry(Carrying),
    /// It is known: this is where its answer appears.
    Known(Answer),
    Busy,
}

/// The right to carry out one call.
pub(crate) struct Carrying {
    pub(crate) cancel: CancellationToken,
    answer: watch::Sender<Option<Value>>,
}

impl Carrying {
    pub(crate) fn publish(&self, answer: Value) {
        self.answer.send_replace(Some(answer));
    }
}

impl Calls {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, request: &str) -> Begin {
        let mut book = self.book();
        if let Some(entry) = book.calls.get(request) {
            return Begin::Known(entry.answer.clone());
        }
        let under_way = book.calls.values().filter(|entry| !entry.is_done()).count();
        if under_way >= UNDER_WAY_MAX {
            return Begin::Busy;
        }
        book.make_room();
        let (answer, seen) = watch::channel(None);
        let cancel = CancellationToken::new();
        let entry = Entry {
            cancel: cancel.clone(),
            answer: seen,
        };
        book.calls.insert(request.to_owned(), entry);
        book.order.push_back(request.to_owned());
        Begin::Carry(Carrying { cancel, answer })
    }

    /// Forgets an answer that is too large to be kept; the id stays known.
    pub(crate) fn is_too_large(answer: &Value) -> bool {
        answer.to_string().len() > KEPT_ANSWER_MAX
    }

    pub(crate) fn cancel(&self, request: &str) {
        if let Some(entry) = self.book().calls.get(request) {
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

impl Entry {
    fn is_done(&self) -> bool {
        self.answer.borrow().is_some()
    }
}

impl Book {
    fn make_room(&mut self) {
        while self.order.len() >= CALLS_MAX {
            let done = self
                .order
                .iter()
                .position(|request| self.calls.get(request).is_none_or(Entry::is_done));
            let Some(request) = done.and_then(|index| self.order.remove(index)) else {
                return; // All are under way, which is bounded by itself.
            };
            self.calls.remove(&request);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_repeated_call_finds_the_first_ones_answer() {
        let calls = Calls::default();
        let Begin::Carry(carrying) = calls.begin("r") else {
            panic!("it is new")
        };
        let Begin::Known(answer) = calls.begin("r") else {
            panic!("it is under way")
        };
        assert_eq!(*answer.borrow(), None);
        carrying.publish(json!(1));
        assert_eq!(*answer.borrow(), Some(json!(1)));
        assert!(matches!(calls.begin("r"), Begin::Known(_)));
    }

    #[test]
    fn a_cancel_reaches_its_call_alone() {
        let calls = Calls::default();
        let (Begin::Carry(one), Begin::Carry(two)) = (calls.begin("1"), calls.begin("2")) else {
            panic!("both are new")
        };
        calls.cancel("2");
        calls.cancel("unknown");
        assert!(!one.cancel.is_cancelled() && two.cancel.is_cancelled());
    }

    #[test]
    fn calls_are_bounded() {
        let calls = Calls::default();
        let mut carried = Vec::new();
        for n in 0..UNDER_WAY_MAX {
            match calls.begin(&format!("u{n}")) {
                Begin::Carry(carrying) => carried.push(carrying),
                Begin::Known(_) | Begin::Busy => panic!("{n} is new"),
            }
        }
        assert!(matches!(calls.begin("one more"), Begin::Busy));
        for carrying in &carried {
            carrying.publish(json!(null));
        }
        for n in 0..2 * CALLS_MAX {
            match calls.begin(&n.to_string()) {
                Begin::Carry(carrying) => carrying.publish(json!(n)),
                Begin::Known(_) | Begin::Busy => panic!("{n} is new"),
            }
        }
        assert!(calls.book().calls.len() <= CALLS_MAX);
    }
}
