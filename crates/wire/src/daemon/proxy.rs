//! `proxy.*`: editors behind the daemon. `proxy.lease` turns a connection into one that speaks ACP; the others are the
//! older way, in which every message of ACP is wrapped into one of ours.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// `proxy.lease`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseParams {
    pub agent_name: String,
    /// Where sessions work: `workspace`, or `client` where the template allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// What `proxy.lease` answers; everything after it on the connection is ACP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseResult {
    pub agent_name: String,
    pub protocol: String,
}

/// `proxy.connect`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyConnectParams {
    pub agent_name: String,
    /// The client answers what the agent asks of its surroundings, with `proxy.envCallback`.
    #[serde(default)]
    pub env_passthrough: bool,
}

/// What `proxy.connect` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxySession {
    pub session_id: String,
    pub agent_name: String,
    pub env_passthrough: bool,
    pub created_at: String,
}

/// `proxy.forward`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyForwardParams {
    pub session_id: String,
    pub acp_message: Box<RawValue>,
}

/// `proxy.envCallback`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyCallbackParams {
    pub session_id: String,
    pub response: Box<RawValue>,
}

/// The notification `proxy.message`: something the agent says or asks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyMessage {
    pub session_id: String,
    pub acp_message: Box<RawValue>,
}
