//! Bodies of events and acknowledgements. What is unknown is ignored; what we need and miss has a default where one makes
//! sense, because members of many versions meet in an office.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Asks to enter an office.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    pub role: String,
    pub name: String,
    pub office_id: String,
    /// The specification lets the first event carry the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Asks to leave an office.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leave {
    pub office_id: String,
}

/// Asks who is in an office.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRoom {
    #[serde(default)]
    pub agent: Option<String>,
    #[serde(default)]
    pub req_id: Option<String>,
    pub office_id: String,
}

/// One member in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub sid: String,
    pub name: String,
    pub role: String,
    pub office_id: String,
    #[serde(default)]
    pub a2c_version: Option<String>,
}

/// Who is in an office.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomAnswer {
    pub sessions: Vec<Session>,
    #[serde(default)]
    pub req_id: Option<String>,
}

/// A tool call, as the computer gets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    #[serde(default)]
    pub agent: String,
    pub req_id: String,
    pub computer: String,
    pub tool_name: String,
    #[serde(default)]
    pub params: Map<String, Value>,
    /// Seconds; some clients send fractions.
    #[serde(default)]
    pub timeout: Option<f64>,
}

/// The field of a forwarded call in which our office server says whose agent asks, in a word that tells nothing else. Ids
/// of calls are the agents' own, so a computer needs it to keep two agents' calls apart; it says in its handshake, under
/// the same name, that it wants it.
pub const CALL_SCOPE: &str = "call_scope";

/// The field of a call in which an agent of ours asks to be told how far it is. Members of others ignore it, and then
/// nothing is told.
pub const CALL_PROGRESS: &str = "call_progress";

/// How far a call has come, in the measure of the server that works on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub progress: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How far the call of this id has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallProgress {
    pub req_id: String,
    /// Who works on it, as the server knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computer: Option<String>,
    #[serde(flatten)]
    pub progress: Progress,
}

/// A call that is not wanted any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    #[serde(default)]
    pub agent: Option<String>,
    pub req_id: String,
}

/// Somebody has entered or left; the key that does not apply is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    pub office_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// What a computer adds to what a tool says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolMeta {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_apply: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ret_object_mapper: Option<Map<String, Value>>,
}

impl ToolMeta {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A tool, as an agent sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    #[serde(default)]
    pub bundle_id: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub params_schema: Value,
    #[serde(default)]
    pub return_schema: Option<Value>,
    /// Values are scalars or JSON in a string: the released readers know no other.
    #[serde(default)]
    pub meta: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolsAnswer {
    pub tools: Vec<Tool>,
    #[serde(default)]
    pub req_id: String,
}

/// What a tool has answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    #[serde(default)]
    pub meta: Option<Map<String, Value>>,
    #[serde(default)]
    pub content: Vec<Value>,
    #[serde(default, rename = "structuredContent")]
    pub structured_content: Option<Value>,
    #[serde(default, rename = "isError")]
    pub is_error: bool,
}

impl CallResult {
    /// A failure in words.
    pub fn failure(words: impl Into<String>) -> Self {
        Self {
            content: vec![serde_json::json!({ "type": "text", "text": words.into() })],
            is_error: true,
            ..Self::default()
        }
    }

    /// Adds one mark to the result.
    #[must_use]
    pub fn marked(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.meta
            .get_or_insert_default()
            .insert(key.to_owned(), value.into());
        self
    }

    /// The call did not end in time.
    pub fn timed_out() -> Self {
        Self::failure("The tool call did not end in time.").marked("a2c_timeout", true)
    }

    /// The agent has cancelled the call.
    pub fn cancelled() -> Self {
        Self::failure("The tool call was cancelled.")
            .marked("a2c_cancelled", true)
            .marked("a2c_cancel_reason", "agent_requested")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesktopAnswer {
    pub desktops: Vec<String>,
    #[serde(default)]
    pub req_id: String,
}

/// A resource of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    pub uri: String,
    #[serde(default)]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// `audience`, `priority`, `last_modified`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Map<String, Value>>,
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResourcesAnswer {
    pub resources: Vec<Resource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    #[serde(default)]
    pub req_id: String,
}

/// Asks for a piece of something too large to be sent at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobAsk {
    #[serde(default)]
    pub req_id: String,
    pub blob_handle: String,
    #[serde(default)]
    pub chunk_offset: u64,
    #[serde(default)]
    pub max_chunk_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobAnswer {
    pub blob_handle: String,
    pub mime_type: String,
    pub total_size: u64,
    pub sha256: String,
    pub chunk_offset: u64,
    pub eof: bool,
    /// Base64.
    pub blob: String,
    #[serde(default)]
    pub req_id: String,
}

/// Sends a piece of a file to a computer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutBlobAsk {
    #[serde(default)]
    pub req_id: String,
    #[serde(default)]
    pub upload_id: Option<String>,
    #[serde(default)]
    pub chunk_offset: u64,
    pub eof: bool,
    #[serde(default)]
    pub total_size: Option<u64>,
    #[serde(default)]
    pub sha256: Option<String>,
    #[serde(default)]
    pub name_hint: Option<String>,
    /// Base64.
    pub blob: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutBlobAnswer {
    pub upload_id: String,
    pub chunk_offset: u64,
    #[serde(default)]
    pub req_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landing_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_key_that_does_not_apply_is_absent() {
        let entered = Membership {
            office_id: "o".to_owned(),
            computer: Some("pc".to_owned()),
            agent: None,
        };
        assert_eq!(
            serde_json::to_value(entered).unwrap(),
            json!({"office_id": "o", "computer": "pc"})
        );
    }

    #[test]
    fn a_result_has_the_four_released_keys() {
        assert_eq!(
            serde_json::to_value(CallResult::timed_out()).unwrap(),
            json!({
                "meta": {"a2c_timeout": true},
                "content": [{"type": "text", "text": "The tool call did not end in time."}],
                "structuredContent": null,
                "isError": true
            })
        );
        assert_eq!(
            serde_json::to_value(CallResult::default()).unwrap(),
            json!({"meta": null, "content": [], "structuredContent": null, "isError": false})
        );
    }

    #[test]
    fn unknown_fields_are_ignored_and_missing_ones_have_defaults() {
        let call: ToolCall = serde_json::from_value(json!({
            "robot_id": "x", "req_id": "r", "computer": "pc", "tool_name": "t", "made_up": 1
        }))
        .unwrap();
        assert_eq!((call.params.len(), call.timeout), (0, None));
        let blob: BlobAsk = serde_json::from_value(json!({"blob_handle": "h"})).unwrap();
        assert_eq!(blob.chunk_offset, 0);
    }
}
