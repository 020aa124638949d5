//! Why a command failed: one enum, from which its exit code and its hint follow.

use std::{collections::BTreeMap, io, path::PathBuf};

use serde_json::Value;

use crate::{config::ConfigError, exit::Exit};

#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the daemon is not running")]
    NotRunning { socket: PathBuf },
    #[error("could not connect to the daemon at {}", socket.display())]
    Connect { socket: PathBuf, source: io::Error },
    /// The daemon was there and stopped answering.
    #[error(transparent)]
    Lost(socket::CallError),
    #[error("could not read the daemon's answer to {method}")]
    Unreadable {
        method: String,
        source: serde_json::Error,
        versions: Option<Versions>,
    },
    #[error("{}", .0.message)]
    Remote(Box<Remote>),
    /// What the node says on its port, or what follows of it: which code it ends with is known where it is read.
    #[error("{message}")]
    Answered {
        exit: Exit,
        message: String,
        hint: Option<String>,
    },
    /// Nothing was done because the user has to decide first.
    #[error("{message}")]
    Refused { message: String, hint: String },
    #[error("could not {attempt}")]
    Machine {
        attempt: String,
        source: anyhow::Error,
    },
    /// The background daemon ended or hangs; `report` is what it wrote to its log.
    #[error("the daemon did not start: {how}")]
    NotStarted {
        how: String,
        report: String,
        log: PathBuf,
    },
    #[error("there is no file {}", path.display())]
    NoFile { path: PathBuf },
    #[error("the permission rules of {whose} cannot be used:\n{problems}")]
    Rules { whose: String, problems: String },
    /// The agent answered, but not to the end.
    #[error("{message}")]
    Turn { message: String, session: String },
    /// What went wrong stands on the screen already.
    #[error("failed")]
    Shown(Exit),
    #[error("could not print")]
    Print(#[from] io::Error),
}

/// An error the daemon answered with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Remote {
    pub(crate) code: i64,
    pub(crate) message: String,
    /// The constant of the contract; empty if the daemon sent none.
    pub(crate) error_code: String,
    pub(crate) context: BTreeMap<String, Value>,
    /// Set where a difference of versions may be the cause.
    pub(crate) versions: Option<Versions>,
}

/// A command and a daemon that are not of the same build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) command: String,
    pub(crate) daemon: String,
}

impl CommandError {
    /// A failure of the machine below us, with what was attempted.
    pub(crate) fn machine(attempt: impl Into<String>, source: impl Into<anyhow::Error>) -> Self {
        Self::Machine {
            attempt: attempt.into(),
            source: source.into(),
        }
    }

    /// Something that was named and is not there, and which command shows what is.
    pub(crate) fn not_found(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Answered {
            exit: Exit::NotFound,
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// The code the process ends with.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Config(_) | Self::Rules { .. } => Exit::Invalid,
            Self::NotRunning { .. } | Self::Connect { .. } | Self::Lost(_) => Exit::Unreachable,
            Self::Remote(remote) => remote.exit(),
            Self::NoFile { .. } => Exit::NotFound,
            Self::Shown(exit) | Self::Answered { exit, .. } => *exit,
            // Whoever closed the pipe has read what they wanted.
            Self::Print(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Success,
            Self::Unreadable { .. }
            | Self::Refused { .. }
            | Self::Machine { .. }
            | Self::NotStarted { .. }
            | Self::Turn { .. }
            | Self::Print(_) => Exit::Failed,
        }
    }

    /// What to do next.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint(),
            Self::NotRunning { .. } => {
                Some("start it with `agentcraft daemon start`, or try a node with `agentcraft up`".to_owned())
            }
            Self::Connect { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("the socket belongs to another user; set AGENTCRAFT_HOME to a folder of your own".to_owned())
            }
            Self::Connect { .. } => Some("`agentcraft doctor` looks at the socket and the daemon".to_owned()),
            Self::Lost(_) => Some("`agentcraft daemon status` tells whether it still runs".to_owned()),
            Self::Unreadable { versions, .. } => versions.as_ref().map(Versions::hint),
            Self::Remote(remote) => remote.hint(),
            Self::Answered { hint, .. } => hint.clone(),
            Self::Refused { hint, .. } => Some(hint.clone()),
            Self::Turn { session, .. } => {
                Some(format!("`agentcraft session export {session}` shows everything that happened"))
            }
            Self::NotStarted { .. } => {
                Some("`agentcraft daemon start --foreground` shows what happens".to_owned())
            }
            Self::Rules { .. } => Some("docs/permissions.md describes the rules".to_owned()),
            Self::Machine { .. } | Self::NoFile { .. } | Self::Shown(_) | Self::Print(_) => None,
        }
    }

    /// The causes below the message, outermost first.
    pub(crate) fn causes(&self) -> Vec<String> {
        let mut causes = Vec::new();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        causes
    }
}

