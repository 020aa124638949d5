//! The tools that look at agents and create them.

use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use wire::daemon::{AgentMeta, CreateParams, Empty, NameParams, Overrides};

use super::{
    arguments::{CreateAgent, Created, NameAgent, Nothing},
    plain, reach,
};
use crate::{
    caller::Caller,
    daemon::{Daemon, in_time},
    failure::Failure,
};

pub(super) async fn status(
    arguments: Result<NameAgent, Failure>,
    daemon: &Daemon,
) -> Result<CallToolResult, Failure> {
    let params = NameParams {
        name: arguments?.name,
    };
    let agent: Value = in_time(daemon.call("agent.status", &params)).await?;
    plain(&agent)
}

pub(super) async fn list(
    arguments: Result<Nothing, Failure>,
    daemon: &Daemon,
) -> Result<CallToolResult, Failure> {
    let Nothing {} = arguments?;
    let agents: Vec<Value> = in_time(daemon.call("agent.list", &Empty {})).await?;
    // Structured content is an object in every protocol version but the newest.
    plain(&json!({ "agents": agents }))
}

pub(super) async fn create(
    arguments: Result<CreateAgent, Failure>,
    daemon: &Daemon,
    caller: &Caller,
) -> Result<CallToolResult, Failure> {
    let CreateAgent { name, template } = arguments?;
    reach::check_template(&template, caller)?;
    let params = CreateParams {
        name,
        template,
        overrides: Overrides::default(),
    };
    let agent: AgentMeta = daemon.call("agent.create", &params).await?;
    plain(&Created {
        name: agent.name,
        workspace_dir: agent.workspace_dir,
        status: agent.status,
    })
}
