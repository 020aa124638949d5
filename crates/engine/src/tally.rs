//! What the node has done since it started, counted as it is kept: turns and how long they took, what they used, and what
//! the faces wrote down.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use domain::{
    Timestamp,
    turn::{EventKind, Usage},
};

/// Upper ends of the buckets in milliseconds: from what a look takes to what an agent takes over a large task.
const BUCKETS_MS: [u64; 13] = [
    5, 25, 100, 250, 500, 1_000, 2_500, 5_000, 15_000, 60_000, 300_000, 1_800_000, 7_200_000,
];

/// Kinds of notes that are told apart. The node knows about sixty; what comes beyond is counted together.
const KINDS_MAX: usize = 256;

/// How long things took, for a summary that costs the same however many there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Durations {
    /// One more than there are ends: the last is for what took longer.
    counts: [u64; BUCKETS_MS.len() + 1],
    sum: Duration,
}

impl Durations {
    pub fn take(&mut self, took: Duration) {
        let bucket = BUCKETS_MS
            .iter()
            .position(|end| took <= Duration::from_millis(*end));
        self.counts[bucket.unwrap_or(BUCKETS_MS.len())] += 1;
        self.sum += took;
    }

    /// Each upper end in seconds with how many took at most so long.
    pub fn at_most(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut so_far = 0;
        BUCKETS_MS.iter().zip(self.counts).map(move |(end, count)| {
            so_far += count;
            (Duration::from_millis(*end).as_secs_f64(), so_far)
        })
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum(&self) -> Duration {
        self.sum
    }
}

/// Counts since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Turns that ended, by their stop reason.
    pub turns: BTreeMap<&'static str, u64>,
    pub turn_durations: Durations,
    pub tool_calls: u64,
    /// Questions that were settled, by who settled them.
    pub asks: BTreeMap<&'static str, u64>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// What the faces wrote into the journal, by kind.
    pub notes: BTreeMap<String, u64>,
}

/// The counts of a node; clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<Counts>>);

impl Tally {
    /// A note of a face was kept.
    pub(crate) fn noted(&self, kind: &str) {
        let mut counts = self.counts();
        let is_room = counts.notes.len() < KINDS_MAX;
        match counts.notes.get_mut(kind) {
            Some(count) => *count += 1,
            None if is_room => drop(counts.notes.insert(kind.to_owned(), 1)),
            None => *counts.notes.entry("other".to_owned()).or_default() += 1,
        }
    }

    /// An event of a session was kept; of an end it is told when its turn began and what that used.
    pub(crate) fn happened(
        &self,
        kind: &EventKind,
        at: Timestamp,
        began: Option<Timestamp>,
        usage: Option<Usage>,
    ) {
        match kind {
            EventKind::TurnEnded { stop, .. } => {
                let mut counts = self.counts();
                *counts.turns.entry(stop.as_str()).or_default() += 1;
                if let Some(began) = began {
                    let took = u64::try_from(at.0 - began.0).unwrap_or(0);
                    counts.turn_durations.take(Duration::from_millis(took));
                }
                let usage = usage.unwrap_or_default();
                counts.input_tokens += usage.input_tokens.unwrap_or(0);
                counts.output_tokens += usage.output_tokens.unwrap_or(0);
            }
            EventKind::ToolCall(_) => self.counts().tool_calls += 1,
            EventKind::AskSettled { by, .. } => {
                let by = match by.as_deref() {
                    None => "nobody",
                    Some("policy") => "policy",
                    Some(_) => "client",
                };
                *self.counts().asks.entry(by).or_default() += 1;
            }
            _ => {}
        }
    }

    pub(crate) fn read(&self) -> Counts {
        self.counts().clone()
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use domain::turn::{Stop, TurnId};

    use super::*;

    #[test]
    fn a_turn_is_counted_with_its_end_its_time_and_what_it_used() {
        let tally = Tally::default();
        let ended = EventKind::TurnEnded {
            turn: TurnId(1),
            stop: Stop::EndTurn,
        };
        let usage = Usage {
            input_tokens: Some(7),
            ..Usage::default()
        };
        tally.happened(
            &ended,
            Timestamp(1_400),
            Some(Timestamp(1_000)),
            Some(usage),
        );
        let counts = tally.read();
        assert_eq!(counts.turns, BTreeMap::from([("end_turn", 1)]));
        assert_eq!(counts.input_tokens, 7);
        assert_eq!(counts.turn_durations.sum(), Duration::from_millis(400));
        let within: Vec<u64> = counts.turn_durations.at_most().map(|(_, n)| n).collect();
        assert_eq!(within[..6], [0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn what_takes_longest_is_in_the_count_alone() {
        let mut durations = Durations::default();
        durations.take(Duration::from_secs(100_000));
        assert_eq!(durations.count(), 1);
        assert!(durations.at_most().all(|(_, count)| count == 0));
    }

    #[test]
    fn more_kinds_than_are_told_apart_are_counted_together() {
        let tally = Tally::default();
        for number in 0..KINDS_MAX + 3 {
            tally.noted(&format!("kind.{number}"));
        }
        tally.noted("kind.0");
        let notes = tally.read().notes;
        assert_eq!(notes["kind.0"], 2);
        assert_eq!(notes["other"], 3);
    }
}
