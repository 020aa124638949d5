//! Why a send or a call did not succeed.

use crate::{ErrorObject, encode::BadPayload};

/// Why a message was not handed to the connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    #[error("could not send: the connection is closed")]
    Closed,
    /// Only the sends that do not wait say this.
    #[error("could not send: the outbox is full")]
    Full,
    #[error("could not send a line of {length} bytes: the ceiling is {line_max}")]
    TooLong { length: usize, line_max: usize },
    #[error("could not send a raw line: it is blank or has a newline inside")]
    NotALine,
    #[error("could not send params that are neither an object nor an array")]
    Params,
    #[error("could not write the payload as JSON")]
    Encode { source: serde_json::Error },
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    #[error("the peer answered with an error: {0}")]
    Remote(ErrorObject),
    #[error("the connection closed before the answer came")]
    Closed,
    #[error("could not call: {calls_max} calls are already waiting for their answers")]
    TooManyCalls { calls_max: usize },
    #[error("the peer's answer is no valid response: {0}")]
    Malformed(ErrorObject),
    #[error("could not send the call")]
    Send { source: SendError },
}

impl From<BadPayload> for SendError {
    fn from(payload: BadPayload) -> SendError {
        match payload {
            BadPayload::Encode(source) => SendError::Encode { source },
            BadPayload::Params => SendError::Params,
        }
    }
}

impl From<SendError> for CallError {
    fn from(error: SendError) -> CallError {
        match error {
            SendError::Closed => CallError::Closed,
            source @ (SendError::Full
            | SendError::TooLong { .. }
            | SendError::NotALine
            | SendError::Params
            | SendError::Encode { .. }) => CallError::Send { source },
        }
    }
}
