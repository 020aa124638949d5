//! Words that both dialects share: access and transport.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What the remote may do with the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    Ro,
    Rw,
}

/// How the workspace reaches the remote. A word of a later version is kept, so that it can be refused by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    Sshfs,
    Archive,
    Storage,
    Git,
    Other(String),
}

impl Transport {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Sshfs => "sshfs",
            Self::Archive => "archive",
            Self::Storage => "storage",
            Self::Git => "git",
            Self::Other(word) => word,
        }
    }
}

impl From<&str> for Transport {
    fn from(word: &str) -> Self {
        match word {
            "sshfs" => Self::Sshfs,
            "archive" => Self::Archive,
            "storage" => Self::Storage,
            "git" => Self::Git,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl Serialize for Transport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Transport {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Ok(Self::from(word.as_str()))
    }
}
