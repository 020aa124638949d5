//! What takes time, carried out away from the session's own task, so that a cancel or an answer is never blocked
//! behind it: a turn, and the opening of the conversation it takes place in.

use std::sync::Arc;

use domain::{
    session::ClientId,
    turn::{Raw, Stop, TurnId},
};
use tokio_util::sync::CancellationToken;

use super::{
    OpenConversation, OpenError, SessionRecord,
    binding::{self, Binding, Slot},
    task::Surroundings,
};
use crate::{SessionSink, Turn, TurnOptions, agent::chain};

/// What finds or opens the session's conversation.
#[derive(Clone)]
pub(super) struct Opener {
    pub(super) slot: Arc<Slot>,
    pub(super) record: SessionRecord,
    pub(super) sink: SessionSink,
    pub(super) around: Arc<Surroundings>,
}

impl Opener {
    pub(super) async fn open(&self) -> Result<OpenConversation, OpenError> {
        let binding = self.bind().await?;
        Ok(OpenConversation {
            driver: binding.driver,
            conversation: binding.conversation,
        })
    }

    async fn bind(&self) -> Result<Binding, OpenError> {
        let record = &self.record;
        let source = self.around.agents.source(&record.agent, record.via)?;
        let bound = self
            .slot
            .bind(source.driver, source.mcp_servers, record, self.sink.clone());
        Ok(bound.await?)
    }

    /// The session is over, and with it the conversation.
    pub(super) async fn let_go(&self) {
        if let Some(binding) = self.slot.take() {
            binding.driver.close(&binding.conversation).await;
        }
    }
}

/// Everything a turn needs.
pub(super) struct TurnWork {
    pub(super) turn: TurnId,
    pub(super) prompt: WaitingPrompt,
    pub(super) cancel: CancellationToken,
    pub(super) opener: Opener,
}

/// A prompt whose turn has not begun.
pub(super) struct WaitingPrompt {
    pub(super) text: String,
    pub(super) options: TurnOptions,
    /// The same in the words of the agent's own protocol.
    pub(super) words: Option<Raw>,
    /// Who asks, if it is a client that may want to take it back.
    pub(super) by: Option<ClientId>,
}

impl TurnWork {
    /// Finds the agent's driver, opens the conversation where it is not open, and takes the turn.
    pub(super) async fn carry_out(self) -> Done {
        let turn = self.turn;
        let binding = match self.opener.bind().await {
            Ok(binding) => binding,
            Err(error) => {
                let message = chain(&error);
                let stop = Stop::Failed { message };
                return Done { turn, stop };
            }
        };
        let WaitingPrompt {
            text,
            options,
            words,
            by: _,
        } = self.prompt;
        let turn = Turn {
            session: binding.conversation.clone(),
            prompt: text,
            options,
            cancel: self.cancel,
        };
        let stop = binding::take_turn(&binding, turn, words).await;
        Done {
            turn: self.turn,
            stop,
        }
    }
}

/// A turn has come to its end.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) turn: TurnId,
    pub(super) stop: Stop,
}
