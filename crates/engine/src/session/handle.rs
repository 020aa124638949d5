//! The way to a session's task: what can be asked of it, and what is seen of it.

use std::sync::Arc;

use domain::{
    Name,
    session::{ClientId, WhenBusy},
    turn::{Answer, AskId, TurnId},
};
use tokio::sync::{mpsc, oneshot, watch};

use super::SessionView;
use crate::{EngineError, EventLog, TurnOptions, engine::Via};

/// What a face wants of a session.
#[derive(Debug)]
pub(super) enum Command {
    Prompt {
        text: String,
        options: TurnOptions,
        when_busy: WhenBusy,
        reply: oneshot::Sender<Result<TurnId, EngineError>>,
    },
    Cancel {
        reply: Reply,
    },
    Answer {
        ask: AskId,
        answer: Answer,
        by: ClientId,
        reply: Reply,
    },
    Attach {
        client: ClientId,
        answers: bool,
        reply: Reply,
    },
    Detach {
        client: ClientId,
    },
    Close {
        reply: Reply,
    },
}

/// Whoever waits for what a command brings about.
pub(super) type Reply = oneshot::Sender<Result<(), EngineError>>;

/// The way to a session's task.
#[derive(Debug, Clone)]
pub(super) struct Handle {
    /// How its agent is reached.
    pub(super) reach: (Name, Via),
    /// Whose conversation it is.
    pub(super) agent_id: String,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) log: Arc<EventLog>,
    pub(super) view: watch::Receiver<SessionView>,
}
