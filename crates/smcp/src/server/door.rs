//! What a client sends between hearing that it is connected and being known here.
//!
//! The library tells a client that it is connected before it calls us, so a fast client's join can come first. It waits
//! at the door; and a client that leaves meanwhile is never let in.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use super::bus::AckSender;

/// Events that wait: more than a client sends without having had an answer.
const EARLY_MAX: usize = 64;

/// An event as it came.
pub(super) struct Call {
    pub(super) name: String,
    pub(super) body: Option<Value>,
    pub(super) ack: AckSender,
}

/// The door of one connection.
pub(super) struct Door(Mutex<State>);

enum State {
    /// Not known yet.
    Closed(Vec<Call>),
    /// Known; what has waited is being taken.
    Opening(Vec<Call>),
    Open,
    Gone,
}

impl Door {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State::Closed(Vec::new())))
    }

    /// Gives an event back if the door is open; else it waits, or is dropped with its sender.
    pub(super) fn pass(&self, call: Call) -> Option<Call> {
        match &mut *self.lock() {
            State::Open => return Some(call),
            State::Closed(early) | State::Opening(early) if early.len() < EARLY_MAX => {
                early.push(call);
            }
            State::Closed(_) | State::Opening(_) | State::Gone => {}
        }
        None
    }

    /// Lets the connection in, unless it has gone.
    pub(super) fn let_in(&self, let_in: impl FnOnce()) {
        let mut state = self.lock();
        if let State::Closed(early) = &mut *state {
            let early = mem::take(early);
            let_in();
            *state = State::Opening(early);
        }
    }

    /// What has waited; when nothing does any more, the door is open.
    pub(super) fn early(&self) -> Vec<Call> {
        let mut state = self.lock();
        match &mut *state {
            State::Opening(early) if early.is_empty() => *state = State::Open,
            State::Opening(early) => return mem::take(early),
            State::Closed(_) | State::Open | State::Gone => {}
        }
        Vec::new()
    }

    /// The client has gone; whether it had been let in.
    pub(super) fn leave(&self) -> bool {
        let left = mem::replace(&mut *self.lock(), State::Gone);
        matches!(left, State::Opening(_) | State::Open)
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
        assert!(door.early().is_empty());
    }

    #[test]
    fn whoever_leaves_while_the_door_opens_had_been_let_in() {
        let door = Door::new();
        let mut known = 0;
        door.let_in(|| known += 1);
        door.let_in(|| known += 1);
        assert_eq!(known, 1);
        assert!(door.leave());
        assert!(!door.leave());
    }
}
