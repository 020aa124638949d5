//! What a turn tells the client: messages in chunks, thoughts, plans; each also goes into the history.

use agent_client_protocol_schema::v1::{
    AvailableCommandsUpdate, ContentChunk, MessageId, Plan, PlanEntry, SessionNotification,
    SessionUpdate,
};

use crate::{
    commands,
    turn::{Interrupted, Turn},
};

/// Messages come word by word as long as a person might watch; the rest of a long one in pieces of `PIECE_BYTES`.
const WORDS_MAX: usize = 100;

/// A piece of a long message: some lines.
const PIECE_BYTES: usize = 1024;

/// Which voice speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    Message,
    Thought,
}

impl Turn {
    /// Sends an update without recording it.
    pub(crate) async fn send(&self, update: SessionUpdate) -> Result<(), Interrupted> {
        let notification = SessionNotification::new(self.session.id.clone(), update);
        let sent = self
            .surroundings
            .peer
            .notify("session/update", &notification);
        Ok(sent.await?)
    }

    /// Sends an update and records it.
    pub(crate) async fn tell(&self, update: SessionUpdate) -> Result<(), Interrupted> {
        self.session.state().history.record(update.clone());
        self.send(update).await
    }

    /// Says something to the user, word by word.
    pub(crate) async fn say(&self, text: impl AsRef<str>) -> Result<(), Interrupted> {
        self.speak(Voice::Message, text.as_ref()).await
    }

    /// Thinks aloud, word by word.
    pub(crate) async fn think(&self, text: &str) -> Result<(), Interrupted> {
        self.speak(Voice::Thought, text).await
    }

    /// Shows the plan without recording it: only its last state is worth keeping.
    pub(crate) async fn show_plan(&self, entries: Vec<PlanEntry>) -> Result<(), Interrupted> {
        self.send(SessionUpdate::Plan(Plan::new(entries))).await
    }

    async fn speak(&self, voice: Voice, text: &str) -> Result<(), Interrupted> {
        let id = MessageId::new(uuid::Uuid::new_v4().to_string());
        let chunk = |text: &str| {
            let chunk = ContentChunk::new(text.into()).message_id(id.clone());
            match voice {
                Voice::Message => SessionUpdate::AgentMessageChunk(chunk),
                Voice::Thought => SessionUpdate::AgentThoughtChunk(chunk),
            }
        };
        self.session.state().history.record(chunk(text));
        for piece in pieces(text) {
            self.send(chunk(piece)).await?;
        }
        Ok(())
    }
}

/// The commands as the client lists them.
pub(crate) fn available_commands() -> SessionUpdate {
    let commands = commands::available();
    SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands))
}

/// A user's text as it is replayed.
pub(crate) fn user_message(
    content: agent_client_protocol_schema::v1::ContentBlock,
) -> SessionUpdate {
    SessionUpdate::UserMessageChunk(ContentChunk::new(content))
}

/// Words with the space that follows them, then larger pieces; together they are the text.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = if pieces.len() < WORDS_MAX {
            let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let after = &rest[word..];
            word + after
                .find(|letter: char| !letter.is_whitespace())
                .unwrap_or(after.len())
        } else {
            rest.len()
        };
        let limit = if pieces.len() < WORDS_MAX {
            end
        } else {
            PIECE_BYTES
        };
        let end = rest.floor_char_boundary(end.min(limit.max(4)));
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_words_at_first_and_together_the_text() {
        assert_eq!(pieces("one  two\nthree"), ["one  ", "two\n", "three"]);
        assert_eq!(pieces(" a"), [" ", "a"]);
        assert_eq!(pieces("ä"), ["ä"]);
        assert_eq!(pieces(""), [""; 0]);
        let long = "wörd ".repeat(10_000);
        let cut = pieces(&long);
        assert_eq!(cut.concat(), long);
        assert!(cut.len() < WORDS_MAX + long.len() / PIECE_BYTES + 2);
    }
}
