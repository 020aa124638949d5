//! `daemon.*`.

use wire::daemon::{Empty, PingResult, Success};

use crate::{error::RpcError, server::Call};

pub(super) async fn ping(call: &Call) -> Result<PingResult, RpcError> {
    call.params::<Empty>()?;
    let service = &call.service;
    Ok(PingResult {
        version: service.version.to_owned(),
        uptime: service.started.elapsed().as_secs_f64(),
        agents: service.engine.agent_count(),
        pid: platform::pid::own_pid(),
        working: call.working(),
        home: service.home.clone(),
    })
}

pub(super) async fn shutdown(call: &Call) -> Result<Success, RpcError> {
    call.params::<Empty>()?;
    call.service.shutdown.cancel();
    Ok(Success { success: true })
}
