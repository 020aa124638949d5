//! Why a tool call failed, in words for a model and a constant for a program.

use std::{collections::BTreeMap, error::Error};

use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, CustomRequest, ErrorCode as ProtocolCode, MetaObject},
};
use serde_json::{Value, json};
use wire::daemon::ErrorCode;

use crate::{daemon::DaemonError, lines::UNREADABLE};

/// No daemon answers.
const DAEMON_NOT_RUNNING: &str = "DAEMON_NOT_RUNNING";
/// The daemon went away while it worked.
const DAEMON_LOST: &str = "DAEMON_LOST";
/// The agent could not carry the turn out.
const TURN_FAILED: &str = "TURN_FAILED";
/// Somebody cancelled the turn: the caller, or another client.
const TURN_CANCELLED: &str = "TURN_CANCELLED";

/// What the servers here serve. The library hands a request of one of them with parameters it cannot read to whoever
/// handles methods it does not know.
const SERVED: [&str; 5] = [
    "tools/call",
    "tools/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
];

/// The answer to a request that the library could make nothing of.
pub(crate) fn unknown_or_misshapen(request: &CustomRequest) -> ErrorData {
    let method = request.method.as_str();
    if method == UNREADABLE {
        let why = request
            .params
            .as_ref()
            .and_then(|params| params["why"].as_str());
        return ErrorData::invalid_request(why.unwrap_or_default().to_owned(), None);
    }
    match SERVED.contains(&method) {
        true => ErrorData::invalid_params(
            format!("the params of {method} are not of the shape that it takes"),
            None,
        ),
        false => ErrorData::new(ProtocolCode::METHOD_NOT_FOUND, method.to_owned(), None),
    }
}

/// A failed tool call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
    context: BTreeMap<String, Value>,
    /// What the agent had said before it failed.
    said: String,
}

impl Failure {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            context: BTreeMap::new(),
            said: String::new(),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams.name(), message)
    }

    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::GenericBusiness.name(), message)
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(TURN_CANCELLED, "the turn was cancelled")
    }

    /// A turn that was not over in time.
    pub(crate) fn late(limit_ms: u64) -> Self {
        let message = format!(
            "the agent did not finish within {limit_ms} ms; its turn is ended and the agent removed"
        );
        Self::new(ErrorCode::GenericBusiness.name(), message)
    }

    /// A turn that ended in failure.
    pub(crate) fn turn(message: impl Into<String>) -> Self {
        Self::new(TURN_FAILED, message)
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.context.insert(key.to_owned(), value.into());
        self
    }

    /// Keeps what the agent had said already.
    pub(crate) fn after_saying(mut self, text: &str) -> Self {
        text.clone_into(&mut self.said);
        self
    }

    /// As a result of the tool. There is no structured content: a failure does not have the tool's output schema, and
    /// clients check one against the other.
    pub(crate) fn into_result(self) -> CallToolResult {
        let mut content = vec![ContentBlock::text(format!(
            "{}: {}",
            self.code, self.message
        ))];
        if !self.said.is_empty() {
            content.push(ContentBlock::text(format!(
                "Before that it said:\n{}",
                self.said
            )));
        }
        let mut meta = MetaObject::new();
        meta.insert("agentcraft/errorCode".to_owned(), json!(self.code));
        if !self.context.is_empty() {
            meta.insert("agentcraft/context".to_owned(), json!(self.context));
        }
        CallToolResult::error(content).with_meta(Some(meta))
    }
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Self {
        if let Some(data) = error.data() {
            return Self {
                code: data.error_code,
                message: error.to_string(),
                context: data.context,
                said: String::new(),
            };
        }
        let code = match &error {
            DaemonError::NotRunning { .. } | DaemonError::Connect { .. } => DAEMON_NOT_RUNNING,
            DaemonError::Lost { .. } | DaemonError::Silent => DAEMON_LOST,
            DaemonError::Refused(_) | DaemonError::Send { .. } | DaemonError::Unreadable { .. } => {
                ErrorCode::InternalError.name()
            }
        };
        Self::new(code, chain(&error))
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use jsonrpc::ErrorObject;

    use super::*;

    #[test]
    fn a_refusal_keeps_its_constant_its_words_and_its_context() {
        let error = ErrorObject::new(-32003, "there is no agent x")
            .with_data(&json!({"errorCode": "AGENT_NOT_FOUND", "context": {"name": "x"}}));
        let result = Failure::from(DaemonError::Refused(error)).into_result();
        assert_eq!(
            serde_json::to_value(result).unwrap(),
            json!({
                "resultType": "complete",
                "content": [{"type": "text", "text": "AGENT_NOT_FOUND: there is no agent x"}],
                "isError": true,
                "_meta": {"agentcraft/errorCode": "AGENT_NOT_FOUND", "agentcraft/context": {"name": "x"}},
            })
        );
    }

    #[test]
    fn without_a_daemon_the_words_say_how_to_start_one() {
        let failure = Failure::from(DaemonError::NotRunning {
            socket: "/x.sock".into(),
        });
        assert_eq!(failure.code, DAEMON_NOT_RUNNING);
        assert!(failure.message.contains("`agentcraft daemon start`"));
    }

    #[test]
    fn what_was_said_before_the_failure_is_not_lost() {
        let result = Failure::turn("it broke")
            .after_saying("half an answer")
            .into_result();
        let text = serde_json::to_string(&result.content).unwrap();
        assert!(text.contains("TURN_FAILED: it broke") && text.contains("half an answer"));
    }
}
