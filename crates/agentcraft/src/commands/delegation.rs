//! `agentcraft delegate` and `agentcraft delegation …`: a workspace lent to an agent on another machine.

use serde_json::{Value, json};

use super::{print_values, rows_of, template::absolute};
use crate::{
    args::{DelegateArgs, DelegationCommand, ReportFormat},
    config::Config,
    error::CommandError,
    exit::Exit,
    node::{Node, token_of},
    render::Screen,
};

/// How long one question about the end waits; it is asked again until there is one.
const WAIT_SECS: u64 = 60;

pub(super) fn delegate(
    arguments: DelegateArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let node = Node::open(config)?;
    let wanted = json!({
        "peerUrl": arguments.url,
        "prompt": arguments.task,
        "dir": absolute(&arguments.dir)?,
        "access": if arguments.read_only { "ro" } else { "rw" },
        "ttlSecs": arguments.ttl,
        "transports": arguments.transport.iter().collect::<Vec<_>>(),
        "background": true,
        "token": token_of(arguments.token_file.as_deref())?,
    });
    let created = node.post("/delegations", &wanted)?;
    let id = created["id"].as_str().unwrap_or_default().to_owned();
    if arguments.background {
        match arguments.format {
            ReportFormat::Json => screen.json(&created)?,
            ReportFormat::Table => screen.line(&id)?,
        }
        return Ok(());
    }
    if arguments.format == ReportFormat::Table {
        screen.note(&format!("lent as {id}; Ctrl-C leaves it running"))?;
    }
    let end = wait(&node, &id)?;
    show_end(&end, arguments.format, screen)
}

pub(super) fn run(
    command: DelegationCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let node = Node::open(config)?;
    let path = |id: &str| format!("/delegations/{id}");
    match command {
        DelegationCommand::List(output) => {
            let rows = rows_of(&node.get("/delegations")?, "delegations");
            let fields = [
                ("ID", "/id"),
                ("STATE", "/state"),
                ("SIDE", "/side"),
                ("TASK", "/task"),
            ];
            print_values(&rows, fields, output.format, screen)?;
        }
        DelegationCommand::Show(arguments) => screen.json(&node.get(&path(&arguments.id))?)?,
        DelegationCommand::Watch(arguments) => {
            let end = wait(&node, &arguments.id)?;
            show_end(&end, ReportFormat::Table, screen)?;
        }
        DelegationCommand::Diff(arguments) => {
            let audit = node.get(&format!("{}/audit", path(&arguments.id)))?;
            match audit["diff"].as_str() {
                Some(diff) => screen.print(diff)?,
                None => screen.json(&audit)?,
            }
        }
        DelegationCommand::Cancel(arguments) => {
            node.post(&format!("{}/cancel", path(&arguments.id)), &json!({}))?;
            screen.line(&format!("cancelled {}", arguments.id))?;
        }
        DelegationCommand::Undo(arguments) => {
            node.post(&format!("{}/undo", path(&arguments.id)), &json!({}))?;
            screen.line(&format!("undid {}", arguments.id))?;
        }
        DelegationCommand::Prune => screen.json(&node.post("/delegations/prune", &json!({}))?)?,
    }
    Ok(())
}

/// Asks until the delegation is over.
fn wait(node: &Node, id: &str) -> Result<Value, CommandError> {
    loop {
        let seen = node.get(&format!("/delegations/{id}/wait?timeout={WAIT_SECS}"))?;
        let state = seen["state"].as_str().unwrap_or_default();
        if matches!(state, "completed" | "error" | "cancelled" | "expired") {
            return Ok(seen);
        }
    }
}

fn show_end(end: &Value, format: ReportFormat, screen: &mut Screen) -> Result<(), CommandError> {
    match format {
        ReportFormat::Json => screen.json(end)?,
        ReportFormat::Table => {
            let ending = &end["ending"];
            let words = ending["summary"].as_str().or(ending["message"].as_str());
            match words {
                Some(words) => screen.line(words)?,
                None => screen.json(ending)?,
            }
        }
    }
    match end["state"].as_str() {
        Some("completed") => Ok(()),
        _ => Err(CommandError::Shown(Exit::Failed)),
    }
}
