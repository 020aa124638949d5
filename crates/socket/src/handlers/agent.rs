//! `agent.*` of the lifecycle.

use std::sync::Arc;

use domain::{Name, lifecycle::Force};
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
    let name = named(call, &call.params::<NameParams>()?.name)?;
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

/// The agent that a name or a target means. Only what needs an agent to begin with makes one for a target.
fn named(call: &Call, text: &str) -> Result<Name, RpcError> {
    let target = params::target("name", text)?;
    Ok(call.service.engine.agent_of(&target)?)
}

pub(super) async fn start(call: &Call) -> View {
    let target = params::target("name", &call.params::<NameParams>()?.name)?;
    let name = call.service.engine.ensure(&target).await?;
    Ok(call.service.engine.start(name.as_str()).await?)
}

pub(super) async fn stop(call: &Call) -> View {
    let name = named(call, &call.params::<NameParams>()?.name)?;
    Ok(call.service.engine.stop(name.as_str()).await?)
}

pub(super) async fn destroy(call: &Call) -> Result<Success, RpcError> {
    let given: DestroyParams = call.params()?;
    let target = params::target("name", &given.name)?;
    let engine = &call.service.engine;
    let force = if given.force { Force::Yes } else { Force::No };
    let destroyed = match engine.agent_of(&target) {
        Ok(name) => engine.destroy(name.as_str(), force).await,
        Err(error) => Err(error),
    };
    match (destroyed, force) {
        (Err(EngineError::AgentNotFound { .. }), Force::Yes) => {}
        (result, _) => result?,
    }
    Ok(Success { success: true })
}

pub(super) async fn resolve(call: &Call) -> Result<ResolveResult, RpcError> {
    let given: ResolveParams = call.params()?;
    let target = params::target("name", &given.name)?;
    let name = call.service.engine.ensure(&target).await?;
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
    let name = named(call, &given.name)?;
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
    let name = named(call, &given.name)?;
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
