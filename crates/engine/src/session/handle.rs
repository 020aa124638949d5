//! The way to a session's task: what can be asked of it, and what is seen of it.

use std::{path::PathBuf, sync::Arc};

use domain::{
    Name,
    session::{ClientId, WhenBusy},
    turn::{Answer, AskId, Raw, TurnId},
};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Answers, OpenConversation, OpenError, SessionView, Waiting, binding::Slot, work::WaitingPrompt,
};
use crate::{Batch, EngineError, EventLog, NativeOpen, engine::Via};

/// What a face wants of a session.
pub(super) enum Command {
    Prompt {
        prompt: WaitingPrompt,
        when_busy: WhenBusy,
        reply: oneshot::Sender<Result<TurnId, EngineError>>,
    },
    /// Attaches a client and begins its turn, kept as one.
    Begin {
        client: ClientId,
        answers: Answers,
        prompt: WaitingPrompt,
        /// What is kept together with it.
        along: Batch,
        reply: oneshot::Sender<Result<TurnId, EngineError>>,
    },
    Open {
        reply: OpenReply,
    },
    Cancel {
        what: Cancel,
        reply: Reply,
    },
    Answer {
        ask: AskId,
        answer: Answer,
        /// What the client said in its own words.
        words: Option<Raw>,
        by: ClientId,
        reply: Reply,
    },
    /// A client that was asked cannot answer.
    Decline {
        ask: AskId,
        denial: Answer,
        by: ClientId,
        reply: Reply,
    },
    Attach {
        client: ClientId,
        answers: Answers,
        reply: Reply,
    },
    Detach {
        client: ClientId,
    },
    /// The words with which the conversation is opened from now on.
    Reword {
        open: NativeOpen,
    },
    /// What waits in it.
    Look {
        reply: oneshot::Sender<Result<Waiting, EngineError>>,
    },
    Close {
        conversation: Conversation,
        reply: Reply,
    },
}

/// What becomes of the conversation of a session that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conversation {
    /// It can be gone on with.
    Kept,
    /// The agent has it no more.
    Deleted,
}

/// Which turns are ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cancel {
    Running,
    /// This one, whether it runs or waits.
    Turn(TurnId),
    /// Those that a client has asked for and that are not over.
    AskedBy(ClientId),
    /// The same; or, for a client that has asked for nothing, the one that runs.
    AsSeenBy(ClientId),
}

/// Whoever waits for what a command brings about.
pub(super) type Reply = oneshot::Sender<Result<(), EngineError>>;

/// Whoever waits for the conversation in the agent.
pub(super) type OpenReply = oneshot::Sender<Result<OpenConversation, OpenError>>;

/// The way to a session's task.
#[derive(Debug, Clone)]
pub(super) struct Handle {
    /// How its agent is reached.
    pub(super) reach: (Name, Via),
    /// Whose conversation it is.
    pub(super) agent_id: String,
    /// Where it takes place.
    pub(super) cwd: PathBuf,
    pub(super) slot: Arc<Slot>,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) log: Arc<EventLog>,
    pub(super) view: watch::Receiver<SessionView>,
}

impl Handle {
    pub(super) fn has_task(&self) -> bool {
        !self.commands.is_closed()
    }
}
