//! Messages and their parts.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// What was said, by a user or an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// `user`, `agent`, or `agent/NAME`.
    #[serde(default = "user", deserialize_with = "or_user")]
    pub role: String,
    #[serde(default, deserialize_with = "or_default")]
    pub parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// Fields of others.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One part of a message; with a name it is an artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default = "plain_text", deserialize_with = "or_plain_text")]
    pub content_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<ContentEncoding>,
    /// Where the content is, instead of `content`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Fields of others, which standard clients keep.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentEncoding {
    Plain,
    Base64,
}

impl Message {
    pub fn new(role: &str, parts: Vec<Part>) -> Self {
        Self {
            role: role.to_owned(),
            parts,
            created_at: None,
            completed_at: None,
            extra: Map::new(),
        }
    }

    /// Whether the role is one that the protocol knows.
    pub fn has_known_role(&self) -> bool {
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        match self.role.as_str() {
            "user" | "agent" => true,
            role => role.strip_prefix("agent/").is_some_and(is_name),
        }
    }
}

impl Part {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            name: None,
            content_type: plain_text(),
            content: Some(text.into()),
            content_encoding: None,
            content_url: None,
            metadata: None,
            extra: Map::new(),
        }
    }

    /// Something that lies elsewhere.
    pub fn link(name: &str, content_type: &str, url: String) -> Self {
        Self {
            name: Some(name.to_owned()),
            content_type: content_type.to_owned(),
            content: None,
            content_url: Some(url),
            ..Self::text("")
        }
    }

    /// Its words, if it has any that can be read as such.
    pub fn as_text(&self) -> Option<&str> {
        let is_plain = self.content_encoding != Some(ContentEncoding::Base64);
        self.content.as_deref().filter(|_| is_plain)
    }
}

/// A field that is null is one that is not there: standard clients may send either.
pub(super) fn or_default<'de, D, T>(value: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

fn or_user<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_else(user))
}

fn or_plain_text<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_else(plain_text))
}

fn user() -> String {
    "user".to_owned()
}

fn plain_text() -> String {
    "text/plain".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_without_role_and_type_is_plain_text_of_a_user() {
        let message: Message =
            serde_json::from_value(json!({ "parts": [{ "content": "hello" }] })).unwrap();
        assert_eq!(message, Message::new("user", vec![Part::text("hello")]));
    }

    #[test]
    fn a_field_that_is_null_is_one_that_is_not_there() {
        let part = json!({ "content_type": null, "content": "hello", "content_url": null });
        let value = json!({ "role": null, "parts": [part], "created_at": null });
        let message: Message = serde_json::from_value(value).unwrap();
        assert_eq!(message, Message::new("user", vec![Part::text("hello")]));
        let value = json!({ "parts": null });
        let message: Message = serde_json::from_value(value).unwrap();
        assert_eq!(message.parts, []);
    }

    #[test]
    fn what_we_do_not_know_is_kept_and_what_is_absent_is_left_out() {
        let value = json!({
            "role": "agent/echo",
            "parts": [{
                "content_type": "text/plain", "content": "x", "severity": "destructive",
                "metadata": { "kind": "citation", "url": "http://a" },
            }],
            "created_at": "2026-11-15T18:17:06.167057Z",
            "mood": "good",
        });
        let message: Message = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&message).unwrap(), value);
    }

    #[test]
    fn roles_follow_the_protocols_pattern() {
        for (role, known) in [
            ("user", true),
            ("agent", true),
            ("agent/slow_echo", true),
            ("agent/", false),
            ("agent/a b", false),
            ("system", false),
        ] {
            assert_eq!(
                Message::new(role, Vec::new()).has_known_role(),
                known,
                "{role}"
            );
        }
    }

    #[test]
    fn encoded_bytes_are_not_taken_for_words() {
        let mut part = Part::text("aGVsbG8=");
        part.content_encoding = Some(ContentEncoding::Base64);
        assert_eq!(part.as_text(), None);
    }
}
