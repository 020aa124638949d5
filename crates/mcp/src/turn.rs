//! One turn in the daemon: waited for, told about while it runs, cancelled when the caller leaves.

use std::{pin::pin, time::Duration};

use domain::turn::Answer;
use jsonrpc::Peer;
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};
use wire::daemon::{PromptResult, SessionAnswerParams, SessionCancelParams};

use crate::{
    asking::{Answered, Asking},
    caller::Caller,
    daemon::{Came, DaemonError, Link, read},
    event::Event,
    failure::Failure,
    progress::Progress,
};

/// How often a growing answer is told: fast enough to read along, slow enough for clients that redraw every time.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// How long a turn has to end after it was cancelled, before it is left to the daemon.
const CANCEL_GRACE: Duration = Duration::from_secs(4);

/// A turn to be taken.
#[derive(Debug)]
pub(crate) struct Turn<'a, P> {
    pub(crate) session: &'a str,
    /// The method that takes it, and what it is given.
    pub(crate) method: &'a str,
    pub(crate) params: &'a P,
    pub(crate) asks: Asks,
}

/// Who decides what the agent asks and no rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Whoever else is attached, or nobody.
    Others,
    /// The person at the client.
    Client,
}

impl Asks {
    /// Whether the daemon shall ask us.
    pub(crate) fn are_ours(self) -> bool {
        self == Self::Client
    }
}

/// Why a turn has no result.
#[derive(Debug)]
pub(crate) enum TurnError {
    Daemon(DaemonError),
    /// The caller left.
    Cancelled,
}

/// Whether the caller still waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    ForResult,
    /// Until then, for the cancelled turn to end.
    ForEnd {
        until: Instant,
        asked: bool,
    },
}

impl<P: Serialize> Turn<'_, P> {
    /// Takes the turn and waits for its end. The link must be attached to the session, with its events.
    pub(crate) async fn take(
        &self,
        link: &mut Link,
        caller: &mut Caller,
    ) -> Result<PromptResult, TurnError> {
        let mut answer = pin!(link.peer.call(self.method, self.params));
        let mut progress = Progress::new();
        let mut asking = Asking::default();
        let mut tell_at = Instant::now();
        let mut waiting = Waiting::ForResult;
        loop {
            if let Waiting::ForEnd { asked, .. } = &mut waiting
                && !*asked
                // Before it has begun there is nothing to cancel yet.
                && progress.is_running()
            {
                *asked = true;
                self.cancel(&link.peer).await;
            }
            tokio::select! { biased;
                answer = &mut answer => return match waiting {
                    Waiting::ForResult => Ok(read(self.method, answer)?),
                    Waiting::ForEnd { .. } => Err(TurnError::Cancelled),
                },
                () = caller.left(), if waiting == Waiting::ForResult => {
                    waiting = Waiting::ForEnd { until: Instant::now() + CANCEL_GRACE, asked: false };
                }
                () = patience(waiting) => {
                    warn!(session = self.session, "a cancelled turn has not ended in time");
                    return Err(TurnError::Cancelled);
                }
                came = link.came() => match came {
                    Came::End => return Err(self.lost().into()),
                    Came::Nothing => {}
                    Came::Event { event, own } => {
                        self.pass_on(&event, &progress, &mut asking, caller).await;
                        if let Some(line) = progress.take(*event, own) {
                            if let Some(text) = progress.text() {
                                caller.tell(text).await;
                            }
                            caller.tell(line).await;
                            tell_at = Instant::now() + TELL_EVERY;
                        }
                    }
                },
                () = std::future::ready(()), if asking.holds_any() => asking.show(caller).await,
                answered = asking.answered() => self.answer(&link.peer, answered).await,
                () = sleep_until(tell_at), if progress.has_text() => {
                    if let Some(text) = progress.text() {
                        caller.tell(text).await;
                    }
                    tell_at = Instant::now() + TELL_EVERY;
                }
            }
        }
    }

    /// Puts what the agent asks in our turn to the client, and takes back what is settled.
    async fn pass_on(
        &self,
        event: &Event,
        progress: &Progress,
        asking: &mut Asking,
        caller: &Caller,
    ) {
        match event {
            Event::Ask(ask) if self.asks.are_ours() && progress.is_running() => {
                asking.hold(ask.clone());
            }
            Event::AskSettled { ask, .. } => asking.withdraw(caller, ask).await,
            _ => {}
        }
    }

    /// Tells the daemon what was answered; whether that came first is seen by how the ask is settled.
    async fn answer(&self, peer: &Peer, answered: Answered) {
        let mut params = SessionAnswerParams {
            session_id: self.session.to_owned(),
            ask: answered.ask.0,
            ..SessionAnswerParams::default()
        };
        match answered.answer {
            Answer::Option { id } => params.option = Some(id),
            Answer::Text { text } => params.text = Some(text),
            Answer::Declined => params.decline = true,
        }
        self.send(peer, "session.answer", &params).await;
    }

    /// Asks the daemon to cancel; that it did is seen by the turn's end.
    async fn cancel(&self, peer: &Peer) {
        let params = SessionCancelParams {
            session_id: self.session.to_owned(),
            own: true,
        };
        self.send(peer, "session.cancel", &params).await;
    }

    /// A request whose answer tells nothing that the events do not.
    async fn send(&self, peer: &Peer, method: &str, params: &impl Serialize) {
        let id = peer.fresh_id();
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if let Err(error) = peer.send_line(line.to_string()).await {
            debug!(%error, session = self.session, method, "could not tell the daemon");
        }
    }

    fn lost(&self) -> DaemonError {
        DaemonError::Lost {
            method: self.method.to_owned(),
        }
    }
}

async fn patience(waiting: Waiting) {
    match waiting {
        Waiting::ForResult => std::future::pending().await,
        Waiting::ForEnd { until, .. } => sleep_until(until).await,
    }
}

impl From<DaemonError> for TurnError {
    fn from(error: DaemonError) -> Self {
        Self::Daemon(error)
    }
}

impl From<TurnError> for Failure {
    fn from(error: TurnError) -> Self {
        match error {
            TurnError::Daemon(error) => error.into(),
            TurnError::Cancelled => Self::cancelled(),
        }
    }
}
