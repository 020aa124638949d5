//! A question at the terminal that can be taken away again: another client may answer it first, its time may be over, and Ctrl-C
//! ends the turn.
//!
//! The line is read by a thread of its own, in the terminal's usual mode, so that Ctrl-C is a signal as everywhere else.

use std::{
    fmt,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use domain::turn::{Answer, Ask, AskId};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fs::{Mode, OFlags, open},
    io::{Errno, read, write},
    termios::{QueueSelector, tcflush},
};

use super::ask;
use crate::error::CommandError;

/// The longest answer; the terminal itself takes no longer line.
const LINE_MAX: usize = 4096;

/// Wakes whoever looks whether there is an answer. It must not block.
pub(super) type Wake = Arc<dyn Fn() + Send + Sync>;

/// A question that stands at the terminal.
pub(super) struct Question {
    asked: Ask,
    terminal: Arc<OwnedFd>,
    /// Wakes the reader, which then leaves.
    stop: Arc<OwnedFd>,
    typed: Arc<Mutex<Option<Typed>>>,
    reader: Option<JoinHandle<()>>,
    wake: Wake,
    is_shown: bool,
}

/// What the person did.
#[derive(Debug)]
enum Typed {
    Line(String),
    End,
}

impl fmt::Debug for Question {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Question")
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}

impl Question {
    /// Opens the terminal of the process, wherever stdin and stdout lead.
    pub(super) fn open(asked: Ask, wake: Wake) -> Result<Self, CommandError> {
        let failed = |error: Errno| CommandError::machine("use the terminal", error);
        let terminal = open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(failed)?;
        let terminal = terminal.map_err(failed)?;
        // What was typed before there was a question is no answer to it.
        let _ = tcflush(&terminal, QueueSelector::IFlush);
        let mut question = Self {
            asked,
            terminal: Arc::new(terminal),
            stop: Arc::new(stop),
            typed: Arc::default(),
            reader: None,
            wake,
            is_shown: false,
        };
        question.listen();
        Ok(question)
    }

    pub(super) fn asks(&self) -> &Ask {
        &self.asked
    }

    pub(super) fn is(&self, ask: &AskId) -> bool {
        self.asked.id == *ask
    }

    pub(super) fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Puts what it asks for at the end of the terminal.
    pub(super) fn show(&mut self) {
        self.is_shown = true;
        self.say(&ask::prompt(&self.asked));
    }

    /// Makes room for something else.
    pub(super) fn step_aside(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            self.say("\n");
        }
    }

    /// The answer, once there is one. What means nothing is asked again.
    pub(super) fn answer(&mut self) -> Option<Answer> {
        let typed = self.typed().take()?;
        let answer = match typed {
            Typed::Line(line) => ask::meant(&self.asked, &line),
            Typed::End => {
                self.say("\n");
                Some(self.asked.kind.denial())
            }
        };
        if answer.is_none() {
            self.say("  choose one of the numbers\n");
            self.is_shown = false;
            self.listen();
        }
        answer
    }

    /// Takes it off the terminal: nobody needs the answer any more, nor half of it in the next command.
    pub(super) fn take_away(mut self) {
        let _ = tcflush(&*self.terminal, QueueSelector::IFlush); // What stays is only inconvenient.
        self.step_aside();
    }

    /// Words beside the stream; a terminal that is gone is noticed by whoever reads it.
    fn say(&self, text: &str) {
        let _ = write(&*self.terminal, text.as_bytes());
    }

    fn listen(&mut self) {
        let (terminal, stop) = (self.terminal.clone(), self.stop.clone());
        let (typed, wake) = (self.typed.clone(), self.wake.clone());
        self.reader = Some(std::thread::spawn(move || {
            let Some(line) = line(&terminal, &stop) else {
                return;
            };
            *typed.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
            wake();
        }));
    }

    fn typed(&self) -> std::sync::MutexGuard<'_, Option<Typed>> {
        self.typed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let _ = write(&*self.stop, &1_u64.to_ne_bytes()); // It cannot be full.
        if let Some(reader) = self.reader.take() {
            let _ = reader.join(); // A reader that panicked has left, too.
        }
    }
}

/// One line of the terminal; nothing if it is no longer wanted.
fn line(terminal: &OwnedFd, stop: &OwnedFd) -> Option<Typed> {
    loop {
        let mut both =
            [terminal, stop].map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        match poll(&mut both, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return Some(Typed::End),
        }
        if !both[1].revents().is_empty() {
            return None;
        }
        let mut bytes = [0; LINE_MAX];
        return match read(terminal, &mut bytes) {
            Ok(0) => Some(Typed::End),
            Ok(count) => {
                let line = String::from_utf8_lossy(&bytes[..count]);
                Some(Typed::Line(line.trim_end_matches(['\r', '\n']).to_owned()))
            }
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(_) => Some(Typed::End),
        };
    }
}
