//! A request that is turned away before any face sees it: in words, as JSON, and nothing else.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::traffic::TurnedAway;

/// Why a request was turned away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("this node is not called that")]
    UnknownHost,
    #[error("a page of {origin} may not speak to this node")]
    ForeignOrigin { origin: String },
    #[error("a browser's request that changes something must say where it comes from")]
    NoOrigin,
    #[error("this needs a token")]
    NoToken,
    #[error("this token is unknown, has expired or was revoked")]
    BadToken,
    #[error("this token does not allow {right}")]
    NoRight { right: String },
    #[error("too many requests; try again in {} s", after.as_secs().max(1))]
    TooMany { after: Duration },
    #[error("there is nothing here")]
    NotFound,
    #[error("this cannot be done here with that method")]
    Method,
    #[error("{what}")]
    Invalid { what: String },
    #[error("{what}")]
    Internal { what: String },
}

impl Refusal {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::UnknownHost => StatusCode::MISDIRECTED_REQUEST,
            Self::ForeignOrigin { .. } | Self::NoOrigin | Self::NoRight { .. } => {
                StatusCode::FORBIDDEN
            }
            Self::NoToken | Self::BadToken => StatusCode::UNAUTHORIZED,
            Self::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Invalid { .. } => StatusCode::BAD_REQUEST,
            Self::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownHost => "unknown_host",
            Self::ForeignOrigin { .. } | Self::NoOrigin => "foreign_origin",
            Self::NoToken | Self::BadToken => "unauthorized",
            Self::NoRight { .. } => "forbidden",
            Self::TooMany { .. } => "too_many_requests",
            Self::NotFound => "not_found",
            Self::Method => "method_not_allowed",
            Self::Invalid { .. } => "invalid_input",
            Self::Internal { .. } => "server_error",
        }
    }

    fn suggestion(&self) -> &'static str {
        match self {
            Self::UnknownHost => "use the node's address, or add the name to its configuration",
            Self::ForeignOrigin { .. } | Self::NoOrigin => {
                "open the page that this node serves, or add the site to its configuration"
            }
            Self::NoToken | Self::BadToken => {
                "send a token of this node as `Authorization: Bearer …`"
            }
            Self::NoRight { .. } => "ask the owner of the node for a token that allows it",
            Self::TooMany { .. } => "wait, then go on more slowly",
            Self::NotFound => "look at the address",
            Self::Method => "use one of the methods that the Allow header names",
            Self::Invalid { .. } => "correct the request",
            Self::Internal { .. } => "try again; the node's log has more",
        }
    }
}

/// The word of the three that clients of the runs API know.
fn class(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "not_found",
        status if status.is_server_error() => "server_error",
        _ => "invalid_input",
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.status();
        let body = Json(json!({
            "code": class(status),
            "message": self.to_string(),
            "status": "failed",
            "error": {
                "code": self.code(),
                "message": self.to_string(),
                "suggestion": self.suggestion(),
            },
        }));
        let mut response = (status, body).into_response();
        response.extensions_mut().insert(TurnedAway(self.code()));
        let headers = response.headers_mut();
        match self {
            Self::NoToken | Self::BadToken => {
                headers.insert(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static("Bearer realm=\"agentcraft\""),
                );
            }
            Self::TooMany { after } => {
                headers.insert(
                    header::RETRY_AFTER,
                    HeaderValue::from(after.as_secs().max(1)),
                );
            }
            _ => {}
        }
        response
    }
}
