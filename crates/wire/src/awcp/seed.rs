//! The protocol's own dialect: INVITE, ACCEPT, START, DONE and ERROR, in `data.awcp` of an A2A message.
//!
//! Fields that are ours alone (other transports, the host's key) are optional, and peers that do not know them lose
//! nothing. Unknown fields are passed over.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::{Access, ErrorCode, Malformed, Secret, Transport, check};

const TYPES: [&str; 5] = ["INVITE", "ACCEPT", "START", "DONE", "ERROR"];

/// A whole number, also one that came through a carrier whose numbers all have a point.
fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(deserializer: D) -> Result<T, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    read_whole(&number)
        .ok_or_else(|| de::Error::custom(format!("{number} is no whole number that fits")))
}

fn whole_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(deserializer)?;
    let read = |number: serde_json::Number| {
        let whole = read_whole(&number);
        whole.ok_or_else(|| de::Error::custom(format!("{number} is no whole number that fits")))
    };
    number.map(read).transpose()
}

fn read_whole<T: TryFrom<u64>>(number: &serde_json::Number) -> Option<T> {
    /// Up to here a number with a point is exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let whole = number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        let is_whole = float.fract() == 0.0 && (0.0..EXACT).contains(&float);
        is_whole.then(|| format!("{float:.0}").parse().ok())?
    })?;
    T::try_from(whole).ok()
}

/// Everything that is said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "UPPERCASE")]
pub enum Message {
    Invite(Invite),
    Accept(Accept),
    Start(Start),
    Done(Done),
    Error(Error),
}

impl Message {
    /// Reads what stands in `data.awcp`.
    pub fn parse(value: &Value) -> Result<Self, Malformed> {
        let kind = check(value, &TYPES)?;
        serde_json::from_value(value.clone()).map_err(|error| Malformed::Field {
            kind,
            problem: error.to_string(),
        })
    }

    /// Reads the `data` of an A2A part.
    pub fn from_data(data: &Value) -> Result<Self, Malformed> {
        Self::parse(data.get("awcp").ok_or(Malformed::NoMessage)?)
    }

    /// The `data` of an A2A part.
    pub fn to_data(&self) -> Value {
        let message = serde_json::to_value(self).expect("its maps have text for keys");
        serde_json::json!({ "awcp": message })
    }

    pub fn delegation_id(&self) -> &str {
        match self {
            Self::Invite(invite) => &invite.delegation_id,
            Self::Accept(accept) => &accept.delegation_id,
            Self::Start(start) => &start.delegation_id,
            Self::Done(done) => &done.delegation_id,
            Self::Error(error) => &error.delegation_id,
        }
    }
}

/// Which delegation a message is about, even if the rest of it cannot be read.
pub fn delegation_id(value: &Value) -> Option<&str> {
    value.get("delegation_id")?.as_str()
}

/// Host to remote: a task and proposed terms. There is no room for a credential here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Invite {
    pub version: String,
    pub delegation_id: String,
    pub task: Task,
    pub lease: ProposedLease,
    pub workspace: Workspace,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirements: Option<Requirements>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub description: String,
    pub prompt: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedLease {
    #[serde(deserialize_with = "whole")]
    pub ttl_seconds: u64,
    pub access_mode: Access,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// A name, never a path of the host.
    pub export_name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirements {
    /// Absent: sshfs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Ours: what will do as well, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Transport>,
}

/// Remote to host: where it will work, and what it holds itself to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub delegation_id: String,
    pub remote_mount: RemoteMount,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_constraints: Option<RemoteConstraints>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteMount {
    pub mount_point: String,
    /// Ours: which of the offered transports it takes. Absent: the required one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteConstraints {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_access_mode: Option<Access>,
    #[serde(
        default,
        deserialize_with = "whole_or_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub max_ttl_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_profile: Option<SandboxProfile>,
}

/// Absent means that nothing is said about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxProfile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd_only: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_network: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_exec: Option<bool>,
}

/// Host to remote: the terms that hold, and the way in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub delegation_id: String,
    pub lease: GrantedLease,
    pub mount: Mount,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedLease {
    /// RFC 3339.
    pub expires_at: String,
    pub access_mode: Access,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mount {
    /// Absent: sshfs.
    #[serde(default = "sshfs")]
    pub transport: Transport,
    /// Transports that are fetched by URL have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
    pub export_locator: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Credential>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_options: Option<Value>,
}

fn sshfs() -> Transport {
    Transport::Sshfs
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub host: String,
    #[serde(deserialize_with = "whole")]
    pub port: u16,
    pub user: String,
    /// Ours: the host's public key in OpenSSH's form, so that nobody else can answer in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_key: Option<String>,
}

/// The protocol says "an SSH key or a token" and no shape: a text is either, an object says which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Credential {
    Text(Secret),
    Key {
        private_key: Secret,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        certificate: Option<String>,
    },
    Token {
        token: Secret,
    },
}

/// Remote to host: the work is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub delegation_id: String,
    pub final_summary: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlights: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// Either way: it did not come to that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub delegation_id: String,
    pub code: ErrorCode,
    pub message: String,
    /// Some peers leave it out.
    #[serde(default)]
    pub hint: String,
}

#[cfg(test)]
#[path = "seed_tests.rs"]
mod tests;
