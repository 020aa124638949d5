//! `agentcraft token …`: who may use the node over the network, and for what.

use serde_json::{Value, json};

use super::{done, print_values, rows_of};
use crate::{
    args::{Format, TokenCommand},
    config::Config,
    error::CommandError,
    node::{Node, segment},
    render::{Screen, ends},
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
            let mut tokens = rows_of(&node.get("/tokens")?, "tokens");
            if output.format == Format::Table {
                tokens.iter_mut().for_each(readable);
            }
            let fields = [
                ("ID", "/id"),
                ("NAME", "/name"),
                ("MAY ONLY", "/rights"),
                ("ENDS", "/expiresAt"),
            ];
            let none = "there are no tokens; `agentcraft token create NAME` makes one";
            print_values(&tokens, fields, none, output.format, screen)?;
        }
        TokenCommand::Revoke(arguments) => {
            let id = &arguments.id;
            let answer = node.delete(&format!("/tokens/{}", segment(id)))?;
            let words = format!("revoked {id}");
            done(&answer, id, &words, arguments.output.format, screen)?;
        }
    }
    Ok(())
}

/// For people: what a token may do and when it ends, also where that is everything and never.
fn readable(token: &mut Value) {
    if token["rights"].is_null() {
        token["rights"] = json!("(everything)");
    }
    token["expiresAt"] = json!(ends(token["expiresAt"].as_i64()));
}
