//! What was said in a session, bounded, as the updates that replay it.

use std::collections::VecDeque;

use agent_client_protocol_schema::v1::{ContentBlock, ContentChunk, SessionUpdate};
use serde_json::value::{RawValue, to_raw_value};

use crate::words;

/// A session's history in memory; the oldest entries go first. Enough for a long conversation of a simple agent, and
/// little beside a process.
pub(crate) const HISTORY_BYTES_MAX: usize = 1024 * 1024;

/// One entry; longer ones are kept without what makes them long, so that one file cannot push out a whole history.
const ENTRY_BYTES_MAX: usize = 128 * 1024;

/// The text of a title: a line in a list of sessions.
const TITLE_BYTES_MAX: usize = 60;

/// The entries of a session, and which of them are not in its file yet.
#[derive(Debug, Default)]
pub(crate) struct History {
    entries: VecDeque<Box<RawValue>>,
    bytes: usize,
    unsaved: usize,
    bytes_in_file: usize,
    title: Option<String>,
}

/// What is to be done to bring a file up to date.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Save {
    Nothing,
    /// Lines for the end of the file.
    Append(Vec<u8>),
    /// All lines after the header: the file has grown too long and is written anew.
    Rewrite(Vec<u8>),
}

impl History {
    /// A history as it was read from a file of this length.
    pub(crate) fn restored(entries: Vec<Box<RawValue>>, bytes_in_file: usize) -> History {
        let mut history = History {
            bytes_in_file,
            ..History::default()
        };
        for entry in entries {
            if history.title.is_none() {
                history.title = title_of(&entry);
            }
            history.push(entry);
        }
        history.unsaved = 0;
        history
    }

    pub(crate) fn record(&mut self, update: SessionUpdate) {
        let Ok(mut entry) = to_raw_value(&update) else {
            return; // Everything recorded was sent before, so it has a JSON form.
        };
        if entry.get().len() > ENTRY_BYTES_MAX {
            match to_raw_value(&without_length(update)) {
                Ok(shorter) => entry = shorter,
                Err(_) => return,
            }
        }
        if self.title.is_none() {
            self.title = title_of(&entry);
        }
        self.push(entry);
    }

    pub(crate) fn entries(&self) -> Vec<Box<RawValue>> {
        self.entries.iter().cloned().collect()
    }

    /// The first line the user wrote.
    pub(crate) fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// An estimate of tokens, for the usage a client shows.
    pub(crate) fn tokens(&self) -> u64 {
        // Four bytes to a token is the common rule of thumb.
        self.bytes as u64 / 4
    }

    /// Takes what is not saved yet; whoever takes it writes it.
    pub(crate) fn take_unsaved(&mut self) -> Save {
        if self.unsaved == 0 {
            return Save::Nothing;
        }
        let first = self.entries.len().saturating_sub(self.unsaved);
        let appended = lines(self.entries.iter().skip(first));
        self.unsaved = 0;
        if self.bytes_in_file + appended.len() > 2 * HISTORY_BYTES_MAX {
            let all = lines(self.entries.iter());
            self.bytes_in_file = all.len();
            return Save::Rewrite(all);
        }
        self.bytes_in_file += appended.len();
        Save::Append(appended)
    }

    fn push(&mut self, entry: Box<RawValue>) {
        self.bytes += entry.get().len();
        self.entries.push_back(entry);
        self.unsaved += 1;
        while self.bytes > HISTORY_BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= oldest.get().len();
        }
        self.unsaved = self.unsaved.min(self.entries.len());
    }
}

fn lines<'a>(entries: impl Iterator<Item = &'a Box<RawValue>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend_from_slice(entry.get().as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

fn title_of(entry: &RawValue) -> Option<String> {
    match serde_json::from_str(entry.get()) {
        Ok(SessionUpdate::UserMessageChunk(ContentChunk {
            content: ContentBlock::Text(text),
            ..
        })) => {
            let line = text.text.lines().find(|line| !line.trim().is_empty())?;
            Some(words::shortened(line.trim(), TITLE_BYTES_MAX))
        }
        Ok(_) | Err(_) => None,
    }
}

/// The update without its long parts.
fn without_length(update: SessionUpdate) -> SessionUpdate {
    let shortened = |mut chunk: ContentChunk| {
        let text = match &chunk.content {
            ContentBlock::Text(text) => words::shortened(&text.text, ENTRY_BYTES_MAX / 8),
            _ => "(too long to keep)".to_owned(),
        };
        chunk.content = text.into();
        chunk
    };
    match update {
        SessionUpdate::UserMessageChunk(chunk) => SessionUpdate::UserMessageChunk(shortened(chunk)),
        SessionUpdate::AgentMessageChunk(chunk) => {
            SessionUpdate::AgentMessageChunk(shortened(chunk))
        }
        SessionUpdate::AgentThoughtChunk(chunk) => {
            SessionUpdate::AgentThoughtChunk(shortened(chunk))
        }
        SessionUpdate::ToolCall(mut call) => {
            call.content = vec!["(too long to keep)".into()];
            call.raw_input = None;
            call.raw_output = None;
            call.title = words::shortened(&call.title, ENTRY_BYTES_MAX / 8);
            SessionUpdate::ToolCall(call)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> SessionUpdate {
        SessionUpdate::UserMessageChunk(ContentChunk::new(text.into()))
    }

    #[test]
    fn memory_and_file_stay_bounded_and_the_newest_entries_are_kept() {
        let mut history = History::default();
        let mut file = 0;
        for number in 0..100 {
            history.record(said(&format!("{number} {}", "x".repeat(60_000))));
            match history.take_unsaved() {
                Save::Append(lines) => file += lines.len(),
                Save::Rewrite(lines) => file = lines.len(),
                Save::Nothing => panic!("something was recorded"),
            }
            assert!(history.bytes <= HISTORY_BYTES_MAX);
            assert!(file <= 2 * HISTORY_BYTES_MAX);
        }
        assert!(history.entries().last().unwrap().get().contains("\"99 x"));
        assert_eq!(history.take_unsaved(), Save::Nothing);
    }

    #[test]
    fn an_entry_that_is_too_long_is_shortened() {
        let mut history = History::default();
        history.record(said(&"x".repeat(10 * ENTRY_BYTES_MAX)));
        assert!(history.bytes < ENTRY_BYTES_MAX);
        assert_eq!(history.entries().len(), 1);
    }

    #[test]
    fn the_title_is_the_first_line_of_the_first_prompt() {
        let mut history = History::default();
        history.record(said("\n hello there \nmore"));
        history.record(said("second"));
        assert_eq!(history.title(), Some("hello there"));
        let entries = history.entries();
        assert_eq!(History::restored(entries, 10).title(), Some("hello there"));
    }
}
