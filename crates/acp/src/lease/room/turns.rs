//! Prompts of the editor: given to the session, and answered when their turn has ended.

use domain::turn::{Raw, Stop, TurnId, Usage};
use engine::{Prompt, TurnOptions};
use jsonrpc::{ErrorObject, Responder};
use serde_json::{
    Value, json,
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
    async fn answer(self, stop: &Stop, said: Option<&Raw>, used: Usage) {
        let answer = match stop {
            Stop::Cancelled if self.withdrawn.is_cancelled() => Err(ErrorObject::cancelled()),
            stop => prompt_answer(stop, said, used),
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
            return owed.answer(&Stop::Cancelled, None, Usage::default()).await;
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
        let (said, used) = (self.said.take(), std::mem::take(&mut self.used));
        if let Some(owed) = self.turns.remove(&turn) {
            owed.answer(stop, said.as_ref(), used).await;
        }
    }
}

/// What a prompt is answered with: the agent's own words where it is known, or ours.
fn prompt_answer(
    stop: &Stop,
    said: Option<&Raw>,
    used: Usage,
) -> Result<Box<RawValue>, ErrorObject> {
    let said = said.and_then(|said| RawValue::from_string(said.frame.to_string()).ok());
    match stop {
        Stop::Failed { message } => match said {
            // Who has said how it failed, and has answered the prompt, needs no error of ours.
            Some(said) if is_answer(&said) => Ok(with_usage(&said, used)),
            said => Err(said
                .and_then(|said| {
                    crate::members::Members::read(said.get())?
                        .get("error")
                        .map(RawValue::get)
                        .map(str::to_owned)
                })
                .and_then(|error| serde_json::from_str(&error).ok())
                .unwrap_or_else(|| ErrorObject::internal(message.clone()))),
        },
        Stop::EndTurn
        | Stop::MaxTokens
        | Stop::MaxTurnRequests
        | Stop::Refusal
        | Stop::Cancelled => {
            let ours = || to_raw_value(&answer(stop, used)).expect("a value can be written");
            let own = said.filter(|said| is_answer(said));
            Ok(own.unwrap_or_else(ours))
        }
    }
}

fn is_answer(said: &RawValue) -> bool {
    said.get().contains("\"stopReason\"")
}

/// An answer of somebody who does not count what the turn has used.
fn with_usage(said: &RawValue, used: Usage) -> Box<RawValue> {
    let mut own: Value = serde_json::from_str(said.get()).unwrap_or_default();
    let ours = answer(&Stop::Refusal, used);
    if own["usage"].is_null() && !ours["usage"].is_null() {
        own["usage"] = ours["usage"].clone();
    }
    if let Some(cost) = ours["_meta"]["agentcraft"].get("costUsd") {
        own["_meta"]["agentcraft"]["costUsd"] = cost.clone();
    }
    to_raw_value(&own).expect("a value can be written")
}

/// An answer of ours, with what the turn has used. Tokens have their place in the protocol, where both kinds are known; the cost of
/// one turn has none.
fn answer(stop: &Stop, used: Usage) -> Value {
    let mut answer = json!({ "stopReason": stop.as_str() });
    if let (Some(input), Some(output)) = (used.input_tokens, used.output_tokens) {
        answer["usage"] = json!({
            "totalTokens": input.saturating_add(output), "inputTokens": input, "outputTokens": output,
        });
    }
    if let Some(cost) = used.cost_usd.filter(|cost| cost.is_finite()) {
        answer["_meta"] = json!({ "agentcraft": { "costUsd": cost } });
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_turn_has_used_is_in_the_answer_as_far_as_it_is_known() {
        let used = Usage {
            input_tokens: Some(30),
            output_tokens: Some(12),
            cost_usd: Some(0.5),
        };
        assert_eq!(
            answer(&Stop::EndTurn, used),
            json!({
                "stopReason": "end_turn",
                "usage": { "totalTokens": 42, "inputTokens": 30, "outputTokens": 12 },
                "_meta": { "agentcraft": { "costUsd": 0.5 } },
            })
        );
        let half = Usage {
            output_tokens: None,
            cost_usd: None,
            ..used
        };
        for used in [half, Usage::default()] {
            assert_eq!(
                answer(&Stop::Refusal, used),
                json!({ "stopReason": "refusal" })
            );
        }
    }
}
