//! Those who asked for something that takes its time, and when they are answered.

use std::sync::Arc;

use domain::{
    Name,
    lifecycle::{Refusal, State},
};

use super::{AgentView, handle::Reply};
use crate::EngineError;

type Outcome = Result<Option<Arc<AgentView>>, EngineError>;

/// What somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    Started,
    Stopped,
    Destroyed,
}

/// Everybody who waits at one agent.
#[derive(Debug, Default)]
pub(super) struct Waiting(Vec<(Until, Reply)>);

impl Waiting {
    pub(super) fn add(&mut self, until: Until, reply: Reply) {
        self.0.push((until, reply));
    }

    /// Whoever waits for the agent to be gone waits in vain.
    pub(super) fn refuse_destroyed(&mut self, refusal: impl Fn() -> EngineError) {
        for (until, reply) in std::mem::take(&mut self.0) {
            match until {
                Until::Destroyed => answer(reply, Err(refusal())),
                Until::Started | Until::Stopped => self.0.push((until, reply)),
            }
        }
    }

    /// Answers those whose time has come.
    pub(super) fn answer(
        &mut self,
        name: &Name,
        state: &State,
        gone: bool,
        view: &Option<Arc<AgentView>>,
    ) {
        for (until, reply) in std::mem::take(&mut self.0) {
            let due = match until {
                Until::Started => started(name, state, view),
                Until::Stopped => stopped(name, state, view),
                Until::Destroyed => gone.then_some(Ok(None)),
            };
            match due {
                Some(outcome) => answer(reply, outcome),
                None => self.0.push((until, reply)),
            }
        }
    }
}

pub(super) fn answer(reply: Reply, outcome: Outcome) {
    let _ = reply.send(outcome); // The asker may have left.
}

fn started(name: &Name, state: &State, view: &Option<Arc<AgentView>>) -> Option<Outcome> {
    match state {
        State::Starting { .. } => None,
        State::Failed { reason } => Some(Err(EngineError::Launch {
            name: name.clone(),
            reason: reason.clone(),
        })),
        State::Stopping { .. } | State::Stopped { .. } | State::Destroying => {
            let reason = "it was stopped before it had started".to_owned();
            Some(Err(EngineError::Launch {
                name: name.clone(),
                reason,
            }))
        }
        State::Running { .. } | State::Crashed { .. } | State::Created | State::Creating => {
            Some(Ok(view.clone()))
        }
    }
}

fn stopped(name: &Name, state: &State, view: &Option<Arc<AgentView>>) -> Option<Outcome> {
    match state {
        State::Stopping { .. } => None,
        State::Destroying => Some(Err(EngineError::Refused {
            name: name.clone(),
            refusal: Refusal::NotThere,
        })),
        State::Running { .. }
        | State::Crashed { .. }
        | State::Created
        | State::Creating
        | State::Starting { .. }
        | State::Stopped { .. }
        | State::Failed { .. } => Some(Ok(view.clone())),
    }
}
