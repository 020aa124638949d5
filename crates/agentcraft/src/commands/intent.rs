//! `agentcraft intent` and `agentcraft session tree`: text that goes to whichever node can do it, and where it went.

use serde_json::{Value, json};

use super::{
    editor::{Editor, Typed},
    print_values, rows_of,
};
use crate::{
    args::{IntentArgs, ReportFormat, SessionTreeArgs},
    config::Config,
    error::CommandError,
    exit::Exit,
    node::{Node, segment},
    render::Screen,
};

/// How often a person is asked again whose answer could not be taken.
const REFUSALS_MAX: u32 = 5;

pub(super) fn run(
    arguments: IntentArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let node = Node::open(config)?;
    if arguments.explain {
        return explain(&node, &arguments, screen);
    }
    let mut intent = match &arguments.answer {
        Some(id) => {
            let wanted = json!({ "text": arguments.text, "peer": arguments.peer });
            answer(&node, id, &wanted)?
        }
        None => {
            let wanted = json!({
                "text": arguments.text,
                "peer": arguments.peer,
                "fanOut": arguments.fan_out,
                "session": arguments.session,
            });
            node.post("/intents", &wanted)?
        }
    };
    let (mut shown, mut refusals) = (0, 0);
    if arguments.format == ReportFormat::Table {
        while let Some(leg) = waiting(&intent) {
            let (peer, question) = (text_of(&leg, "peerName"), text_of(&leg, "question"));
            shown = show_answers(&intent, shown, screen)?;
            screen.note(&format!("{peer} asks: {}", plain(question)))?;
            let Some(text) = typed(screen) else { break };
            let id = text_of(&intent, "id").to_owned();
            let wanted = json!({ "text": text, "peer": peer, "ask": leg["ask"] });
            match answer(&node, &id, &wanted) {
                Ok(answered) => intent = answered,
                // It waits as it did; what was said is not what it can take.
                Err(CommandError::Answered { message, hint, .. }) if refusals < REFUSALS_MAX => {
                    refusals += 1;
                    let hint = hint.map(|hint| format!(" ({hint})"));
                    screen.note(&format!("{message}{}", hint.unwrap_or_default()))?;
                    intent = node.get(&format!("/intents/{id}"))?;
                }
                Err(error) => {
                    screen.note(&format!(
                        "it waits still: agentcraft intent --answer {id} \"…\""
                    ))?;
                    return Err(error);
                }
            }
        }
        show_answers(&intent, shown, screen)?;
    }
    end(&intent, arguments.format, screen)
}

/// Who could do it, the best first.
fn explain(node: &Node, arguments: &IntentArgs, screen: &mut Screen) -> Result<(), CommandError> {
    let ranked = node.post("/intents/route", &json!({ "text": arguments.text }))?;
    let peers = rows_of(&node.get("/peers")?, "peers");
    let named = |mut row: Value| {
        let peer = peers.iter().find(|peer| peer["id"] == row["peer"]);
        row["name"] = peer.map_or(Value::Null, |peer| peer["alias"].clone());
        row["fit"] = json!(format!(
            "{:.0} %",
            row["score"].as_f64().unwrap_or_default() * 100.0
        ));
        row
    };
    let rows: Vec<Value> = rows_of(&ranked, "ranked").into_iter().map(named).collect();
    let fields = [
        ("PEER", "/name"),
        ("CAPABILITY", "/capability"),
        ("FIT", "/fit"),
        ("BECAUSE OF", "/why"),
    ];
    let none = "no peer that is there can do it; `agentcraft peer list` shows who is";
    print_values(&rows, fields, none, arguments.format.into(), screen)
}

fn answer(node: &Node, id: &str, reply: &Value) -> Result<Value, CommandError> {
    node.post(&format!("/intents/{}/answer", segment(id)), reply)
}

/// The first leg whose question waits for the human.
fn waiting(intent: &Value) -> Option<Value> {
    let legs = rows_of(intent, "legs");
    legs.into_iter().find(|leg| leg["status"] == "awaiting")
}

/// What the person at the terminal says; nothing where nobody is, or they leave.
fn typed(screen: &Screen) -> Option<String> {
    if !screen.can_ask() {
        return None;
    }
    match Editor::on_terminal().ok()?.read("  answer ") {
        Ok(Typed::Line(line)) if !line.trim().is_empty() => Some(line),
        Ok(Typed::Line(_) | Typed::Interrupt | Typed::End) | Err(_) => None,
    }
}

