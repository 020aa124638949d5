//! Messages by POST: INVITE, ACCEPT, START, ERROR, and CONTINUE and CLOSE of its newer line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::daemon::{Resource, Task};
use crate::awcp::{Access, ErrorCode, Malformed, Secret, Transport, check};

const TYPES: [&str; 6] = ["INVITE", "ACCEPT", "START", "ERROR", "CONTINUE", "CLOSE"];

/// Everything that is posted, and what answers an INVITE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "UPPERCASE")]
pub enum Message {
    Invite(Invite),
    Accept(Accept),
    Start(Start),
    Error(Error),
    Continue(Continue),
    Close(Close),
}

impl Message {
    /// Reads the body of a POST, or the answer to an INVITE.
    pub fn parse(value: &Value) -> Result<Self, Malformed> {
        let kind = check(value, &TYPES)?;
        serde_json::from_value(value.clone()).map_err(|error| Malformed::Field {
            kind,
            problem: error.to_string(),
        })
    }

    pub fn delegation_id(&self) -> &str {
        match self {
            Self::Invite(invite) => &invite.delegation_id,
            Self::Accept(accept) => &accept.delegation_id,
            Self::Start(start) => &start.delegation_id,
            Self::Error(error) => &error.delegation_id,
            Self::Continue(next) => &next.delegation_id,
            Self::Close(close) => &close.delegation_id,
        }
    }
}

/// Which delegation a message is about, even if the rest of it cannot be read.
pub fn delegation_id(value: &Value) -> Option<&str> {
    value.get("delegationId")?.as_str()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Invite {
    pub version: String,
    pub delegation_id: String,
    pub task: Task,
    pub lease: ProposedLease,
    /// How long the result is kept; its executor wants it, ours does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    pub environment: Environment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirements: Option<Requirements>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposedLease {
    pub ttl_seconds: u64,
    pub access_mode: Access,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub resources: Vec<Resource>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirements {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Auth {
    /// `api_key`, `bearer`, `oauth2` or `custom`.
    #[serde(rename = "type")]
    pub kind: String,
    pub credential: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accept {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub delegation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    pub executor_work_dir: WorkDir,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor_constraints: Option<Constraints>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkDir {
    pub path: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Constraints {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_access_mode: Option<Access>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ttl_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_profile: Option<SandboxProfile>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxProfile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd_only: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_network: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_exec: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub delegation_id: String,
    pub lease: Lease,
    /// An earlier release called it `workDir`.
    #[serde(alias = "workDir")]
    pub transport_handle: Handle,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// RFC 3339, with milliseconds.
    pub expires_at: String,
    pub access_mode: Access,
}

/// The way to the workspace, by transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "transport",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
pub enum Handle {
    Archive {
        /// A zip with one folder for each resource. Absent when it comes in chunks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workspace_base64: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chunked: Option<Chunked>,
        /// SHA-256 of the zip, in hexadecimal.
        checksum: String,
    },
    Sshfs {
        endpoint: Endpoint,
        export_locator: String,
        credential: SshCredential,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<BTreeMap<String, String>>,
    },
    Storage {
        download_url: String,
        upload_url: String,
        checksum: String,
        expires_at: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        headers: Option<BTreeMap<String, Secret>>,
    },
    Git {
        repo_url: String,
        base_branch: String,
        base_commit: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        auth: Option<GitAuth>,
    },
}

/// An archive in pieces, as one release had it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chunked {
    pub total_size: u64,
    pub chunk_size: u64,
    pub chunk_count: u64,
    pub total_checksum: String,
    pub chunk_checksums: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
    pub user: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SshCredential {
    pub private_key: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
pub enum GitAuth {
    Token {
        token: Secret,
    },
    Ssh {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        private_key: Option<Secret>,
    },
    None,
}

/// A refusal too: it comes with status 200.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Error {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub delegation_id: String,
    pub code: ErrorCode,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Another round in the same place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Continue {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub delegation_id: String,
    pub task: Task,
    /// The first is the one that START began, so this is at least 2.
    pub round: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Close {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub delegation_id: String,
}
