//! One turn, carried out away from the session's own task, so that a cancel or an answer is never blocked behind it.

use std::sync::Arc;

use domain::turn::{Stop, TurnId};
use tokio_util::sync::CancellationToken;

use super::{
    SessionRecord,
    binding::{self, Binding},
    task::Surroundings,
};
use crate::{SessionSink, Turn, TurnOptions, agent::chain};

/// Everything a turn needs, away from the session's own task.
pub(super) struct TurnWork {
    pub(super) turn: TurnId,
    pub(super) prompt: String,
    pub(super) options: TurnOptions,
    pub(super) cancel: CancellationToken,
    pub(super) binding: Option<Binding>,
    pub(super) record: SessionRecord,
    pub(super) sink: SessionSink,
    pub(super) around: Arc<Surroundings>,
}

impl TurnWork {
    /// Finds the agent's driver, opens the conversation where it is not open, and takes the turn.
    pub(super) async fn carry_out(self) -> Done {
        let turn = self.turn;
        let failed = |message: String| Done {
            turn,
            stop: Stop::Failed { message },
            binding: None,
        };
        let source = match self
            .around
            .agents
            .source(&self.record.agent, self.record.via)
        {
            Ok(source) => source,
            Err(error) => return failed(chain(&error)),
        };
        let binding = match self.binding {
            Some(binding) if binding.is_with(&source.driver) => binding,
            _ => {
                let bound =
                    binding::bind(source.driver, &self.record, source.mcp_servers, self.sink);
                match bound.await {
                    Ok(binding) => binding,
                    Err(error) => return failed(error.to_string()),
                }
            }
        };
        let turn = Turn {
            session: binding.conversation.clone(),
            prompt: self.prompt,
            options: self.options,
            cancel: self.cancel,
        };
        let stop = binding::take_turn(&binding, turn).await;
        Done {
            turn: self.turn,
            stop,
            binding: Some(binding),
        }
    }
}

/// A turn has come to its end.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) turn: TurnId,
    pub(super) stop: Stop,
    pub(super) binding: Option<Binding>,
}
