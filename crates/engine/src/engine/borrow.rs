//! Agents that are started only for as long as somebody needs them: several may, and the last one to leave stops it.
//!
//! Starting and stopping pass one gate for each agent, so that whoever comes while the last one leaves finds it either
//! running for as long as it wants or stopped, and never about to stop.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::{
    Name,
    lifecycle::{Refusal, Status},
};

use super::Engine;
use crate::{EngineError, Sessions};

type Gate = Arc<tokio::sync::Mutex<()>>;

/// Who needs each agent that was started only for them.
#[derive(Debug, Default)]
pub(super) struct Borrowers(Mutex<BTreeMap<Name, Lent>>);

#[derive(Debug, Default)]
struct Lent {
    count: usize,
    gate: Gate,
    /// Sessions of those who have given it back; some may not have noticed yet that they were left.
    left: BTreeSet<String>,
}

/// How many such sessions are remembered before those are forgotten that have noticed.
const LEFT_MAX: usize = 256;

impl Borrowers {
    fn gate(&self, name: &Name) -> Gate {
        self.lock().entry(name.clone()).or_default().gate.clone()
    }

    /// Whether the agent runs only for those who borrowed it.
    fn is_lent(&self, name: &Name) -> bool {
        self.lock().get(name).is_some_and(|lent| lent.count > 0)
    }

    fn join(&self, name: &Name) {
        self.lock().entry(name.clone()).or_default().count += 1;
    }

    /// One has gone, with the session it was for; gives the sessions of all, if that was the last one.
    fn leave(
        &self,
        name: &Name,
        own: Option<&str>,
        sessions: &Sessions,
    ) -> Option<BTreeSet<String>> {
        let mut all = self.lock();
        let lent = all.get_mut(name)?;
        lent.count = lent.count.saturating_sub(1);
        lent.left.extend(own.map(str::to_owned));
        if lent.left.len() > LEFT_MAX {
            lent.left.retain(|session| sessions.is_live(session));
        }
        (lent.count == 0).then(|| std::mem::take(&mut lent.left))
    }

    /// Forgets an agent that nobody borrows and nobody waits for.
    fn tidy(&self, name: &Name, gate: Gate) {
        drop(gate);
        let mut all = self.lock();
        let is_unused = |lent: &Lent| lent.count == 0 && Arc::strong_count(&lent.gate) == 1;
        if all.get(name).is_some_and(is_unused) {
            all.remove(name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Lent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An agent that runs for us; given back also when it is dropped.
#[derive(Debug)]
pub struct Loan {
    engine: Engine,
    name: Option<Name>,
    own: Option<String>,
}

/// Whether an agent that does not run is started for whoever borrows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    IfNeeded,
    /// It is only kept from stopping while it runs for others.
    Never,
}

impl Engine {
    /// Starts an agent that does not run for as long as the loan lives, or joins those for whom it was started. Nothing is
    /// lent where the agent runs for its own sake, or needs no process.
    pub async fn borrow(&self, name: &Name, start: Start) -> Result<Option<Loan>, EngineError> {
        self.alone(name, self.borrow_alone(name, start)).await
    }

    /// What may be done with an agent by one at a time.
    pub(super) async fn alone<T>(&self, name: &Name, act: impl Future<Output = T>) -> T {
        let gate = self.borrowers().gate(name);
        let passed = gate.lock().await;
        let done = act.await;
        drop(passed);
        self.borrowers().tidy(name, gate);
        done
    }

    async fn borrow_alone(&self, name: &Name, start: Start) -> Result<Option<Loan>, EngineError> {
        let is_lent = self.borrowers().is_lent(name);
        if !is_lent && (start == Start::Never || self.sessions().via(name)?.is_some()) {
            return Ok(None);
        }
        self.borrowers().join(name);
        let loan = Loan {
            engine: self.clone(),
            name: Some(name.clone()),
            own: None,
        };
        self.start_or_join(name).await?;
        Ok(Some(loan))
    }

    /// Starts an agent, or waits for the start that is under way.
    pub(super) async fn start_or_join(&self, name: &Name) -> Result<(), EngineError> {
        match self.start(name.as_str()).await {
            Ok(_) => Ok(()),
            Err(EngineError::Refused {
                refusal:
                    Refusal::AlreadyRunning {
                        status: Status::Starting | Status::Running,
                    },
                ..
            }) => self.wait_until_started(name).await,
            Err(error) => Err(error),
        }
    }

    async fn give_back(&self, name: &Name, own: Option<&str>) {
        let leave = async {
            if let Some(left) = self.borrowers().leave(name, own, self.sessions()) {
                self.stop_unless_used(name, &left).await;
            }
        };
        self.alone(name, leave).await;
    }

    /// Ends an agent that nobody borrows any more. Somebody else may have found it running and be in a session with it,
    /// none of those that were `left`: then it stays.
    async fn stop_unless_used(&self, name: &Name, left: &BTreeSet<String>) {
        let sessions = self.sessions().list(Some(name.as_str()));
        let mut others = sessions
            .iter()
            .filter(|session| !left.contains(&session.session_id));
        if others.any(|session| session.clients > 0 || session.busy) {
            return;
        }
        let _ = self.stop(name.as_str()).await; // A failure is in the agent's status.
    }
}

impl Loan {
    /// Says for which session it was borrowed, which is not one of others who use the agent.
    pub fn is_for(&mut self, session: &str) {
        self.own = Some(session.to_owned());
    }

    /// Ends the agent, if nobody else needs it.
    pub async fn give_back(mut self) {
        if let Some(name) = self.name.take() {
            self.engine.give_back(&name, self.own.as_deref()).await;
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        let (engine, own) = (self.engine.clone(), self.own.take());
        self.engine
            .tasks()
            .spawn(|_| async move { engine.give_back(&name, own.as_deref()).await });
    }
}