/// Tells who answered for the human, and why; gives how many answers have been told.
fn show_answers(intent: &Value, told: usize, screen: &mut Screen) -> Result<usize, CommandError> {
    let legs = rows_of(intent, "legs");
    let answers: Vec<Value> = legs
        .iter()
        .flat_map(|leg| rows_of(leg, "answers"))
        .collect();
    for answered in answers.iter().skip(told) {
        if answered["by"] != "human" {
            screen.note(&format!(
                "answered for you: {} ({})",
                plain(text_of(answered, "answer")),
                plain(text_of(answered, "because"))
            ))?;
        }
    }
    Ok(answers.len().max(told))
}

fn end(intent: &Value, format: ReportFormat, screen: &mut Screen) -> Result<(), CommandError> {
    let legs = rows_of(intent, "legs");
    let id = text_of(intent, "id");
    match format {
        ReportFormat::Json => screen.json(intent)?,
        ReportFormat::Table => {
            for tried in rows_of(intent, "tried") {
                let (name, why) = (text_of(&tried, "peerName"), text_of(&tried, "why"));
                screen.note(&format!("{} could not: {}", plain(name), plain(why)))?;
            }
            for leg in legs.iter().filter(|leg| leg["status"] == "completed") {
                let who = text_of(leg, "peerName");
                screen.line(&format!(
                    "{who}: {}",
                    plain(text_of(leg, "text")).trim_end()
                ))?;
                for (name, url) in files(leg) {
                    screen.line(&format!("  {}  {}", plain(&name), plain(&url)))?;
                }
            }
        }
    }
    if format == ReportFormat::Json {
        return match text_of(intent, "status") {
            "completed" => Ok(()),
            _ => Err(CommandError::Shown(Exit::Failed)),
        };
    }
    if let Some(leg) = waiting(intent) {
        return Err(CommandError::Refused {
            message: format!("{} waits for an answer", text_of(&leg, "peerName")),
            hint: format!("agentcraft intent --answer {id} \"…\""),
        });
    }
    match legs.iter().find(|leg| leg["status"] != "completed") {
        None if legs.is_empty() => Err(CommandError::Refused {
            message: "no peer took it".to_owned(),
            hint: "`agentcraft peer list` shows who is there".to_owned(),
        }),
        None => Ok(()),
        Some(leg) => Err(failure(leg)),
    }
}

fn failure(leg: &Value) -> CommandError {
    let error = &leg["error"];
    let chain = error["details"]["call_chain"].as_array().map(|chain| {
        let ids = chain.iter().filter_map(Value::as_str);
        format!(" ({})", ids.collect::<Vec<_>>().join(" → "))
    });
    let what = error["message"].as_str().unwrap_or("it was cancelled");
    CommandError::Refused {
        message: format!(
            "{}: {}{}",
            text_of(leg, "peerName"),
            plain(what),
            chain.unwrap_or_default()
        ),
        hint: error["suggestion"].as_str().map_or_else(
            || "`agentcraft journal --kind intent.` tells what happened".to_owned(),
            plain,
        ),
    }
}

/// Files that a peer handed over, by name and address.
fn files(leg: &Value) -> Vec<(String, String)> {
    let messages = rows_of(leg, "output");
    let parts = messages
        .iter()
        .flat_map(|message| rows_of(message, "parts"));
    let named = parts.filter_map(|part| {
        let (name, url) = (part["name"].as_str()?, part["content_url"].as_str()?);
        Some((name.to_owned(), url.to_owned()))
    });
    named.collect()
}

/// What a peer says, without what a terminal would obey.
fn plain(text: &str) -> String {
    let kept = text
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'));
    kept.collect()
}

fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The sessions at other nodes below each conversation.
pub(super) fn tree(
    arguments: &SessionTreeArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let node = Node::open(config)?;
    let trees = match &arguments.session {
        Some(session) => vec![node.get(&format!("/intents/sessions/{}", segment(session)))?],
        None => rows_of(&node.get("/intents/sessions")?, "sessions"),
    };
    if arguments.format == ReportFormat::Json {
        return Ok(screen.json(&trees)?);
    }
    for tree in &trees {
        screen.line(&plain(text_of(tree, "main")))?;
        let remotes = rows_of(tree, "remotes");
        for (index, remote) in remotes.iter().enumerate() {
            let branch = if index + 1 == remotes.len() {
                "└─"
            } else {
                "├─"
            };
            let field = |key| plain(remote[key].as_str().unwrap_or("-"));
            screen.line(&format!(
                "{branch} {} / {} / session {} / run {} / {}",
                field("peerName"),
                field("capability"),
                field("sessionId"),
                field("runId"),
                field("status"),
            ))?;
        }
    }
    if trees.is_empty() {
        screen.note("no conversation has led to other nodes yet")?;
    }
    Ok(())
}
