//! What is kept of a task, and the register of those that live and those that are over.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::{
    Trace,
    turn::{AskId, AskKind, Standing, TurnId},
};
use engine::{Caller, Rights};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use wire::a2a::{Message, Task, TaskState};

use crate::{clock, error::Refusal, feed::Feed};

/// The kind of a task's document.
pub(crate) const TASK_KIND: &str = "a2a-task";

/// Tasks that are not over, at most: each holds a session and a place in memory.
pub(crate) const LIVE_MAX: usize = 4096;

/// What was said to all of them, in bytes: a client may send large messages, and not as many as there may be tasks.
const LIVE_WEIGHT_MAX: usize = 256 * 1024 * 1024;

/// Tasks that `ListTasks` knows of; older ones can still be asked for by their id.
const INDEX_MAX: usize = 20_000;

/// A task as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskRecord {
    pub(crate) task: Task,
    pub(crate) agent: String,
    /// Whose it is.
    pub(crate) caller: String,
    #[serde(default)]
    pub(crate) session: Option<String>,
    #[serde(default)]
    pub(crate) turn: Option<TurnId>,
    /// An event number before the turn's begin.
    #[serde(default)]
    pub(crate) from_seq: u64,
    #[serde(default)]
    pub(crate) ask: Option<OpenAsk>,
    /// An answer to a turn that is gone, for when the agent asks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) standing: Option<Standing>,
    /// What the request that began it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<Trace>,
    /// Which nodes have called one another until here, this one the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) chain: Vec<String>,
}

/// What the task waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenAsk {
    pub(crate) id: AskId,
    pub(crate) kind: AskKind,
}

/// A task that is not over.
#[derive(Debug)]
pub(crate) struct LiveTask {
    pub(crate) feed: Arc<Feed>,
    pub(crate) inbox: mpsc::Sender<Letter>,
    /// About how many bytes its first message has.
    pub(crate) weight: usize,
}

/// What is asked of a task that lives.
#[derive(Debug)]
pub(crate) enum Letter {
    Message {
        message: Box<Message>,
        reply: oneshot::Sender<Result<(), Refusal>>,
    },
    Cancel,
}

/// What is known of a task without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) agent: String,
    pub(crate) caller: String,
    pub(crate) context: String,
    pub(crate) state: TaskState,
    /// Since when it is in that state, in milliseconds since the Unix epoch.
    pub(crate) at: i64,
}

impl Entry {
    pub(crate) fn of(record: &TaskRecord) -> Self {
        let status = &record.task.status;
        let at = status.timestamp.as_deref().and_then(clock::parse);
        Self {
            agent: record.agent.clone(),
            caller: record.caller.clone(),
            context: record.task.context_id.clone(),
            state: status.state,
            at: at.map_or(0, |at| at.0),
        }
    }

    /// Whether the caller may know of it: it is theirs, or everything is.
    pub(crate) fn is_of(&self, caller: &Caller) -> bool {
        self.caller == caller.name || caller.rights == Rights::All
    }
}

/// Every task of the node.
#[derive(Debug, Default)]
pub(crate) struct Register {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    live: BTreeMap<String, Arc<LiveTask>>,
    live_weight: usize,
    entries: BTreeMap<String, Entry>,
    /// The same, by time.
    by_time: BTreeSet<(i64, String)>,
}

impl Register {
    /// Takes in a task that is not over, unless there are too many.
    pub(crate) fn insert(&self, id: &str, live: LiveTask, entry: Entry) -> Result<(), Refusal> {
        let mut inner = self.lock();
        if inner.live.len() >= LIVE_MAX {
            let words = format!("{LIVE_MAX} tasks are in progress; try again later");
            return Err(Refusal::busy(words));
        }
        if inner.live_weight + live.weight > LIVE_WEIGHT_MAX {
            let words =
                "the tasks in progress take all the memory there is for them; try again later";
            return Err(Refusal::busy(words));
        }
        inner.live_weight += live.weight;
        inner.live.insert(id.to_owned(), Arc::new(live));
        inner.note(id, entry);
        Ok(())
    }

    pub(crate) fn live(&self, id: &str) -> Option<Arc<LiveTask>> {
        self.lock().live.get(id).cloned()
    }

    /// A task is as `entry` says.
    pub(crate) fn note(&self, id: &str, entry: Entry) {
        self.lock().note(id, entry);
    }

