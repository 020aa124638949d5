//! Callers whose runs are at work in one workspace at a time: what has changed there meanwhile may be another's.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use domain::Name;

/// Everybody who is at work. Clones are the same; as many as there are places for runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct AtWork(Arc<Mutex<Vec<Worker>>>);

#[derive(Debug)]
struct Worker {
    agent: Name,
    caller: String,
    is_shared: Arc<AtomicBool>,
}

/// A turn of a caller, until this is dropped.
#[derive(Debug)]
pub(crate) struct Presence {
    at_work: AtWork,
    is_shared: Arc<AtomicBool>,
}

impl AtWork {
    /// Somebody's turn begins; those of others that go on learn of it, and it of them.
    pub(crate) fn enter(&self, agent: &Name, caller: &str) -> Presence {
        let is_shared = Arc::new(AtomicBool::new(false));
        let mut workers = self.lock();
        let others = workers
            .iter()
            .filter(|other| other.agent == *agent && other.caller != caller);
        for other in others {
            other.is_shared.store(true, Ordering::Relaxed);
            is_shared.store(true, Ordering::Relaxed);
        }
        workers.push(Worker {
            agent: agent.clone(),
            caller: caller.to_owned(),
            is_shared: is_shared.clone(),
        });
        drop(workers);
        Presence {
            at_work: self.clone(),
            is_shared,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Worker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Presence {
    /// Whether somebody else was at work in the same workspace, at any moment since this began.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let ours = &self.is_shared;
        let mut workers = self.at_work.lock();
        workers.retain(|worker| !Arc::ptr_eq(&worker.is_shared, ours));
    }
}
