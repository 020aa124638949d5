//! The error codes of the daemon's socket, and the `data` every error carries.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A code with its number on the wire and its constant name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    ParseError,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    InternalError,
    GenericBusiness,
    TemplateNotFound,
    ConfigValidation,
    AgentNotFound,
    AgentAlreadyRunning,
    WorkspaceInit,
    ComponentReference,
    InstanceCorrupted,
    AgentLaunch,
    AgentAlreadyAttached,
    AgentNotAttached,
    ProxySessionConflict,
    /// Travels as GENERIC_BUSINESS's number with its own name.
    ConfigNotFound,
}

impl ErrorCode {
    /// Every code, in the order of the contract.
    pub const ALL: [Self; 18] = [
        Self::ParseError,
        Self::InvalidRequest,
        Self::MethodNotFound,
        Self::InvalidParams,
        Self::InternalError,
        Self::GenericBusiness,
        Self::TemplateNotFound,
        Self::ConfigValidation,
        Self::AgentNotFound,
        Self::AgentAlreadyRunning,
        Self::WorkspaceInit,
        Self::ComponentReference,
        Self::InstanceCorrupted,
        Self::AgentLaunch,
        Self::AgentAlreadyAttached,
        Self::AgentNotAttached,
        Self::ProxySessionConflict,
        Self::ConfigNotFound,
    ];

    /// The number in `error.code`.
    pub fn number(self) -> i64 {
        match self {
            Self::ParseError => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::InternalError => -32603,
            Self::GenericBusiness | Self::ConfigNotFound => -32000,
            Self::TemplateNotFound => -32001,
            Self::ConfigValidation => -32002,
            Self::AgentNotFound => -32003,
            Self::AgentAlreadyRunning => -32004,
            Self::WorkspaceInit => -32005,
            Self::ComponentReference => -32006,
            Self::InstanceCorrupted => -32007,
            Self::AgentLaunch => -32008,
            Self::AgentAlreadyAttached => -32009,
            Self::AgentNotAttached => -32010,
            Self::ProxySessionConflict => -32011,
        }
    }

    /// The constant in `error.data.errorCode`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ParseError => "PARSE_ERROR",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::MethodNotFound => "METHOD_NOT_FOUND",
            Self::InvalidParams => "INVALID_PARAMS",
            Self::InternalError => "INTERNAL_ERROR",
            Self::GenericBusiness => "GENERIC_BUSINESS",
            Self::TemplateNotFound => "TEMPLATE_NOT_FOUND",
            Self::ConfigValidation => "CONFIG_VALIDATION",
            Self::AgentNotFound => "AGENT_NOT_FOUND",
            Self::AgentAlreadyRunning => "AGENT_ALREADY_RUNNING",
            Self::WorkspaceInit => "WORKSPACE_INIT",
            Self::ComponentReference => "COMPONENT_REFERENCE",
            Self::InstanceCorrupted => "INSTANCE_CORRUPTED",
            Self::AgentLaunch => "AGENT_LAUNCH",
            Self::AgentAlreadyAttached => "AGENT_ALREADY_ATTACHED",
            Self::AgentNotAttached => "AGENT_NOT_ATTACHED",
            Self::ProxySessionConflict => "PROXY_SESSION_CONFLICT",
            Self::ConfigNotFound => "CONFIG_NOT_FOUND",
        }
    }
}

/// `error.data`: which constant it is, and what it was about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorData {
    pub error_code: String,
    #[serde(default)]
    pub context: BTreeMap<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_name_and_a_number_of_its_own_but_config_not_found() {
        let mut numbers: Vec<i64> = ErrorCode::ALL.iter().map(|code| code.number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), ErrorCode::ALL.len() - 1);
        let mut names: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ErrorCode::ALL.len());
    }
}
