//! A task as it is now, and the updates that led there: any number of followers read it at their own pace.
//!
//! A follower is a number, not a queue. One that has fallen out of the window is given the whole task and goes on from there.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;
use wire::a2a::{Artifact, ArtifactUpdate, StatusUpdate, StreamResponse, Task};

/// Updates kept for followers, in bytes: a few seconds of a fast agent. The task itself has everything.
const WINDOW_MAX: usize = 256 * 1024;

/// What every update costs beside its text.
const UPDATE_WEIGHT: usize = 256;

/// The most a task's artifacts hold. What comes after is said to be missing, so that one task cannot fill the memory.
pub(crate) const ARTIFACTS_MAX: usize = 8 * 1024 * 1024;

/// One task and its latest updates.
#[derive(Debug)]
pub(crate) struct Feed {
    inner: Mutex<Inner>,
    /// The number of the next update, and whether there will be one.
    head: watch::Sender<Head>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    next: u64,
    /// The task has ended.
    over: bool,
    /// It has ended, or waits for its client.
    settled: bool,
}

#[derive(Debug)]
struct Inner {
    task: Arc<Task>,
    window: VecDeque<(Arc<StreamResponse>, usize)>,
    window_weight: usize,
    artifacts_weight: usize,
    is_full: bool,
    /// The number of the next update.
    next: u64,
}

/// Whether an update was taken in whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Whole,
    /// The task is full; the update was left out.
    Not,
}

impl Feed {
    pub(crate) fn new(task: Task) -> Arc<Self> {
        let head = Head::of(0, &task);
        Arc::new(Self {
            inner: Mutex::new(Inner {
                artifacts_weight: task.artifacts.iter().map(Artifact::weight).sum(),
                is_full: false,
                task: Arc::new(task),
                window: VecDeque::new(),
                window_weight: 0,
                next: 0,
            }),
            head: watch::Sender::new(head),
        })
    }

    /// The task as it is now.
    pub(crate) fn task(&self) -> Arc<Task> {
        self.lock().task.clone()
    }

    /// Changes the task without telling followers: for what they get with the next update.
    pub(crate) fn amend(&self, change: impl FnOnce(&mut Task)) {
        let mut inner = self.lock();
        change(Arc::make_mut(&mut inner.task));
    }

    pub(crate) fn status(&self, update: StatusUpdate) {
        let mut inner = self.lock();
        Arc::make_mut(&mut inner.task).status = update.status.clone();
        let said = update.status.message.as_ref();
        let weight = said.map_or(0, |said| said.parts.iter().map(|part| part.weight()).sum());
        self.publish(inner, StreamResponse::StatusUpdate(update), weight);
    }

    pub(crate) fn artifact(&self, update: ArtifactUpdate) -> Taken {
        let mut inner = self.lock();
        let is_it = |known: &&Artifact| known.artifact_id == update.artifact.artifact_id;
        let (lost, gained) = match inner.task.artifacts.iter().find(is_it) {
            Some(known) if update.append => (0, known.growth(&update.artifact)),
            Some(known) => (known.weight(), update.artifact.weight()),
            None => (0, update.artifact.weight()),
        };
        let weight = inner.artifacts_weight.saturating_sub(lost) + gained;
        // After the first thing that was left out, smaller ones would hide the hole.
        inner.is_full |= weight > ARTIFACTS_MAX;
        if inner.is_full {
            return Taken::Not;
        }
        inner.artifacts_weight = weight;
        let artifacts = &mut Arc::make_mut(&mut inner.task).artifacts;
        let known = artifacts
            .iter_mut()
            .find(|known| known.artifact_id == update.artifact.artifact_id);
        match known {
            Some(known) if update.append => known.extend(&update.artifact),
            Some(known) => *known = update.artifact.clone(),
            None => artifacts.push(update.artifact.clone()),
        }
        self.publish(inner, StreamResponse::ArtifactUpdate(update), gained);
        Taken::Whole
    }

    /// Waits until the task is over or waits for its client.
    pub(crate) async fn settled(&self) -> Arc<Task> {
        let mut head = self.head.subscribe();
        let _ = head.wait_for(|head| head.settled).await; // The sender is ours, so it cannot be gone.
        self.task()
    }

    /// Waits until the task is over.
    pub(crate) async fn over(&self) -> Arc<Task> {
        let mut head = self.head.subscribe();
        let _ = head.wait_for(|head| head.over).await; // As above.
        self.task()
    }

    pub(crate) fn follow(self: &Arc<Self>) -> Follower {
        Follower {
            feed: self.clone(),
            next: None,
        }
    }

    fn publish(&self, mut inner: MutexGuard<'_, Inner>, update: StreamResponse, weight: usize) {
        let weight = weight + UPDATE_WEIGHT;
        inner.window.push_back((Arc::new(update), weight));
        inner.window_weight += weight;
        inner.next += 1;
        while inner.window_weight > WINDOW_MAX && inner.window.len() > 1 {
            let Some((_, weight)) = inner.window.pop_front() else {
                break;
            };
            inner.window_weight -= weight;
        }
        // Under the lock, so that the newest head is the last to be sent. Whoever waits for a head looks at nothing
        // else: it holds the head while it looks, and taking the lock then would wait for this very line.
        self.head.send_replace(Head::of(inner.next, &inner.task));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Head {
    fn of(next: u64, task: &Task) -> Self {
        let over = task.status.state.is_terminal();
        Self {
            next,
            over,
            settled: over || task.status.state.is_interrupted(),
        }
    }
}

/// A place in a feed. The first thing it gives is the whole task.
#[derive(Debug)]
pub(crate) struct Follower {
    feed: Arc<Feed>,
    next: Option<u64>,
}

impl Follower {
    /// The next update, or nothing once the task is over. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<Arc<StreamResponse>> {
        loop {
            if let Some(update) = self.try_next() {
                return Some(update);
            }
            let seen = self.next.unwrap_or_default();
            if self.feed.task().status.state.is_terminal() {
                return self.try_next(); // The last update may have come between the two looks.
            }
            let mut head = self.feed.head.subscribe();
            let _ = head.wait_for(|head| head.next > seen).await; // As above.
        }
    }

    /// The next update if there is one already.
    pub(crate) fn try_next(&mut self) -> Option<Arc<StreamResponse>> {
        let inner = self.feed.lock();
        let first = inner.next - inner.window.len() as u64;
        match self.next {
            Some(next) if next >= inner.next => None,
            Some(next) if next >= first => {
                self.next = Some(next + 1);
                let index = usize::try_from(next - first).unwrap_or(usize::MAX);
                inner.window.get(index).map(|(update, _)| update.clone())
            }
            // At the begin, or after falling behind.
            Some(_) | None => {
                self.next = Some(inner.next);
                let task = Task::clone(&inner.task);
                Some(Arc::new(StreamResponse::Task(task)))
            }
        }
    }

    /// The task as it is now.
    pub(crate) fn task(&self) -> Arc<Task> {
        self.feed.task()
    }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
