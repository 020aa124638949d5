//! Whoever reads what a run prints, and that they have gone away before it prints again.

use std::{
    io::{self, IsTerminal},
    os::fd::AsFd,
};

use tokio::{io::Interest, net::unix::pipe};

/// The other end of the standard output.
#[derive(Debug)]
pub(super) struct Reader {
    /// None where nobody leaves without a signal: a file, a terminal.
    pipe: Option<pipe::Sender>,
}

impl Reader {
    /// Needs the runtime.
    pub(super) fn of_stdout() -> Self {
        let stdout = io::stdout();
        let pipe = match stdout.is_terminal() {
            true => None,
            // The system refuses to watch a file.
            false => watched(&stdout).ok(),
        };
        Self { pipe }
    }

    /// Resolves when nobody reads any more. Cancel-safe.
    pub(super) async fn left(&self) {
        if let Some(pipe) = &self.pipe
            && let Ok(ready) = pipe.ready(Interest::ERROR).await
            && ready.is_error()
        {
            return;
        }
        // There is nobody who could leave, or the runtime is going away and the caller with it.
        std::future::pending::<()>().await;
    }
}

/// Nothing is written through it, so that it may block as before.
fn watched(stdout: &impl AsFd) -> io::Result<pipe::Sender> {
    pipe::Sender::from_owned_fd_unchecked(stdout.as_fd().try_clone_to_owned()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_the_reader_is_heard_without_writing() {
        let (reader, writer) = io::pipe().unwrap();
        let waiting = Reader {
            pipe: watched(&writer).ok(),
        };
        let left = tokio::spawn(async move { waiting.left().await });
        tokio::task::yield_now().await;
        assert!(!left.is_finished());
        drop(reader);
        left.await.unwrap();
    }
}
