//! `agentcraft peer …`: other nodes, and pairing with them.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{print_values, rows_of};
use crate::{
    args::{Format, PairArgs, PeerCommand},
    config::Config,
    error::CommandError,
    node::{Node, token_of},
    render::Screen,
};

/// How often it is asked whether the other owner has agreed.
const LOOK: Duration = Duration::from_millis(300);

/// Codes work for five minutes; a little longer, so that the node itself says so.
const WAIT_MAX: Duration = Duration::from_secs(6 * 60);

pub(super) fn run(
    command: PeerCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let node = Node::open(config)?;
    match command {
        PeerCommand::List(output) => {
            let peers = rows_of(&node.get("/peers")?, "peers");
            let fields = [
                ("PEER", "/alias"),
                ("NAME", "/name"),
                ("STATE", "/status"),
                ("ADDRESS", "/url"),
                ("NOTE", "/trouble"),
            ];
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
        PeerCommand::Pair(arguments) => pair(&node, &arguments, screen)?,
        PeerCommand::Unpair(arguments) => {
            node.post(&format!("/peers/{}/unpair", arguments.id), &json!({}))?;
            screen.line(&format!(
                "{} is no longer paired with this node",
                arguments.id
            ))?;
        }
    }
    Ok(())
}

fn pair(node: &Node, arguments: &PairArgs, screen: &mut Screen) -> Result<(), CommandError> {
    let format = arguments.output.format;
    if let Some(code) = &arguments.accept {
        let peer = node.post("/pair/accept", &grant(arguments, "code", code))?;
        return said(
            &peer,
            &format!("paired with {}", text(&peer, "name")),
            format,
            screen,
        );
    }
    if let Some(code) = &arguments.refuse {
        node.post("/pair/refuse", &json!({ "code": code }))?;
        return Ok(screen.line("refused")?);
    }
    let Some(whom) = &arguments.node else {
        let requests = rows_of(&node.get("/pair")?, "requests");
        let fields = [("CODE", "/code"), ("NAME", "/name"), ("FROM", "/from")];
        return print_values(&requests, fields, format, screen);
    };
    let asked = node.post("/pair", &grant(arguments, "peer", whom))?;
    let (name, code) = (text(&asked, "name"), text(&asked, "code"));
    screen.note(&format!("the code is {code}"))?;
    screen.note(&format!(
        "on {name}, type: agentcraft peer pair --accept {code}"
    ))?;
    let asked = wait(node, text(&asked, "id"))?;
    match text(&asked, "status") {
        "accepted" => said(&asked, &format!("paired with {name}"), format, screen),
        "refused" => Err(CommandError::Refused {
            message: format!("the owner of {name} refused"),
            hint: "nothing was exchanged".to_owned(),
        }),
        _ => Err(CommandError::Refused {
            message: format!("{name} was not paired with: {}", text(&asked, "trouble")),
            hint: "codes work for five minutes; ask again".to_owned(),
        }),
    }
}

/// Waits until the other owner has decided.
fn wait(node: &Node, id: &str) -> Result<Value, CommandError> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        let asked = node.get(&format!("/pair/asked/{id}"))?;
        if text(&asked, "status") != "waiting" || Instant::now() > until {
            return Ok(asked);
        }
        thread::sleep(LOOK);
    }
}

fn grant(arguments: &PairArgs, key: &str, value: &str) -> Value {
    let mut body = json!({
        "perMinute": arguments.per_minute,
        "hours": arguments.hours,
        "lifetimeSeconds": arguments.lifetime,
    });
    body[key] = json!(value);
    if !arguments.right.is_empty() {
        body["rights"] = json!(arguments.right);
    }
    body
}

fn said(
    value: &Value,
    words: &str,
    format: Format,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    match format {
        Format::Json => screen.json(value)?,
        Format::Table | Format::Quiet => screen.line(words)?,
    }
    Ok(())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
