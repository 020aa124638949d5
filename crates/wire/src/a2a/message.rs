//! Messages and their parts.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::absent;

/// A JSON object whose keys are not ours.
pub type Object = Map<String, Value>;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    #[serde(rename = "ROLE_USER", alias = "user")]
    User,
    #[serde(rename = "ROLE_AGENT", alias = "agent")]
    Agent,
}

/// One utterance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    #[serde(alias = "message_id")]
    pub message_id: String,
    #[serde(default, alias = "context_id", skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    #[serde(default, alias = "task_id", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    pub role: Role,
    pub parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    #[serde(
        default,
        deserialize_with = "absent",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub extensions: Vec<String>,
    #[serde(
        default,
        alias = "reference_task_ids",
        deserialize_with = "absent",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub reference_task_ids: Vec<String>,
}

impl Message {
    /// A message of an agent with one part of text.
    pub fn of_agent(message_id: String, text: String) -> Self {
        Self::new(message_id, Role::Agent, vec![Part::text(text)])
    }

    pub fn new(message_id: String, role: Role, parts: Vec<Part>) -> Self {
        Self {
            message_id,
            context_id: None,
            task_id: None,
            role,
            parts,
            metadata: None,
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }
    }

    /// What its text parts say, one after the other.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.parts.iter().filter_map(Part::as_text).collect();
        texts.join("\n")
    }

    /// The value under `key` in the first data part that has it.
    pub fn data(&self, key: &str) -> Option<&Value> {
        self.parts.iter().find_map(|part| match &part.content {
            Content::Data(data) => data.get(key),
            Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
        })
    }
}

/// A piece of a message or of an artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PartShape", into = "PartShape")]
pub struct Part {
    pub content: Content,
    pub media_type: Option<String>,
    pub filename: Option<String>,
    pub metadata: Option<Object>,
}

/// What a part holds: one thing of four.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Text(String),
    /// Bytes, in base64.
    Raw(String),
    Url(String),
    Data(Value),
}

impl Part {
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(Content::Text(text.into()))
    }

    pub fn data(data: Value) -> Self {
        Self::of(Content::Data(data))
    }

    pub fn of(content: Content) -> Self {
        Self {
            content,
            media_type: None,
            filename: None,
            metadata: None,
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::Raw(_) | Content::Url(_) | Content::Data(_) => None,
        }
    }

    /// About how many bytes it takes.
    pub fn weight(&self) -> usize {
        /// Names and types.
        const FIXED: usize = 64;
        FIXED
            + match &self.content {
                Content::Text(text) | Content::Raw(text) | Content::Url(text) => text.len(),
                Content::Data(data) => data.to_string().len(),
            }
    }
}

/// A part as it is written.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartShape {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    #[serde(default, alias = "media_type", skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filename: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Object>,
}

impl TryFrom<PartShape> for Part {
    type Error = &'static str;

    fn try_from(shape: PartShape) -> Result<Self, Self::Error> {
        let content = match (shape.text, shape.raw, shape.url, shape.data) {
            (Some(text), None, None, None) => Content::Text(text),
            (None, Some(raw), None, None) => Content::Raw(raw),
            (None, None, Some(url), None) => Content::Url(url),
            (None, None, None, Some(data)) => Content::Data(data),
            (None, None, None, None) => {
                return Err("a part has one of `text`, `raw`, `url` and `data`");
            }
            _ => return Err("a part has only one of `text`, `raw`, `url` and `data`"),
        };
        Ok(Self {
            content,
            media_type: some(shape.media_type),
            filename: some(shape.filename),
            metadata: shape.metadata,
        })
    }
}

impl From<Part> for PartShape {
    fn from(part: Part) -> Self {
        let mut shape = Self {
            media_type: part.media_type,
            filename: part.filename,
            metadata: part.metadata,
            ..Self::default()
        };
        match part.content {
            Content::Text(text) => shape.text = Some(text),
            Content::Raw(raw) => shape.raw = Some(raw),
            Content::Url(url) => shape.url = Some(url),
            Content::Data(data) => shape.data = Some(data),
        }
        shape
    }
}

/// An empty text stands for none, as it does in protocol buffers.
pub(super) fn some(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Message, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_message_is_written_as_it_was_read_without_what_is_unknown() {
        let written = json!({
            "messageId": "m", "contextId": "c", "role": "ROLE_USER",
            "parts": [
                { "text": "hi" },
                { "raw": "AAA=", "mediaType": "image/png", "filename": "a.png" },
                { "url": "https://x/y" },
                { "data": { "awcp": { "type": "INVITE" } } },
            ],
            "metadata": { "k": 1 },
        });
        let mut read_from = written.clone();
        read_from["tomorrow"] = json!(true);
        read_from["extensions"] = Value::Null;
        let message = read(read_from).unwrap();
        assert_eq!(message.text(), "hi");
        assert_eq!(message.data("awcp"), Some(&json!({ "type": "INVITE" })));
        assert_eq!(serde_json::to_value(&message).unwrap(), written);
    }

    #[test]
    fn a_part_holds_one_thing() {
        let with = |part: Value| {
            read(json!({ "messageId": "m", "role": "ROLE_USER", "parts": [part] })).unwrap_err()
        };
        assert!(with(json!({ "text": "a", "url": "b" })).contains("only one of"));
        assert!(with(json!({ "mediaType": "a" })).contains("one of"));
        assert!(
            read(json!({ "role": "ROLE_USER", "parts": [] }))
                .unwrap_err()
                .contains("messageId")
        );
    }
}
