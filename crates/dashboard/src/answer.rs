//! Answers of the API: JSON, and errors in words that the page can show.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use engine::{EngineError, ErrorKind};
use serde::Serialize;
use serde_json::json;

/// What a handler gives.
pub(crate) type Answer = Result<Response, Refused>;

/// Why something was not done.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    status: StatusCode,
    message: String,
}

impl Refused {
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
        }
    }

    pub(crate) fn forbidden() -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            message: "this token may not use the dashboard".to_owned(),
        }
    }

    /// The caller lacks a right that this takes beside that of the page.
    pub(crate) fn lacking(right: &str) -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            message: format!("this token does not allow {right}"),
        }
    }

    /// It cannot be done as things are.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::CONFLICT,
            message: message.into(),
        }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            message: message.into(),
        }
    }

    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            message: message.into(),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.message }))).into_response()
    }
}

impl From<EngineError> for Refused {
    fn from(error: EngineError) -> Self {
        let status = match error.kind() {
            ErrorKind::TemplateNotFound
            | ErrorKind::ConfigNotFound
            | ErrorKind::AgentNotFound
            | ErrorKind::SessionNotFound => StatusCode::NOT_FOUND,
            ErrorKind::ConfigValidation
            | ErrorKind::ComponentReference
            | ErrorKind::InvalidParams { .. } => StatusCode::BAD_REQUEST,
            ErrorKind::AgentAlreadyRunning
            | ErrorKind::AgentAlreadyAttached
            | ErrorKind::AgentNotAttached
            | ErrorKind::AgentNotStarted
            | ErrorKind::WorkspaceInit
            | ErrorKind::InstanceCorrupted
            | ErrorKind::AgentLaunch
            | ErrorKind::Business => StatusCode::CONFLICT,
            ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self {
            status,
            message: engine::chain(&error),
        }
    }
}

pub(crate) fn json_of(value: &impl Serialize) -> Answer {
    Ok(Json(value).into_response())
}

/// It was done, and there is nothing to say of it.
pub(crate) fn done() -> Answer {
    Ok(StatusCode::NO_CONTENT.into_response())
}
