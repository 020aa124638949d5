//! `agent.*` of the lifecycle.

use std::sync::Arc;

use domain::lifecycle::Force;
use engine::{AgentView, Create, EngineError};
use wire::daemon::{
    AttachParams, CreateParams, DestroyParams, DetachParams, DetachResult, Empty, NameParams,
    ResolveParams, ResolveResult, Success,
};

use crate::{convert, error::RpcError, params, server::Call};

type View = Result<Arc<AgentView>, RpcError>;

pub(super) async fn list(call: &Call) -> Result<Vec<Arc<AgentView>>, RpcError> {
    call.params::<Empty>()?;
    Ok(call.service.engine.agents())
}

pub(super) async fn status(call: &Call) -> View {
    let name = params::name("name", &call.params::<NameParams>()?.name)?;
    Ok(call.service.engine.agent(name.as_str())?)
}

pub(super) async fn create(call: &Call) -> View {
    let given: CreateParams = call.params()?;
    let create = Create {
        name: params::name("name", &given.name)?,
        template: given.template,
        overrides: convert::overrides(given.overrides)?,
    };
    Ok(call.service.engine.create(create).await?)
}

pub(super) async fn start(call: &Call) -> View {
    let name = params::name("name", &call.params::<NameParams>()?.name)?;
    Ok(call.service.engine.start(name.as_str()).await?)
}

pub(super) async fn stop(call: &Call) -> View {
    let name = params::name("name", &call.params::<NameParams>()?.name)?;
    Ok(call.service.engine.stop(name.as_str()).await?)
}

pub(super) async fn destroy(call: &Call) -> Result<Success, RpcError> {
    let given: DestroyParams = call.params()?;
    let name = params::name("name", &given.name)?;
    let force = if given.force { Force::Yes } else { Force::No };
    match (
        call.service.engine.destroy(name.as_str(), force).await,
        force,
    ) {
        (Err(EngineError::AgentNotFound { .. }), Force::Yes) => {}
        (result, _) => result?,
    }
    Ok(Success { success: true })
}

pub(super) async fn resolve(call: &Call) -> Result<ResolveResult, RpcError> {
    let given: ResolveParams = call.params()?;
    let name = params::name("name", &given.name)?;
    let overrides = convert::overrides(given.overrides)?;
    let resolved = call
        .service
        .engine
        .resolve(name, given.template, overrides)
        .await?;
    Ok(convert::resolved(resolved))
}

pub(super) async fn attach(call: &Call) -> View {
    let given: AttachParams = call.params()?;
    let name = params::name("name", &given.name)?;
    Ok(call
        .service
        .engine
        .attach(
            name,
            given.pid,
            convert::metadata("metadata", given.metadata)?,
        )
        .await?)
}

pub(super) async fn detach(call: &Call) -> Result<DetachResult, RpcError> {
    let given: DetachParams = call.params()?;
    let name = params::name("name", &given.name)?;
    let workspace_cleaned = call
        .service
        .engine
        .detach(name.as_str(), given.pid, given.cleanup)
        .await?;
    Ok(DetachResult {
        ok: true,
        workspace_cleaned,
    })
}
