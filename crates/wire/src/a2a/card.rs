//! The card of an agent: who it is, where it is reached, what it can do.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Object, Version, absent};

/// A binding of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binding {
    #[serde(rename = "JSONRPC")]
    JsonRpc,
    #[serde(rename = "HTTP+JSON")]
    HttpJson,
}

impl Binding {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }

    /// Nothing for a binding that we do not speak.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::JsonRpc, Self::HttpJson]
            .into_iter()
            .find(|binding| binding.as_str() == word)
    }
}

/// A card of version 1.0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    pub name: String,
    #[serde(default, deserialize_with = "absent")]
    pub description: String,
    #[serde(default, alias = "supported_interfaces", deserialize_with = "absent")]
    pub supported_interfaces: Vec<AgentInterface>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<AgentProvider>,
    #[serde(default, deserialize_with = "absent")]
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
    #[serde(default, deserialize_with = "absent")]
    pub capabilities: AgentCapabilities,
    /// By name; their shapes are many and none of our business.
    #[serde(
        default,
        deserialize_with = "absent",
        skip_serializing_if = "Object::is_empty"
    )]
    pub security_schemes: Object,
    #[serde(
        default,
        deserialize_with = "absent",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub security_requirements: Vec<Value>,
    #[serde(default, deserialize_with = "absent")]
    pub default_input_modes: Vec<String>,
    #[serde(default, deserialize_with = "absent")]
    pub default_output_modes: Vec<String>,
    #[serde(default, deserialize_with = "absent")]
    pub skills: Vec<AgentSkill>,
}

/// A way to reach an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInterface {
    pub url: String,
    /// One of [`Binding`], or a word that we do not know.
    #[serde(alias = "protocol_binding", alias = "transport")]
    pub protocol_binding: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(default, alias = "protocol_version", deserialize_with = "absent")]
    pub protocol_version: String,
}

impl AgentInterface {
    pub fn new(url: String, binding: Binding, version: Version) -> Self {
        Self {
            url,
            protocol_binding: binding.as_str().to_owned(),
            tenant: None,
            protocol_version: version.as_str().to_owned(),
        }
    }
}

/// Who runs an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProvider {
    pub url: String,
    pub organization: String,
}

/// What an agent can do beyond the least.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCapabilities {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    #[serde(
        default,
        alias = "push_notifications",
        skip_serializing_if = "Option::is_none"
    )]
    pub push_notifications: Option<bool>,
    #[serde(
        default,
        deserialize_with = "absent",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub extensions: Vec<AgentExtension>,
    #[serde(
        default,
        alias = "extended_agent_card",
        skip_serializing_if = "Option::is_none"
    )]
    pub extended_agent_card: Option<bool>,
}

/// A protocol that rides on A2A.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentExtension {
    #[serde(default, deserialize_with = "absent")]
    pub uri: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(
        default,
        deserialize_with = "absent",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Object>,
}

/// Something an agent says it can do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSkill {
    pub id: String,
    #[serde(default, deserialize_with = "absent")]
    pub name: String,
    #[serde(default, deserialize_with = "absent")]
    pub description: String,
    #[serde(default, deserialize_with = "absent")]
    pub tags: Vec<String>,
    #[serde(
        default,
        deserialize_with = "absent",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub examples: Vec<String>,
}

impl AgentCard {
    /// The extension with this address, if the agent has it.
    pub fn extension(&self, uri: &str) -> Option<&AgentExtension> {
        self.capabilities
            .extensions
            .iter()
            .find(|extension| extension.uri == uri)
    }
}
