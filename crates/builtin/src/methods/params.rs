//! How requests are read and refused.

use std::path::PathBuf;

use agent_client_protocol_schema::v1::SessionId;
use jsonrpc::{ErrorObject, Responder, SendError};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::words;

/// The protocol's code for a session that does not exist.
const RESOURCE_NOT_FOUND: i64 = -32002;

pub(super) async fn answer<T: Serialize>(
    responder: Responder,
    result: Result<T, ErrorObject>,
) -> Result<(), SendError> {
    match result {
        Ok(result) => responder.reply(&result).await,
        Err(error) => responder.fail(error).await,
    }
}

pub(super) fn parse<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, ErrorObject> {
    let text = params.map_or("{}", RawValue::get);
    serde_json::from_str(text).map_err(|error| ErrorObject::invalid_params(error.to_string()))
}

pub(super) fn absolute(cwd: PathBuf) -> Result<PathBuf, ErrorObject> {
    if cwd.is_absolute() {
        return Ok(cwd);
    }
    let words = format!(
        "the cwd {:?} is not an absolute path",
        cwd.display().to_string()
    );
    Err(ErrorObject::invalid_params(words))
}

pub(super) fn unknown(id: &SessionId) -> ErrorObject {
    let id = words::shortened(&id.0, 100);
    let words =
        format!("there is no session {id:?}: make one with session/new, or see session/list");
    ErrorObject::new(RESOURCE_NOT_FOUND, words)
}
