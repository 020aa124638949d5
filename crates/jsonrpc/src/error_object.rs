//! The error object of a response, and the codes the specification reserves.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// The line is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The line is JSON, but not a request, notification or response.
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;
/// The side that asked has cancelled the request.
pub const REQUEST_CANCELLED: i64 = -32800;

/// Why a request failed, as it goes over the wire.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorObject {
    pub code: i64,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl ErrorObject {
    pub fn new(code: i64, message: impl Into<String>) -> ErrorObject {
        ErrorObject {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// Adds `data`; data that cannot be written as JSON is left out, for the error itself must
    /// still arrive.
    #[must_use]
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> ErrorObject {
        self.data = to_raw_value(data).ok();
        self
    }

    pub fn parse_error(message: impl Into<String>) -> ErrorObject {
        ErrorObject::new(PARSE_ERROR, message)
    }

    pub fn invalid_request(message: impl Into<String>) -> ErrorObject {
        ErrorObject::new(INVALID_REQUEST, message)
    }

    pub fn method_not_found(method: &str) -> ErrorObject {
        ErrorObject::new(METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    pub fn invalid_params(message: impl Into<String>) -> ErrorObject {
        ErrorObject::new(INVALID_PARAMS, message)
    }

    pub fn internal(message: impl Into<String>) -> ErrorObject {
        ErrorObject::new(INTERNAL_ERROR, message)
    }

    pub fn cancelled() -> ErrorObject {
        ErrorObject::new(REQUEST_CANCELLED, "request cancelled")
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ErrorObject {}

/// Data is compared as text, for a raw value has no other equality.
impl PartialEq for ErrorObject {
    fn eq(&self, other: &ErrorObject) -> bool {
        self.code == other.code
            && self.message == other.message
            && self.data.as_deref().map(RawValue::get) == other.data.as_deref().map(RawValue::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructors_use_the_reserved_codes() {
        let codes = [
            ErrorObject::parse_error("").code,
            ErrorObject::invalid_request("").code,
            ErrorObject::method_not_found("").code,
            ErrorObject::invalid_params("").code,
            ErrorObject::internal("").code,
            ErrorObject::cancelled().code,
        ];
        assert_eq!(codes, [-32700, -32600, -32601, -32602, -32603, -32800]);
    }

    #[test]
    fn data_is_kept_as_written_and_absent_data_is_not_written() {
        let text = r#"{"code":-1,"message":"m","data":{"b":1,"a":2.50}}"#;
        let error: ErrorObject = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&error).unwrap(), text);
        assert_eq!(error.to_string(), "m (-1)");
        let bare = ErrorObject::new(-1, "m");
        assert_ne!(bare, error);
        assert_eq!(
            serde_json::to_string(&bare).unwrap(),
            r#"{"code":-1,"message":"m"}"#
        );
        assert_eq!(bare.with_data("x").data.unwrap().get(), r#""x""#);
    }
}
