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
use crate::convert;

/// How much of one client may wait: what it may send at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingMax {
    pub(super) events: usize,
    pub(super) bytes: usize,
}

/// An event as it came.
pub(super) struct Call {
    pub(super) name: String,
    pub(super) body: Option<Value>,
    pub(super) ack: AckSender,
}

impl Call {
    fn size(&self) -> usize {
        self.name.len() + self.body.as_ref().map_or(0, convert::size)
    }
}

/// What has become of an event at the door.
pub(super) enum Passed {
    /// Nothing is before it.
    Through(Call),
    Waits,
    /// Too much waits already: it must be refused.
    Full(Call),
    /// Its sender has gone.
    Gone,
}

/// The door of one connection.
pub(super) struct Door {
    max: WaitingMax,
    state: Mutex<State>,
}

struct State {
    standing: Standing,
    waiting: VecDeque<Call>,
    bytes: usize,
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
    pub(super) fn new(max: WaitingMax) -> Self {
        let state = Mutex::new(State {
            standing: Standing::Closed,
            waiting: VecDeque::new(),
            bytes: 0,
            is_taken: false,
        });
        Self { max, state }
    }

    /// Gives an event back if nothing is before it, or if it may not wait.
    pub(super) fn pass(&self, call: Call) -> Passed {
        let mut state = self.lock();
        match state.standing {
            Standing::Open if state.waiting.is_empty() && !state.is_taken => Passed::Through(call),
            Standing::Gone => Passed::Gone,
            Standing::Closed | Standing::Open | Standing::Held => {
                let bytes = state.bytes.saturating_add(call.size());
                if state.waiting.len() >= self.max.events || bytes > self.max.bytes {
                    return Passed::Full(call);
                }
                state.bytes = bytes;
                state.waiting.push_back(call);
                Passed::Waits
            }
        }
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
        state.bytes -= call.as_ref().map_or(0, Call::size);
        call
    }

    /// The client has gone; whether it had been let in.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.lock();
        state.waiting.clear();
        state.bytes = 0;
        let left = mem::replace(&mut state.standing, Standing::Gone);
        matches!(left, Standing::Open | Standing::Held)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: WaitingMax = WaitingMax {
        events: 2,
        bytes: 1024,
    };

    #[test]
    fn whoever_leaves_before_being_let_in_never_is() {
        let door = Door::new(MAX);
        assert!(!door.leave());
        door.let_in(|| panic!("it has gone"));
        door.take_waiting(|_| panic!("nothing waits"));
    }

    #[test]
    fn whoever_leaves_while_it_is_held_had_been_let_in() {
        let door = Door::new(MAX);
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
