//! Questions to whoever sits at the terminal, one after the other.

use std::{io, sync::Arc};

use platform::Tasks;
use rustix::{
    stdio::stdin,
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr},
};
use tokio::sync::Semaphore;

use crate::render::{Colors, Screen};

/// A terminal with somebody in front of it.
#[derive(Debug, Clone)]
pub(crate) struct Asking(Arc<Semaphore>);

/// Whether what is typed is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Typing {
    Shown,
    Hidden,
}

impl Asking {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Whether the person agrees.
    pub(crate) async fn agreed(&self, question: String) -> bool {
        let asked = self.ask(move |screen| screen.confirm(&question));
        asked.await.unwrap_or(false)
    }

    /// What the person types; nothing if there is no more to read.
    pub(crate) async fn line(&self, question: String, typing: Typing) -> Option<String> {
        // It is here and not in the thread that reads, so that the terminal is right again even if nobody answers.
        let _hushed = match typing {
            Typing::Hidden => Some(Hushed::begin().ok()?),
            Typing::Shown => None,
        };
        let asked = self.ask(move |screen| screen.ask(&question));
        asked.await.flatten()
    }

    /// An answer that comes after its question is over still ends that question, and no other.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Screen) -> io::Result<T> + Send + 'static,
    ) -> Option<T> {
        let place = self.0.clone().acquire_owned().await.ok()?;
        let answering = Tasks::new().spawn_blocking(move |_| {
            let _place = place;
            question(&mut Screen::of_process(Colors::Never))
        });
        answering.await.ok()?.ok()
    }
}

/// The terminal does not show what is typed, until this is dropped.
struct Hushed(Termios);

impl Hushed {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut hushed = before.clone();
        hushed.local_modes.remove(LocalModes::ECHO);
        hushed.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(stdin(), OptionalActions::Now, &hushed)?;
        Ok(Self(before))
    }
}

impl Drop for Hushed {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0); // The terminal is gone.
    }
}
