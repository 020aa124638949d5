//! Tasks, their states and artifacts, and what is told of them as they change.

use serde::{Deserialize, Serialize};

use super::{Message, Object, Part, absent};

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaskState {
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
}

impl TaskState {
    /// Every state, with its word in 1.0 and in 0.3.
    pub const ALL: [(Self, &'static str, &'static str); 8] = [
        (Self::Submitted, "TASK_STATE_SUBMITTED", "submitted"),
        (Self::Working, "TASK_STATE_WORKING", "working"),
        (Self::Completed, "TASK_STATE_COMPLETED", "completed"),
        (Self::Failed, "TASK_STATE_FAILED", "failed"),
        (Self::Canceled, "TASK_STATE_CANCELED", "canceled"),
        (
            Self::InputRequired,
            "TASK_STATE_INPUT_REQUIRED",
            "input-required",
        ),
        (Self::Rejected, "TASK_STATE_REJECTED", "rejected"),
        (
            Self::AuthRequired,
            "TASK_STATE_AUTH_REQUIRED",
            "auth-required",
        ),
    ];

    /// Nothing will happen to it any more.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected => true,
            Self::Submitted | Self::Working | Self::InputRequired | Self::AuthRequired => false,
        }
    }

    /// It waits for the client.
    pub fn is_interrupted(self) -> bool {
        match self {
            Self::InputRequired | Self::AuthRequired => true,
            Self::Completed
            | Self::Failed
            | Self::Canceled
            | Self::Rejected
            | Self::Submitted
            | Self::Working => false,
        }
    }

    /// The word of 1.0.
    pub fn as_str(self) -> &'static str {
        self.row().1
    }

    /// The word of 0.3.
    pub fn as_v03(self) -> &'static str {
        self.row().2
    }

    /// A word of either version.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, v1, v03)| *v1 == word || *v03 == word)
            .map(|(state, _, _)| *state)
    }

    fn row(self) -> &'static (Self, &'static str, &'static str) {
        Self::ALL
            .iter()
            .find(|(state, _, _)| *state == self)
            .expect("every state has a row")
    }
}

/// A state, since when, and what the agent says of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskStatus {
    pub state: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// RFC 3339 with milliseconds, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
}

/// Work for a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    #[serde(default, alias = "context_id", deserialize_with = "absent")]
    pub context_id: String,
    pub status: TaskStatus,
    #[serde(
        default,
        deserialize_with = "absent",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub artifacts: Vec<Artifact>,
    #[serde(
        default,
        deserialize_with = "absent",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub history: Vec<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}

impl Task {
    /// About how many bytes it takes.
    pub fn weight(&self) -> usize {
        let said = self.history.iter().chain(&self.status.message);
        let said = said.flat_map(|message| &message.parts).map(Part::weight);
        let made = self.artifacts.iter().map(Artifact::weight);
        said.chain(made).sum()
    }
}

/// Something a task has made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    #[serde(alias = "artifact_id")]
    pub artifact_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    #[serde(
        default,
        deserialize_with = "absent",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub extensions: Vec<String>,
}

impl Artifact {
    pub fn new(artifact_id: impl Into<String>, parts: Vec<Part>) -> Self {
        Self {
            artifact_id: artifact_id.into(),
            name: None,
            description: None,
            parts,
            metadata: None,
            extensions: Vec::new(),
        }
    }

    /// Takes over a later chunk; text goes on where the last text part ended.
    pub fn extend(&mut self, chunk: &Self) {
        for part in &chunk.parts {
            let last = self.parts.last_mut().map(|last| &mut last.content);
            match (last, &part.content) {
                (Some(super::Content::Text(text)), super::Content::Text(more)) => {
                    text.push_str(more);
                }
                _ => self.parts.push(part.clone()),
            }
        }
    }

    /// About how many bytes it takes.
    pub fn weight(&self) -> usize {
        self.parts.iter().map(Part::weight).sum()
    }

    /// About how many more it takes with a chunk.
    pub fn growth(&self, chunk: &Self) -> usize {
        let is_text = |part: &Part| matches!(part.content, super::Content::Text(_));
        let mut follows_text = self.parts.last().is_some_and(is_text);
        let of_part = |part: &Part| {
            let weight = match (&part.content, follows_text) {
                (super::Content::Text(text), true) => text.len(),
                _ => part.weight(),
            };
            follows_text = is_text(part);
            weight
        };
        chunk.parts.iter().map(of_part).sum()
    }
}

/// The status of a task has changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdate {
    #[serde(alias = "task_id")]
    pub task_id: String,
    #[serde(default, alias = "context_id", deserialize_with = "absent")]
    pub context_id: String,
    pub status: TaskStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}

/// A task has made something, or a piece of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUpdate {
    #[serde(alias = "task_id")]
    pub task_id: String,
    #[serde(default, alias = "context_id", deserialize_with = "absent")]
    pub context_id: String,
    pub artifact: Artifact,
    #[serde(
        default,
        deserialize_with = "absent",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub append: bool,
    #[serde(
        default,
        alias = "last_chunk",
        deserialize_with = "absent",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub last_chunk: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}

/// One event of a stream, and what a webhook is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamResponse {
    Task(Task),
    Message(Message),
    #[serde(alias = "status_update")]
    StatusUpdate(StatusUpdate),
    #[serde(alias = "artifact_update")]
    ArtifactUpdate(ArtifactUpdate),
}

impl StreamResponse {
    /// The state it tells, if it tells one.
    pub fn state(&self) -> Option<TaskState> {
        match self {
            Self::Task(task) => Some(task.status.state),
            Self::StatusUpdate(update) => Some(update.status.state),
            Self::Message(_) | Self::ArtifactUpdate(_) => None,
        }
    }
}

/// What a message brings about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SendResponse {
    Task(Task),
    Message(Message),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn states_have_one_word_in_each_version() {
        for (state, v1, v03) in TaskState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), json!(v1));
            assert_eq!(
                (TaskState::parse(v1), TaskState::parse(v03)),
                (Some(state), Some(state))
            );
            assert!(!(state.is_terminal() && state.is_interrupted()));
        }
        assert_eq!(TaskState::parse("TASK_STATE_UNSPECIFIED"), None);
    }

    #[test]
    fn events_are_told_apart_by_their_key() {
        let value = json!({ "statusUpdate": {
            "taskId": "t", "contextId": "c", "status": { "state": "TASK_STATE_WORKING" },
        }});
        let event: StreamResponse = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(event.state(), Some(TaskState::Working));
        assert_eq!(serde_json::to_value(event).unwrap(), value);
    }

    #[test]
    fn chunks_of_text_become_one_text() {
        let mut artifact = Artifact::new("a", vec![Part::text("one ")]);
        artifact.extend(&Artifact::new(
            "a",
            vec![Part::text("two"), Part::data(json!(1)), Part::text("three")],
        ));
        assert_eq!(
            artifact.parts,
            [
                Part::text("one two"),
                Part::data(json!(1)),
                Part::text("three")
            ]
        );
    }
}
