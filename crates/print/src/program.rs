//! The common description of a program: how it is called for one turn, and who reads what it prints.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use domain::turn::{EventKind, Stop};
use engine::TurnOptions;
use serde_json::Value;

use crate::servers::{Form, Server, Transport};

/// The longest single argument. Linux takes no argument of 128 KiB or more; the rest is for the option's name.
pub(crate) const ARGUMENT_BYTES_MAX: usize = 120 * 1024;

/// One row of the table of programs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    /// What is looked for on the path when the template names nothing; `None` where it has to.
    pub(crate) executable: Option<&'static str>,
    pub(crate) invoke: fn(&Request<'_>) -> Invocation,
    pub(crate) output: Output,
    /// Whether a later turn can take up the conversation of an earlier one.
    pub(crate) memory: Memory,
    pub(crate) servers: Servers,
    pub(crate) instructions: Instructions,
}

/// How a program learns what it is to be told before the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// It has options for them.
    Option,
    /// It has none, so they stand before the prompt.
    InPrompt,
}

/// How a program learns of the MCP servers of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Servers {
    /// By the path of a file in this form, which is there as long as the program runs.
    File(Form),
    /// By settings among the arguments, with secrets in variables.
    Settings,
    /// By a variable that holds a whole configuration.
    Variable,
    /// By what was written into the workspace when the agent was created, or not at all.
    Untold,
}

impl Servers {
    /// Whether a server behind such an address can be told.
    pub(crate) fn reach(self, transport: Transport) -> bool {
        match (self, transport) {
            (Self::File(_) | Self::Variable, Transport::Http | Transport::Sse)
            | (Self::Settings, Transport::Http) => true,
            (Self::Settings, Transport::Sse) | (Self::Untold, Transport::Http | Transport::Sse) => {
                false
            }
        }
    }
}

/// What standard output is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Output {
    /// One JSON object in each line. The reader is told whether the turn takes up an earlier conversation.
    Lines(fn(Begin) -> Box<dyn Reader>),
    /// The answer itself.
    Text,
}

/// How a turn begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    Fresh,
    Resumed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Sessions,
    None,
}

/// What one turn asks of a program.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) prompt: &'a str,
    /// The program's own id of the conversation to go on with.
    pub(crate) resume: Option<&'a str>,
    pub(crate) options: &'a TurnOptions,
    pub(crate) model: Option<&'a str>,
    /// What the template adds: of a known program further options, of a `command` all of its arguments.
    pub(crate) args: &'a [String],
    pub(crate) servers: &'a [Server],
    /// The file with the servers, where the program is told of one.
    pub(crate) servers_file: Option<&'a Path>,
    /// The variables that the program gets from us.
    pub(crate) environment: &'a BTreeMap<OsString, OsString>,
}

/// How the program is called.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) args: Vec<OsString>,
    /// Variables beside those of the agent.
    pub(crate) env: BTreeMap<OsString, OsString>,
    /// What it gets on standard input, which is closed after it.
    pub(crate) stdin: Option<String>,
}

/// Understands the lines of one turn.
pub(crate) trait Reader: Send + Sync {
    fn read(&mut self, line: &Value, findings: &mut Findings);

    /// How the turn went if the program ended well without saying it. `None` where it always says it.
    fn silent_stop(&self) -> Option<Stop> {
        None
    }
}

/// What a line says.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) events: Vec<EventKind>,
    /// The program's own id of the conversation.
    pub(crate) session: Option<String>,
    /// How the turn went.
    pub(crate) stop: Option<Stop>,
    /// It is a piece of something that a later line has whole, and need not be kept by itself.
    pub(crate) comes_again: bool,
}

impl Request<'_> {
    /// Whether the prompt is too long for an argument.
    pub(crate) fn is_long(&self) -> bool {
        self.prompt.len() > ARGUMENT_BYTES_MAX
    }
}

impl Invocation {
    pub(crate) fn new<const N: usize>(args: [&str; N]) -> Self {
        Self {
            args: args.iter().map(OsString::from).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, arg: impl Into<OsString>) {
        self.args.push(arg.into());
    }

    /// Adds `name=value`, the form in which a value that begins with a dash is still a value.
    pub(crate) fn option(&mut self, name: &str, value: Option<impl Into<OsString>>) {
        if let Some(value) = value {
            let mut arg = OsString::from(name);
            arg.push("=");
            arg.push(value.into());
            self.args.push(arg);
        }
    }

    /// Adds `name value`, for programs whose options always take the argument that follows.
    pub(crate) fn pair(&mut self, name: &str, value: Option<impl Into<OsString>>) {
        if let Some(value) = value {
            self.add(name);
            self.add(value);
        }
    }

    /// Adds arguments as they are.
    pub(crate) fn extend(&mut self, args: &[String]) {
        self.args.extend(args.iter().map(OsString::from));
    }
}

impl Findings {
    pub(crate) fn push(&mut self, event: EventKind) {
        self.events.push(event);
    }

    pub(crate) fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(EventKind::Text {
                text: text.to_owned(),
            });
        }
    }

    pub(crate) fn thought(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(EventKind::Thought {
                text: text.to_owned(),
            });
        }
    }

    pub(crate) fn notice(&mut self, text: impl Into<String>) {
        self.push(EventKind::Notice { text: text.into() });
    }

    pub(crate) fn failed(&mut self, message: impl Into<String>) {
        self.stop = Some(Stop::Failed {
            message: message.into(),
        });
    }
}
