//! `agentcraft delegate` and `agentcraft delegation …`: a workspace lent to an agent on another machine.

use serde_json::{Value, json};

use super::{done, peer, print_values, rows_of, template::absolute};
use crate::{
    args::{AdmitArgs, DelegateArgs, DelegationCommand, Format, IdArgs},
    config::Config,
    error::CommandError,
    exit::Exit,
    node::{Node, segment, token_of},
    render::{Screen, delegation_detail, many_lines, one_line},
};

/// How long one question about the end waits; it is asked again until there is one.
const WAIT_SECS: u64 = 60;

/// Files that are named at the end; the diff has all of them.
const CHANGES_SHOWN_MAX: usize = 20;

/// Of a task in the list, in characters.
const TASK_SHOWN_MAX: usize = 200;

pub(super) fn delegate(
    arguments: DelegateArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let node = Node::open(config)?;
    let wanted = json!({
        "peerUrl": peer::address(&node, &arguments.peer)?,
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
    let format = Format::from(arguments.format);
    let created = node.post("/delegations", &wanted)?;
    follow(&node, &created, arguments.background, format, screen)
}

/// Tells of one that has begun, to its end unless it goes on in the background.
fn follow(
    node: &Node,
    created: &Value,
    background: bool,
    format: Format,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let id = created["id"].as_str().unwrap_or_default();
    if background {
        return done(created, id, id, format, screen);
    }
    if format == Format::Table {
        screen.note(&format!(
            "lent as {id}; Ctrl-C takes it back while it waits for its folder, and leaves it running afterwards"
        ))?;
    }
    let end = wait(node, id, Whose::Own, format, screen)?;
    show_end(node, &end, format, screen)
}

pub(super) fn run(
    command: DelegationCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let node = Node::open(config)?;
    let path = |id: &str| format!("/delegations/{}", segment(id));
    let act = |id: &str, word: &str| node.post(&format!("{}/{word}", path(id)), &json!({}));
    match command {
        DelegationCommand::List(output) => list(&node, output.format, screen)?,
        DelegationCommand::Show(arguments) => {
            let shown = node.get(&path(&arguments.id))?;
            match arguments.output.format {
                Format::Json => screen.json(&shown)?,
                Format::Quiet => screen.line(shown["state"].as_str().unwrap_or_default())?,
                Format::Table => screen.print(&delegation_detail(&shown, screen.style()))?,
            }
        }
        DelegationCommand::Watch(arguments) => {
            let format = arguments.output.format;
            let end = wait(&node, &arguments.id, Whose::Anybody, format, screen)?;
            show_end(&node, &end, arguments.output.format, screen)?;
        }
        DelegationCommand::Diff(arguments) => {
            let audit = node.get(&format!("{}/audit", path(&arguments.id)))?;
            show_audit(&audit, arguments.output.format, screen)?;
        }
        DelegationCommand::Cancel(IdArgs { id, output }) => {
            let answer = act(&id, "cancel")?;
            done(
                &answer,
                &id,
                &format!("cancelled {id}"),
                output.format,
                screen,
            )?;
        }
        DelegationCommand::Continue(arguments) => {
            let next = json!({ "prompt": arguments.task });
            let next = node.post(&format!("{}/continue", path(&arguments.id)), &next)?;
            let format = arguments.format.into();
            follow(&node, &next, arguments.background, format, screen)?;
        }
        DelegationCommand::Close(IdArgs { id, output }) => {
            let answer = act(&id, "close")?;
            done(&answer, &id, &format!("closed {id}"), output.format, screen)?;
        }
        DelegationCommand::Admit(arguments) => admit(&node, &arguments, config, screen)?,
        DelegationCommand::Apply(IdArgs { id, output }) => {
            let applied = act(&id, "apply")?;
            let words = format!("applied {} changes of {id}", applied["changes"]);
            done(&applied, &id, &words, output.format, screen)?;
        }
        DelegationCommand::Discard(IdArgs { id, output }) => {
            let answer = act(&id, "discard")?;
            let words = format!("discarded the changes of {id}");
            done(&answer, &id, &words, output.format, screen)?;
        }
        DelegationCommand::Undo(IdArgs { id, output }) => {
            let answer = act(&id, "undo")?;
            done(&answer, &id, &format!("undid {id}"), output.format, screen)?;
        }
        DelegationCommand::Prune(output) => {
            let pruned = node.post("/delegations/prune", &json!({}))?;
            let removed = pruned["removed"].to_string();
            let words = format!("removed {removed}");
            done(&pruned, &removed, &words, output.format, screen)?;
        }
    }
    Ok(())
}

fn list(node: &Node, format: Format, screen: &mut Screen) -> Result<(), CommandError> {
    let mut rows = rows_of(&node.get("/delegations")?, "delegations");
    if format == Format::Table {
        for row in &mut rows {
            if let Some(Value::String(task)) = row.get_mut("task") {
                shorten(task);
            }
        }
    }
    let fields = [
        ("ID", "/id"),
        ("STATE", "/state"),
        ("SIDE", "/side"),
        ("TASK", "/task"),
    ];
    let none = "nothing was lent yet; `agentcraft delegate NODE --dir DIR TASK` lends a folder";
    print_values(&rows, fields, none, format, screen)
}

/// What a row shows of a task.
fn shorten(task: &mut String) {
    if let Some((end, _)) = task.char_indices().nth(TASK_SHOWN_MAX) {
        task.truncate(end);
        task.push('…');
    }
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

/// What was changed: as a diff, or by its paths where it is too large for one; quiet prints the paths.
fn show_audit(audit: &Value, format: Format, screen: &mut Screen) -> Result<(), CommandError> {
    match (format, audit["diff"].as_str()) {
        (Format::Json, _) => screen.json(audit)?,
        (Format::Table, Some(diff)) => screen.print(&many_lines(diff))?,
        (Format::Table, None) | (Format::Quiet, _) => {
            for change in rows_of(audit, "changes") {
                screen.line(&one_line(change["path"].as_str().unwrap_or_default()))?;
            }
        }
    }
    Ok(())
}

/// Whose delegation is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// This command has asked for it.
    Own,
    Anybody,
}

/// Asks until the delegation is over, and tells people what happens meanwhile.
fn wait(
    node: &Node,
    id: &str,
    whose: Whose,
    format: Format,
    screen: &mut Screen,
) -> Result<Value, CommandError> {
    let mut told = 0;
    let own = whose == Whose::Own;
    loop {
        let question = format!(
            "/delegations/{}/wait?timeout={WAIT_SECS}&beyond={told}&own={own}",
            segment(id)
        );
        let seen = node.get(&question)?;
        let lines = seen["log"].as_array().cloned().unwrap_or_default();
        let state = seen["state"].as_str().unwrap_or_default();
        let is_over = matches!(state, "completed" | "error" | "cancelled" | "expired");
        if format == Format::Table {
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
    format: Format,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let state = end["state"].as_str().unwrap_or_default();
    match format {
        Format::Json => screen.json(end)?,
        Format::Quiet => screen.line(state)?,
        Format::Table => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_the_beginning_of_a_long_task() {
        let shown = |task: &str| {
            let mut task = task.to_owned();
            shorten(&mut task);
            task
        };
        assert_eq!(shown("fix it"), "fix it");
        let long = shown(&"ü".repeat(120_000));
        assert_eq!(long, format!("{}…", "ü".repeat(TASK_SHOWN_MAX)));
    }
}
