//! Messages of an office, in both profiles: the one the specification describes, and the one that was released.
//!
//! The profiles have different names for some events, another shape of configuration and of errors; everything else
//! is common. Names do not collide, so one server speaks both, and each member hears its own.

mod config;
mod event;
mod message;
mod version;

pub use config::{
    ConfigAnswer, ConfigProblem, Input, PickOption, ServerConfig, Transport, config_in,
    has_placeholder,
};
pub use event::{
    Change, ClientEvent, Event, ServerEvent, cancel_notice, enter_notice, leave_notice,
    progress_notice,
};
pub use message::{
    BlobAnswer, BlobAsk, CALL_PROGRESS, CALL_SCOPE, CallProgress, CallResult, Cancel,
    DesktopAnswer, Join, Leave, ListRoom, Membership, Progress, PutBlobAnswer, PutBlobAsk,
    Resource, ResourcesAnswer, RoomAnswer, Session, Tool, ToolCall, ToolMeta, ToolsAnswer,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
pub use version::{PROTOCOL, SHIPPED_VERSION, Version, VersionError};

/// The namespace of every event.
pub const NAMESPACE: &str = "/smcp";

/// Which of the two wire forms a member speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Profile {
    /// The specification's names and nested errors; no version is needed.
    Seed,
    /// The released 0.4 names and flat errors, with `a2c_version` in the query.
    Shipped,
}

/// What went wrong, whatever the profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    pub code: i64,
    pub message: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

impl ErrorBody {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: Map::new(),
        }
    }

    /// Adds one detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// The acknowledgement that says it.
    pub fn to_value(&self, profile: Profile) -> Value {
        let body = json!({ "code": self.code, "message": self.message, "details": self.details });
        match profile {
            Profile::Seed => json!({ "error": body }),
            Profile::Shipped => body,
        }
    }

    /// Reads an acknowledgement that is an error, in either profile.
    pub fn from_value(value: &Value) -> Option<Self> {
        let body = match value.get("error") {
            Some(nested @ Value::Object(_)) => nested,
            _ => value,
        };
        // A tool's result never has a code; it has content.
        let code = body.get("code")?.as_i64()?;
        let message = body.get("message")?.as_str()?.to_owned();
        if body.get("content").is_some() {
            return None;
        }
        let details = match body.get("details") {
            Some(Value::Object(details)) => details.clone(),
            _ => Map::new(),
        };
        Some(Self {
            code,
            message,
            details,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_nested_in_one_profile_and_flat_in_the_other() {
        let error = ErrorBody::new(404, "no such computer").with("computer_name", "x");
        let body =
            json!({"code": 404, "message": "no such computer", "details": {"computer_name": "x"}});
        assert_eq!(error.to_value(Profile::Seed), json!({ "error": body }));
        assert_eq!(error.to_value(Profile::Shipped), body);
        for profile in [Profile::Seed, Profile::Shipped] {
            let value = error.to_value(profile);
            assert_eq!(ErrorBody::from_value(&value), Some(error.clone()));
        }
    }

    #[test]
    fn results_are_not_taken_for_errors() {
        for value in [
            json!({"content": [], "isError": true}),
            json!({"content": [], "code": 1, "message": "m"}),
            json!({"tools": [], "req_id": "r"}),
            json!({"structuredContent": {"error": "words"}}),
            json!({"error": "words"}),
            json!(null),
            json!([404, "no"]),
        ] {
            assert_eq!(ErrorBody::from_value(&value), None, "{value}");
        }
    }
}
