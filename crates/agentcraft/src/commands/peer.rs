//! `agentcraft peer …`: other nodes, and pairing with them.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{done, print_values, rows_of};
use crate::{
    args::{Format, PairArgs, PeerCommand},
    config::Config,
    error::CommandError,
    exit::Exit,
    node::{Node, segment, token_of},
    render::{Screen, one_line, peer_detail},
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
    let path = |id: &str| format!("/peers/{}", segment(id));
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
            let none = "no other node is known; `agentcraft peer add URL` makes one known";
            print_values(&peers, fields, none, output.format, screen)?;
        }
        PeerCommand::Add(arguments) => {
            let body = json!({
                "url": arguments.url,
                "token": token_of(arguments.token_file.as_deref())?,
                "fingerprint": arguments.fingerprint,
            });
            let added = node.post("/peers", &body)?;
            show(&added, arguments.output.format, screen)?;
        }
        PeerCommand::Show(arguments) => {
            show(
                &node.get(&path(&arguments.id))?,
                arguments.output.format,
                screen,
            )?;
        }
        PeerCommand::Ping(arguments) => {
            let pinged = node.post(&format!("{}/ping", path(&arguments.id)), &json!({}))?;
            ping(&pinged, arguments.output.format, screen)?;
        }
        PeerCommand::Remove(arguments) => {
            let id = &arguments.id;
            let answer = node.delete(&path(id))?;
            let words = format!("forgot {id}");
            done(&answer, id, &words, arguments.output.format, screen)?;
        }
        PeerCommand::Pair(arguments) => pair(&node, &arguments, screen)?,
        PeerCommand::Unpair(arguments) => {
            let id = &arguments.id;
            let answer = node.post(&format!("{}/unpair", path(id)), &json!({}))?;
            let words = format!("{id} is no longer paired with this node");
            done(&answer, id, &words, arguments.output.format, screen)?;
        }
    }
    Ok(())
}

/// The address of a node that is meant by what `peer list` calls it, or by its address itself.
pub(super) fn address(node: &Node, said: &str) -> Result<String, CommandError> {
    if said.contains("://") {
        return Ok(said.to_owned());
    }
    match node.get(&format!("/peers/{}", segment(said))) {
        Ok(peer) => Ok(text(&peer, "url").to_owned()),
        Err(CommandError::Answered {
            exit: Exit::NotFound,
            message,
            ..
        }) => Err(CommandError::not_found(
            message,
            "`agentcraft peer list` shows those there are; any other is named by its address, such as http://nova9.local:7420",
        )),
        Err(error) => Err(error),
    }
}

fn show(peer: &Value, format: Format, screen: &mut Screen) -> Result<(), CommandError> {
    match format {
        Format::Json => screen.json(peer)?,
        Format::Quiet => screen.line(text(peer, "alias"))?,
        Format::Table => screen.print(&peer_detail(peer, screen.style()))?,
    }
    Ok(())
}

/// Says whether the peer answered, and ends accordingly.
fn ping(pinged: &Value, format: Format, screen: &mut Screen) -> Result<(), CommandError> {
    let peer = &pinged["peer"];
    let (name, url) = (text(peer, "alias"), text(peer, "url"));
    let millis = pinged["millis"].as_f64();
    match (format, millis) {
        (Format::Json, _) => screen.json(pinged)?,
        (Format::Quiet, Some(millis)) => screen.line(&format!("{millis:.1}"))?,
        (Format::Quiet, None) => {}
        (Format::Table, Some(millis)) => {
            screen.line(&one_line(&format!(
                "{name} at {url} answered in {millis:.1} ms"
            )))?;
        }
        (Format::Table, None) => {
            return Err(CommandError::Answered {
                exit: Exit::Failed,
                message: match text(peer, "trouble") {
                    "" => format!("{name} at {url} does not answer"),
                    trouble => format!("{name} at {url} does not answer: {trouble}"),
                },
                hint: Some("look whether it is on and can be reached".to_owned()),
            });
        }
    }
    match millis {
        Some(_) => Ok(()),
        None => Err(CommandError::Shown(Exit::Failed)),
    }
}

fn pair(node: &Node, arguments: &PairArgs, screen: &mut Screen) -> Result<(), CommandError> {
    let format = arguments.output.format;
    if let Some(code) = &arguments.accept {
        let peer = node.post("/pair/accept", &grant(arguments, "code", code))?;
        let name = text(&peer, "name");
        return done(&peer, name, &format!("paired with {name}"), format, screen);
    }
    if let Some(code) = &arguments.refuse {
        let answer = node.post("/pair/refuse", &json!({ "code": code }))?;
        return done(&answer, code, "refused", format, screen);
    }
    let Some(whom) = &arguments.node else {
        let requests = rows_of(&node.get("/pair")?, "requests");
        let fields = [("CODE", "/code"), ("NAME", "/name"), ("FROM", "/from")];
        let none = "nobody asks to be paired with; `agentcraft peer pair NODE` asks another node";
        return print_values(&requests, fields, none, format, screen);
    };
    if !whom.contains("://") {
        address(node, whom)?;
    }
    let asked = node.post("/pair", &grant(arguments, "peer", whom))?;
    let (name, code) = (text(&asked, "name"), text(&asked, "code"));
    screen.note(&format!("the code is {code}"))?;
    screen.note(&format!(
        "on {name}, type: agentcraft peer pair --accept {code}"
    ))?;
    let asked = wait(node, text(&asked, "id"))?;
    match text(&asked, "status") {
        "accepted" => done(&asked, name, &format!("paired with {name}"), format, screen),
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

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
