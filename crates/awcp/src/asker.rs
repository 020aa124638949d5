//! Whoever asked for a delegation and waits for it: one that leaves before its turn has come wants it no more. What is at work is
//! carried through.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{Create, DelegationError, Delegations};

/// How long an asker may take between the answer to one question and the next one. One that is ended leaves its open question,
/// so this is for those that are suspended for a while, as a terminal does it.
const ASKS_AGAIN_WITHIN: Duration = Duration::from_secs(10 * 60);

/// How many wait for which delegation. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Askers(Arc<Mutex<BTreeMap<String, usize>>>);

impl Askers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn come(&self, id: &str) {
        *self.lock().entry(id.to_owned()).or_default() += 1;
    }

    fn leave(&self, id: &str) {
        let mut waiting = self.lock();
        let left = waiting.get(id).copied().unwrap_or_default();
        match left {
            0 | 1 => drop(waiting.remove(id)),
            more => drop(waiting.insert(id.to_owned(), more - 1)),
        }
    }

    fn is_anybody(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }
}

/// One that waits. It has left when this is dropped without an answer.
pub(crate) struct Asker {
    delegations: Delegations,
    id: String,
    /// After which nobody is expected to ask again.
    patience: Duration,
}

impl Asker {
    /// Makes a delegation for one that waits for it. If they leave while it is made, it is taken back once it is there.
    pub(crate) async fn ask(
        delegations: &Delegations,
        create: Create,
    ) -> Result<Self, DelegationError> {
        let (reply, asked) = oneshot::channel();
        let ours = delegations.clone();
        delegations.node.tasks().spawn(|_| async move {
            let id = ours.create(create).await;
            let asker = id.map(|id| Self::of(&ours, &id.to_string()));
            let _ = reply.send(asker); // The asker that has left goes with it.
        });
        asked.await.unwrap_or(Err(DelegationError::ShuttingDown))
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn of(delegations: &Delegations, id: &str) -> Self {
        delegations.node.askers().come(id);
        Self {
            delegations: delegations.clone(),
            id: id.to_owned(),
            patience: Duration::ZERO,
        }
    }

    /// It has got an answer, and asks again if that was not the end.
    pub(crate) fn was_answered(mut self) {
        self.patience = ASKS_AGAIN_WITHIN;
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let (delegations, id, patience) = (
            self.delegations.clone(),
            std::mem::take(&mut self.id),
            self.patience,
        );
        delegations.node.askers().leave(&id);
        let tasks = delegations.node.tasks().clone();
        tasks.spawn(|stop| async move {
            if stop.run_until_cancelled(tokio::time::sleep(patience)).await.is_none()
                || delegations.node.askers().is_anybody(&id)
            {
                return;
            }
            if let Err(error) = delegations.cancel_waiting(&id).await {
                tracing::debug!(%id, %error, "a delegation that nobody wants any more was not taken back");
            }
        });
    }
}
