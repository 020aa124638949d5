//! What is said in a conversation of a run: a line of the terminal, which can be given up, or one of the standard input.

use std::os::fd::OwnedFd;

use rustix::{
    fs::{Mode, OFlags, open},
    termios::{OptionalActions, Termios, tcgetattr, tcsetattr},
};
use tokio::{
    io::{BufReader, Lines, Stdin},
    sync::oneshot,
};

use crate::{
    commands::editor::{Editor, Typed},
    error::CommandError,
};

/// Words that are waited for.
#[derive(Debug)]
pub(super) enum Speech {
    Terminal(Reading),
    /// A line each, and its end is the conversation's.
    Input,
}

/// A line that a thread of its own reads from the terminal.
#[derive(Debug)]
pub(super) struct Reading {
    typed: oneshot::Receiver<Result<Typed, CommandError>>,
    /// As it was before: whoever gives the reading up leaves the terminal so.
    terminal: Option<(OwnedFd, Termios)>,
}

impl Speech {
    /// Begins to wait for words, on the terminal if somebody is there.
    pub(super) fn begin(is_terminal: bool) -> Self {
        if !is_terminal {
            return Self::Input;
        }
        let terminal = open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .and_then(|terminal| tcgetattr(&terminal).map(|mode| (terminal, mode)));
        let (sender, typed) = oneshot::channel();
        std::thread::spawn(move || {
            let read = Editor::on_terminal().and_then(|mut editor| editor.read("you> "));
            let _ = sender.send(read); // Nobody may be waiting for it any more.
        });
        Self::Terminal(Reading {
            typed,
            terminal: terminal.ok(),
        })
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some((terminal, mode)) = &self.terminal
            && self.typed.try_recv().is_err()
        {
            let _ = tcsetattr(terminal, OptionalActions::Now, mode); // The terminal may be gone.
            let _ = rustix::io::write(terminal, b"\n");
        }
    }
}

/// What was said; never, where nothing is waited for. An empty line and the end of the input end the conversation.
pub(super) async fn said(
    speech: &mut Option<Speech>,
    input: &mut Lines<BufReader<Stdin>>,
) -> Result<String, CommandError> {
    match speech {
        None => std::future::pending().await,
        Some(Speech::Input) => {
            let line = input.next_line().await?;
            Ok(line.unwrap_or_default().trim_end().to_owned())
        }
        Some(Speech::Terminal(reading)) => {
            let typed = (&mut reading.typed).await;
            reading.terminal = None;
            match typed {
                Ok(Ok(Typed::Line(line))) => Ok(line),
                Ok(Ok(Typed::Interrupt | Typed::End)) | Err(_) => Ok(String::new()),
                Ok(Err(error)) => Err(error),
            }
        }
    }
}
