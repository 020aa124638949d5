//! The table of methods: what the registry must serve and the contract must list.

use super::ErrorCode::{
    self, AgentAlreadyAttached, AgentAlreadyRunning, AgentLaunch, AgentNotAttached, AgentNotFound,
    ComponentReference, ConfigNotFound, ConfigValidation, GenericBusiness, InstanceCorrupted,
    ProxySessionConflict, TemplateNotFound, WorkspaceInit,
};

/// One method of the socket.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    pub name: &'static str,
    pub params: &'static str,
    pub result: &'static str,
    /// The business errors it may answer with, beside the protocol's own.
    pub errors: &'static [ErrorCode],
}

const fn method(
    name: &'static str,
    params: &'static str,
    result: &'static str,
    errors: &'static [ErrorCode],
) -> Method {
    Method {
        name,
        params,
        result,
        errors,
    }
}

/// Every method, in the order of the contract.
pub const METHODS: &[Method] = &[
    method("template.list", "{}", "AgentTemplate[]", &[]),
    method(
        "template.get",
        "{ name }",
        "AgentTemplate",
        &[TemplateNotFound],
    ),
    method(
        "template.load",
        "{ filePath }",
        "AgentTemplate",
        &[ConfigNotFound, ConfigValidation],
    ),
    method("template.unload", "{ name }", "{ success }", &[]),
    method(
        "template.validate",
        "{ filePath }",
        "{ valid, template?, errors?, warnings? }",
        &[],
    ),
    method("template.problems", "{}", "FileProblems[]", &[]),
    method(
        "agent.create",
        "{ name, template, overrides? }",
        "AgentMeta",
        &[
            TemplateNotFound,
            ConfigValidation,
            WorkspaceInit,
            ComponentReference,
        ],
    ),
    method(
        "agent.start",
        "{ name }",
        "AgentMeta",
        &[
            AgentNotFound,
            AgentAlreadyRunning,
            AgentLaunch,
            InstanceCorrupted,
        ],
    ),
    method(
        "agent.stop",
        "{ name }",
        "AgentMeta",
        &[AgentNotFound, AgentAlreadyAttached],
    ),
    method(
        "agent.destroy",
        "{ name, force? }",
        "{ success }",
        &[
            AgentNotFound,
            AgentAlreadyAttached,
            InstanceCorrupted,
            WorkspaceInit,
        ],
    ),
    method("agent.status", "{ name }", "AgentMeta", &[AgentNotFound]),
    method("agent.list", "{}", "AgentMeta[]", &[]),
    method(
        "agent.resolve",
        "{ name, template?, overrides? }",
        "ResolveResult",
        &[
            AgentNotFound,
            TemplateNotFound,
            ConfigValidation,
            WorkspaceInit,
            ComponentReference,
            InstanceCorrupted,
            AgentLaunch,
        ],
    ),
    method(
        "agent.attach",
        "{ name, pid, metadata? }",
        "AgentMeta",
        &[AgentNotFound, AgentAlreadyRunning, AgentAlreadyAttached],
    ),
    method(
        "agent.detach",
        "{ name, cleanup?, pid? }",
        "{ ok, workspaceCleaned }",
        &[AgentNotFound, AgentNotAttached, WorkspaceInit],
    ),
    method("skill.list", "{}", "Skill[]", &[]),
    method("skill.get", "{ name }", "Skill", &[ConfigNotFound]),
    method("prompt.list", "{}", "Prompt[]", &[]),
    method("prompt.get", "{ name }", "Prompt", &[ConfigNotFound]),
    method("mcp.list", "{}", "McpServer[]", &[]),
    method("mcp.get", "{ name }", "McpServer", &[ConfigNotFound]),
    method("workflow.list", "{}", "Workflow[]", &[]),
    method("workflow.get", "{ name }", "Workflow", &[ConfigNotFound]),
    method(
        "agent.run",
        "{ name, prompt, options?, stream?, answers? } | { template, prompt, options?, cleanup?, stream?, answers? }",
        "{ text, response, sessionId, stopReason, truncated?, error?, instanceName, artifacts }",
        &[
            AgentNotFound,
            TemplateNotFound,
            AgentLaunch,
            AgentNotAttached,
            GenericBusiness,
        ],
    ),
    method(
        "agent.prompt",
        "{ name, message, sessionId?, stream?, answers? }",
        "{ response, text, sessionId, stopReason, truncated?, error? }",
        &[AgentNotFound, AgentNotAttached, GenericBusiness],
    ),
    method(
        "session.create",
        "{ agentName, clientId?, idleTtlMs?, stream?, answers?, raw?, start? }",
        "SessionLeaseInfo",
        &[AgentNotFound, AgentNotAttached],
    ),
    method(
        "session.attach",
        "{ sessionId, clientId?, fromSeq?, answers?, raw?, start? }",
        "SessionLeaseInfo",
        &[GenericBusiness],
    ),
    method(
        "session.prompt",
        "{ sessionId, text, queue?, trace? }",
        "{ response, text, sessionId, stopReason, truncated?, error? }",
        &[GenericBusiness],
    ),
    method(
        "session.answer",
        "{ sessionId, ask, option? | text? | decline? }",
        "{ ok }",
        &[GenericBusiness],
    ),
    method(
        "session.cancel",
        "{ sessionId, own? }",
        "{ ok }",
        &[GenericBusiness],
    ),
    method(
        "session.close",
        "{ sessionId }",
        "{ ok }",
        &[GenericBusiness],
    ),
    method("session.list", "{ agentName? }", "SessionLeaseInfo[]", &[]),
    method(
        "session.get",
        "{ sessionId }",
        "SessionLeaseInfo",
        &[GenericBusiness],
    ),
    method(
        "session.events",
        "{ sessionId, fromSeq?, limit? }",
        "Event[]",
        &[GenericBusiness],
    ),
    method(
        "proxy.lease",
        "{ agentName, cwd? }",
        "{ agentName, protocol }",
        &[AgentNotFound, AgentNotAttached, GenericBusiness],
    ),
    method(
        "proxy.connect",
        "{ agentName, envPassthrough? }",
        "ProxySession",
        &[AgentNotFound, AgentNotAttached, ProxySessionConflict],
    ),
    method(
        "proxy.forward",
        "{ sessionId, acpMessage }",
        "AcpMessage",
        &[GenericBusiness],
    ),
    method(
        "proxy.envCallback",
        "{ sessionId, response }",
        "{ ok }",
        &[GenericBusiness],
    ),
    method(
        "proxy.disconnect",
        "{ sessionId }",
        "{ ok }",
        &[GenericBusiness],
    ),
    method(
        "delegation.create",
        "{ peerUrl, dir, prompt, description?, token?, access?, ttlSecs?, transports?, quotaBytes?, lendSecrets?, keeping? }",
        "Delegation",
        &[GenericBusiness],
    ),
    method(
        "delegation.message",
        "{ message }",
        "{ message }",
        &[GenericBusiness],
    ),
    method("delegation.list", "{}", "Delegation[]", &[GenericBusiness]),
    method(
        "delegation.status",
        "{ delegationId }",
        "Delegation",
        &[GenericBusiness],
    ),
    method(
        "delegation.wait",
        "{ delegationId, timeoutMs? }",
        "Delegation",
        &[GenericBusiness],
    ),
    method(
        "delegation.audit",
        "{ delegationId }",
        "{ changes, diff, truncated }",
        &[GenericBusiness],
    ),
    method(
        "delegation.cancel",
        "{ delegationId }",
        "Delegation",
        &[GenericBusiness],
    ),
    method("delegation.prune", "{}", "{ removed }", &[GenericBusiness]),
    method(
        "journal.query",
        "{ agent?, session?, kind?, since?, afterSeq?, grep?, trace?, limit? }",
        "JournalLine[]",
        &[],
    ),
    method(
        "daemon.ping",
        "{}",
        "{ version, uptime, agents, pid, working, home }",
        &[],
    ),
    method("daemon.shutdown", "{}", "{ success }", &[]),
];
