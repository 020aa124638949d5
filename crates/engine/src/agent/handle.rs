//! The way to an agent's task: what can be asked of it, what is reported to it, what is seen of it.

use std::sync::Arc;

use domain::lifecycle::{Exit, Force, Process, State, Status};
use tokio::sync::{mpsc, oneshot, watch};

use super::{AgentRecord, AgentView};
use crate::{Driver, EngineError};

/// Whoever waits for what a command brings about.
pub(super) type Reply = oneshot::Sender<Result<Option<Arc<AgentView>>, EngineError>>;

/// What a face wants of an agent.
#[derive(Debug)]
pub(crate) enum Command {
    Start,
    Stop,
    Attach {
        process: Process,
        metadata: Vec<(String, String)>,
    },
    Detach {
        cleanup: bool,
        /// Whose end is told; whoever does not say means the one that is there.
        pid: Option<u32>,
    },
    Destroy {
        force: Force,
    },
    Shutdown,
    /// Nothing, but that what has happened is shown.
    Settle,
}

/// What the tasks that act for an agent report.
#[derive(Debug)]
pub(crate) enum Event {
    Launched {
        process: Process,
        driver: Option<Arc<dyn Driver>>,
    },
    LaunchFailed {
        reason: String,
    },
    Exited {
        exit: Exit,
    },
    /// The process of a client has ended, and nobody has said why.
    Lost,
}

/// The way to an agent's task.
#[derive(Debug, Clone)]
pub(crate) struct AgentHandle {
    pub(super) commands: mpsc::Sender<(Command, Reply)>,
    pub(super) shown: watch::Receiver<Shown>,
}

/// The last committed record, and what everybody sees of it.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    record: Arc<AgentRecord>,
    /// The way to talk to its process, while that runs and speaks.
    driver: Option<Arc<dyn Driver>>,
    pub(super) view: Option<Arc<AgentView>>,
}

impl Shown {
    pub(super) fn of(record: &Arc<AgentRecord>, driver: Option<Arc<dyn Driver>>) -> Self {
        Self {
            driver,
            record: record.clone(),
            view: record.view().map(Arc::new),
        }
    }
}

impl AgentHandle {
    /// What everybody sees of it now.
    pub(crate) fn view(&self) -> Option<Arc<AgentView>> {
        self.shown.borrow().view.clone()
    }

    /// The way to talk to its process, while that runs and speaks.
    pub(crate) fn driver(&self) -> Option<Arc<dyn Driver>> {
        self.shown.borrow().driver.clone()
    }

    /// All that is kept of it now.
    pub(crate) fn record(&self) -> Arc<AgentRecord> {
        self.shown.borrow().record.clone()
    }

    /// Asks, and waits until what was asked for has happened or cannot happen.
    pub(crate) async fn ask(
        &self,
        command: Command,
    ) -> Result<Option<Arc<AgentView>>, EngineError> {
        let (reply, answer) = oneshot::channel();
        if self.commands.send((command, reply)).await.is_err() {
            return Err(self.left());
        }
        answer.await.unwrap_or_else(|_| Err(self.left()))
    }

    /// Waits for a start that is under way.
    pub(crate) async fn started(&self) -> Result<(), EngineError> {
        let mut shown = self.shown.clone();
        let over = shown
            .wait_for(|shown| shown.record.lifecycle.status() != Some(Status::Starting))
            .await;
        let (name, state) = match over {
            Ok(shown) => (
                shown.record.name.clone(),
                shown.record.lifecycle.state().clone(),
            ),
            Err(_) => return Err(self.left()),
        };
        match state {
            State::Running { .. } => Ok(()),
            State::Failed { reason } => Err(EngineError::Launch { name, reason }),
            _ => Err(EngineError::NotStarted { name }),
        }
    }

    /// Why nobody answers any more: the agent was destroyed meanwhile, or the daemon stops.
    fn left(&self) -> EngineError {
        match self.view() {
            None => EngineError::AgentNotFound {
                name: self.record().name.to_string(),
            },
            Some(_) => EngineError::ShuttingDown,
        }
    }
}
