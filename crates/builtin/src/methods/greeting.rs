//! What the agent says of itself.

use agent_client_protocol_schema::{
    ProtocolVersion,
    v1::{
        AgentCapabilities, Implementation, InitializeResponse, PromptCapabilities,
        SessionCapabilities, SessionCloseCapabilities, SessionListCapabilities,
        SessionResumeCapabilities,
    },
};

/// The answer to `initialize`.
pub(super) fn greeting() -> InitializeResponse {
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::default())
        .resume(SessionResumeCapabilities::default())
        .close(SessionCloseCapabilities::default());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().embedded_context(true))
        .session_capabilities(sessions);
    let implementation = Implementation::new("agentcraft-builtin", env!("CARGO_PKG_VERSION"))
        .title("AgentCraft built-in agent".to_owned());
    // Whatever the client speaks, this is what we speak; it decides whether that will do.
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .agent_info(implementation)
}
