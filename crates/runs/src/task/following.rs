//! What the turn of a run says and asks, and how it ends.

use std::{path::Path, sync::Arc};

use domain::{
    run::{Input, Status, TurnEnd},
    turn::{AskId, AskKind, Event as TurnEvent, EventKind, Stop},
};
use engine::EngineError;
use serde_json::json;
use wire::runs::{Event, Part, RunEvent};

use super::RunTask;
use crate::{
    deliver::Changes,
    record::{self, Dialect, Failure},
    story::nothing_yet,
};

impl RunTask {
    pub(super) async fn on_event(&mut self, event: Result<Option<Arc<TurnEvent>>, EngineError>) {
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => return self.lost("the session ended before the run did").await,
            Err(error) => return self.lost(&engine::chain(&error)).await,
        };
        match &event.kind {
            EventKind::TurnStarted { turn, .. } => {
                self.in_turn = Some(*turn) == self.record.turn;
            }
            EventKind::TurnEnded { turn, stop } if Some(*turn) == self.record.turn => {
                self.on_turn_ended(stop.clone()).await;
            }
            _ if !self.in_turn => {}
            EventKind::Ask(ask) => self.on_ask(ask.id.clone(), ask.kind.clone()).await,
            EventKind::AskSettled { ask, .. } => self.on_settled(ask.clone()).await,
            _ => {
                self.touch(&event.kind);
                for told in self.story.tell(&event) {
                    self.log.append(told);
                }
            }
        }
    }

    async fn on_ask(&mut self, ask: AskId, kind: AskKind) {
        if self.is_settled_already(&ask).await {
            return; // The policy has decided; the caller has nothing to say.
        }
        if let Some(standing) = &self.record.standing
            && let Some(answer) = standing.answer(&kind)
        {
            self.record.standing = None;
            self.keep().await;
            self.answer(ask, answer).await;
            return;
        }
        self.close_message().await;
        self.record.asks.insert(ask.0.clone(), kind);
        self.has_awaited = true;
        let has_begun_to = self.record.status() != Status::Awaiting;
        self.input(Input::Asked { ask }, None).await;
        if has_begun_to
            && self.record.status() == Status::Awaiting
            && self.runs.may_put_down(&self.record.agent)
        {
            self.runs.hold(&self.record.id);
        }
    }

    /// Remembers which files a tool works on.
    fn touch(&mut self, kind: &EventKind) {
        let locations = match kind {
            EventKind::ToolCall(call) => call.locations.as_slice(),
            EventKind::ToolUpdate(update) => update.locations.as_deref().unwrap_or_default(),
            _ => return,
        };
        let Some(begun) = &self.begun else { return };
        for location in locations {
            let path = Path::new(&location.path);
            let below = path.strip_prefix(&begun.workspace).unwrap_or(path);
            self.touched.insert(below.to_string_lossy().into_owned());
        }
    }

    /// An ask that the policy decides is settled in the same breath; looking ahead tells.
    async fn is_settled_already(&mut self, ask: &AskId) -> bool {
        if let Some(begun) = &mut self.begun {
            while let Ok(Some(event)) = begun.reader.try_next().await {
                self.ahead.push_back(event);
            }
        }
        self.ahead.iter().any(|event| {
            matches!(&event.kind, EventKind::AskSettled { ask: settled, .. } if settled == ask)
        })
    }

    async fn on_settled(&mut self, ask: AskId) {
        if self.record.asks.remove(&ask.0).is_some() {
            self.input(Input::Settled { ask }, None).await;
        }
    }

    async fn on_turn_ended(&mut self, stop: Stop) {
        self.close_message().await;
        let end = match &stop {
            Stop::EndTurn | Stop::MaxTokens | Stop::MaxTurnRequests => TurnEnd::Done,
            Stop::Cancelled => TurnEnd::Cancelled,
            Stop::Refusal | Stop::Failed { .. } => TurnEnd::Failed,
        };
        if end == TurnEnd::Done {
            self.deliver().await;
        }
        if matches!(stop, Stop::MaxTokens | Stop::MaxTurnRequests) {
            let told = json!({ "kind_of_event": "stop", "reason": stop.as_str() });
            self.log.append(Event::of_generic(told));
        }
        if self.record.status() != Status::Cancelling {
            self.record.error = failure(&stop);
        }
        self.input(Input::TurnEnded { end }, None).await;
    }

    async fn lost(&mut self, why: &str) {
        self.begun = None;
        self.close_message().await;
        self.record.error = Some(Failure {
            code: "session_lost".to_owned(),
            message: why.to_owned(),
            details: None,
            suggestion: "begin a new run".to_owned(),
        });
        self.input(Input::Fail, None).await;
    }

    /// The words so far become a message of the output.
    async fn close_message(&mut self) {
        let Some(mut message) = self.story.close(record::now()) else {
            return;
        };
        let mut parts = Vec::new();
        for part in message.parts {
            let record = &self.record;
            let runs = &self.runs;
            parts.push(
                runs.shorten(part, &record.agent, &record.caller, &record.base)
                    .await,
            );
        }
        message.parts = parts;
        self.record.output.push(message.clone());
        self.log
            .append(Event::of_message(RunEvent::MessageCompleted, message));
    }

    /// The files that the turn has left become a message of the output.
    async fn deliver(&mut self) {
        let Some((begun, before)) = self.begun.as_ref().and_then(|begun| {
            let before = begun.before.as_ref()?;
            Some((begun, before))
        }) else {
            return;
        };
        // Where another caller was at work too, only what the tools of this turn have named is surely its own.
        let mine = begun.presence.is_shared().then_some(&self.touched);
        let changes = Changes { before, mine };
        let parts = self
            .runs
            .deliver_files(&self.record, &begun.workspace, changes)
            .await;
        if parts.is_empty() {
            return;
        }
        self.tell_parts(parts);
    }

    fn tell_parts(&mut self, parts: Vec<Part>) {
        let now = record::now();
        let empty = self.story.message(nothing_yet(), now, now);
        self.log
            .append(Event::of_message(RunEvent::MessageCreated, empty));
        for part in &parts {
            self.log
                .append(Event::of_part(RunEvent::MessagePart, part.clone()));
            // Standard clients break on the word.
            if self.record.dialect == Dialect::Network {
                self.log
                    .append(Event::of_part(RunEvent::Artifact, part.clone()));
            }
        }
        let message = self.story.message(parts, now, now);
        self.record.output.push(message.clone());
        self.log
            .append(Event::of_message(RunEvent::MessageCompleted, message));
    }
}

fn failure(stop: &Stop) -> Option<Failure> {
    let (code, message, suggestion) = match stop {
        Stop::EndTurn | Stop::MaxTokens | Stop::MaxTurnRequests | Stop::Cancelled => return None,
        Stop::Refusal => (
            "refused",
            "the agent refused to do this".to_owned(),
            "ask for something else, or ask another agent",
        ),
        Stop::Failed { message } => (
            "agent_failed",
            message.clone(),
            "try again, or ask another agent",
        ),
    };
    Some(Failure {
        code: code.to_owned(),
        message,
        details: None,
        suggestion: suggestion.to_owned(),
    })
}
