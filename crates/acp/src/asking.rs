//! The way from an agent's request to whoever answers, and what ends the wait.

use domain::turn::{Answer, AskKind, Dialect, Raw};
use engine::{Answered, SessionSink};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

/// Where the questions of a turn go.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    pub(crate) sink: SessionSink,
    /// Cancelled once the agent has been told to end its turn, so that what the turn asks for is answered at once.
    pub(crate) cancelled: CancellationToken,
    /// Cancelled when the turn is to end; the agent may not have heard of it yet.
    pub(crate) stopping: CancellationToken,
}

impl Asking {
    /// Waits for an answer; the end of the turn is one. An agent hears that its turn is cancelled before it hears that
    /// nobody answers, or it would take the one for a refusal and end the turn by itself.
    pub(crate) async fn ask(self, kind: AskKind, raw: Option<Raw>) -> Answered {
        let answered = tokio::select! { biased;
            () = self.cancelled.cancelled() => return Answered { answer: Answer::Declined, words: None },
            answered = self.sink.ask_for_words(kind, raw) => answered,
        };
        if answered.answer == Answer::Declined && self.stopping.is_cancelled() {
            self.cancelled.cancelled().await;
        }
        answered
    }

    /// What a client that speaks the agent's language answered, as it is.
    pub(crate) fn native(words: Option<Raw>) -> Option<Box<RawValue>> {
        let words = words.filter(|words| words.dialect == Dialect::Acp)?;
        RawValue::from_string(words.frame.to_string()).ok()
    }

    /// Whether the wait ended because the turn did.
    pub(crate) fn is_over(&self) -> bool {
        self.cancelled.is_cancelled()
    }
}
