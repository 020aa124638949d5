//! A template: the reusable description of an agent, as checked values.
//!
//! `template/check.rs` reads it, `template/steps.rs` its initializer, `template/made.rs` makes one of a target. What a template means for a process is in
//! `backend.rs`, what it means for a workspace in `workspace.rs`.

mod check;
mod made;
mod steps;

use std::collections::BTreeMap;

use domain::Name;
use domain::lifecycle::{LaunchMode, WorkspacePolicy};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

pub(crate) use check::{PROTOCOLS, START_TIMEOUT_MS_MAX, STOP_GRACE_MS_MAX};
pub use check::{check_template, parse_template};
pub(crate) use steps::STEP_TIMEOUT_MS_MAX;
#[cfg(test)]
pub(crate) use steps::STEP_WORDS;
pub use steps::{InitializerStep, STEP_TIMEOUT_MS_DEFAULT};

use crate::backend::{BackendType, ProviderType};
use crate::environment::EnvironmentPattern;
use crate::problem::Invalid;

/// Serialises as the contract's AgentTemplate: defaults of `domainContext` are written out, absent fields are not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Value")]
pub struct Template {
    pub name: Name,
    /// Three numbers: `1.2.3`.
    pub version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub backend: Backend,
    pub provider: Provider,
    pub domain_context: DomainContext,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "steps_in_initializer"
    )]
    pub initializer: Vec<InitializerStep>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_mode: Option<LaunchMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_policy: Option<WorkspacePolicy>,
    /// Kept as written; the permission policy gives it meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Map<String, Value>>,
    /// Variables set for the process.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables of the daemon passed on to the process, beyond those its backend needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pass_env: Vec<EnvironmentPattern>,
    #[serde(skip_serializing_if = "WorkingDirectory::is_workspace")]
    pub cwd: WorkingDirectory,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_grace_ms: Option<u64>,
}

impl TryFrom<Value> for Template {
    type Error = Invalid;

    fn try_from(value: Value) -> Result<Self, Invalid> {
        Ok(check_template(&value).into_result()?.0)
    }
}

/// The type and its configuration. The known keys of the configuration have been checked; the others are opaque.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Backend {
    #[serde(rename = "type")]
    backend_type: BackendType,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<Map<String, Value>>,
}

impl Backend {
    pub fn backend_type(&self) -> BackendType {
        self.backend_type
    }

    pub fn config(&self) -> Option<&Map<String, Value>> {
        self.config.as_ref()
    }

    pub fn executable_path(&self) -> Option<&str> {
        self.setting("executablePath")?.as_str()
    }

    /// The arguments that replace the default ones; `custom` and `command` only.
    pub fn args(&self) -> Option<Vec<String>> {
        self.setting("args").map(texts)
    }

    /// Arguments added to those the backend has anyway.
    pub fn extra_args(&self) -> Vec<String> {
        self.setting("extraArgs").map(texts).unwrap_or_default()
    }

    /// The model the template asks for, where the backend takes one.
    pub fn model(&self) -> Option<&str> {
        self.setting("model")?.as_str()
    }

    /// Whether a `custom` program says that it speaks ACP.
    pub(crate) fn speaks_acp(&self) -> bool {
        self.setting("protocol").and_then(Value::as_str) == Some("acp")
    }

    fn setting(&self, key: &str) -> Option<&Value> {
        self.config.as_ref()?.get(key)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Provider {
    #[serde(rename = "type")]
    pub provider_type: ProviderType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainContext {
    pub skills: Vec<Name>,
    pub prompts: Vec<Name>,
    pub mcp_servers: Vec<McpServerRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Name>,
    pub sub_agents: Vec<Name>,
}

/// An MCP server described on the spot, the tools of an office, or the name of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum McpServerRef {
    Inline(InlineMcpServer),
    Office(OfficeRef),
    Named(Name),
}

impl McpServerRef {
    pub fn name(&self) -> &Name {
        match self {
            Self::Inline(server) => &server.name,
            Self::Office(office) => &office.office,
            Self::Named(name) => name,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InlineMcpServer {
    pub name: Name,
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
}

/// An office whose tools the agent uses; it is called what the office is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfficeRef {
    pub office: Name,
    /// The office server; without it, this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A file that holds the token; this node needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
}

/// Whose folder the agent works in when a client comes through the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkingDirectory {
    #[default]
    Workspace,
    /// The proxy may let the client's folder through.
    Client,
}

impl WorkingDirectory {
    pub const ALL: [(&'static str, Self); 2] =
        [("workspace", Self::Workspace), ("client", Self::Client)];

    /// The word in files and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Client => "client",
        }
    }

    fn is_workspace(&self) -> bool {
        *self == Self::Workspace
    }
}

fn steps_in_initializer<S: Serializer>(
    steps: &[InitializerStep],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map([("steps", steps)])
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
#[path = "template/template_tests.rs"]
mod tests;
