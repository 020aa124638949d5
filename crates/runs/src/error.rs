//! What can go wrong with what a caller asks for, and how it is told: always JSON, with words and a way on.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use domain::{chain, run};
use engine::{EngineError, ErrorKind};
use serde_json::{Value, json};
use wire::runs::{ErrorBody, ErrorDetail};

use crate::{exchange::ExchangeError, record::Failure};

/// What whoever has named nobody can look at.
const LISTED: &str = "GET /agents lists the agents";

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunsError {
    #[error("the body is not JSON: {why}")]
    NotJson { why: String },
    #[error("{what}")]
    Invalid { what: String },
    #[error("the body is larger than this node takes")]
    BodyTooLarge,
    #[error("this needs a token")]
    NoCaller,
    #[error("this token does not allow {right}")]
    Forbidden { right: String },
    #[error("there is no agent called {name}")]
    AgentNotFound { name: String },
    #[error("this node has several agents; name one of them")]
    WhichAgent,
    #[error("there is no run {id}")]
    RunNotFound { id: String },
    #[error("there is no session {id}")]
    SessionNotFound { id: String },
    #[error("the session {id} has expired")]
    SessionExpired { id: String },
    #[error("session_id and session.id are not the same")]
    SessionMismatch,
    #[error("the session {id} belongs to the agent {agent}")]
    SessionOfOther { id: String, agent: String },
    #[error("another run of the session {id} is not over yet")]
    SessionBusy { id: String },
    #[error(transparent)]
    Chain { refusal: chain::Refusal },
    #[error("{refusal}")]
    Refused { id: String, refusal: run::Refusal },
    #[error("the run asks something else by now, so this answer was not used")]
    OtherAsk { id: String },
    #[error("that is no answer to what the run asks: {how}")]
    WrongAnswer { id: String, how: String },
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
    #[error("the run {id} did not finish in time")]
    TimedOut { id: String, failure: Box<Failure> },
    #[error("the history at {url} is not read: {why}")]
    History { url: String, why: String },
    #[error("this cannot be asked for so ({status})")]
    TurnedAway { status: StatusCode },
    #[error("too many runs are in progress on this node")]
    TooBusy,
    #[error(transparent)]
    Exchange { source: ExchangeError },
    #[error("{}", engine::chain(source))]
    Engine { source: EngineError },
}

impl From<EngineError> for RunsError {
    fn from(source: EngineError) -> Self {
        Self::Engine { source }
    }
}

impl From<ExchangeError> for RunsError {
    fn from(source: ExchangeError) -> Self {
        Self::Exchange { source }
    }
}

impl From<chain::Refusal> for RunsError {
    fn from(refusal: chain::Refusal) -> Self {
        Self::Chain { refusal }
    }
}

