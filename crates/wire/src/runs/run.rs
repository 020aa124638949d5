//! Runs: how they are asked for, what is told of them, how they are resumed, and the errors.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{Message, message::or_default};

/// How a caller waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Sync,
    Async,
    Stream,
}

/// The body of `POST /runs`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunCreate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The network dialect's word for the agent: its name, or the node's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub input: Vec<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionInline>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RunMetadata>,
}

/// A session that the caller brings with it: where its history can be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionInline {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub history: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// What callers on a local network say beside the input.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_agent_id: Option<String>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub call_chain: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_output: Option<String>,
    /// How long the work may take; the node's own limit is not exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A run as it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub run_id: String,
    pub agent_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub await_request: Option<AwaitRequest>,
    /// The network dialect's form of `await_request`.
    #[serde(default, rename = "await", skip_serializing_if = "Option::is_none")]
    pub awaits: Option<Await>,
    #[serde(default, deserialize_with = "or_default")]
    pub output: Vec<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
}

impl Run {
    /// What it awaits and what is said of it, in whichever dialect; a hop may have dropped one of the two.
    pub fn awaited(&self) -> Option<(&Message, Option<&AwaitMetadata>)> {
        let beside = self.awaits.as_ref();
        let told = beside.and_then(|awaits| awaits.metadata.as_ref());
        match &self.await_request {
            Some(request) => Some((&request.message, request.metadata.as_ref().or(told))),
            None => Some((&beside?.message, told)),
        }
    }

    /// Which question it awaits an answer to, where it says so.
    pub fn ask(&self) -> Option<&str> {
        self.awaited()?.1?.ask()
    }
}

/// What a run awaits, as the standard has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AwaitRequest {
    #[serde(
        rename = "type",
        default = "message_word",
        deserialize_with = "or_message"
    )]
    pub kind: String,
    pub message: Message,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<AwaitMetadata>,
}

/// What a run awaits, as callers on a local network read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Await {
    pub message: Message,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<AwaitMetadata>,
}

/// How much hangs on an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reversible: Option<bool>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl AwaitMetadata {
    /// Whether only a human may answer.
    pub fn is_final(&self) -> bool {
        self.severity.as_deref() == Some("destructive") && self.reversible != Some(true)
    }

    /// Which question it is, where the run says so: two may have the same words.
    pub fn ask(&self) -> Option<&str> {
        self.extra.get("ask")?.as_str()
    }
}

/// The body of a resume, in either dialect.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub await_resume: Option<AwaitResume>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<Message>>,
    /// The question that is answered, as the await's metadata names it, so that no other one gets the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AwaitResume {
    #[serde(
        rename = "type",
        default = "message_word",
        deserialize_with = "or_message"
    )]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
}

/// Why a run failed. Standard clients know three codes; `data` has the exact one for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunError {
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// The body of every answer that is no success.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// One of the three words that standard clients know.
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorDetail>,
}

/// What went wrong, in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetail {
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_chain: Option<Vec<String>>,
}

/// A session as it is told, in both dialects at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionDescriptor {
    pub id: String,
    /// One address per message, in order.
    pub history: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    pub session_id: String,
    /// All messages in one.
    pub history_url: String,
    pub created_at: String,
    pub last_active: String,
    pub ttl_seconds: u64,
    /// `ephemeral` or `persistent`.
    pub lifetime: String,
    /// The run in it that is not over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_run: Option<String>,
}

fn or_message<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_else(message_word))
}

fn message_word() -> String {
    "message".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_dialects_ask_for_a_run() {
        let standard: RunCreate = serde_json::from_value(json!({
            "agent_name": "echo", "session_id": null, "mode": "stream",
            "input": [{ "role": "user", "parts": [{ "content_type": "text/plain", "content": "hi" }] }],
        }))
        .unwrap();
        let network: RunCreate = serde_json::from_value(json!({
            "agent_id": "echo", "mode": "stream",
            "input": [{ "parts": [{ "content": "hi" }] }],
            "metadata": { "locale": "zh-CN", "source_agent_id": "desk-1", "mood": 1 },
        }))
        .unwrap();
        assert_eq!(standard.input, network.input);
        assert_eq!(
            (standard.mode, network.mode),
            (Some(Mode::Stream), Some(Mode::Stream))
        );
        let metadata = network.metadata.unwrap();
        assert_eq!(metadata.locale.as_deref(), Some("zh-CN"));
        assert_eq!(metadata.extra["mood"], 1);
    }

    #[test]
    fn nulls_are_fields_that_are_not_there() {
        let create: RunCreate = serde_json::from_value(json!({
            "input": null, "session": { "id": "s", "history": null },
            "metadata": { "call_chain": null, "locale": null },
        }))
        .unwrap();
        assert_eq!(create.input, []);
        assert_eq!(create.session.unwrap().history, [""; 0]);
        assert_eq!(create.metadata.unwrap().call_chain, [""; 0]);
        let resume = json!({ "await_resume": { "type": null, "message": null }, "ask": null });
        let resume: Resume = serde_json::from_value(resume).unwrap();
        assert_eq!(resume.await_resume.unwrap().kind, "message");
    }

    #[test]
    fn both_dialects_resume() {
        let standard: Resume = serde_json::from_value(json!({
            "await_resume": { "type": "message", "message": { "parts": [{ "content": "A4" }] } },
            "run_id": "x",
        }))
        .unwrap();
        let network: Resume =
            serde_json::from_value(json!({ "input": [{ "parts": [{ "content": "A4" }] }] }))
                .unwrap();
        assert_eq!(
            standard.await_resume.unwrap().message,
            network.input.unwrap().pop()
        );
        let empty: Resume = serde_json::from_value(json!({ "await_resume": {} })).unwrap();
        assert_eq!(empty.await_resume.unwrap().message, None);
    }

    #[test]
    fn only_what_cannot_be_undone_is_final() {
        let metadata = |severity: &str, reversible| AwaitMetadata {
            severity: Some(severity.to_owned()),
            reversible,
            extra: Map::new(),
        };
        assert!(metadata("destructive", Some(false)).is_final());
        assert!(!metadata("destructive", Some(true)).is_final());
        assert!(metadata("destructive", None).is_final());
        assert!(!metadata("normal", Some(false)).is_final());
    }

    #[test]
    fn the_standards_own_example_of_a_run_is_read() {
        let run: Run = serde_json::from_value(json!({
            "run_id": "f680ec3a-580b-469a-aab3-2c9eaa7390e1", "agent_name": "echo",
            "session_id": "a5eee692-1278-4e77-8628-409f8b0dc12e", "status": "completed",
            "await_request": null, "error": null,
            "output": [{ "role": "agent/echo", "parts": [{
                "name": null, "content_type": "text/plain", "content": "Howdy",
                "content_encoding": "plain", "content_url": null, "metadata": null,
            }], "created_at": "2026-11-15T18:17:06.167057Z", "completed_at": null }],
            "created_at": "2026-11-15T18:17:06.167678Z", "finished_at": "2026-11-15T18:17:06.169305Z",
        }))
        .unwrap();
        assert_eq!(run.output[0].parts[0].as_text(), Some("Howdy"));
        let told = serde_json::to_value(&run).unwrap();
        assert_eq!(told.get("await_request"), None, "absent, not null");
    }
}
