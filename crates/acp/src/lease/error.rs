//! Failures of the engine and of the agent as errors of the protocol.

use domain::session::Refusal;
use engine::{DriverError, EngineError, OpenError, chain};
use jsonrpc::ErrorObject;

use crate::failure::RESOURCE_NOT_FOUND;

pub(super) fn of_engine(error: &EngineError) -> ErrorObject {
    let words = chain(error);
    match error {
        EngineError::SessionNotFound { .. }
        | EngineError::SessionOver { .. }
        | EngineError::OtherSession { .. } => ErrorObject::new(RESOURCE_NOT_FOUND, words),
        EngineError::SessionRefused {
            refusal: Refusal::Busy,
            ..
        } => ErrorObject::invalid_request(words),
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
    ErrorObject::new(RESOURCE_NOT_FOUND, words)
}
