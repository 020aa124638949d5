//! Prompts of the editor: given to the session, and answered when their turn has ended.

use domain::turn::{Raw, Stop, TurnId};
use engine::{Prompt, TurnOptions};
use jsonrpc::{ErrorObject, Responder};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Prompted, Task};
use crate::lease::{error, face::reply};

/// A turn of the editor's that is not answered.
pub(super) struct Owed {
    pub(super) responder: Responder,
    withdrawn: CancellationToken,
    _over: oneshot::Sender<()>,
}

impl Owed {
    /// A request that was withdrawn is answered so, and not with the end of its turn.
    async fn answer(self, stop: &Stop, said: Option<&Raw>) {
        let answer = match stop {
            Stop::Cancelled if self.withdrawn.is_cancelled() => Err(ErrorObject::cancelled()),
            stop => prompt_answer(stop, said),
        };
        reply(self.responder, answer).await;
    }
}

impl Task {
    pub(super) async fn prompt(&mut self, prompted: Prompted) {
        let Prompted {
            text,
            words,
            responder,
            cancels,
            withdrawn,
            turn: place,
            over,
        } = prompted;
        let owed = Owed {
            responder,
            withdrawn: withdrawn.clone(),
            _over: over,
        };
        let all_cancels = self.inbox.cancels.clone();
        let is_cancelled = || withdrawn.is_cancelled() || all_cancels.count() != cancels;
        if is_cancelled() {
            return owed.answer(&Stop::Cancelled, None).await;
        }
        let prompt = Prompt {
            text,
            options: TurnOptions::default(),
            when_busy: self.face.when_busy,
            by: Some(self.face.client()),
        };
        let sessions = self.face.engine.sessions();
        let turn = match sessions.prompt_native(&self.inbox.id, prompt, words).await {
            Ok(turn) => turn,
            Err(error) => return reply(owed.responder, Err(error::of_engine(&error))).await,
        };
        self.turns.insert(turn, owed);
        let _ = place.set(turn); // A prompt has one turn.
        // A cancel that overtook the prompt on its way found nothing to end.
        if is_cancelled()
            && let Err(error) = sessions.cancel_turn(&self.inbox.id, turn).await
        {
            tracing::debug!(%error, session = self.inbox.id, "could not cancel");
        }
    }

    pub(super) async fn end_turn(&mut self, turn: TurnId, stop: &Stop) {
        let said = self.said.take();
        if let Some(owed) = self.turns.remove(&turn) {
            owed.answer(stop, said.as_ref()).await;
        }
    }
}

/// What a prompt is answered with: the agent's own words where it is known, or ours.
fn prompt_answer(stop: &Stop, said: Option<&Raw>) -> Result<Box<RawValue>, ErrorObject> {
    let said = said.and_then(|said| RawValue::from_string(said.frame.to_string()).ok());
    match stop {
        Stop::Failed { message } => Err(said
            .and_then(|said| {
                crate::members::Members::read(said.get())?
                    .get("error")
                    .map(RawValue::get)
                    .map(str::to_owned)
            })
            .and_then(|error| serde_json::from_str(&error).ok())
            .unwrap_or_else(|| ErrorObject::internal(message.clone()))),
        Stop::EndTurn
        | Stop::MaxTokens
        | Stop::MaxTurnRequests
        | Stop::Refusal
        | Stop::Cancelled => {
            let ours = || {
                to_raw_value(&json!({ "stopReason": stop.as_str() })).expect("text can be written")
            };
            let own = said.filter(|said| said.get().contains("\"stopReason\""));
            Ok(own.unwrap_or_else(ours))
        }
    }
}
