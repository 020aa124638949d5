//! `agentcraft delegate` and `agentcraft delegation …`: a workspace lent to an agent on another machine.

use serde_json::{Value, json};

use super::{print_values, rows_of, template::absolute};
use crate::{
    args::{AdmitArgs, DelegateArgs, DelegationCommand, Format, ReportFormat},
    config::Config,
    error::CommandError,
    exit::Exit,
    node::{Node, token_of},
    render::{Screen, many_lines, one_line},
};

/// How long one question about the end waits; it is asked again until there is one.
const WAIT_SECS: u64 = 60;

/// Files that are named at the end; the diff has all of them.
const CHANGES_SHOWN_MAX: usize = 20;

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
        "transports": arguments.transport.iter().map(|it| it.as_str()).collect::<Vec<_>>(),
        "keeping": arguments.keep.as_str(),
        "quotaBytes": arguments.quota,
        "lendSecrets": arguments.lend_secrets,
        "background": true,
        "token": token_of(arguments.token_file.as_deref())?,
    });
    let created = node.post("/delegations", &wanted)?;
    follow(
        &node,
        &created,
        arguments.background,
        arguments.format,
        screen,
    )
}

/// Tells of one that has begun, to its end unless it goes on in the background.
fn follow(
    node: &Node,
    created: &Value,
    background: bool,
    format: ReportFormat,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let id = created["id"].as_str().unwrap_or_default();
    if background {
        match format {
            ReportFormat::Json => screen.json(created)?,
            ReportFormat::Table => screen.line(id)?,
        }
        return Ok(());
    }
    let progress = match format {
        ReportFormat::Table => Progress::Shown,
        ReportFormat::Json => Progress::Hidden,
    };
    if progress == Progress::Shown {
        screen.note(&format!("lent as {id}; Ctrl-C leaves it running"))?;
    }
    let end = wait(node, id, progress, screen)?;
    show_end(node, &end, format, screen)
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
            let end = wait(&node, &arguments.id, Progress::Shown, screen)?;
            show_end(&node, &end, ReportFormat::Table, screen)?;
        }
        DelegationCommand::Diff(arguments) => {
            let audit = node.get(&format!("{}/audit", path(&arguments.id)))?;
            match audit["diff"].as_str() {
                Some(diff) => screen.print(&many_lines(diff))?,
                None => screen.json(&audit)?,
            }
        }
        DelegationCommand::Cancel(arguments) => {
            node.post(&format!("{}/cancel", path(&arguments.id)), &json!({}))?;
            screen.line(&format!("cancelled {}", arguments.id))?;
        }
        DelegationCommand::Continue(arguments) => {
            let next = json!({ "prompt": arguments.task });
            let next = node.post(&format!("{}/continue", path(&arguments.id)), &next)?;
            follow(&node, &next, arguments.background, arguments.format, screen)?;
        }
        DelegationCommand::Close(arguments) => {
            node.post(&format!("{}/close", path(&arguments.id)), &json!({}))?;
            screen.line(&format!("closed {}", arguments.id))?;
        }
        DelegationCommand::Admit(arguments) => admit(&node, &arguments, config, screen)?,
        DelegationCommand::Apply(arguments) => {
            let applied = node.post(&format!("{}/apply", path(&arguments.id)), &json!({}))?;
            screen.line(&format!(
                "applied {} changes of {}",
                applied["changes"], arguments.id
            ))?;
        }
        DelegationCommand::Discard(arguments) => {
            node.post(&format!("{}/discard", path(&arguments.id)), &json!({}))?;
            screen.line(&format!("discarded the changes of {}", arguments.id))?;
        }
        DelegationCommand::Undo(arguments) => {
            node.post(&format!("{}/undo", path(&arguments.id)), &json!({}))?;
            screen.line(&format!("undid {}", arguments.id))?;
        }
        DelegationCommand::Prune => {
            let pruned = node.post("/delegations/prune", &json!({}))?;
            screen.line(&format!("removed {}", pruned["removed"]))?;
        }
    }
    Ok(())
}

