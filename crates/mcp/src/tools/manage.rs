//! The tools that look at agents and create them.

use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use wire::daemon::{AgentMeta, CreateParams, NameParams, Overrides};

use super::{
    arguments::{CreateAgent, Created, NameAgent, Nothing},
    plain, reach,
};
use crate::{
    caller::Caller,
    daemon::{Daemon, in_time},
    failure::Failure,
    sight::Sight,
};

pub(super) async fn status(
    arguments: Result<NameAgent, Failure>,
    daemon: &Daemon,
    sight: Sight,
) -> Result<CallToolResult, Failure> {
    let params = NameParams {
        name: arguments?.name,
    };
    let agent: Value = in_time(async {
        let mut link = daemon.connect().await?;
        sight.check(&mut link, &params.name).await?;
        link.call("agent.status", &params).await
    })
    .await?;
    plain(&agent)
}

pub(super) async fn list(
    arguments: Result<Nothing, Failure>,
    daemon: &Daemon,
    sight: Sight,
) -> Result<CallToolResult, Failure> {
    let Nothing {} = arguments?;
    let agents = in_time(async { sight.agents(&mut daemon.connect().await?).await }).await?;
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
