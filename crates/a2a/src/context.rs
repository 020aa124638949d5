//! Contexts: what a client calls a conversation is a session here, with one task of it at work at a time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use engine::{EngineError, Keep, Records};
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
    records: Records,
}

#[derive(Debug, Serialize, Deserialize)]
struct ContextRecord {
    session: String,
}

impl Context {
    /// Waits until no other task of the context is at work.
    pub(crate) async fn turn(&self) -> OwnedSemaphorePermit {
        let permit = self.turn.clone().acquire_owned().await;
        permit.expect("the semaphore is never closed")
    }

    pub(crate) fn session(&self) -> Option<String> {
        self.lock().clone()
    }

    /// The conversation goes on in this session, also after a restart.
    pub(crate) async fn keep_session(&self, session: &str) -> Result<(), EngineError> {
        let record = ContextRecord {
            session: session.to_owned(),
        };
        let id = self.key.id();
        self.records
            .put(CONTEXT_KIND, &id, Keep::Finished, &record, None)
            .await?;
        *self.lock() = Some(session.to_owned());
        Ok(())
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
            // One reference is the map's, each task at work or waiting has another.
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
            records: records.clone(),
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
