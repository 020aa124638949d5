//! What a client sends while it is not known here yet, or while its place is being agreed on.
//!
//! The library tells a client that it is connected before it calls us, so a fast client's join can come first; and
//! where servers share their offices, a join takes a moment in which the client may go on. What it sends waits at the
//! door and is taken in order; a client that leaves meanwhile is never let in.

use std::{
    collections::VecDeque,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use super::bus::AckSender;

/// Events that wait: as many as a client may have unanswered.
const WAITING_MAX: usize = 512;

/// An event as it came.
pub(super) struct Call {
    pub(super) name: String,
    pub(super) body: Option<Value>,
    pub(super) ack: AckSender,
}

/// The door of one connection.
pub(super) struct Door(Mutex<State>);

struct State {
    standing: Standing,
    waiting: VecDeque<Call>,
    /// Somebody takes what has waited, and nobody else may, or it would be taken out of order.
    is_taken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Not known yet.
    Closed,
    Open,
    /// Known, but what it does next depends on what is being found out.
    Held,
    Gone,
}

impl Door {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            standing: Standing::Closed,
            waiting: VecDeque::new(),
            is_taken: false,
        }))
    }

    /// Gives an event back if nothing is before it; else it waits, or is dropped with its sender.
    pub(super) fn pass(&self, call: Call) -> Option<Call> {
        let mut state = self.lock();
        match state.standing {
            Standing::Open if state.waiting.is_empty() && !state.is_taken => return Some(call),
            Standing::Gone => {}
            Standing::Closed | Standing::Open | Standing::Held => {
                if state.waiting.len() < WAITING_MAX {
                    state.waiting.push_back(call);
                }
            }
        }
        None
    }

    /// Lets the connection in, unless it has gone.
    pub(super) fn let_in(&self, let_in: impl FnOnce()) {
        let mut state = self.lock();
        if state.standing == Standing::Closed {
            let_in();
            state.standing = Standing::Open;
        }
    }

    /// Lets everything wait that comes from now on.
    pub(super) fn hold(&self) {
        let mut state = self.lock();
        if state.standing == Standing::Open {
            state.standing = Standing::Held;
        }
    }

    pub(super) fn release(&self) {
        let mut state = self.lock();
        if state.standing == Standing::Held {
            state.standing = Standing::Open;
        }
    }

    /// Takes what has waited, one after the other, as long as the door is open.
    pub(super) fn take_waiting(&self, mut take: impl FnMut(Call)) {
        if mem::replace(&mut self.lock().is_taken, true) {
            return; // Whoever takes already goes on.
        }
        while let Some(call) = self.next() {
            take(call);
        }
    }

    fn next(&self) -> Option<Call> {
        let mut state = self.lock();
        let call = match state.standing {
            Standing::Open => state.waiting.pop_front(),
            Standing::Closed | Standing::Held | Standing::Gone => None,
        };
        state.is_taken = call.is_some();
        call
    }

    /// The client has gone; whether it had been let in.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.lock();
        state.waiting.clear();
        let left = mem::replace(&mut state.standing, Standing::Gone);
        matches!(left, Standing::Open | Standing::Held)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_leaves_before_being_let_in_never_is() {
        let door = Door::new();
        assert!(!door.leave());
        door.let_in(|| panic!("it has gone"));
        door.take_waiting(|_| panic!("nothing waits"));
    }

    #[test]
    fn whoever_leaves_while_it_is_held_had_been_let_in() {
        let door = Door::new();
        let mut known = 0;
        door.let_in(|| known += 1);
        door.let_in(|| known += 1);
        assert_eq!(known, 1);
        door.hold();
        assert!(door.leave());
        door.release();
        assert!(!door.leave());
    }
}
