//! What the agents of steps say: each in pieces of its own, from which the beginning of a secret is held back.

use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
};

use domain::turn::{EventKind, ToolCall, ToolUpdate};
use workflow::MaskStream;

use super::Audience;

/// What kind of text a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Voice {
    Thought,
    Text,
    /// What a command prints on its error stream.
    Complaint,
}

/// Both streams of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Audience {
    /// A piece of what an agent says; a secret may be split over several.
    fn piece(&self, source: &str, voice: Voice, text: &str) {
        let shown = {
            let mut streams = self.streams();
            let stream = streams.entry((source.to_owned(), voice));
            stream.or_insert_with(|| self.mask().stream()).push(text)
        };
        self.say(voice, shown);
    }

    /// Shows what was held back of a source: nothing that continues it can come any more.
    pub(super) fn flush(&self, source: &str) {
        for voice in [Voice::Thought, Voice::Text, Voice::Complaint] {
            let stream = self.streams().remove(&(source.to_owned(), voice));
            if let Some(mut stream) = stream {
                self.say(voice, stream.finish());
            }
        }
    }

    /// Text that went through the mask already.
    fn say(&self, voice: Voice, text: String) {
        if text.is_empty() {
            return;
        }
        let kind = match voice {
            Voice::Thought => EventKind::Thought { text },
            Voice::Text => EventKind::Text { text },
            Voice::Complaint => EventKind::Notice {
                text: text.trim_end_matches('\n').to_owned(),
            },
        };
        self.sink.emit(kind, None);
    }

    /// Lines that a command has printed.
    pub(crate) fn printed(&self, path: &str, lines: &Lines) {
        let source = self.own(path);
        for (voice, text) in [
            (Voice::Text, &lines.output),
            (Voice::Complaint, &lines.errors),
        ] {
            if !text.is_empty() {
                self.piece(&source, voice, text);
            }
        }
    }

    /// Something that happened in an agent of a step: its tool calls are told apart from those of other steps.
    pub(crate) fn inner(&self, path: &str, kind: EventKind) {
        let source = self.own(path);
        let own = |id: String| format!("{source}::{id}");
        let kind = match kind {
            EventKind::Text { text } => return self.piece(&source, Voice::Text, &text),
            EventKind::Thought { text } => return self.piece(&source, Voice::Thought, &text),
            EventKind::Usage(usage) => return self.used(&source, usage),
            EventKind::ToolCall(call) => EventKind::ToolCall(ToolCall {
                id: own(call.id.clone()),
                ..call
            }),
            EventKind::ToolUpdate(update) => EventKind::ToolUpdate(ToolUpdate {
                id: own(update.id.clone()),
                ..update
            }),
            other => other,
        };
        self.flush(&source);
        self.emit(kind);
    }

    /// The agent of a step has nothing more to say.
    pub(crate) fn silence(&self, path: &str) {
        let source = self.own(path);
        self.flush(&source);
        self.used_up(&source);
    }

    fn streams(&self) -> MutexGuard<'_, BTreeMap<(String, Voice), MaskStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
