//! The way from an agent's request to whoever answers, and what ends the wait.

use domain::turn::{Answer, AskKind, Raw};
use engine::SessionSink;
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
    pub(crate) async fn ask(self, kind: AskKind, raw: Option<Raw>) -> Answer {
        let answer = tokio::select! { biased;
            () = self.cancelled.cancelled() => return Answer::Declined,
            answer = self.sink.ask(kind, raw) => answer,
        };
        if answer == Answer::Declined && self.stopping.is_cancelled() {
            self.cancelled.cancelled().await;
        }
        answer
    }

    /// Whether the wait ended because the turn did.
    pub(crate) fn is_over(&self) -> bool {
        self.cancelled.is_cancelled()
    }
}
