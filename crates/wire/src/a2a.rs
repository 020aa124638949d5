//! Messages of A2A: one model, whose JSON is that of version 1.0, and in [`v03`] how version 0.3 writes the same things.
//!
//! What we write is strict: nothing that the specification does not name. What we read is tolerant: unknown fields pass,
//! `null` is as good as absent, and names may come as the protocol buffers spell them.

mod card;
mod error;
mod message;
mod push;
mod request;
mod task;
pub mod v03;

pub use card::{
    AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentProvider, AgentSkill,
    Binding,
};
pub use error::{ErrorCode, ErrorObject};
pub use message::{Content, Message, Object, Part, Role};
pub use push::{AuthenticationInfo, TaskPushNotificationConfig};
pub use request::{
    CancelTask, ConfigOfTask, GetTask, ListTasks, ListTasksResponse, PushConfigs,
    SendConfiguration, SendMessage, SubscribeToTask,
};
pub use task::{
    Artifact, ArtifactUpdate, SendResponse, StatusUpdate, StreamResponse, Task, TaskState,
    TaskStatus,
};

use serde::{Deserialize, Deserializer, Serialize};

/// The header that names the version of a request; without it, 0.3 is meant.
pub const VERSION_HEADER: &str = "a2a-version";

/// The headers that name the extensions a client wants to use: today's name, and that of 0.3.
pub const EXTENSION_HEADERS: [&str; 2] = ["a2a-extensions", "x-a2a-extensions"];

/// Where a card is found below the address of an agent: today's place, and the one before 0.3.
pub const CARD_PATHS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// The media type of A2A over plain HTTP.
pub const MEDIA_TYPE: &str = "application/a2a+json";

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Version {
    #[serde(rename = "0.3")]
    V03,
    #[serde(rename = "1.0")]
    V1,
}

impl Version {
    pub const ALL: [Self; 2] = [Self::V03, Self::V1];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::V03 => "0.3",
            Self::V1 => "1.0",
        }
    }

    /// What a header says. Its patch number does not count; nothing at all means 0.3.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Some(Self::V03);
        }
        let mut numbers = text.split('.');
        match (numbers.next()?, numbers.next().unwrap_or("0")) {
            ("0", "3") => Some(Self::V03),
            ("1", "0") => Some(Self::V1),
            _ => None,
        }
    }
}

/// `null` is as good as absent.
fn absent<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_its_first_two_numbers() {
        for (text, version) in [
            ("", Some(Version::V03)),
            ("0.3", Some(Version::V03)),
            ("0.3.0", Some(Version::V03)),
            ("1.0", Some(Version::V1)),
            ("1.0.1", Some(Version::V1)),
            (" 1 ", Some(Version::V1)),
            ("1.1", None),
            ("99.0", None),
            ("one", None),
        ] {
            assert_eq!(Version::parse(text), version, "{text:?}");
        }
    }
}
