//! What can go wrong, with its code on every binding.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Object;

/// The errors of A2A and of JSON-RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    TaskNotFound,
    TaskNotCancelable,
    PushNotificationNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
    InvalidAgentResponse,
    ExtendedAgentCardNotConfigured,
    ExtensionSupportRequired,
    VersionNotSupported,
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
}

/// How one error is written: JSON-RPC code, HTTP status, word of `google.rpc.Code`, reason.
struct Row(ErrorCode, i64, u16, &'static str, &'static str);

const TABLE: [Row; 14] = [
    Row(
        ErrorCode::TaskNotFound,
        -32001,
        404,
        "NOT_FOUND",
        "TASK_NOT_FOUND",
    ),
    Row(
        ErrorCode::TaskNotCancelable,
        -32002,
        400,
        "FAILED_PRECONDITION",
        "TASK_NOT_CANCELABLE",
    ),
    Row(
        ErrorCode::PushNotificationNotSupported,
        -32003,
        400,
        "FAILED_PRECONDITION",
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
    ),
    Row(
        ErrorCode::UnsupportedOperation,
        -32004,
        400,
        "FAILED_PRECONDITION",
        "UNSUPPORTED_OPERATION",
    ),
    Row(
        ErrorCode::ContentTypeNotSupported,
        -32005,
        415,
        "INVALID_ARGUMENT",
        "CONTENT_TYPE_NOT_SUPPORTED",
    ),
    Row(
        ErrorCode::InvalidAgentResponse,
        -32006,
        500,
        "INTERNAL",
        "INVALID_AGENT_RESPONSE",
    ),
    Row(
        ErrorCode::ExtendedAgentCardNotConfigured,
        -32007,
        400,
        "FAILED_PRECONDITION",
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    ),
    Row(
        ErrorCode::ExtensionSupportRequired,
        -32008,
        400,
        "FAILED_PRECONDITION",
        "EXTENSION_SUPPORT_REQUIRED",
    ),
    Row(
        ErrorCode::VersionNotSupported,
        -32009,
        400,
        "FAILED_PRECONDITION",
        "VERSION_NOT_SUPPORTED",
    ),
    Row(
        ErrorCode::Parse,
        -32700,
        400,
        "INVALID_ARGUMENT",
        "INVALID_JSON",
    ),
    Row(
        ErrorCode::InvalidRequest,
        -32600,
        400,
        "INVALID_ARGUMENT",
        "INVALID_REQUEST",
    ),
    Row(
        ErrorCode::MethodNotFound,
        -32601,
        404,
        "NOT_FOUND",
        "METHOD_NOT_FOUND",
    ),
    Row(
        ErrorCode::InvalidParams,
        -32602,
        400,
        "INVALID_ARGUMENT",
        "INVALID_PARAMS",
    ),
    Row(
        ErrorCode::Internal,
        -32603,
        500,
        "INTERNAL",
        "INTERNAL_ERROR",
    ),
];

impl ErrorCode {
    /// The code of JSON-RPC.
    pub fn code(self) -> i64 {
        self.row().1
    }

    pub fn http_status(self) -> u16 {
        self.row().2
    }

    /// The word of `google.rpc.Code`.
    pub fn status_word(self) -> &'static str {
        self.row().3
    }

    /// What `ErrorInfo` says.
    pub fn reason(self) -> &'static str {
        self.row().4
    }

    pub fn from_code(code: i64) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == code).map(|row| row.0)
    }

    pub fn from_reason(reason: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.4 == reason).map(|row| row.0)
    }

    /// The `google.rpc.ErrorInfo` that every error carries.
    pub fn info(self, metadata: &Object) -> Value {
        json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.reason(),
            "domain": "a2a-protocol.org",
            "metadata": metadata,
        })
    }

    fn row(self) -> &'static Row {
        TABLE
            .iter()
            .find(|row| row.0 == self)
            .expect("every error has a row")
    }
}

/// The error of a JSON-RPC answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    pub code: i64,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_reasons_are_unique() {
        for row in &TABLE {
            assert_eq!(ErrorCode::from_code(row.1), Some(row.0));
            assert_eq!(ErrorCode::from_reason(row.4), Some(row.0));
            assert_eq!(row.0.code(), row.1);
        }
        assert_eq!(ErrorCode::VersionNotSupported.code(), -32009);
        assert_eq!(ErrorCode::TaskNotFound.http_status(), 404);
    }
}
