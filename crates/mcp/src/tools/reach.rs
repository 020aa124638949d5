//! Agents of targets that lead to other nodes or lend them folders: whoever speaks to one needs the right to that.

use catalog::{BackendType, Template};
use domain::target::Target;
use engine::further_right;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::daemon::{AgentMeta, ErrorCode, NameParams};

use crate::{
    caller::Caller,
    daemon::{Daemon, in_time},
    failure::Failure,
};

/// Refuses an agent, by its name or as a target, that leads where the caller may not go.
pub(super) async fn check_agent(
    said: &str,
    daemon: &Daemon,
    caller: &Caller,
) -> Result<(), Failure> {
    if let Ok(Target::Made(_)) = said.parse() {
        return check_template(said, caller);
    }
    if caller.may_go_everywhere() {
        return Ok(());
    }
    let agent: Option<AgentMeta> = found("agent.status", said, daemon).await?;
    let Some(agent) = agent else {
        return Ok(());
    };
    match BackendType::parse(&agent.backend_type).and_then(further_right) {
        None => Ok(()),
        Some(right) => {
            // What is made of a target has no file of its template.
            let file: Option<Value> = found("template.get", &agent.template_name, daemon).await?;
            file.map_or_else(|| caller.require(right), |_| Ok(()))
        }
    }
}

/// The same for what an agent is made of. A template is the owner's; a target is the caller's own word.
pub(super) fn check_template(said: &str, caller: &Caller) -> Result<(), Failure> {
    let made = match said.parse() {
        Ok(Target::Made(maker)) => Template::of(&maker),
        Ok(Target::Agent(_)) | Err(_) => None,
    };
    match made.and_then(|template| further_right(template.backend.backend_type())) {
        Some(right) => caller.require(right),
        None => Ok(()),
    }
}

/// What is not there leads nowhere: whoever goes on with it is told so by the daemon.
async fn found<T: DeserializeOwned>(
    method: &str,
    name: &str,
    daemon: &Daemon,
) -> Result<Option<T>, Failure> {
    let params = NameParams {
        name: name.to_owned(),
    };
    let missing = [
        ErrorCode::AgentNotFound,
        ErrorCode::TemplateNotFound,
        ErrorCode::InvalidParams,
    ];
    match in_time(daemon.call(method, &params)).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if missing.into_iter().any(|code| error.is(code)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
