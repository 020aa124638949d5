//! Answers that are kept for whoever repeats a request, within a number of bytes.
//!
//! The machine says which requests are remembered and for how long; what is given up here leaves the request known, so
//! that nothing is done twice.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use domain::office::Ticket;
use wire::smcp::{ClientEvent, ErrorBody};

use super::outcome::Outcome;
use crate::convert::code;

/// Answers above this are not kept.
const ANSWER_MAX: usize = 256 * 1024;

/// Bytes of all answers, over all offices; the oldest are given up first.
const BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Answers {
    kept: HashMap<Ticket, Answer>,
    /// The oldest first; some may be forgotten already.
    order: VecDeque<Ticket>,
    bytes: usize,
}

#[derive(Debug)]
struct Answer {
    event: ClientEvent,
    outcome: Option<Arc<Outcome>>,
    size: usize,
}

impl Answers {
    pub(super) fn keep(&mut self, ticket: Ticket, event: ClientEvent, outcome: &Arc<Outcome>) {
        let size = outcome.size();
        let is_small = size <= ANSWER_MAX;
        let answer = Answer {
            event,
            outcome: is_small.then(|| Arc::clone(outcome)),
            size: if is_small { size } else { 0 },
        };
        self.bytes += answer.size;
        self.order.push_back(ticket);
        self.kept.insert(ticket, answer);
        while self.bytes > BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(answer) = self.kept.get_mut(&oldest) {
                answer.outcome = None;
                self.bytes -= std::mem::take(&mut answer.size);
            }
        }
    }

    pub(super) fn forget(&mut self, ticket: Ticket) {
        if let Some(answer) = self.kept.remove(&ticket) {
            self.bytes -= answer.size;
        }
        while let Some(oldest) = self.order.front()
            && !self.kept.contains_key(oldest)
        {
            self.order.pop_front();
        }
    }

    /// The answer that was given to this request.
    pub(super) fn get(&self, ticket: Ticket) -> (ClientEvent, Arc<Outcome>) {
        let kept = self.kept.get(&ticket);
        let event = kept.map_or(ClientEvent::ToolCall, |kept| kept.event);
        let outcome = kept.and_then(|kept| kept.outcome.clone());
        let gone = || {
            let words = "This request was answered; its answer was too large to be kept.";
            Arc::new(Outcome::Failed(ErrorBody::new(code::INTERNAL, words)))
        };
        (event, outcome.unwrap_or_else(gone))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::smcp::Profile;

    use super::*;

    fn outcome(size: usize) -> Arc<Outcome> {
        Arc::new(Outcome::Answer {
            value: json!("x".repeat(size)),
            from: Profile::Seed,
        })
    }

    fn is_kept(answers: &Answers, ticket: u64) -> bool {
        matches!(*answers.get(Ticket(ticket)).1, Outcome::Answer { .. })
    }

    #[test]
    fn the_oldest_answers_make_room_and_all_of_it_is_given_back() {
        let mut answers = Answers::default();
        let count = 2 * (BYTES_MAX / ANSWER_MAX) as u64;
        for ticket in 0..count {
            let kept = outcome(ANSWER_MAX - 64);
            answers.keep(Ticket(ticket), ClientEvent::ToolCall, &kept);
            assert!(answers.bytes <= BYTES_MAX);
        }
        assert!(!is_kept(&answers, 0) && is_kept(&answers, count - 1));
        answers.keep(Ticket(count), ClientEvent::ToolCall, &outcome(ANSWER_MAX));
        assert!(!is_kept(&answers, count), "one that is too large");
        for ticket in 0..=count {
            answers.forget(Ticket(ticket));
        }
        let left = (answers.kept.len(), answers.order.len(), answers.bytes);
        assert_eq!(left, (0, 0, 0));
    }
}
