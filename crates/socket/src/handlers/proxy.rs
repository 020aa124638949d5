//! `proxy.*`.

use domain::Name;
use wire::daemon::{
    LeaseResult, Ok as Done, ProxyCallbackParams, ProxyConnectParams, ProxyForwardParams,
    ProxySession, SessionIdParams,
};

use crate::{
    editor::{EditorAsks, Lease},
    error::RpcError,
    params,
    proxies::AcpMessage,
    server::Call,
};

/// The server takes this method out of the table's hands, since the connection goes with it; only the checks are the same.
pub(super) async fn lease(call: &Call) -> Result<LeaseResult, RpcError> {
    Ok(Lease::of(call).await?.result())
}

pub(super) async fn connect(call: &Call) -> Result<ProxySession, RpcError> {
    let given: ProxyConnectParams = call.params()?;
    let agent: Name = params::name("agentName", &given.agent_name)?;
    call.service.engine.sessions().driver(&agent)?;
    let asks = match given.env_passthrough {
        true => EditorAsks::Relayed,
        false => EditorAsks::Unheard,
    };
    call.service.proxies.connect(call, agent, asks)
}

pub(super) async fn forward(call: &Call) -> Result<AcpMessage, RpcError> {
    let given: ProxyForwardParams = call.params()?;
    let proxy = call.service.proxies.find(&given.session_id)?;
    proxy.forward(&given.acp_message).await
}

pub(super) async fn callback(call: &Call) -> Result<Done, RpcError> {
    let given: ProxyCallbackParams = call.params()?;
    let proxy = call.service.proxies.find(&given.session_id)?;
    proxy.answer(&given.response).await?;
    Ok(Done { ok: true })
}

pub(super) async fn disconnect(call: &Call) -> Result<Done, RpcError> {
    let given: SessionIdParams = call.params()?;
    call.service.proxies.disconnect(&given.session_id)?;
    Ok(Done { ok: true })
}
