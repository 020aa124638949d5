//! One turn: the prompt, the wait for its answer, and the end of one that was cancelled.

use std::time::Duration;

use agent_client_protocol_schema::v1::{CancelNotification, PromptRequest};
use domain::turn::{EventKind, Raw, Stop};
use engine::{DriverError, SessionSink, Turn, TurnOptions};
use jsonrpc::ErrorObject;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio_util::sync::CancellationToken;

use super::{AcpDriver, value};
use crate::{
    client::{Client, Effect},
    convert,
    members::{Members, with_session},
};

/// What an agent gets to wind down a cancelled turn: it may have to stop a program first.
const CANCEL_MAX: Duration = Duration::from_secs(10);

impl AcpDriver {
    pub(super) async fn take_turn(
        &self,
        turn: Turn,
        words: Option<Raw>,
    ) -> Result<Stop, DriverError> {
        // ACP has no words for the options; instructions can be given in the prompt.
        let prompt = turn.told().into_owned();
        let left_out = left_out(&turn.options);
        let Turn {
            session, cancel, ..
        } = turn;
        if cancel.is_cancelled() {
            return Ok(Stop::Cancelled);
        }
        let begun = self.client.sessions.begin_turn(&session, cancel.clone());
        let asking = begun.ok_or_else(|| DriverError::Unsupported {
            what: format!("take a turn in session {session:?}, which is not open"),
        })?;
        let sink = asking.sink;
        if let Some(text) = left_out {
            sink.emit(EventKind::Notice { text }, None);
        }
        let mut running = RunningTurn {
            client: &self.client,
            session: &session,
            asks: asking.cancelled,
            ended: false,
        };
        let native = words.and_then(|words| with_session(&words.frame, &session));
        let request = native.or_else(|| {
            let plain = PromptRequest::new(session.clone(), vec![prompt.into()]);
            to_raw_value(&plain).ok()
        });
        let answer = self
            .client
            .request_raw("session/prompt", request, Effect::Nothing);
        tokio::pin!(answer);
        let answered = tokio::select! { biased;
            answered = &mut answer => answered,
            () = cancel.cancelled() => running.wind_down(answer).await,
        };
        running.ended = true;
        let said = match self.understood(answered, &sink) {
            Ok(answer) => answer,
            Err(DriverError::Gone { how }) => return Err(DriverError::Gone { how }),
            Err(error) if cancel.is_cancelled() => {
                // Many agents end a cancelled prompt with an error of some kind.
                tracing::debug!(%error, "a cancelled turn ended with an error");
                return Ok(Stop::Cancelled);
            }
            Err(error) => return Err(error),
        };
        let answer = value(&said);
        if let Some(usage) = convert::usage(&answer) {
            sink.emit(EventKind::Usage(usage), Some(convert::raw(&said)));
        } else if Members::read(said.get()).is_some_and(|members| members.len() > 1) {
            sink.emit(answer_event(), Some(convert::raw(&said)));
        }
        Ok(convert::stop(&answer))
    }

    /// An error of the agent's in our words; its own are kept for clients that speak the same protocol.
    fn understood(
        &self,
        answered: Result<Answered, DriverError>,
        sink: &SessionSink,
    ) -> Result<Box<RawValue>, DriverError> {
        let error = match answered? {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if let Ok(said) = to_raw_value(&json!({ "error": error })) {
            sink.emit(answer_event(), Some(convert::raw(&said)));
        }
        Err(self.client.refused(&error))
    }
}

/// What the agent made of a request.
type Answered = Result<Box<RawValue>, ErrorObject>;

/// What was wished for and cannot be said to the agent, in words.
fn left_out(options: &TurnOptions) -> Option<String> {
    let wishes = [
        ("a model", options.model.is_some()),
        ("a number of steps", options.max_turns.is_some()),
    ];
    let wishes: Vec<&str> = wishes
        .into_iter()
        .filter_map(|(wish, is_there)| is_there.then_some(wish))
        .collect();
    (!wishes.is_empty()).then(|| {
        let wishes = wishes.join(" and ");
        format!("This agent cannot be given {wishes} for one turn; it goes by its own settings.")
    })
}

/// A prompt that is not answered. If nobody waits for it any more the agent is told to stop.
#[derive(Debug)]
struct RunningTurn<'a> {
    client: &'a Client,
    session: &'a str,
    asks: CancellationToken,
    ended: bool,
}

impl RunningTurn<'_> {
    /// Tells the agent to stop, and waits a while for its answer.
    async fn wind_down(
        &mut self,
        answer: impl Future<Output = Result<Answered, DriverError>>,
    ) -> Result<Answered, DriverError> {
        let cancel = CancelNotification::new(self.session.to_owned());
        let told = self.client.peer.notify("session/cancel", &cancel);
        let asks = self.asks.clone();
        let wound_down = async {
            let _ = told.await; // If it is gone the answer says so.
            // The protocol wants every open permission answered as cancelled.
            asks.cancel();
            answer.await
        };
        match tokio::time::timeout(CANCEL_MAX, wound_down).await {
            Ok(answered) => answered,
            Err(_) => Err(DriverError::Silent {
                what: "session/cancel",
                limit: CANCEL_MAX,
            }),
        }
    }
}

impl Drop for RunningTurn<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.asks.cancel();
            let cancel = CancelNotification::new(self.session.to_owned());
            let _ = self.client.peer.try_notify("session/cancel", &cancel); // It may be gone, or not read.
        }
        self.client.sessions.end_turn(self.session);
    }
}

/// The agent's answer to a prompt, for clients that want all of it.
fn answer_event() -> EventKind {
    EventKind::Other {
        name: "session/prompt".to_owned(),
    }
}
