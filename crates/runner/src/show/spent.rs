//! What the agents of a turn have used, as one sum: each tells its own share, and whoever watches wants to know of all.

use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
};

use domain::turn::{EventKind, Usage};

use super::Audience;

#[derive(Debug, Default)]
pub(super) struct Spent {
    /// Of those that are done.
    ended: Usage,
    /// Of those at work, as they said last.
    working: BTreeMap<String, Usage>,
}

impl Spent {
    /// An agent has used so much until now; gives what all have used.
    fn tell(&mut self, source: &str, usage: Usage) -> Usage {
        let known = self.working.entry(source.to_owned()).or_default();
        *known = known.updated(usage);
        self.working
            .values()
            .fold(self.ended, |sum, usage| sum.plus(*usage))
    }

    /// The turn of an agent is over: what it uses in another comes on top.
    fn end(&mut self, source: &str) {
        if let Some(usage) = self.working.remove(source) {
            self.ended = self.ended.plus(usage);
        }
    }
}

impl Audience {
    pub(super) fn used(&self, source: &str, usage: Usage) {
        let sum = self.spent().tell(source, usage);
        self.emit(EventKind::Usage(sum));
    }

    pub(super) fn used_up(&self, source: &str) {
        self.spent().end(source);
    }

    /// Another turn of the conversation that the run is in: what was used before it has been told with the others.
    pub(crate) fn next_turn(&self) {
        *self.spent() = Spent::default();
    }

    fn spent(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        Usage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            cost_usd: None,
        }
    }

    #[test]
    fn every_agent_counts_once_and_every_turn_of_it_does() {
        let mut spent = Spent::default();
        assert_eq!(spent.tell("a", usage(10, 1)), usage(10, 1));
        assert_eq!(spent.tell("a", usage(30, 2)), usage(30, 2), "so far");
        assert_eq!(spent.tell("b", usage(5, 5)), usage(35, 7));
        spent.end("a");
        assert_eq!(spent.tell("a", usage(1, 1)), usage(36, 8));
        let cost = Usage {
            cost_usd: Some(0.5),
            ..Usage::default()
        };
        let sum = spent.tell("b", cost);
        assert_eq!((sum.input_tokens, sum.cost_usd), (Some(36), Some(0.5)));
    }
}
