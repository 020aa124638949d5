//! Agents that are started only for as long as somebody needs them: several may, and the last one to leave stops it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use domain::{
    Name,
    lifecycle::{Refusal, Status},
};

use super::Engine;
use crate::EngineError;

/// How many need each agent that was started only for them.
#[derive(Debug, Default)]
pub(super) struct Borrowers(Mutex<BTreeMap<Name, usize>>);

impl Borrowers {
    /// Whether the agent runs only for those who borrowed it.
    pub(super) fn is_lent(&self, name: &Name) -> bool {
        self.lock().contains_key(name)
    }

    fn join(&self, name: &Name) {
        *self.lock().entry(name.clone()).or_default() += 1;
    }

    /// Says whether that was the last one.
    fn leave(&self, name: &Name) -> bool {
        let mut lent = self.lock();
        let Some(count) = lent.get_mut(name) else {
            return false;
        };
        *count -= 1;
        let last = *count == 0;
        if last {
            lent.remove(name);
        }
        last
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An agent that runs for us; given back also when it is dropped.
pub(super) struct Loan {
    engine: Engine,
    name: Option<Name>,
}

impl Engine {
    /// Starts the agent for as long as the loan lives, or joins those for whom it was started.
    pub(super) async fn borrow(&self, name: &Name) -> Result<Loan, EngineError> {
        self.borrowers().join(name);
        let loan = Loan {
            engine: self.clone(),
            name: Some(name.clone()),
        };
        match self.start(name.as_str()).await {
            Ok(_) => {}
            Err(EngineError::Refused {
                refusal:
                    Refusal::AlreadyRunning {
                        status: Status::Starting | Status::Running,
                    },
                ..
            }) => self.wait_until_started(name).await?,
            Err(error) => return Err(error),
        }
        Ok(loan)
    }

    /// Ends an agent that nobody borrows any more. Somebody else may have found it running and be in a session with it,
    /// another one than `own`: then it stays.
    async fn stop_unless_used(&self, name: &Name, own: Option<&str>) {
        let sessions = self.sessions().list(Some(name.as_str()));
        let mut others = sessions
            .iter()
            .filter(|session| Some(session.session_id.as_str()) != own);
        if others.any(|session| session.clients > 0) {
            return;
        }
        let _ = self.stop(name.as_str()).await; // A failure is in the agent's status.
    }
}

impl Loan {
    /// `own` is the session that it was borrowed for.
    pub(super) async fn give_back(mut self, own: Option<&str>) {
        if let Some(name) = self.name.take()
            && self.engine.borrowers().leave(&name)
        {
            self.engine.stop_unless_used(&name, own).await;
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        if self.engine.borrowers().leave(&name) {
            let engine = self.engine.clone();
            self.engine
                .tasks()
                .spawn(|_| async move { engine.stop_unless_used(&name, None).await });
        }
    }
}
