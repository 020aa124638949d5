//! `skill|prompt|mcp|workflow .list|.get`.

use std::collections::BTreeMap;

use catalog::{ComponentKind, Components, McpServer, Prompt, Skill, Workflow};
use domain::Name;
use engine::EngineError;
use wire::daemon::{Empty, NameParams};

use crate::{error::RpcError, server::Call};

pub(super) async fn skills(call: &Call) -> Result<Vec<Skill>, RpcError> {
    list(call, |components| components.skills)
}

pub(super) async fn skill(call: &Call) -> Result<Skill, RpcError> {
    get(call, ComponentKind::Skill, |components| components.skills)
}

pub(super) async fn prompts(call: &Call) -> Result<Vec<Prompt>, RpcError> {
    list(call, |components| components.prompts)
}

pub(super) async fn prompt(call: &Call) -> Result<Prompt, RpcError> {
    get(call, ComponentKind::Prompt, |components| components.prompts)
}

pub(super) async fn mcp_servers(call: &Call) -> Result<Vec<McpServer>, RpcError> {
    list(call, |components| components.mcp_servers)
}

pub(super) async fn mcp_server(call: &Call) -> Result<McpServer, RpcError> {
    get(call, ComponentKind::McpServer, |components| {
        components.mcp_servers
    })
}

pub(super) async fn workflows(call: &Call) -> Result<Vec<Workflow>, RpcError> {
    list(call, |components| components.workflows)
}

pub(super) async fn workflow(call: &Call) -> Result<Workflow, RpcError> {
    get(call, ComponentKind::Workflow, |components| {
        components.workflows
    })
}

fn list<T>(
    call: &Call,
    of: impl FnOnce(Components) -> BTreeMap<Name, T>,
) -> Result<Vec<T>, RpcError> {
    call.params::<Empty>()?;
    Ok(of(call.service.engine.library().components())
        .into_values()
        .collect())
}

fn get<T>(
    call: &Call,
    kind: ComponentKind,
    of: impl FnOnce(Components) -> BTreeMap<Name, T>,
) -> Result<T, RpcError> {
    let NameParams { name } = call.params()?;
    of(call.service.engine.library().components())
        .remove(name.as_str())
        .ok_or_else(|| {
            EngineError::ComponentNotFound {
                kind: kind.noun(),
                name,
            }
            .into()
        })
}
