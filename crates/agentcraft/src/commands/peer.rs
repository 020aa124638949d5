//! `agentcraft peer …` and `agentcraft intent`: other nodes, and text that goes to whoever can do it.

use serde_json::{Value, json};

use super::{print_values, rows_of};
use crate::{
    args::{IntentArgs, PeerCommand, ReportFormat},
    config::Config,
    error::CommandError,
    node::{Node, token_of},
    render::Screen,
};

pub(super) fn run(
    command: PeerCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let node = Node::open(config)?;
    match command {
        PeerCommand::List(output) => {
            let peers = rows_of(&node.get("/peers")?, "peers");
            let fields = [("NAME", "/name"), ("STATE", "/status"), ("ADDRESS", "/url")];
            print_values(&peers, fields, output.format, screen)?;
        }
        PeerCommand::Add(arguments) => {
            let body = json!({ "url": arguments.url, "token": token_of(arguments.token_file.as_deref())? });
            screen.json(&node.post("/peers", &body)?)?;
        }
        PeerCommand::Show(arguments) => {
            screen.json(&node.get(&format!("/peers/{}", arguments.id))?)?;
        }
        PeerCommand::Ping(arguments) => {
            screen.json(&node.post(&format!("/peers/{}/ping", arguments.id), &json!({}))?)?;
        }
        PeerCommand::Remove(arguments) => {
            node.delete(&format!("/peers/{}", arguments.id))?;
            screen.line(&format!("forgot {}", arguments.id))?;
        }
    }
    Ok(())
}

pub(super) fn intent(
    arguments: IntentArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let node = Node::open(config)?;
    let wanted = json!({
        "text": arguments.text,
        "peer": arguments.peer,
        "fanOut": arguments.fan_out,
    });
    let answer = node.post("/intents", &wanted)?;
    match arguments.format {
        ReportFormat::Json => screen.json(&answer)?,
        ReportFormat::Table => {
            let legs = rows_of(&answer, "legs");
            for leg in &legs {
                let who = leg["peerName"].as_str().unwrap_or("somebody");
                let said = leg["text"].as_str().filter(|text| !text.is_empty());
                let said = said.or(leg["question"].as_str());
                let said = said.or(leg["error"]["message"].as_str());
                screen.line(&format!("{who}: {}", said.unwrap_or_default()))?;
            }
            if legs.is_empty() {
                screen.json(&Value::clone(&answer))?;
            }
        }
    }
    Ok(())
}
