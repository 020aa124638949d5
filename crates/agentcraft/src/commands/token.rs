//! `agentcraft token …`: who may use the node over the network, and for what.

use serde_json::{Value, json};

use super::print_values;
use crate::{
    args::{Format, TokenCommand},
    config::Config,
    error::CommandError,
    node::Node,
    render::Screen,
};

pub(super) fn run(
    command: TokenCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let node = Node::open(config)?;
    match command {
        TokenCommand::Create(arguments) => {
            let rights = (!arguments.right.is_empty()).then_some(arguments.right);
            let wanted = json!({
                "name": arguments.name,
                "rights": rights,
                "lifetimeSecs": arguments.lifetime,
            });
            let made = node.post("/tokens", &wanted)?;
            let token = made["token"].as_str().unwrap_or_default();
            match arguments.output.format {
                Format::Json => screen.json(&made)?,
                Format::Quiet => screen.line(token)?,
                Format::Table => {
                    screen.line(token)?;
                    screen.note("keep it: it is not shown again")?;
                }
            }
        }
        TokenCommand::List(output) => {
            let listed = node.get("/tokens")?;
            let tokens: Vec<Value> = listed["tokens"].as_array().cloned().unwrap_or_default();
            let fields = [("ID", "/id"), ("NAME", "/name"), ("MAY ONLY", "/rights")];
            print_values(&tokens, fields, output.format, screen)?;
        }
        TokenCommand::Revoke(arguments) => {
            node.delete(&format!("/tokens/{}", arguments.id))?;
            screen.line(&format!("revoked {}", arguments.id))?;
        }
    }
    Ok(())
}
