//! Work that blocks, on a thread of its own, and what is told when it comes to no end.

use domain::delegation::{Code, Failure};
use platform::Tasks;
use tokio::task::JoinError;

/// Does blocking work. A panic in it is told as a fault of ours, which it is, and not as a shutdown.
pub(crate) async fn blocking<T: Send + 'static>(
    tasks: &Tasks,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tasks.spawn_blocking(|_| work()).await;
    done.unwrap_or_else(|error| Err(not_done(&error)))
}

/// Why blocking work came to no end.
pub(crate) fn not_done(error: &JoinError) -> Failure {
    match error.is_panic() {
        true => Failure::with_hint(
            Code::TaskFailed,
            "a fault in this program ended the work",
            "the log of the node where it happened tells more",
        ),
        false => Failure::new(Code::TaskFailed, "the node is shutting down"),
    }
}