/// Lets somebody invite this node: the one token that lending to it needs.
fn admit(
    node: &Node,
    arguments: &AdmitArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let wanted = json!({
        "name": arguments.name,
        "rights": [awcp::INVITE_RIGHT],
        "lifetimeSecs": arguments.lifetime,
    });
    let made = node.post("/tokens", &wanted)?;
    let token = made["token"].as_str().unwrap_or_default();
    match arguments.output.format {
        Format::Json => screen.json(&made)?,
        Format::Quiet => screen.line(token)?,
        Format::Table => {
            screen.line(token)?;
            let url = config.network.url_for_others(node.url());
            let known = match (url.is_this_machine, url.text.starts_with("https:")) {
                (true, _) => {
                    "\nonly this machine reaches it there: `listen` in the table [http] opens it to others"
                }
                (false, true) => {
                    "\nits certificate is its own, so pair the two first: `agentcraft peer pair NODE`"
                }
                (false, false) => "",
            };
            screen.note(&format!(
                "keep it in a file on the other machine: it is not shown again\n\
                 there: agentcraft delegate {} --token-file FILE --dir DIR \"TASK\"{known}",
                url.text
            ))?;
        }
    }
    Ok(())
}

/// Whether what happens meanwhile is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Shown,
    Hidden,
}

/// Asks until the delegation is over, and tells what happens meanwhile.
fn wait(
    node: &Node,
    id: &str,
    progress: Progress,
    screen: &mut Screen,
) -> Result<Value, CommandError> {
    let mut told = 0;
    loop {
        let question = format!("/delegations/{id}/wait?timeout={WAIT_SECS}&beyond={told}");
        let seen = node.get(&question)?;
        let lines = seen["log"].as_array().cloned().unwrap_or_default();
        let state = seen["state"].as_str().unwrap_or_default();
        let is_over = matches!(state, "completed" | "error" | "cancelled" | "expired");
        if progress == Progress::Shown {
            // The last line of one that is over is its end, which is told below.
            let until = lines.len() - usize::from(is_over && !lines.is_empty());
            for line in lines.iter().take(until).skip(told) {
                let text = line["text"].as_str().unwrap_or_default();
                screen.note(&one_line(text))?;
            }
        }
        told = lines.len();
        if is_over {
            return Ok(seen);
        }
    }
}

fn show_end(
    node: &Node,
    end: &Value,
    format: ReportFormat,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let state = end["state"].as_str().unwrap_or_default();
    match format {
        ReportFormat::Json => screen.json(end)?,
        ReportFormat::Table => {
            let ending = &end["ending"][state];
            match (ending["summary"].as_str(), ending["code"].as_str()) {
                (Some(summary), _) => {
                    screen.line(&many_lines(summary))?;
                    show_changes(node, end, screen)?;
                }
                (None, code) => {
                    let message = ending["message"].as_str().unwrap_or(state);
                    screen.note(&many_lines(&format!(
                        "{}: {message}",
                        code.unwrap_or(state)
                    )))?;
                    screen.note(&many_lines(ending["hint"].as_str().unwrap_or_default()))?;
                }
            }
        }
    }
    match state {
        "completed" => Ok(()),
        _ => Err(CommandError::Shown(Exit::Failed)),
    }
}

/// Which files differ, and what can be done about it.
fn show_changes(node: &Node, end: &Value, screen: &mut Screen) -> Result<(), CommandError> {
    let id = end["id"].as_str().unwrap_or_default();
    if end["side"] != "host" {
        return Ok(());
    }
    let audit = node.get(&format!("/delegations/{id}/audit"))?;
    let changes = rows_of(&audit, "changes");
    let ignored = rows_of(&audit, "ignored");
    if changes.is_empty() && ignored.is_empty() {
        screen.note("nothing was changed")?;
        return Ok(());
    }
    for path in ignored.iter().take(CHANGES_SHOWN_MAX) {
        let path = path.as_str().unwrap_or_default();
        screen.note(&one_line(&format!("  ignored {path}")))?;
    }
    if !ignored.is_empty() {
        let all = ignored.len();
        screen.note(&format!(
            "  {all} among what git ignores were changed: in no diff, and not taken back"
        ))?;
    }
    for change in changes.iter().take(CHANGES_SHOWN_MAX) {
        let word = change["change"].as_str().unwrap_or_default();
        let path = change["path"].as_str().unwrap_or_default();
        screen.note(&one_line(&format!("  {word:<8}{path}")))?;
    }
    if changes.len() > CHANGES_SHOWN_MAX {
        let more = changes.len() - CHANGES_SHOWN_MAX;
        screen.note(&format!("  and {more} more"))?;
    }
    let next = match end["snapshot"]["status"].as_str() {
        Some("pending") => format!("not applied yet: `agentcraft delegation apply {id}`"),
        Some("discarded") => "the changes were discarded".to_owned(),
        Some(_) | None => {
            format!("`agentcraft delegation diff {id}` shows them, `undo` takes them back")
        }
    };
    screen.note(&next)?;
    Ok(())
}