    /// The same for one of which the store tells; whoever lives knows better.
    pub(crate) fn note_unless_known(&self, id: &str, entry: Entry) {
        let mut inner = self.lock();
        if !inner.entries.contains_key(id) {
            inner.note(id, entry);
        }
    }

    /// A task is over, or was never begun.
    pub(crate) fn retire(&self, id: &str) {
        self.lock().retire(id);
    }

    /// A task that was never begun is forgotten.
    pub(crate) fn forget(&self, id: &str) {
        let mut inner = self.lock();
        inner.retire(id);
        if let Some(entry) = inner.entries.remove(id) {
            inner.by_time.remove(&(entry.at, id.to_owned()));
        }
    }

    pub(crate) fn entry(&self, id: &str) -> Option<Entry> {
        self.lock().entries.get(id).cloned()
    }

    /// Ids of the tasks that `wanted` picks, the latest first, with the moment each came to its state.
    pub(crate) fn pick(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<(i64, String)> {
        let inner = self.lock();
        inner
            .by_time
            .iter()
            .rev()
            .filter(|(_, id)| inner.entries.get(id).is_some_and(&wanted))
            .cloned()
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn retire(&mut self, id: &str) {
        if let Some(live) = self.live.remove(id) {
            self.live_weight -= live.weight;
        }
    }

    fn note(&mut self, id: &str, entry: Entry) {
        let at = entry.at;
        if let Some(old) = self.entries.insert(id.to_owned(), entry) {
            self.by_time.remove(&(old.at, id.to_owned()));
        }
        self.by_time.insert((at, id.to_owned()));
        while self.by_time.len() > INDEX_MAX {
            let Some((_, oldest)) = self.by_time.pop_first() else {
                break;
            };
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: i64, state: TaskState) -> Entry {
        Entry {
            agent: "a".to_owned(),
            caller: "me".to_owned(),
            context: "c".to_owned(),
            state,
            at,
        }
    }

    #[test]
    fn tasks_are_found_by_what_they_are_the_latest_first() {
        let register = Register::default();
        register.note("one", entry(1, TaskState::Working));
        register.note("two", entry(2, TaskState::Completed));
        register.note("one", entry(3, TaskState::Completed));
        let all: Vec<_> = register.pick(|_| true);
        assert_eq!(all, [(3, "one".to_owned()), (2, "two".to_owned())]);
        assert!(register.pick(|e| e.state == TaskState::Working).is_empty());
    }

    #[test]
    fn the_oldest_leave_the_index_first() {
        let register = Register::default();
        for at in 0..=INDEX_MAX {
            let at = i64::try_from(at).unwrap();
            register.note(&format!("t{at}"), entry(at, TaskState::Completed));
        }
        assert_eq!(register.entry("t0"), None);
        assert!(register.entry("t1").is_some());
    }

    #[test]
    fn tasks_in_progress_are_as_many_and_as_heavy_as_there_is_room_for() {
        let register = Register::default();
        let insert = |id: &str, weight| {
            let task = Task {
                id: id.to_owned(),
                context_id: String::new(),
                status: wire::a2a::TaskStatus {
                    state: TaskState::Submitted,
                    message: None,
                    timestamp: None,
                },
                artifacts: Vec::new(),
                history: Vec::new(),
                metadata: None,
            };
            let live = LiveTask {
                feed: Feed::new(task),
                inbox: mpsc::channel(1).0,
                weight,
            };
            register.insert(id, live, entry(1, TaskState::Submitted))
        };
        insert("heavy", LIVE_WEIGHT_MAX).unwrap();
        assert_eq!(insert("more", 1).unwrap_err().status(), 503);
        assert_eq!(register.entry("more"), None);
        register.retire("heavy");
        register.retire("heavy");
        for number in 0..LIVE_MAX {
            insert(&number.to_string(), 1).unwrap();
        }
        assert_eq!(insert("one too many", 1).unwrap_err().status(), 503);
        register.forget("0");
        insert("again", 1).unwrap();
    }

    #[test]
    fn a_task_is_seen_by_its_caller_and_by_the_owner_of_the_node() {
        let entry = entry(1, TaskState::Working);
        let caller = |name: &str| Caller {
            name: name.to_owned(),
            rights: Rights::Only(BTreeSet::new()),
        };
        assert!(entry.is_of(&caller("me")));
        assert!(!entry.is_of(&caller("you")));
        assert!(entry.is_of(&Caller::owner()));
    }
}
