//! Agents that are started only for the runs that need them: the last one to end stops what was started.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use domain::{Name, lifecycle::Refusal};
use engine::EngineError;
use tokio::sync::Semaphore;

use crate::{error::RunsError, node::Runs};

/// How many runs need each agent that was started for them.
#[derive(Debug)]
pub(crate) struct Lent {
    counts: Mutex<HashMap<Name, usize>>,
    /// One start at a time, so that two runs do not both start an agent.
    gate: Semaphore,
}

impl Default for Lent {
    fn default() -> Self {
        Self {
            counts: Mutex::default(),
            gate: Semaphore::new(1),
        }
    }
}

impl Lent {
    fn counts(&self) -> MutexGuard<'_, HashMap<Name, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more run if the agent was started for runs.
    fn join(&self, agent: &Name) -> bool {
        let mut counts = self.counts();
        let count = counts.get_mut(agent);
        count.map(|count| *count += 1).is_some()
    }

    /// Says whether that was the last one.
    fn leave(&self, agent: &Name) -> bool {
        let mut counts = self.counts();
        let Some(count) = counts.get_mut(agent) else {
            return false;
        };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            counts.remove(agent);
        }
        is_last
    }
}

/// An agent that runs for us until this is dropped.
#[derive(Debug)]
pub(crate) struct Loan {
    runs: Runs,
    agent: Name,
}

impl Runs {
    /// Joins those for whom the agent was started, if it was.
    pub(crate) fn join_loan(&self, agent: &Name) -> Option<Loan> {
        self.lent().join(agent).then(|| self.loan(agent))
    }

    /// Starts an agent that does not run; nothing is lent if somebody else has started it meanwhile.
    pub(crate) async fn lend(&self, agent: &Name) -> Result<Option<Loan>, RunsError> {
        let gate = self.lent().gate.acquire().await;
        let _gate = gate.expect("the gate is never closed");
        if let Some(loan) = self.join_loan(agent) {
            return Ok(Some(loan));
        }
        match self.engine().start(agent.as_str()).await {
            Ok(_) => {}
            // It is theirs to stop.
            Err(EngineError::Refused {
                refusal: Refusal::AlreadyRunning { .. },
                ..
            }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        self.lent().counts().insert(agent.clone(), 1);
        Ok(Some(self.loan(agent)))
    }

    fn loan(&self, agent: &Name) -> Loan {
        Loan {
            runs: self.clone(),
            agent: agent.clone(),
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if self.runs.lent().leave(&self.agent) {
            let (runs, agent) = (self.runs.clone(), self.agent.clone());
            self.runs.tasks().spawn(|_| async move {
                let _ = runs.engine().stop(agent.as_str()).await; // A failure is in the agent's status.
            });
        }
    }
}
