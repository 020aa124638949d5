//! Slow steps of a delegation: each is a task that can be stopped, and stopping returns when it has ended.

use platform::Tasks;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The slow step that runs now, if any.
#[derive(Debug, Default)]
pub(crate) struct Step {
    running: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Step {
    /// Begins a step in the place of the one before, which has ended by then.
    pub(crate) fn begin<F>(&mut self, tasks: &Tasks, step: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = tasks.stop().child_token();
        let work = step(stop.clone());
        let handle = tasks.spawn(|_| work);
        self.running = Some((stop, handle));
    }

    /// Ends the step and waits for it.
    pub(crate) async fn stop(&mut self) {
        if let Some((stop, handle)) = self.running.take() {
            stop.cancel();
            let _ = handle.await; // Whether it panicked or not, it has ended.
        }
    }
}
