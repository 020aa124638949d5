//! `agent.*` of the lifecycle: create, start, stop, destroy, status, list, resolve, attach, detach.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An agent as everybody sees it; also the content of `.agentcraft.json` in its workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentMeta {
    pub id: String,
    pub name: String,
    pub template_name: String,
    pub template_version: String,
    pub backend_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_config: Option<Map<String, Value>>,
    pub status: String,
    pub launch_mode: String,
    pub workspace_policy: String,
    /// Who owns the process; absent while there is none that a client owns or we run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_ownership: Option<String>,
    /// Where the agent works.
    #[serde(default)]
    pub workspace_dir: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Why it is in `error` or `crashed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When a crashed service is started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_at: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// It was made for one use, and no one else on the network is told of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
}

/// What a create may decide differently from the template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overrides {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_policy: Option<String>,
    /// An absolute folder to work in, instead of one of our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_dir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_dir_conflict: Option<WorkDirConflict>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// It is made for one use, and no one else on the network is told of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
}

/// What to do with a `workDir` that holds files already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkDirConflict {
    /// Refuse.
    #[default]
    Error,
    /// Replace files of the same name; leave all others.
    Overwrite,
    /// Write only files that are not there yet.
    Append,
}

/// `agent.create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateParams {
    pub name: String,
    pub template: String,
    #[serde(default)]
    pub overrides: Overrides,
}

/// `agent.destroy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestroyParams {
    pub name: String,
    /// Also let go of a client's process, and count an unknown agent as destroyed.
    #[serde(default)]
    pub force: bool,
}

/// `agent.resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolveParams {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    #[serde(default)]
    pub overrides: Overrides,
}

/// What a client needs to start the agent's process by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolveResult {
    pub instance_name: String,
    pub workspace_dir: String,
    pub backend_type: String,
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Variables of its own environment that the client passes on: `NAME`, or `PREFIX_*`.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// `workspace`, or `client` where sessions may work in a folder of the client's.
    #[serde(default)]
    pub cwd: String,
    pub created: bool,
}

/// `agent.attach`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachParams {
    pub name: String,
    pub pid: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// `agent.detach`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetachParams {
    pub name: String,
    /// Remove an ephemeral workspace and the agent with it.
    #[serde(default)]
    pub cleanup: bool,
    /// The process that was attached: one that somebody else has attached since then stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// The answer to `agent.detach`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DetachResult {
    pub ok: bool,
    pub workspace_cleaned: bool,
}
