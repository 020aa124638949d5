//! The sessions that have a task, and the one rule by which a session that nobody uses gives its task up.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::handle::Handle;
use crate::EventLog;

/// Who holds the log of a session that nobody looks at: its task, the task's sink, and the handle in here.
const OWN_HOLDERS: usize = 3;

/// Entries below which nobody looks for tasks that have ended.
const SWEEP_FROM: usize = 64;

/// Every session with a task, by id.
#[derive(Debug, Default)]
pub(super) struct Live {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    handles: BTreeMap<String, Handle>,
    /// How many there were after the last look for tasks that have ended.
    swept_to: usize,
}

impl Live {
    pub(super) fn get(&self, id: &str) -> Option<Handle> {
        let entries = self.lock();
        let handle = entries.handles.get(id);
        handle.filter(|handle| handle.has_task()).cloned()
    }

    pub(super) fn all(&self) -> Vec<Handle> {
        let entries = self.lock();
        let handles = entries.handles.values();
        handles
            .filter(|handle| handle.has_task())
            .cloned()
            .collect()
    }

    pub(super) fn insert(&self, id: String, handle: Handle) {
        let mut entries = self.lock();
        entries.handles.insert(id, handle);
        // Looking only when the number has doubled keeps the price of a session the same however many there are.
        if entries.handles.len() > SWEEP_FROM.max(2 * entries.swept_to) {
            entries.handles.retain(|_, handle| handle.has_task());
            entries.swept_to = entries.handles.len();
        }
    }

    pub(super) fn remove(&self, id: &str) {
        self.lock().handles.remove(id);
    }

    /// Takes a session out if nobody but its own task holds it. Whoever comes later does not find it here, and whoever
    /// has found it before is counted, so nobody is left with a session whose task is gone.
    pub(super) fn rest(
        &self,
        id: &str,
        log: &Arc<EventLog>,
        is_asked: impl FnOnce() -> bool,
    ) -> bool {
        let mut entries = self.lock();
        if Arc::strong_count(log) > OWN_HOLDERS || is_asked() {
            return false;
        }
        entries.handles.remove(id).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
