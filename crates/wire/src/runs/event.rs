//! What a stream tells, one event at a time.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Await, Message, Part, Run, RunError};

/// One event of a run: the standard's shape, and the network dialect's fields beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generic: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, rename = "await", skip_serializing_if = "Option::is_none")]
    pub awaits: Option<Await>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Vec<Message>>,
}

/// The word of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEvent {
    MessageCreated,
    MessagePart,
    MessageCompleted,
    /// Only for callers of the network dialect: standard ones break on a word they do not know.
    Artifact,
    Generic,
}

impl RunEvent {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MessageCreated => "message.created",
            Self::MessagePart => "message.part",
            Self::MessageCompleted => "message.completed",
            Self::Artifact => "run.artifact",
            Self::Generic => "generic",
        }
    }
}

impl Event {
    /// A run has come to another status.
    pub fn of_run(run: Run) -> Self {
        let (run_id, status) = (run.run_id.clone(), run.status.clone());
        let (session_id, awaits) = (run.session_id.clone(), run.awaits.clone());
        let output = (!run.output.is_empty()).then(|| run.output.clone());
        Self {
            run_id: Some(run_id),
            session_id,
            awaits,
            output,
            error: run.error.clone(),
            run: Some(run),
            ..Self::bare(&format!("run.{status}"), Some(status))
        }
    }

    pub fn of_message(kind: RunEvent, message: Message) -> Self {
        Self {
            message: Some(message),
            ..Self::bare(kind.as_str(), None)
        }
    }

    pub fn of_part(kind: RunEvent, part: Part) -> Self {
        Self {
            part: Some(part),
            ..Self::bare(kind.as_str(), None)
        }
    }

    pub fn of_generic(generic: Value) -> Self {
        Self {
            generic: Some(generic),
            ..Self::bare(RunEvent::Generic.as_str(), None)
        }
    }

    fn bare(kind: &str, status: Option<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            run: None,
            message: None,
            part: None,
            generic: None,
            error: None,
            run_id: None,
            status,
            session_id: None,
            awaits: None,
            output: None,
        }
    }

    /// Whether nothing follows it on this stream: the run awaits, or is over.
    pub fn ends_stream(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "run.awaiting" | "run.completed" | "run.failed" | "run.cancelled" | "error"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_of_a_run_has_the_fields_of_both_dialects() {
        let run: Run = serde_json::from_value(json!({
            "run_id": "r", "agent_name": "a", "session_id": "s", "status": "awaiting",
            "await": { "message": { "parts": [{ "content": "?" }] } },
        }))
        .unwrap();
        let told = serde_json::to_value(Event::of_run(run)).unwrap();
        assert_eq!(told["type"], "run.awaiting");
        assert_eq!(told["status"], "awaiting");
        assert_eq!(told["run_id"], told["run"]["run_id"]);
        assert_eq!(told["await"], told["run"]["await"]);
    }

    #[test]
    fn a_stream_ends_where_the_caller_must_act() {
        for (kind, ends) in [
            ("run.created", false),
            ("run.in-progress", false),
            ("run.awaiting", true),
            ("run.completed", true),
            ("message.part", false),
        ] {
            let event: Event = serde_json::from_value(json!({ "type": kind })).unwrap();
            assert_eq!(event.ends_stream(), ends, "{kind}");
        }
    }
}
