//! What each tool is given and gives back. The doc comments are the descriptions in the schemas.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `agentcraft_run_agent`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RunAgent {
    /// What the agent is made of: the name of a template, `workflow:NAME` or `peer:NODE/AGENT`.
    pub(crate) template: String,
    /// What the agent shall do.
    pub(crate) prompt: String,
    /// Milliseconds until the turn is cancelled; five minutes unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), with = "i64")]
    pub(crate) timeout_ms: Option<NonZeroU64>,
}

/// `agentcraft_prompt_agent`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PromptAgent {
    /// The agent: its name, or what it is made of: `template:NAME`, `workflow:NAME`, `peer:NODE/AGENT`, `peer:NODE?workspace=/DIR`.
    pub(crate) name: String,
    /// What to say to it.
    pub(crate) message: String,
    /// The conversation to go on with; a new one is begun without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) session_id: Option<String>,
}

/// `agentcraft_agent_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NameAgent {
    /// The agent: its name, or what it is made of: `template:NAME`, `workflow:NAME`, `peer:NODE/AGENT`, `peer:NODE?workspace=/DIR`.
    pub(crate) name: String,
}

/// `agentcraft_create_agent`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateAgent {
    /// The new agent's name: letters, digits, `_` and `-`, at most 63.
    pub(crate) name: String,
    /// What it is made of: the name of a template, `workflow:NAME` or `peer:NODE/AGENT`.
    pub(crate) template: String,
}

/// `agentcraft_list_agents`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// What a run gives back.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Run {
    /// What the agent answered.
    pub(crate) response: String,
    /// Files that were created, changed or deleted in its workspace.
    pub(crate) artifacts: Vec<String>,
    /// Why the turn ended, such as `end_turn` or `max_tokens`.
    pub(crate) stop_reason: String,
}

/// What a prompt gives back.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message {
    /// What the agent answered.
    pub(crate) response: String,
    /// The conversation, to go on with it.
    pub(crate) session_id: String,
    /// Why the turn ended, such as `end_turn` or `max_tokens`.
    pub(crate) stop_reason: String,
}

/// What a create gives back.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Created {
    pub(crate) name: String,
    /// Where the agent works.
    pub(crate) workspace_dir: String,
    pub(crate) status: String,
}

/// An agent. The daemon says more of it than is promised here.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(
    dead_code,
    reason = "It describes what the daemon gives; the words themselves pass through."
)]
pub(crate) struct AgentView {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) template_name: String,
    pub(crate) template_version: String,
    pub(crate) backend_type: String,
    /// Such as `created`, `running`, `stopped`, `crashed` or `error`.
    pub(crate) status: String,
    pub(crate) launch_mode: String,
    pub(crate) workspace_policy: String,
    /// Where the agent works.
    pub(crate) workspace_dir: String,
    /// RFC 3339.
    pub(crate) created_at: String,
    /// RFC 3339.
    pub(crate) updated_at: String,
}

/// Every agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "As above.")]
pub(crate) struct AgentList {
    pub(crate) agents: Vec<AgentView>,
}