impl Remote {
    fn exit(&self) -> Exit {
        match self.error_code.as_str() {
            "AGENT_NOT_FOUND" | "TEMPLATE_NOT_FOUND" | "CONFIG_NOT_FOUND" => Exit::NotFound,
            "CONFIG_VALIDATION" | "COMPONENT_REFERENCE" => Exit::Invalid,
            "INVALID_PARAMS" => Exit::Usage,
            _ if self.is_about("session-not-found") => Exit::NotFound,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        if let Some(versions) = &self.versions {
            return Some(versions.hint());
        }
        let name = self.agent().unwrap_or("NAME");
        let hint = match self.error_code.as_str() {
            "AGENT_NOT_FOUND" => self.whom_instead().to_owned(),
            "TEMPLATE_NOT_FOUND" => "`agentcraft template list` shows the templates there are".to_owned(),
            "CONFIG_NOT_FOUND" => match self.component() {
                Some(word) => format!("`agentcraft {word} list` shows those there are"),
                None => "check the path of the file".to_owned(),
            },
            "CONFIG_VALIDATION" => "`agentcraft template validate FILE` shows every problem of a file".to_owned(),
            "AGENT_ALREADY_RUNNING" => format!("`agentcraft agent stop {name}` ends its process first"),
            "AGENT_ALREADY_ATTACHED" => format!("`agentcraft agent detach {name}` lets go of the client's process"),
            "AGENT_NOT_ATTACHED" if self.is_about("agent-not-started") => {
                format!("start it with `agentcraft agent start {name}`")
            }
            "AGENT_NOT_ATTACHED" => format!("`agentcraft agent status {name}` shows whose process it has"),
            "GENERIC_BUSINESS" if self.context.contains_key("disk") => {
                "make room on the disk of the daemon's home, then try again; `agentcraft doctor` shows how much there is"
                    .to_owned()
            }
            "GENERIC_BUSINESS" if self.context.contains_key("sessionId") => {
                "`agentcraft session list` shows the sessions there are".to_owned()
            }
            "WORKSPACE_INIT" => "check the folder, or use --append or --overwrite for one with files".to_owned(),
            "COMPONENT_REFERENCE" => {
                "the template names a component that is not loaded; see `agentcraft skill|prompt|mcp|workflow list`"
                    .to_owned()
            }
            "INSTANCE_CORRUPTED" => {
                format!("`agentcraft agent destroy {name} --force` removes it, then create it again")
            }
            "AGENT_LAUNCH" => "`agentcraft doctor` shows which backends are installed".to_owned(),
            "INTERNAL_ERROR" => "this is a defect; the log of the daemon says more".to_owned(),
            _ => return None,
        };
        Some(hint)
    }

    /// What the daemon says beside the code, where the code stands for several things.
    fn is_about(&self, word: &str) -> bool {
        self.context.get("what").and_then(Value::as_str) == Some(word)
    }

    /// Where those are shown who can be spoken to, by what was written.
    fn whom_instead(&self) -> &'static str {
        let kind = self.agent().and_then(|name| name.split_once(':'));
        match kind.map(|(kind, _)| kind) {
            Some("peer") => "`agentcraft peer list` shows the nodes there are",
            Some("workflow") => {
                "`agentcraft workflow list` shows the workflows there are; a project's own is copied into configs/workflows of the \
                 node's home first"
            }
            Some("template") => "`agentcraft template list` shows the templates there are",
            Some(_) | None => "`agentcraft agent list` shows the agents there are",
        }
    }

    /// The command of the kind of component it is about, where the daemon says so.
    fn component(&self) -> Option<&'static str> {
        match self.context.get("kind").and_then(Value::as_str)? {
            "skill" => Some("skill"),
            "prompt" => Some("prompt"),
            "MCP server" | "mcp" => Some("mcp"),
            "workflow" => Some("workflow"),
            _ => None,
        }
    }

    /// The agent it is about, where the daemon says so.
    fn agent(&self) -> Option<&str> {
        ["name", "agent"]
            .iter()
            .find_map(|key| self.context.get(*key))
            .and_then(Value::as_str)
    }
}

impl Versions {
    fn hint(&self) -> String {
        format!(
            "this command is {} and the daemon is {}; `agentcraft daemon restart` makes them one",
            self.command, self.daemon
        )
    }
}
