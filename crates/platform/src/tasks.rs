//! The tracker of every task and the tree of cancellation tokens: nothing is spawned around it.
//!
//! A node's `drain` waits for the tasks of its whole subtree, because each task also holds a place in the
//! trackers of all the nodes above its own.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

/// A node of the tree. Clones are the same node.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    above: Vec<TaskTracker>,
    stop: CancellationToken,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Drained {
    Clean,
    /// This many tasks were still running when the grace was over.
    Stuck(usize),
}

impl Tasks {
    /// The root of a new tree.
    pub fn new() -> Tasks {
        Tasks::default()
    }

    /// A subtree: cancelled with this node, or alone.
    pub fn child(&self) -> Tasks {
        let mut above = self.above.clone();
        above.push(self.tracker.clone());
        Tasks {
            tracker: TaskTracker::new(),
            above,
            stop: self.stop.child_token(),
        }
    }

    /// Starts a task. It gets this node's token and must end soon after that is cancelled.
    pub fn spawn<F, T>(&self, task: impl FnOnce(CancellationToken) -> F) -> JoinHandle<T>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let places = self.places_above();
        let future = task(self.stop.clone());
        self.tracker.spawn(async move {
            let _places = places;
            future.await
        })
    }

    /// As `spawn`, but the task is aborted when the handle is dropped: for tasks that must not outlive their owner.
    pub fn spawn_owned<F, T>(
        &self,
        task: impl FnOnce(CancellationToken) -> F,
    ) -> AbortOnDropHandle<T>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        AbortOnDropHandle::new(self.spawn(task))
    }

    /// Runs blocking work on the threads kept for it. It cannot be aborted, so it must be short or look at the token.
    pub fn spawn_blocking<T>(
        &self,
        work: impl FnOnce(CancellationToken) -> T + Send + 'static,
    ) -> JoinHandle<T>
    where
        T: Send + 'static,
    {
        let places = self.places_above();
        let stop = self.stop.clone();
        self.tracker.spawn_blocking(move || {
            let _places = places;
            work(stop)
        })
    }

    /// The token of this node.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Asks every task of the subtree to end.
    pub fn cancel(&self) {
        self.stop.cancel();
    }

    /// How many tasks of the subtree run now.
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Cancels the subtree and waits until its tasks have ended, at most for the grace.
    pub async fn drain(&self, grace: Duration) -> Drained {
        self.cancel();
        self.tracker.close();
        match tokio::time::timeout(grace, self.tracker.wait()).await {
            Ok(()) => Drained::Clean,
            Err(_) => match self.tracker.len() {
                0 => Drained::Clean,
                stuck => Drained::Stuck(stuck),
            },
        }
    }

    fn places_above(&self) -> Vec<tokio_util::task::task_tracker::TaskTrackerToken> {
        self.above.iter().map(TaskTracker::token).collect()
    }
}

/// Does something that blocks for a moment right here, while other tasks go on in other threads. It begins at once and its
/// result is there at once, where [`Tasks::spawn_blocking`] changes threads twice; for what takes less than that.
pub fn block_here<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // Nobody could go on meanwhile.
        Ok(_) | Err(_) => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn cancelling_a_child_leaves_the_parent_running() {
        let root = Tasks::new();
        let child = root.child();
        let ended = child.spawn(|stop| async move { stop.cancelled().await });
        let kept = root.spawn(|stop| async move { stop.cancelled().await });
        assert_eq!(child.drain(GRACE).await, Drained::Clean);
        ended.await.unwrap();
        assert!(!kept.is_finished());
        assert_eq!(root.drain(GRACE).await, Drained::Clean);
    }

    #[tokio::test]
    async fn draining_the_root_waits_for_grandchildren() {
        let root = Tasks::new();
        let grandchild = root.child().child();
        let task = grandchild.spawn(|stop| async move { stop.cancelled().await });
        assert_eq!(root.running(), 1);
        assert_eq!(root.drain(GRACE).await, Drained::Clean);
        assert!(task.is_finished());
    }

    #[tokio::test]
    async fn a_task_that_ignores_its_token_is_counted_as_stuck() {
        let root = Tasks::new();
        let handle = root
            .child()
            .spawn_owned(|_| async { std::future::pending::<()>().await });
        assert_eq!(root.drain(Duration::ZERO).await, Drained::Stuck(1));
        drop(handle);
        assert_eq!(root.drain(GRACE).await, Drained::Clean);
    }

    #[tokio::test]
    async fn blocking_work_is_drained_too() {
        let root = Tasks::new();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let work = root.spawn_blocking(move |_| released.recv());
        assert_eq!(root.drain(Duration::ZERO).await, Drained::Stuck(1));
        release.send(()).unwrap();
        assert_eq!(root.drain(GRACE).await, Drained::Clean);
        work.await.unwrap().unwrap();
    }
}
