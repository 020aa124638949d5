//! What the readers of all formats share: looking into JSON, and not saying twice what was streamed.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use domain::turn::{EventKind, PlanEntry, PlanStatus};
use serde_json::Value;

/// How many messages may be streamed at a time; of more, the first is taken for finished.
const STREAMS_MAX: usize = 256;

/// How many tool calls of a turn are remembered. An update of a forgotten one looks like another call.
const CALLS_MAX: usize = 10_000;

/// The text at a path of keys.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path).as_str()
}

/// The number at a path of keys.
pub(crate) fn number(value: &Value, path: &[&str]) -> Option<u64> {
    at(value, path).as_u64()
}

/// The value at a path of keys; null if it is not there.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, key| &value[*key])
}

/// The items of a list; none if it is not one.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// An event that has no meaning here.
pub(crate) fn other(name: impl Into<String>) -> EventKind {
    EventKind::Other { name: name.into() }
}

/// A plan from a list of entries, with the key of their words.
pub(crate) fn plan(entries: &Value, words: &str) -> EventKind {
    let entry = |entry: &Value| {
        let status = match entry["status"].as_str() {
            Some("completed") => PlanStatus::Completed,
            Some("in_progress") => PlanStatus::InProgress,
            _ if entry["completed"] == true => PlanStatus::Completed,
            _ => PlanStatus::Pending,
        };
        let text = text(entry, &[words])?.to_owned();
        Some(PlanEntry { text, status })
    };
    EventKind::Plan {
        entries: items(entries).iter().filter_map(entry).collect(),
    }
}

/// How much of each message was streamed, so that the whole message that follows adds only what is missing.
#[derive(Debug, Default)]
pub(crate) struct Streamed {
    /// By the key of the message.
    bytes: BTreeMap<u64, usize>,
}

/// The tool calls that were told already.
#[derive(Debug, Default)]
pub(crate) struct Called {
    keys: BTreeSet<u64>,
}

impl Called {
    /// Whether this is the first sight of the call.
    pub(crate) fn is_first(&mut self, id: &str) -> bool {
        if self.keys.len() >= CALLS_MAX {
            self.keys.pop_first();
        }
        self.keys.insert(key(id))
    }
}

impl Streamed {
    /// A piece of the message was told.
    pub(crate) fn piece(&mut self, message: &str, text: &str) {
        *self.bytes.entry(key(message)).or_default() += text.len();
        if self.bytes.len() > STREAMS_MAX {
            self.bytes.pop_first();
        }
    }

    /// The part of a finished message that was not told yet. A message of several texts is finished one by one.
    pub(crate) fn finish<'a>(&mut self, message: &str, text: &'a str) -> &'a str {
        let told = self.bytes.remove(&key(message)).unwrap_or(0);
        if told > text.len() {
            self.bytes.insert(key(message), told - text.len());
        }
        // Where the pieces were of something else, nothing is lost if the whole is told.
        text.get(told.min(text.len())..).unwrap_or(text)
    }

    /// The part of a growing message that was not told yet, which now is.
    pub(crate) fn grow<'a>(&mut self, message: &str, text: &'a str) -> &'a str {
        let told = self.bytes.get(&key(message)).copied().unwrap_or(0);
        let new = text.get(told..).unwrap_or("");
        self.piece(message, new);
        new
    }
}

/// An id of a fixed size, however long the program's own is.
fn key(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_after_its_pieces_adds_only_what_is_missing() {
        let mut streamed = Streamed::default();
        assert_eq!(streamed.finish("a", "whole"), "whole");
        streamed.piece("a", "two ");
        streamed.piece("b", "x");
        assert_eq!(streamed.finish("a", "two words"), "words");
        assert_eq!(streamed.finish("a", "again"), "again");
        streamed.piece("c", "first second");
        assert_eq!(streamed.finish("c", "first "), "");
        assert_eq!(streamed.finish("c", "second"), "");
        assert_eq!(streamed.finish("c", "third"), "third");
    }

    #[test]
    fn a_growing_message_tells_each_part_once() {
        let mut streamed = Streamed::default();
        assert_eq!(streamed.grow("a", "é"), "é");
        assert_eq!(streamed.grow("a", "éa"), "a");
        assert_eq!(streamed.grow("a", "éa"), "");
        assert_eq!(streamed.grow("a", "é"), "", "what was told stays told");
    }

    #[test]
    fn no_more_than_the_bound_is_remembered() {
        let mut streamed = Streamed::default();
        for number in 0..2 * STREAMS_MAX {
            streamed.piece(&format!("{number:04}"), "x");
        }
        assert_eq!(streamed.bytes.len(), STREAMS_MAX);
        let mut called = Called::default();
        for number in 0..2 * CALLS_MAX {
            assert!(called.is_first(&format!("{number}")));
        }
        assert_eq!(called.keys.len(), CALLS_MAX);
    }
}
