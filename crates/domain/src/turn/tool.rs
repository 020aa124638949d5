//! Tool calls: what an agent does beside talking.

use serde::{Deserialize, Serialize};

/// A tool call at its first sighting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The agent's own id, or a stable one of ours where it has none.
    pub id: String,
    pub title: String,
    /// What the tool is called, where the agent says it; the title is for people and may be anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub kind: ToolKind,
    pub status: ToolStatus,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<ToolContent>,
    /// JSON text of what the tool was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// JSON text of what it gave back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// A later word on a tool call; what is absent is as before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolUpdate {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locations: Option<Vec<Location>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<ToolContent>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// What sort of act a tool call is; permission rules go by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolKind {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Think,
    Fetch,
    #[default]
    Other,
}

impl ToolKind {
    /// Every kind, as written in rules and on the wire.
    pub const ALL: [(&'static str, Self); 9] = [
        ("read", Self::Read),
        ("edit", Self::Edit),
        ("delete", Self::Delete),
        ("move", Self::Move),
        ("search", Self::Search),
        ("execute", Self::Execute),
        ("think", Self::Think),
        ("fetch", Self::Fetch),
        ("other", Self::Other),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, kind)| *kind == self)
            .map_or("other", |(word, _)| word)
    }
}

/// How far a tool call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

/// A place in a file that a tool call is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// What a tool call shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum ToolContent {
    Text {
        text: String,
    },
    /// A changed file; `old` is absent for a new one.
    Diff {
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        old: Option<String>,
        new: String,
    },
    /// The output of a terminal that the client runs.
    Terminal {
        id: String,
    },
}

impl ToolContent {
    fn weight(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Diff { path, old, new } => {
                path.len() + old.as_ref().map_or(0, String::len) + new.len()
            }
            Self::Terminal { id } => id.len(),
        }
    }
}

impl ToolCall {
    pub(super) fn weight(&self) -> usize {
        self.title.len()
            + length(&self.name)
            + length(&self.input)
            + length(&self.output)
            + weigh(&self.content)
    }

    /// Takes over what a later word says.
    pub fn merge(&mut self, update: &ToolUpdate) {
        let ToolUpdate {
            id: _,
            title,
            name,
            kind,
            status,
            locations,
            content,
            input,
            output,
        } = update.clone();
        replace(&mut self.title, title);
        self.name = name.or_else(|| self.name.take());
        replace(&mut self.kind, kind);
        replace(&mut self.status, status);
        replace(&mut self.locations, locations);
        replace(&mut self.content, content);
        self.input = input.or_else(|| self.input.take());
        self.output = output.or_else(|| self.output.take());
    }
}

impl ToolUpdate {
    pub(super) fn weight(&self) -> usize {
        length(&self.title)
            + length(&self.name)
            + length(&self.input)
            + length(&self.output)
            + self.content.as_deref().map_or(0, weigh)
    }
}

fn replace<T>(old: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *old = new;
    }
}

fn length(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

fn weigh(content: &[ToolContent]) -> usize {
    content.iter().map(ToolContent::weight).sum()
}
