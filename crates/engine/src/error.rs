//! What can go wrong with what a face asks for. `kind` tells faces which of their own codes fits.

use std::{io, path::PathBuf, time::Duration};

use catalog::Problem;
use domain::{
    Name,
    lifecycle::Refusal,
    session::{self, Lease},
};
use store::StoreError;

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("there is no template called {name}")]
    TemplateNotFound { name: String },
    #[error("there is no {kind} called {name}")]
    ComponentNotFound { kind: &'static str, name: String },
    #[error("there is no file {}", path.display())]
    FileNotFound { path: PathBuf },
    #[error("could not read {}", path.display())]
    FileUnreadable { path: PathBuf, source: io::Error },
    #[error("{} cannot be a system prompt: {reason}", path.display())]
    SystemPrompt { path: PathBuf, reason: String },
    #[error("{} is not a valid template: {}", path.display(), summary(problems))]
    Invalid {
        path: PathBuf,
        problems: Vec<Problem>,
    },
    #[error("template {template} refers to what is not there: {}", missing.join(", "))]
    MissingComponents {
        template: Name,
        missing: Vec<String>,
    },
    #[error("the stored {kind} {id} cannot be read or written")]
    Record {
        kind: String,
        id: String,
        source: serde_json::Error,
    },
    #[error("there is no agent called {name}")]
    AgentNotFound { name: String },
    #[error("{target} reaches nobody: {reason}")]
    Nobody { target: String, reason: String },
    #[error("there is already an agent called {name}")]
    AgentExists { name: Name },
    #[error("could not prepare the workspace of {name} in {}: {reason}", dir.display())]
    Workspace {
        name: Name,
        dir: PathBuf,
        reason: String,
    },
    #[error("could not remove the workspace of {name} in {}: {reason}", dir.display())]
    NotRemoved {
        name: Name,
        dir: PathBuf,
        reason: String,
    },
    #[error("the workspace of {name} in {} is damaged: {reason}", dir.display())]
    Corrupted {
        name: Name,
        dir: PathBuf,
        reason: String,
    },
    #[error("could not start {name}: {reason}")]
    Launch { name: Name, reason: String },
    #[error("process {pid} cannot be attached to {name}: {reason}")]
    NoSuchProcess {
        name: Name,
        pid: u32,
        reason: &'static str,
    },
    #[error("{name}: {refusal}")]
    Refused { name: Name, refusal: Refusal },
    #[error("{name} is not running; start it with `agentcraft agent start {name}`")]
    NotStarted { name: Name },
    #[error("the session {id} belongs to {owner}, not to {name}")]
    OtherSession {
        id: String,
        owner: String,
        name: Name,
    },
    #[error("there is no session {id}")]
    SessionNotFound { id: String },
    #[error("the session {id} is over ({}); its history can still be read", state.as_str())]
    SessionOver { id: String, state: Lease },
    #[error("{session}: {refusal}")]
    SessionRefused {
        session: String,
        refusal: session::Refusal,
    },
    #[error("{name} did not finish within {} s; the turn was cancelled", limit.as_secs_f64())]
    TurnTimeout { name: Name, limit: Duration },
    #[error("the daemon is shutting down")]
    ShuttingDown,
    #[error("could not keep what happened to {name}")]
    Store { name: String, source: StoreError },
}

/// The kinds of failure that faces tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    TemplateNotFound,
    ConfigNotFound,
    ConfigValidation,
    ComponentReference,
    AgentNotFound,
    AgentAlreadyRunning,
    AgentAlreadyAttached,
    AgentNotAttached,
    AgentNotStarted,
    WorkspaceInit,
    InstanceCorrupted,
    AgentLaunch,
    SessionNotFound,
    /// What was asked for is wrong in itself.
    InvalidParams {
        field: &'static str,
    },
    Business,
    Internal,
}

impl EngineError {
    /// Which kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TemplateNotFound { .. } => ErrorKind::TemplateNotFound,
            Self::ComponentNotFound { .. } | Self::FileNotFound { .. } => ErrorKind::ConfigNotFound,
            Self::FileUnreadable { .. } | Self::Invalid { .. } => ErrorKind::ConfigValidation,
            Self::MissingComponents { .. } => ErrorKind::ComponentReference,
            Self::AgentNotFound { .. } | Self::Nobody { .. } => ErrorKind::AgentNotFound,
            Self::AgentExists { .. } | Self::Workspace { .. } | Self::NotRemoved { .. } => {
                ErrorKind::WorkspaceInit
            }
            Self::Corrupted { .. } => ErrorKind::InstanceCorrupted,
            Self::Launch { .. } => ErrorKind::AgentLaunch,
            Self::NoSuchProcess { .. } => ErrorKind::InvalidParams { field: "pid" },
            Self::OtherSession { .. } => ErrorKind::InvalidParams { field: "sessionId" },
            Self::Refused { refusal, .. } => match refusal {
                Refusal::AlreadyRunning { .. } => ErrorKind::AgentAlreadyRunning,
                Refusal::AlreadyAttached { .. } => ErrorKind::AgentAlreadyAttached,
                Refusal::NotAttached => ErrorKind::AgentNotAttached,
                Refusal::NotThere => ErrorKind::AgentNotFound,
            },
            Self::NotStarted { .. } => ErrorKind::AgentNotStarted,
            Self::SessionNotFound { .. } => ErrorKind::SessionNotFound,
            Self::SessionOver { .. }
            | Self::SessionRefused { .. }
            | Self::TurnTimeout { .. }
            | Self::ShuttingDown => ErrorKind::Business,
            Self::SystemPrompt { .. } => ErrorKind::InvalidParams {
                field: "systemPromptFile",
            },
            Self::Store { source, .. } if source.is_of_the_disk() => ErrorKind::Business,
            Self::Store { .. } | Self::Record { .. } => ErrorKind::Internal,
        }
    }
}

fn summary(problems: &[Problem]) -> String {
    let shown: Vec<String> = problems.iter().take(3).map(ToString::to_string).collect();
    match problems.len().saturating_sub(shown.len()) {
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}
