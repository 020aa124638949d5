//! Failures of the engine and of the agent as errors of the protocol.

use domain::session::Refusal;
use engine::{DriverError, EngineError, OpenError, chain};
use jsonrpc::ErrorObject;
use serde_json::json;

use crate::failure::RESOURCE_NOT_FOUND;

/// What programs go by, beside the number and the words, in the `data` of an error.
const PROMPT_IN_FLIGHT: &str = "USER.ACP.PROMPT_IN_FLIGHT";
const UNKNOWN_SESSION: &str = "USER.ACP.UNKNOWN_SESSION";
const PROTOCOL_VERSION_UNSUPPORTED: &str = "USER.ACP.PROTOCOL_VERSION_UNSUPPORTED";

fn coded(error: ErrorObject, code: &str) -> ErrorObject {
    error.with_data(&json!({ "code": code }))
}

pub(super) fn of_engine(error: &EngineError) -> ErrorObject {
    let words = chain(error);
    match error {
        EngineError::SessionNotFound { .. }
        | EngineError::SessionOver { .. }
        | EngineError::OtherSession { .. } => {
            coded(ErrorObject::new(RESOURCE_NOT_FOUND, words), UNKNOWN_SESSION)
        }
        EngineError::SessionRefused {
            refusal: Refusal::Busy,
            ..
        } => coded(ErrorObject::invalid_request(words), PROMPT_IN_FLIGHT),
        _ => ErrorObject::internal(words),
    }
}

pub(super) fn of_agent(error: &DriverError) -> ErrorObject {
    match error {
        // Editors act on the code: one of them means that a person has to sign in.
        DriverError::Refused { code, message } => ErrorObject::new(*code, message.clone()),
        DriverError::Unsupported { .. } => {
            ErrorObject::new(jsonrpc::METHOD_NOT_FOUND, error.to_string())
        }
        error => ErrorObject::internal(error.to_string()),
    }
}

pub(super) fn of_opening(error: &OpenError) -> ErrorObject {
    match error {
        OpenError::Engine(error) => of_engine(error),
        OpenError::Agent(error) => of_agent(error),
    }
}

/// A session that this editor has not opened.
pub(super) fn unknown_session(id: &str) -> ErrorObject {
    let words = format!(
        "the session {id:?} is not open here: make one with session/new, or take one up with session/load"
    );
    coded(ErrorObject::new(RESOURCE_NOT_FOUND, words), UNKNOWN_SESSION)
}

/// A session that was closed, of an agent that cannot take one up.
pub(super) fn over_for_good(id: &str) -> ErrorObject {
    let words = format!(
        "the session {id:?} was closed, and its agent cannot take up a conversation again; its history can be read with \
         `agentcraft session export`"
    );
    coded(ErrorObject::new(RESOURCE_NOT_FOUND, words), UNKNOWN_SESSION)
}

/// Another version of the protocol than the one that is spoken here.
pub(super) fn unsupported_version(words: String) -> ErrorObject {
    coded(
        ErrorObject::invalid_params(words),
        PROTOCOL_VERSION_UNSUPPORTED,
    )
}
