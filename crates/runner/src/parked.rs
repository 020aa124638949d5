//! A run that waits for words between two turns: nobody drives it, and it still hears that it shall be cancelled.

use platform::Tasks;
use tokio::sync::oneshot;

use crate::execution::Execution;

/// Gives the run back to whoever has something to say.
#[derive(Debug)]
pub(crate) struct Parked {
    wish: oneshot::Sender<oneshot::Sender<Execution>>,
}

impl Parked {
    pub(crate) fn new(execution: Execution, tasks: &Tasks) -> Self {
        let (wish, wished) = oneshot::channel::<oneshot::Sender<Execution>>();
        tasks.spawn(|ending| async move {
            tokio::select! { biased;
                wished = wished => {
                    if let Ok(to) = wished {
                        let _ = to.send(execution); // The turn was dropped; the run is as it was written down.
                    }
                }
                () = ending.cancelled() => {} // As above.
                () = execution.cancel_asked() => execution.abandon().await,
            }
        });
        Self { wish }
    }

    /// Nothing, if it was cancelled meanwhile.
    pub(crate) async fn take(self) -> Option<Execution> {
        let (to, given) = oneshot::channel();
        self.wish.send(to).ok()?;
        given.await.ok()
    }
}
