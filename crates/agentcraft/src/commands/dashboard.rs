//! `agentcraft dashboard`: a link that opens the node's page in a browser, once.

use serde_json::json;

use crate::{
    args::{DashboardArgs, ReportFormat},
    config::Config,
    error::CommandError,
    node::Node,
    render::Screen,
};

pub(super) fn run(
    arguments: &DashboardArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let node = Node::open(config)?;
    let code = node.post("/login/codes", &json!({}))?;
    let path = code["path"].as_str().unwrap_or("/");
    let url = format!("{}{path}", node.url());
    match arguments.format {
        ReportFormat::Json => screen.json(&json!({ "url": url }))?,
        ReportFormat::Table => {
            screen.line(&url)?;
            screen.note("the link works once, within a minute")?;
        }
    }
    Ok(())
}
