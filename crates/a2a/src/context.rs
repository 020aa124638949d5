//! Contexts: what a client calls a conversation is a session here, with one task of it at work at a time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use engine::{Batch, EngineError, Keep, Records};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Refusal;

const CONTEXT_KIND: &str = "a2a-context";

/// Tasks of one context that may wait for their turn: a client that queues more does not listen.
const WAITING_MAX: usize = 32;

/// Contexts remembered without a task at work; the store knows the others.
const IDLE_MAX: usize = 1024;

/// Whose conversation with whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ContextKey {
    pub(crate) caller: String,
    pub(crate) agent: String,
    pub(crate) context: String,
}

impl ContextKey {
    fn id(&self) -> String {
        format!("{}\n{}\n{}", self.caller, self.agent, self.context)
    }
}

/// One conversation.
#[derive(Debug)]
pub(crate) struct Context {
    key: ContextKey,
    turn: Arc<Semaphore>,
    session: Mutex<Option<String>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ContextRecord {
    session: String,
}

impl Context {
    /// Waits until no other task of the context is at work. Nothing else of it is held meanwhile: tasks are counted by who
    /// holds their context.
    pub(crate) fn turn(&self) -> impl Future<Output = OwnedSemaphorePermit> + use<> {
        let turn = self.turn.clone();
        async move {
            let permit = turn.acquire_owned().await;
            permit.expect("the semaphore is never closed")
        }
    }

    pub(crate) fn session(&self) -> Option<String> {
        self.lock().clone()
    }

    /// Once the batch is written, the conversation goes on in this session also after a restart.
    pub(crate) fn keep_session(&self, session: &str, batch: &mut Batch) -> Result<(), EngineError> {
        let session = session.to_owned();
        let record = ContextRecord { session };
        batch.put(CONTEXT_KIND, &self.key.id(), Keep::Finished, &record)
    }

    /// The conversation goes on in this session.
    pub(crate) fn goes_on_in(&self, session: &str) {
        *self.lock() = Some(session.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every context that is in use, and a few that are not.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    known: Mutex<BTreeMap<ContextKey, Arc<Context>>>,
}

impl Contexts {
    /// The context, from memory, from the store, or new. Refuses one in which too many tasks wait.
    pub(crate) async fn get(
        &self,
        key: ContextKey,
        records: &Records,
    ) -> Result<Arc<Context>, Refusal> {
        if let Some(known) = self.lock().get(&key) {
            // One reference is the map's, each task has another: one that is at work, and those that wait.
            if Arc::strong_count(known) > WAITING_MAX + 1 {
                let words = format!("{WAITING_MAX} tasks of this context are waiting already");
                return Err(Refusal::busy(words));
            }
            return Ok(known.clone());
        }
        let stored = records
            .get::<ContextRecord>(CONTEXT_KIND, &key.id())
            .await?;
        let context = Arc::new(Context {
            key: key.clone(),
            turn: Arc::new(Semaphore::new(1)),
            session: Mutex::new(stored.map(|stored| stored.value.session)),
        });
        let mut known = self.lock();
        if known.len() > IDLE_MAX {
            known.retain(|_, context| Arc::strong_count(context) > 1);
        }
        Ok(known.entry(key).or_insert(context).clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContextKey, Arc<Context>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
