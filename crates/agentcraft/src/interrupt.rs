//! Ctrl-C, for commands that have something to cancel first.
//!
//! Whoever listens counts the presses; when nobody does, one press ends the process, as if we had never listened.

use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

type Nudge = Box<dyn Fn() + Send>;

/// Presses of Ctrl-C since somebody began to listen. Dropping it ends the listening.
#[derive(Debug)]
pub(crate) struct Interrupts {
    presses: Arc<AtomicUsize>,
}

struct Listener {
    presses: Arc<AtomicUsize>,
    nudge: Nudge,
}

static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);
static THREAD: OnceLock<()> = OnceLock::new();

impl Interrupts {
    /// Begins to listen; `nudge` wakes the one who waits for something else. It must not block.
    pub(crate) fn listen(nudge: impl Fn() + Send + 'static) -> Self {
        let presses = Arc::new(AtomicUsize::new(0));
        *lock() = Some(Listener {
            presses: presses.clone(),
            nudge: Box::new(nudge),
        });
        THREAD.get_or_init(|| {
            let (ready, is_ready) = mpsc::channel();
            std::thread::spawn(move || wait(ready));
            let _ = is_ready.recv(); // It tells by being dropped: from here on a press is counted.
        });
        Self { presses }
    }

    /// Takes one press, if there was one.
    pub(crate) fn take(&self) -> bool {
        let taken = self
            .presses
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                count.checked_sub(1)
            });
        taken.is_ok()
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        let mut listener = lock();
        let ours = |listener: &Listener| Arc::ptr_eq(&listener.presses, &self.presses);
        if listener.as_ref().is_some_and(ours) {
            *listener = None;
        }
    }
}

fn lock() -> MutexGuard<'static, Option<Listener>> {
    LISTENER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for signals for the rest of the process, and drops `ready` once it does. Without a runtime for it, Ctrl-C keeps its
/// usual meaning.
fn wait(ready: mpsc::Sender<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let Ok(mut signals) = signal(SignalKind::interrupt()) else {
            return;
        };
        drop(ready);
        while signals.recv().await.is_some() {
            match &*lock() {
                Some(listener) => {
                    listener.presses.fetch_add(1, Ordering::Relaxed);
                    (listener.nudge)();
                }
                None => {
                    let _ = kill_process(getpid(), Signal::TERM); // There is nothing left to try.
                }
            }
        }
    });
}
