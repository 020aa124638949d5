//! How far a call is, on its way from the server that works on it to whoever waits.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use wire::smcp::{CallProgress, Progress};

/// Hears how far a call is; it is called where events are read, so it must not wait.
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(Progress) + Send + Sync>);

impl Listener {
    pub fn new(hear: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    pub fn hear(&self, progress: Progress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

/// Who waits for news of which call of an agent; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners(Arc<Mutex<HashMap<String, (String, Listener)>>>);

/// One who listens, until this is dropped.
pub(crate) struct Listening {
    listeners: Listeners,
    request: String,
}

impl Listeners {
    pub(crate) fn add(&self, request: &str, computer: &str, listener: Listener) -> Listening {
        self.book()
            .insert(request.to_owned(), (computer.to_owned(), listener));
        Listening {
            listeners: self.clone(),
            request: request.to_owned(),
        }
    }

    /// Only the computer that was asked is listened to.
    pub(crate) fn tell(&self, said: CallProgress) {
        let found = self.book().get(&said.req_id).cloned();
        if let Some((computer, listener)) = found
            && said.computer.as_ref() == Some(&computer)
        {
            listener.hear(said.progress);
        }
    }

    fn book(&self) -> MutexGuard<'_, HashMap<String, (String, Listener)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.listeners.book().remove(&self.request);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn only_the_computer_that_was_asked_is_heard_and_only_while_its_call_lasts() {
        let heard = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&heard);
        let listener = Listener::new(move |_| {
            counting.fetch_add(1, Ordering::SeqCst);
        });
        let listeners = Listeners::default();
        let listening = listeners.add("r1", "nova", listener);
        let say = |request: &str, computer: Option<&str>| {
            listeners.tell(CallProgress {
                req_id: request.to_owned(),
                computer: computer.map(str::to_owned),
                progress: Progress {
                    progress: 1.0,
                    total: None,
                    message: None,
                },
            });
        };
        say("r1", Some("nova"));
        say("r1", Some("mallory"));
        say("r1", None);
        say("r2", Some("nova"));
        drop(listening);
        say("r1", Some("nova"));
        assert_eq!(heard.load(Ordering::SeqCst), 1);
    }
}