impl RunsError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::NotJson { .. } | Self::WhichAgent | Self::Chain { .. } => StatusCode::BAD_REQUEST,
            Self::Invalid { .. } | Self::WrongAnswer { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoCaller => StatusCode::UNAUTHORIZED,
            // Where a history may be read from is the owner's to say; the request itself is in order.
            Self::Forbidden { .. } | Self::History { .. } => StatusCode::FORBIDDEN,
            Self::AgentNotFound { .. }
            | Self::RunNotFound { .. }
            | Self::SessionNotFound { .. } => StatusCode::NOT_FOUND,
            Self::SessionExpired { .. } => StatusCode::GONE,
            Self::SessionMismatch
            | Self::SessionOfOther { .. }
            | Self::SessionBusy { .. }
            | Self::OtherAsk { .. }
            | Self::KeyReused => StatusCode::CONFLICT,
            Self::Refused { refusal, .. } => refused_status(refusal),
            Self::TimedOut { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::TurnedAway { status } => *status,
            Self::TooBusy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Exchange { source } => source.status(),
            Self::Engine { source } => match source.kind() {
                ErrorKind::AgentNotFound | ErrorKind::TemplateNotFound => StatusCode::NOT_FOUND,
                ErrorKind::InvalidParams { .. } => StatusCode::UNPROCESSABLE_ENTITY,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
        }
    }

    /// The exact word.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::NotJson { .. }
            | Self::Invalid { .. }
            | Self::WhichAgent
            | Self::TurnedAway { .. } => "invalid_input",
            Self::BodyTooLarge => "body_too_large",
            Self::NoCaller => "unauthorized",
            Self::Forbidden { .. } => "forbidden",
            Self::AgentNotFound { .. } => "agent_not_found",
            Self::RunNotFound { .. } => "run_not_found",
            Self::SessionNotFound { .. } => "session_not_found",
            Self::SessionExpired { .. } => "session_expired",
            Self::SessionMismatch => "session_mismatch",
            Self::SessionOfOther { .. } => "session_of_other_agent",
            Self::SessionBusy { .. } => "session_busy",
            Self::Chain { refusal } => match refusal {
                chain::Refusal::SelfLoop { .. } => "self_loop_rejected",
                chain::Refusal::Circle { .. } => "circular_call_detected",
                chain::Refusal::TooDeep { .. } => "call_chain_too_long",
                chain::Refusal::Malformed => "invalid_call_chain",
            },
            Self::Refused { refusal, .. } => match refusal {
                run::Refusal::NotAwaiting { .. } => "not_awaiting",
                run::Refusal::Over { .. } => "run_is_over",
                run::Refusal::OutOfOrder { .. } => "out_of_order",
            },
            Self::OtherAsk { .. } => "other_question",
            Self::WrongAnswer { .. } => "wrong_answer",
            Self::KeyReused => "idempotency_key_reused",
            Self::TimedOut { failure, .. } => &failure.code,
            Self::History { .. } => "history_not_read",
            Self::TooBusy => "too_busy",
            Self::Exchange { source } => source.code(),
            Self::Engine { source } => match source.kind() {
                ErrorKind::AgentNotFound | ErrorKind::TemplateNotFound => "agent_not_found",
                ErrorKind::AgentLaunch => "agent_not_started",
                _ => "server_error",
            },
        }
    }

    pub(crate) fn suggestion(&self) -> &str {
        match self {
            Self::NotJson { .. } | Self::Invalid { .. } | Self::TurnedAway { .. } => {
                "correct the request; GET /openapi.json describes it"
            }
            Self::BodyTooLarge => "upload large content to /resources and send its content_url",
            Self::NoCaller => "send a token of this node as `Authorization: Bearer …`",
            Self::Forbidden { .. } => "ask the owner of the node for a token that allows it",
            Self::AgentNotFound { .. } | Self::WhichAgent => LISTED,
            Self::RunNotFound { .. } => "begin a new run",
            Self::SessionNotFound { .. } | Self::SessionExpired { .. } => {
                "begin a new session: leave session_id out"
            }
            Self::SessionMismatch => "send one of the two",
            Self::SessionOfOther { .. } => "begin a new session with this agent",
            Self::SessionBusy { .. } => "wait for that run, resume it or cancel it",
            Self::Chain { .. } => "do the work here, or ask another agent",
            Self::Refused { .. } | Self::OtherAsk { .. } => {
                "GET /runs/{run_id} tells how the run stands"
            }
            Self::WrongAnswer { .. } => "answer with one of the options that await lists",
            Self::KeyReused => "use a new key for a new request",
            Self::TimedOut { failure, .. } => &failure.suggestion,
            Self::History { .. } => {
                "add the resource server to the node's configuration, or leave the history out"
            }
            Self::TooBusy => "try again in a moment",
            Self::Exchange { source } => source.suggestion(),
            Self::Engine { source } => match source.kind() {
                ErrorKind::AgentNotFound | ErrorKind::TemplateNotFound => LISTED,
                _ => "try again; the node's log has more",
            },
        }
    }

    /// The same as what becomes of a run that has begun.
    pub(crate) fn failure(&self) -> Failure {
        Failure {
            code: self.code().to_owned(),
            message: self.to_string(),
            details: self.details(),
            suggestion: self.suggestion().to_owned(),
        }
    }

    fn details(&self) -> Option<Value> {
        match self {
            Self::TimedOut { failure, .. } => failure.details.clone(),
            Self::SessionExpired { id } | Self::SessionNotFound { id } => {
                Some(json!({ "session_id": id }))
            }
            Self::Chain { refusal } => match refusal {
                chain::Refusal::Circle { chain, .. } | chain::Refusal::TooDeep { chain } => {
                    Some(json!({ "call_chain": chain }))
                }
                chain::Refusal::SelfLoop { .. } | chain::Refusal::Malformed => None,
            },
            _ => None,
        }
    }

    fn run_id(&self) -> Option<&str> {
        match self {
            Self::Refused { id, .. }
            | Self::OtherAsk { id }
            | Self::WrongAnswer { id, .. }
            | Self::TimedOut { id, .. }
            | Self::RunNotFound { id } => Some(id),
            _ => None,
        }
    }
}

/// The standard's own server says 403; only what is over for good is a conflict when it is resumed.
fn refused_status(refusal: &run::Refusal) -> StatusCode {
    match refusal {
        run::Refusal::NotAwaiting { status } if status.is_over() => StatusCode::CONFLICT,
        run::Refusal::NotAwaiting { .. } | run::Refusal::Over { .. } => StatusCode::FORBIDDEN,
        run::Refusal::OutOfOrder { .. } => StatusCode::CONFLICT,
    }
}

/// The word of the three that standard clients know.
pub(crate) fn class(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "not_found",
        status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
            "server_error"
        }
        _ => "invalid_input",
    }
}

impl IntoResponse for RunsError {
    fn into_response(self) -> Response {
        let status = self.status();
        let call_chain = match &self {
            Self::Chain {
                refusal: chain::Refusal::Circle { chain, .. },
            } => Some(chain.clone()),
            _ => None,
        };
        let error = ErrorDetail {
            code: self.code().to_owned(),
            message: self.to_string(),
            details: self.details(),
            suggestion: Some(self.suggestion().to_owned()),
            call_chain,
        };
        if status.is_server_error() {
            tracing::warn!(
                code = error.code,
                message = error.message,
                "a request failed"
            );
        }
        let body = ErrorBody {
            code: class(status).to_owned(),
            message: error.message.clone(),
            data: Some(json!({ "code": error.code })),
            run_id: self.run_id().map(str::to_owned),
            status: Some("failed".to_owned()),
            error: Some(error),
        };
        let mut response = (status, Json(body)).into_response();
        if status == StatusCode::REQUEST_TIMEOUT {
            // A client that retries a 408 by itself would begin the work again.
            let close = axum::http::HeaderValue::from_static("false");
            response.headers_mut().insert("x-should-retry", close);
        }
        response
    }
}
