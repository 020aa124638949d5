//! From an engine's failure to an error on the wire: code, constant, context.

use std::collections::BTreeMap;

use engine::{EngineError, ErrorKind};
use jsonrpc::{ErrorObject, Malformed};
use serde_json::{Value, json};
use wire::daemon::{ErrorCode, ErrorData};

/// Why a request is answered with an error.
#[derive(Debug)]
pub(crate) struct RpcError {
    code: ErrorCode,
    message: String,
    context: BTreeMap<String, Value>,
}

impl RpcError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            context: BTreeMap::new(),
        }
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.context.insert(key.to_owned(), value.into());
        self
    }

    /// A parameter that is missing or wrong.
    pub(crate) fn invalid_params(field: &str, message: &str) -> Self {
        let text = if field.is_empty() {
            message.to_owned()
        } else {
            format!("{field}: {message}")
        };
        Self::new(ErrorCode::InvalidParams, text).with("field", field)
    }

    pub(crate) fn into_object(self) -> ErrorObject {
        let data = ErrorData {
            error_code: self.code.name().to_owned(),
            context: self.context,
        };
        ErrorObject::new(self.code.number(), self.message).with_data(&data)
    }
}

/// Gives an error of the protocol itself the same data as all others.
pub(crate) fn describe(malformed: &Malformed) -> Option<ErrorObject> {
    let error = malformed.error.clone();
    let code = ErrorCode::ALL
        .into_iter()
        .find(|code| code.number() == error.code);
    let error_code = code.map_or("INTERNAL_ERROR", ErrorCode::name).to_owned();
    let data = ErrorData {
        error_code,
        context: BTreeMap::new(),
    };
    Some(error.with_data(&data))
}

impl From<EngineError> for RpcError {
    fn from(error: EngineError) -> Self {
        let code = match error.kind() {
            ErrorKind::TemplateNotFound => ErrorCode::TemplateNotFound,
            ErrorKind::ConfigNotFound => ErrorCode::ConfigNotFound,
            ErrorKind::ConfigValidation => ErrorCode::ConfigValidation,
            ErrorKind::ComponentReference => ErrorCode::ComponentReference,
            ErrorKind::AgentNotFound => ErrorCode::AgentNotFound,
            ErrorKind::AgentAlreadyRunning => ErrorCode::AgentAlreadyRunning,
            ErrorKind::AgentAlreadyAttached => ErrorCode::AgentAlreadyAttached,
            ErrorKind::AgentNotAttached | ErrorKind::AgentNotStarted => ErrorCode::AgentNotAttached,
            ErrorKind::WorkspaceInit => ErrorCode::WorkspaceInit,
            ErrorKind::InstanceCorrupted => ErrorCode::InstanceCorrupted,
            ErrorKind::AgentLaunch => ErrorCode::AgentLaunch,
            ErrorKind::InvalidParams { .. } => ErrorCode::InvalidParams,
            ErrorKind::Business | ErrorKind::SessionNotFound => ErrorCode::GenericBusiness,
            ErrorKind::Internal => ErrorCode::InternalError,
        };
        let mut rpc = Self::new(code, engine::chain(&error));
        rpc.context = context(&error);
        // What the codes of the contract do not tell apart.
        match error.kind() {
            ErrorKind::InvalidParams { field } => rpc.with("field", field),
            ErrorKind::SessionNotFound => rpc.with("what", "session-not-found"),
            ErrorKind::AgentNotStarted => rpc.with("what", "agent-not-started"),
            ErrorKind::TemplateNotFound
            | ErrorKind::ConfigNotFound
            | ErrorKind::ConfigValidation
            | ErrorKind::ComponentReference
            | ErrorKind::AgentNotFound
            | ErrorKind::AgentAlreadyRunning
            | ErrorKind::AgentAlreadyAttached
            | ErrorKind::AgentNotAttached
            | ErrorKind::WorkspaceInit
            | ErrorKind::InstanceCorrupted
            | ErrorKind::AgentLaunch
            | ErrorKind::Business
            | ErrorKind::Internal => rpc,
        }
    }
}

/// What the failure was about, for programs.
fn context(error: &EngineError) -> BTreeMap<String, Value> {
    let pairs: Vec<(&str, Value)> = match error {
        EngineError::TemplateNotFound { name } | EngineError::AgentNotFound { name } => {
            vec![("name", json!(name))]
        }
        EngineError::Nobody { target, reason } => {
            vec![("name", json!(target)), ("reason", json!(reason))]
        }
        EngineError::ComponentNotFound { kind, name } => {
            vec![("kind", json!(kind)), ("name", json!(name))]
        }
        EngineError::FileNotFound { path }
        | EngineError::FileUnreadable { path, .. }
        | EngineError::SystemPrompt { path, .. } => {
            vec![("filePath", json!(path.to_string_lossy()))]
        }
        EngineError::Invalid { path, problems } => {
            let problems: Vec<_> = problems.iter().map(crate::convert::problem).collect();
            vec![
                ("filePath", json!(path.to_string_lossy())),
                ("errors", json!(problems)),
            ]
        }
        EngineError::MissingComponents { template, missing } => {
            vec![("template", json!(template)), ("missing", json!(missing))]
        }
        EngineError::AgentExists { name } => vec![("name", json!(name))],
        EngineError::Workspace { name, dir, reason }
        | EngineError::NotRemoved { name, dir, reason }
        | EngineError::Corrupted { name, dir, reason } => {
            vec![
                ("name", json!(name)),
                ("workspaceDir", json!(dir.to_string_lossy())),
                ("reason", json!(reason)),
            ]
        }
        EngineError::Launch { name, reason } => {
            vec![("name", json!(name)), ("reason", json!(reason))]
        }
        EngineError::NoSuchProcess { name, pid, .. } => {
            vec![("name", json!(name)), ("pid", json!(pid))]
        }
        EngineError::Refused { name, .. } => vec![("name", json!(name))],
        EngineError::NotStarted { name } | EngineError::TurnTimeout { name, .. } => {
            vec![("name", json!(name))]
        }
        EngineError::OtherSession { id, owner, .. } => {
            vec![("sessionId", json!(id)), ("agentName", json!(owner))]
        }
        EngineError::SessionNotFound { id } => vec![("sessionId", json!(id))],
        EngineError::SessionOver { id, state } => {
            vec![("sessionId", json!(id)), ("state", json!(state))]
        }
        EngineError::SessionRefused { session, .. } => vec![("sessionId", json!(session))],
        EngineError::Store { source, .. } if source.is_of_the_disk() => vec![("disk", json!(true))],
        EngineError::ShuttingDown | EngineError::Store { .. } | EngineError::Record { .. } => {
            Vec::new()
        }
    };
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}
