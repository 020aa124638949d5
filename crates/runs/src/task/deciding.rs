//! What the machine decides of a run, and what is done about it.

use domain::{
    run::{Effect, Input, Status},
    turn::{Answer, AskId, AskKind, Standing, go_on},
};
use engine::Occasion;
use platform::crash;
use serde_json::json;
use tracing::warn;

use super::RunTask;
use crate::{
    begin,
    error::RunsError,
    record::{self, Failure},
};

impl RunTask {
    /// An input nobody waits for.
    pub(super) async fn input(&mut self, input: Input, answer: Option<(AskKind, Answer)>) {
        if let Err(error) = self.try_input(input, answer).await {
            warn!(run = self.record.id, %error, "the run could not go on");
        }
    }

    pub(super) async fn try_input(
        &mut self,
        input: Input,
        answer: Option<(AskKind, Answer)>,
    ) -> Result<(), RunsError> {
        let before = (self.record.status(), self.record.machine.awaits().cloned());
        let effects = self
            .record
            .machine
            .apply(input, record::now())
            .map_err(|refusal| RunsError::Refused {
                id: self.record.id.clone(),
                refusal,
            })?;
        for effect in &effects {
            self.explain(effect);
        }
        if effects.contains(&Effect::GoOn)
            && let Some((kind, answer)) = &answer
        {
            self.record.standing = Standing::of(kind, answer);
        }
        let after = (self.record.status(), self.record.machine.awaits().cloned());
        if before != after {
            if before.0 == Status::Awaiting && after.0 != Status::Awaiting {
                self.runs.release(&self.record.id);
            }
            self.moved().await;
        }
        for effect in effects {
            self.perform(effect, answer.as_ref()).await;
        }
        Ok(())
    }

    /// Why the run has failed, where the machine found it out.
    fn explain(&mut self, effect: &Effect) {
        let limits = self.record.machine.limits();
        let is_wished = limits.work < self.runs.config().limits.work;
        let (code, message, limit, suggestion) = match effect {
            Effect::OutOfTime => (
                "execution_timeout",
                "the work took too long and was ended",
                limits.work,
                if is_wished {
                    "ask for less at once, or give it more time: the caller has set this limit"
                } else {
                    "ask for less at once, or raise `work_minutes` of the node"
                },
            ),
            Effect::Unanswered => (
                "await_timeout",
                "nobody answered what the run asked",
                limits.answer,
                "begin a new run and answer it in time",
            ),
            Effect::Begin
            | Effect::Answer { .. }
            | Effect::GoOn
            | Effect::CancelTurn
            | Effect::TickAt { .. } => return,
        };
        self.record.error = Some(Failure {
            code: code.to_owned(),
            message: message.to_owned(),
            details: Some(json!({ "timeout_seconds": limit.as_secs_f64() })),
            suggestion: suggestion.to_owned(),
        });
    }

    pub(super) async fn perform(&mut self, effect: Effect, answer: Option<&(AskKind, Answer)>) {
        match effect {
            Effect::Begin => self.open(self.record.prompt.clone(), Occasion::Prompt),
            Effect::Answer { ask } => {
                if let Some((_, answer)) = answer {
                    self.answer(ask, answer.clone()).await;
                }
            }
            Effect::GoOn => {
                let prompt = answer.map(|(kind, answer)| go_on(kind, answer));
                let prompt = prompt.unwrap_or_else(|| "Go on with the task.".to_owned());
                self.open(prompt, Occasion::LateAnswer);
            }
            Effect::CancelTurn => self.cancel_turn().await,
            Effect::TickAt { .. } | Effect::OutOfTime | Effect::Unanswered => {} // The loop looks at the machine.
        }
    }

    fn open(&mut self, prompt: String, occasion: Occasion) {
        let (runs, record) = (self.runs.clone(), self.record.clone());
        let conversation = self.conversation;
        let opening = self.runs.tasks().spawn_owned(move |_| async move {
            runs.begin(&record, prompt, occasion, conversation).await
        });
        self.opening = Some(opening);
    }

    pub(super) async fn answer(&mut self, ask: AskId, answer: Answer) {
        let Some(session) = &self.record.engine_session else {
            return;
        };
        let by = begin::client(&self.record.id);
        let sessions = self.runs.engine().sessions();
        crash::point("run.before-answer");
        if let Err(error) = sessions.answer(session, ask, answer, by).await {
            // Somebody was quicker, or the turn has withdrawn its question; its events tell.
            warn!(run = self.record.id, %error, "an answer came too late");
        }
        crash::point("run.answered");
    }

    pub(super) async fn cancel_turn(&mut self) {
        let (Some(session), Some(turn)) = (&self.record.engine_session, self.record.turn) else {
            return; // It is cancelled once it has begun.
        };
        let sessions = self.runs.engine().sessions();
        if let Err(error) = sessions.cancel_turn(session, turn).await {
            warn!(run = self.record.id, %error, "the turn could not be cancelled");
        }
        crash::point("run.cancel-told");
    }
}
