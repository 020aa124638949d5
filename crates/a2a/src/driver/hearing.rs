//! What a remote task says, as events of a turn; each word once, however often it is told.

use std::{collections::BTreeMap, sync::Arc};

use domain::turn::{AskKind, AskOption, Dialect, EventKind, Raw, ToolCall, ToolKind, ToolStatus};
use engine::SessionSink;
use serde_json::Value;
use wire::a2a::{
    Artifact, ArtifactUpdate, Content, Message, Part, StreamResponse, TaskState, TaskStatus,
};

use crate::run::PASSED_ON;

/// What has been heard of one task.
#[derive(Debug)]
pub(super) struct Hearing {
    sink: SessionSink,
    /// Of each artifact, how many bytes of text and how many other parts were passed on.
    heard: BTreeMap<String, (usize, usize)>,
    /// The last thing said about work in progress.
    said: Option<String>,
}

impl Hearing {
    pub(super) fn new(sink: SessionSink) -> Self {
        Self {
            sink,
            heard: BTreeMap::new(),
            said: None,
        }
    }

    /// How much was heard, to tell whether there is more.
    pub(super) fn amount(&self) -> usize {
        let of_artifact = |(texts, others): &(usize, usize)| texts + others;
        self.heard.values().map(of_artifact).sum()
    }

    /// A message that is the whole answer.
    pub(super) fn message(&mut self, message: &Message) {
        self.parts("message", &message.parts);
    }

    /// An artifact as it is now: what is new of it is passed on.
    pub(super) fn whole(&mut self, artifact: &Artifact) {
        let (mut texts, mut others) = self.known(&artifact.artifact_id);
        let mut fresh = Vec::new();
        for part in &artifact.parts {
            match part.as_text() {
                Some(text) if texts >= text.len() => texts -= text.len(),
                Some(text) => {
                    let rest = text.get(texts..).unwrap_or(text);
                    texts = 0;
                    fresh.push(Part::text(rest));
                }
                None if others > 0 => others -= 1,
                None => fresh.push(part.clone()),
            }
        }
        self.parts(&artifact.artifact_id, &fresh);
    }

    /// A chunk of an artifact.
    pub(super) fn chunk(&mut self, update: &ArtifactUpdate) {
        if update.append {
            self.parts(&update.artifact.artifact_id, &update.artifact.parts);
        } else {
            self.heard.remove(&update.artifact.artifact_id);
            self.whole(&update.artifact);
        }
    }

    /// What the agent says while it works.
    pub(super) fn status(&mut self, status: &TaskStatus) {
        let words = status.message.as_ref().map(Message::text);
        let words = words.filter(|words| !words.is_empty() && self.said.as_ref() != Some(words));
        let Some(words) = words else { return };
        self.said = Some(words.clone());
        match status.state {
            TaskState::Submitted | TaskState::Working => {
                self.sink.emit(EventKind::Notice { text: words }, None);
            }
            // What it says at the end is its answer, unless the artifacts were.
            TaskState::Completed | TaskState::Rejected => {
                if self.heard.values().all(|(texts, _)| *texts == 0) {
                    self.sink.emit(EventKind::Text { text: words }, None);
                }
            }
            TaskState::Failed
            | TaskState::Canceled
            | TaskState::InputRequired
            | TaskState::AuthRequired => {}
        }
    }

    fn known(&self, artifact: &str) -> (usize, usize) {
        self.heard.get(artifact).copied().unwrap_or_default()
    }

    fn parts(&mut self, artifact: &str, parts: &[Part]) {
        for part in parts {
            let known = self.heard.entry(artifact.to_owned()).or_default();
            match part.as_text() {
                Some("") => {}
                Some(text) => {
                    known.0 += text.len();
                    let text = text.to_owned();
                    self.sink.emit(EventKind::Text { text }, None);
                }
                None => {
                    known.1 += 1;
                    self.pass_on(artifact, part);
                }
            }
        }
    }

    /// What is not text goes on as it came for faces of this protocol, and in words for the others.
    fn pass_on(&self, artifact: &str, part: &Part) {
        let name = part.filename.as_deref().unwrap_or("without a name");
        let text = match &part.content {
            Content::Raw(raw) => format!("a file {name}, {} bytes", raw.len() / 4 * 3),
            Content::Url(url) => format!("a file {name} at {url}"),
            Content::Data(data) => format!("data: {data}"),
            Content::Text(text) => text.clone(),
        };
        self.sink.emit(EventKind::Notice { text }, None);
        let update = StreamResponse::ArtifactUpdate(ArtifactUpdate {
            task_id: String::new(),
            context_id: String::new(),
            artifact: Artifact::new(artifact, vec![part.clone()]),
            append: true,
            last_chunk: false,
            metadata: None,
        });
        let Ok(frame) = serde_json::to_string(&update) else {
            return;
        };
        let kind = EventKind::Other {
            name: PASSED_ON.to_owned(),
        };
        let raw = Raw {
            dialect: Dialect::Print,
            frame: Arc::from(frame),
        };
        self.sink.emit(kind, Some(raw));
    }
}

/// What a task that waits wants to know. A permission of a node of this program is one here too, so the policy sees it.
pub(super) fn ask(status: &TaskStatus) -> AskKind {
    let message = status.message.as_ref();
    let permission = message.and_then(|message| message.data("permission"));
    if let Some(permission) = permission.and_then(read_permission) {
        return permission;
    }
    let text = message.map(Message::text).unwrap_or_default();
    let text = match (status.state, text.as_str()) {
        (TaskState::AuthRequired, "") => "The agent needs to be authorised.".to_owned(),
        (_, "") => "The agent asks for more.".to_owned(),
        _ => text,
    };
    let schema = message.and_then(|message| message.data("schema"));
    AskKind::Question {
        text,
        schema: schema.map(ToString::to_string),
    }
}

fn read_permission(value: &Value) -> Option<AskKind> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let options: Vec<AskOption> = serde_json::from_value(value.get("options")?.clone()).ok()?;
    let kind = text("kind").unwrap_or_default();
    let kind = ToolKind::ALL.iter().find(|(word, _)| *word == kind);
    let tool = ToolCall {
        id: uuid::Uuid::new_v4().to_string(),
        title: text("title")?,
        name: text("name"),
        kind: kind.map(|(_, kind)| *kind).unwrap_or_default(),
        status: ToolStatus::Pending,
        locations: Vec::new(),
        content: Vec::new(),
        input: text("input"),
        output: None,
    };
    let destructive = value.get("destructive") == Some(&Value::Bool(true));
    (!options.is_empty()).then_some(AskKind::Permission {
        tool,
        options,
        destructive,
    })
}
