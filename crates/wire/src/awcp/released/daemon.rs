//! The HTTP API of the released delegator's daemon, which its MCP server consumes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::{Auth, Constraints, Lease, ProposedLease, WorkDir};
use crate::awcp::{Access, ErrorCode};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub description: String,
    pub prompt: String,
}

/// A resource as a remote sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    pub name: String,
    /// `fs` is the only one.
    #[serde(rename = "type")]
    pub kind: String,
    pub mode: Access,
}

/// A resource as its owner names it, with the path that never leaves the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSource {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub source: String,
    pub mode: Access,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceEnvironment {
    pub resources: Vec<ResourceSource>,
}

/// What becomes of snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotMode {
    /// The recommended one is applied when the work is done.
    Auto,
    /// They wait for somebody to apply or discard them.
    Staged,
    Discard,
}

/// `POST /delegate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegateRequest {
    pub executor_url: String,
    pub environment: SourceEnvironment,
    pub task: Task,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<Access>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_mode: Option<SnapshotMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegateAnswer {
    pub delegation_id: String,
}

/// With status 400, and 404 and 500 without code and hint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorAnswer {
    pub error: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// One row of `GET /delegations`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegationRow {
    pub id: String,
    pub state: String,
    pub executor_url: String,
    pub environment: SourceEnvironment,
    pub created_at: String,
}

/// `GET /delegation/:id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegationRecord {
    pub id: String,
    /// One of the nine states, and `idle` between rounds.
    pub state: String,
    pub peer_url: String,
    pub environment: SourceEnvironment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export_path: Option<String>,
    pub task: Task,
    pub lease_config: ProposedLease,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_lease: Option<Lease>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor_work_dir: Option<WorkDir>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor_constraints: Option<Constraints>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<Vec<Snapshot>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_snapshot_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_policy: Option<SnapshotPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<DelegationResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<DelegationFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_round: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<Vec<Round>>,
    pub created_at: String,
    pub updated_at: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotPolicy {
    pub mode: SnapshotMode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_snapshots: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotStatus {
    Pending,
    Applied,
    Discarded,
}

/// One of `GET /delegation/:id/snapshots`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    pub id: String,
    pub delegation_id: String,
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highlights: Option<Vec<String>>,
    pub status: SnapshotStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended: Option<bool>,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegationResult {
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highlights: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegationFailure {
    pub code: ErrorCode,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// One round of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// The first is 1.
    pub number: u32,
    pub task: Task,
    pub started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<DelegationResult>,
}

/// `POST /delegation/:id/continue`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinueRequest {
    pub task: Task,
}

/// `GET /health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    pub status: String,
}
