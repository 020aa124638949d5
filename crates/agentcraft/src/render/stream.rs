//! A turn as a command prints it: the answer on stdout, what leads to it on stderr, or everything as lines of JSON.

use std::io;

use domain::turn::{Answer, Ask, AskId, EventKind};
use serde_json::value::RawValue;

use super::{
    Screen,
    ask::answer_text,
    style::one_line,
    symbols::Symbols,
    transcript::{Surface, Transcript},
};
use crate::args::TalkFormat;

/// Where the parts of a turn go.
#[derive(Debug)]
pub(crate) struct Stream {
    layout: Layout,
    /// Whether the answer on a stdout that is no terminal ends in the middle of a line.
    open_line: bool,
    refusals: Refusals,
}

/// What a program's user has to know even if nothing but the answer is shown: what was not allowed, and why.
#[derive(Debug, Default)]
struct Refusals {
    asked: Option<Ask>,
    why: Option<String>,
}

impl Refusals {
    /// What to say for an event.
    fn event(&mut self, event: &EventKind) -> Option<String> {
        match event {
            EventKind::Ask(ask) => {
                self.asked = Some(ask.clone());
                self.why = None;
                None
            }
            // The reason of a decision stands between the question and the decision.
            EventKind::Notice { text } if self.asked.is_some() => {
                self.why = Some(text.clone());
                None
            }
            EventKind::Notice { text } => Some(text.clone()),
            EventKind::AskSettled { answer, by, .. } => {
                let asked = self.asked.take()?;
                let why = self.why.take()?;
                let is_denial = *answer == asked.kind.denial() || *answer == Answer::Declined;
                is_denial.then(|| {
                    let said = answer_text(Some(&asked), answer, by.as_deref());
                    format!("{said}: {why}")
                })
            }
            _ => None,
        }
    }
}

#[derive(Debug)]
enum Layout {
    /// One event per line.
    Json,
    /// Answers go to a terminal; with the rest of the turn if that has one to go to, too.
    Terminal { transcript: Transcript, rest: bool },
    /// Answers go to a program, word for word; the rest to a terminal, if there is one.
    Pipe { rest: Option<Transcript> },
}

impl Stream {
    pub(crate) fn new(format: TalkFormat, symbols: Symbols, screen: &Screen) -> Self {
        let layout = match (format, screen.width(), screen.err_width()) {
            (TalkFormat::Json, _, _) => Layout::Json,
            (TalkFormat::Text, Some(width), rest) => Layout::Terminal {
                transcript: Transcript::new(screen.style(), symbols, Surface::Terminal { width }),
                rest: rest.is_some(),
            },
            (TalkFormat::Text, None, rest) => Layout::Pipe {
                rest: rest.map(|width| {
                    Transcript::new(screen.err_style(), symbols, Surface::Terminal { width })
                }),
            },
        };
        Self {
            layout,
            open_line: false,
            refusals: Refusals::default(),
        }
    }

    /// Everything of a session goes to stdout, for one who only watches.
    pub(crate) fn whole(format: TalkFormat, symbols: Symbols, screen: &Screen) -> Self {
        let surface = match screen.width() {
            Some(width) => Surface::Terminal { width },
            None => Surface::Paper,
        };
        let layout = match format {
            TalkFormat::Json => Layout::Json,
            TalkFormat::Text => Layout::Terminal {
                transcript: Transcript::new(screen.style(), symbols, surface),
                rest: true,
            },
        };
        Self {
            layout,
            open_line: false,
            refusals: Refusals::default(),
        }
    }

    /// The prompt stands on the screen already.
    pub(crate) fn typed(&mut self, prompt: &str) {
        match &mut self.layout {
            Layout::Terminal { transcript, .. } => transcript.typed(prompt),
            Layout::Pipe { rest: Some(rest) } => rest.typed(prompt),
            Layout::Json | Layout::Pipe { rest: None } => {}
        }
    }

    pub(crate) fn event(
        &mut self,
        raw: &RawValue,
        kind: Option<&EventKind>,
        screen: &mut Screen,
    ) -> io::Result<()> {
        match (&mut self.layout, kind) {
            (Layout::Json, _) => screen.line(raw.get()),
            (Layout::Terminal { transcript, .. }, Some(kind @ EventKind::Text { .. }))
            | (
                Layout::Terminal {
                    transcript,
                    rest: true,
                },
                Some(kind),
            ) => {
                let text = transcript.event(kind);
                screen.print(&text)
            }
            (Layout::Pipe { .. }, Some(EventKind::Text { text })) => {
                self.open_line = !text.ends_with('\n');
                screen.words(text)
            }
            (Layout::Pipe { rest: Some(rest) }, Some(kind)) => {
                let text = rest.event(kind);
                screen.aside(&text)
            }
            (Layout::Terminal { .. } | Layout::Pipe { .. }, Some(kind)) => {
                match self.refusals.event(kind) {
                    Some(text) => screen.warning(&one_line(&text)),
                    None => Ok(()),
                }
            }
            (Layout::Terminal { .. } | Layout::Pipe { .. }, None) => Ok(()),
        }
    }

    /// We have answered this one, and need not be told.
    pub(crate) fn answered(&mut self, ask: &AskId) {
        if let Some(transcript) = self.transcript() {
            transcript.answered(ask);
        }
    }

    /// The question has gone out of sight.
    pub(crate) fn repeat_ask(&mut self) {
        if let Some(transcript) = self.transcript() {
            transcript.repeat_ask();
        }
    }

    fn transcript(&mut self) -> Option<&mut Transcript> {
        match &mut self.layout {
            Layout::Terminal { transcript, .. } => Some(transcript),
            Layout::Pipe { rest } => rest.as_mut(),
            Layout::Json => None,
        }
    }

    /// Nothing has come for a moment.
    pub(crate) fn pause(&mut self, screen: &mut Screen) -> io::Result<()> {
        match &mut self.layout {
            Layout::Terminal { transcript, .. } => {
                let text = transcript.pause();
                screen.print(&text)
            }
            Layout::Pipe { rest: Some(rest) } => {
                let text = rest.pause();
                screen.aside(&text)
            }
            Layout::Json | Layout::Pipe { rest: None } => Ok(()),
        }
    }

    /// Ends the lines that have begun.
    pub(crate) fn close(&mut self, screen: &mut Screen) -> io::Result<()> {
        match &mut self.layout {
            Layout::Json => {}
            Layout::Terminal { transcript, .. } => {
                let text = transcript.close();
                screen.print(&text)?;
            }
            Layout::Pipe { rest } => {
                if std::mem::take(&mut self.open_line) {
                    screen.print("\n")?;
                }
                if let Some(rest) = rest {
                    let text = rest.close();
                    screen.aside(&text)?;
                }
            }
        }
        Ok(())
    }
}
