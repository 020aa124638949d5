//! Lines typed by a person: editing, history, completion, and words that appear above the line meanwhile.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use rustyline::{
    Behavior, Cmd, CompletionType, ConditionalEventHandler, Config, Event, EventContext,
    EventHandler, ExternalPrinter, Helper, KeyEvent, Movement, RepeatCount, completion::Completer,
    error::ReadlineError, highlight::Highlighter, hint::Hinter, history::DefaultHistory,
    validate::Validator,
};

use crate::error::CommandError;

/// Lines that the history keeps.
const HISTORY_MAX: usize = 1000;

/// What reading gives from a terminal that has been hung up.
const HUNG_UP: i32 = rustix::io::Errno::IO.raw_os_error();

/// What came of asking for a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D on an empty line, or the terminal is gone.
    End,
}

/// Ctrl-C on a line with something in it takes the line back, as in a shell, and Ctrl-Y brings it again.
struct ClearsLine;

impl ConditionalEventHandler for ClearsLine {
    fn handle(
        &self,
        _: &Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        (!context.line().is_empty()).then_some(Cmd::Kill(Movement::WholeBuffer))
    }
}

/// Offers what may follow, given the line up to the cursor: where the last word begins, and what it may be.
type Offer = Box<dyn Fn(&str) -> (usize, Vec<String>) + Send>;

pub(super) struct Editor {
    inner: rustyline::Editor<Completion, DefaultHistory>,
    history: Option<PathBuf>,
}

struct Completion {
    offer: Offer,
}

impl fmt::Debug for Editor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Editor")
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

impl Editor {
    /// An editor on stdin and stdout, with the history in this file.
    pub(super) fn with_history(history: &Path) -> Result<Self, CommandError> {
        let mut editor = Self::new(Behavior::Stdio)?;
        // A history that cannot be read, or is not there yet, is an empty one.
        let _ = editor.inner.load_history(history);
        editor.history = Some(history.to_owned());
        Ok(editor)
    }

    /// An editor on the terminal of the process, without a history.
    pub(super) fn on_terminal() -> Result<Self, CommandError> {
        Self::new(Behavior::PreferTerm)
    }

    fn new(behavior: Behavior) -> Result<Self, CommandError> {
        let failed = |error| CommandError::machine("use the terminal", error);
        let config = Config::builder()
            .behavior(behavior)
            .completion_type(CompletionType::List)
            .max_history_size(HISTORY_MAX)
            .and_then(|builder| builder.history_ignore_dups(true))
            .map_err(failed)?
            .build();
        let mut inner = rustyline::Editor::with_config(config).map_err(failed)?;
        let clears = EventHandler::Conditional(Box::new(ClearsLine));
        inner.bind_sequence(KeyEvent::ctrl('C'), clears);
        Ok(Self {
            inner,
            history: None,
        })
    }

    /// What Tab offers from now on.
    pub(super) fn complete(
        &mut self,
        offer: impl Fn(&str) -> (usize, Vec<String>) + Send + 'static,
    ) {
        self.inner.set_helper(Some(Completion {
            offer: Box::new(offer),
        }));
    }

    /// Something that prints above the line while it is typed; none where the terminal cannot do that.
    pub(super) fn printer(&mut self) -> Option<impl FnMut(String) -> bool + Send + use<>> {
        let mut printer = self.inner.create_external_printer().ok()?;
        Some(move |text| printer.print(text).is_ok())
    }

    /// Reads one line.
    pub(super) fn read(&mut self, prompt: &str) -> Result<Typed, CommandError> {
        match self.inner.readline(prompt) {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupt),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(ReadlineError::Io(error)) if error.raw_os_error() == Some(HUNG_UP) => {
                Ok(Typed::End)
            }
            Err(error) => Err(CommandError::machine("read a line", error)),
        }
    }

    /// Keeps a line for the next time.
    pub(super) fn remember(&mut self, line: &str) {
        let _ = self.inner.add_history_entry(line); // A line that is not kept is only inconvenient.
        if let Some(path) = &self.history {
            let _ = self.inner.append_history(path); // The home may not be there yet.
        }
    }
}

impl Helper for Completion {}
impl Highlighter for Completion {}
impl Validator for Completion {}
impl Hinter for Completion {
    type Hint = String;
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _context: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((self.offer)(&line[..position]))
    }
}
