//! The agent's side of a session: which driver, and which conversation in it.
//!
//! After a restart of the agent or of the daemon the driver is another one; the conversation is then taken up where the
//! agent can, and said to be lost where it cannot.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::McpServer;
use domain::turn::{EventKind, Raw, Stop};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Continuity, Driver, DriverError, OpenSession, SessionSink, Turn, session::SessionRecord,
};

/// A conversation that is open in a driver.
#[derive(Debug, Clone)]
pub(super) struct Binding {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) conversation: String,
}

/// The place of a session's conversation. Whoever needs it first opens it; the others find it open.
#[derive(Debug)]
pub(super) struct Slot {
    /// One opens at a time, or an agent would be asked for two conversations.
    turnstile: Arc<Semaphore>,
    state: Mutex<State>,
    changed: Notify,
    gone: CancellationToken,
    _gone: DropGuard,
}

#[derive(Debug)]
struct State {
    bound: Option<Binding>,
    /// What the agent called the conversation last.
    conversation: Option<String>,
}

impl Slot {
    pub(super) fn new(conversation: Option<String>) -> Arc<Self> {
        let gone = CancellationToken::new();
        Arc::new(Self {
            _gone: gone.clone().drop_guard(),
            gone,
            turnstile: Arc::new(Semaphore::new(1)),
            state: Mutex::new(State {
                bound: None,
                conversation,
            }),
            changed: Notify::new(),
        })
    }

    /// Cancelled when nobody holds this any more, and so nobody works with the conversation or lets go of it.
    pub(super) fn gone(&self) -> CancellationToken {
        self.gone.clone()
    }

    pub(super) fn is_bound(&self) -> bool {
        self.state().bound.is_some()
    }

    pub(super) fn conversation(&self) -> Option<String> {
        self.state().conversation.clone()
    }

    /// Takes the conversation out, to be let go of.
    pub(super) fn take(&self) -> Option<Binding> {
        self.state().bound.take()
    }

    /// Keeps everybody from opening the conversation again while it is let go of; nothing if somebody opens it now.
    pub(super) fn shut(&self) -> Option<OwnedSemaphorePermit> {
        self.turnstile.clone().try_acquire_owned().ok()
    }

    /// Has the session look at itself again.
    pub(super) fn tell(&self) {
        self.changed.notify_one();
    }

    /// Waits until a conversation has been opened or let go of.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The conversation in `driver`: the one that is open there, the earlier one taken up, or a new one.
    pub(super) async fn bind(
        &self,
        driver: Arc<dyn Driver>,
        mcp_servers: Vec<McpServer>,
        record: &SessionRecord,
        sink: SessionSink,
    ) -> Result<Binding, DriverError> {
        let _one = self.turnstile.acquire().await; // It is never closed.
        let (bound, resume) = {
            let state = self.state();
            (state.bound.clone(), state.conversation.clone())
        };
        if let Some(binding) = bound.filter(|binding| Arc::ptr_eq(&binding.driver, &driver)) {
            return Ok(binding);
        }
        let mcp_servers = match &record.open {
            Some(words) => words.beside(mcp_servers),
            None => mcp_servers,
        };
        let open = OpenSession {
            cwd: record.cwd.clone(),
            mcp_servers,
            resume,
            sink: sink.clone(),
        };
        let opened = match record.open.clone() {
            Some(words) => driver.open_with(open, words).await?,
            None => driver.open(open).await?,
        };
        if let Continuity::Lost { why } = opened.continuity {
            let text = format!("the agent does not remember this conversation: {why}");
            sink.emit(EventKind::Notice { text }, None);
        }
        let binding = Binding {
            driver,
            conversation: opened.id,
        };
        {
            let mut state = self.state();
            state.conversation = Some(binding.conversation.clone());
            state.bound = Some(binding.clone());
        }
        self.changed.notify_one();
        Ok(binding)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries out one turn; a failure of the agent is a stop reason like any other.
pub(super) async fn take_turn(binding: &Binding, turn: Turn, words: Option<Raw>) -> Stop {
    let taken = match words {
        Some(words) => binding.driver.turn_with(turn, words).await,
        None => binding.driver.turn(turn).await,
    };
    match taken {
        Ok(stop) => stop,
        Err(error) => Stop::Failed {
            message: error.to_string(),
        },
    }
}
