//! `agentcraft agent …`.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;
use serde_json::Value;
use wire::daemon::{
    AgentMeta, AttachParams, CreateParams, DestroyParams, DetachParams, DetachResult, Empty,
    NameParams, Overrides, ResolveParams, ResolveResult, Success, WorkDirConflict,
};

use super::{chat, talk, template::absolute};
use crate::{
    args::{
        AgentCommand, AttachArgs, CreateArgs, DestroyArgs, DetachArgs, Format, NamesArgs,
        OverrideArgs, Pair, ResolveArgs, TargetArg,
    },
    config::Config,
    connection::Connection,
    error::CommandError,
    exit::Exit,
    render::{Screen, agent_detail, agent_table, resolve_detail},
};

pub(super) fn run(
    command: AgentCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let command = match command {
        AgentCommand::Run(arguments) => return talk::run(arguments, config, screen),
        AgentCommand::Prompt(arguments) => return talk::prompt(arguments, config, screen),
        AgentCommand::Chat(arguments) => return chat::run(&arguments, config, screen),
        other => other,
    };
    let connection = &mut Connection::open(config)?;
    match command {
        AgentCommand::Create(arguments) => create(&arguments, connection, screen),
        AgentCommand::Start(arguments) => each("agent.start", &arguments, connection, screen),
        AgentCommand::Stop(arguments) => each("agent.stop", &arguments, connection, screen),
        AgentCommand::Status(arguments) => match &arguments.name {
            Some(name) => status(name, arguments.output.format, connection, screen),
            None => list(arguments.output.format, connection, screen),
        },
        AgentCommand::List(output) => list(output.format, connection, screen),
        AgentCommand::Destroy(arguments) => destroy(&arguments, connection, screen),
        AgentCommand::Resolve(arguments) => resolve(&arguments, connection, screen),
        AgentCommand::Attach(arguments) => attach(arguments, connection, screen),
        AgentCommand::Detach(arguments) => detach(&arguments, connection, screen),
        AgentCommand::Run(_) | AgentCommand::Prompt(_) | AgentCommand::Chat(_) => Ok(()), // Above.
    }
}

fn create(
    arguments: &CreateArgs,
    connection: &mut Connection,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let mut overrides = overrides(&arguments.overrides);
    if let Some(folder) = &arguments.work_dir {
        overrides.work_dir = Some(work_dir(folder)?);
        overrides.work_dir_conflict = Some(match (arguments.overwrite, arguments.append) {
            (true, _) => WorkDirConflict::Overwrite,
            (false, true) => WorkDirConflict::Append,
            (false, false) => WorkDirConflict::Error,
        });
    }
    let params = CreateParams {
        name: arguments.name.to_string(),
        template: arguments.template.to_string(),
        overrides,
    };
    let created = |agent: &AgentMeta| format!("created {} in {}", agent.name, agent.workspace_dir);
    act(
        connection,
        screen,
        arguments.output.format,
        ("agent.create", &params),
        created,
    )
}

/// Starts or stops one agent after the other; one that fails does not keep the others from their turn.
fn each(
    method: &'static str,
    arguments: &NamesArgs,
    connection: &mut Connection,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let format = arguments.output.format;
    let mut answers = Vec::new();
    let mut failed: Option<Exit> = None;
    for name in &arguments.names {
        let answer = connection.ask(
            method,
            &NameParams {
                name: name.to_string(),
            },
        );
        match answer.and_then(|answer| report(method, answer, format, connection, screen)) {
            Ok(answer) => answers.push(answer),
            // Nobody listens, or nobody answers: the rest would fail alike.
            Err(error @ (CommandError::Print(_) | CommandError::Lost(_))) => return Err(error),
            Err(error) => {
                screen.failure(&error, format);
                failed = failed.or(Some(error.exit()));
            }
        }
    }
    if format == Format::Json {
        screen.json(&answers)?;
    }
    failed.map_or(Ok(()), |exit| Err(CommandError::Shown(exit)))
}

/// Says what came of one start or stop, at once, since the next may take long.
fn report(
    method: &str,
    answer: Value,
    format: Format,
    connection: &mut Connection,
    screen: &mut Screen,
) -> Result<Value, CommandError> {
    if format == Format::Json {
        return Ok(answer);
    }
    let agent: AgentMeta = connection.read(method, answer)?;
    match (format, agent.pid) {
        (Format::Quiet, _) => screen.line(&agent.name)?,
        (_, Some(pid)) => {
            screen.line(&format!("{} is {} (pid {pid})", agent.name, agent.status))?
        }
        (_, None) => screen.line(&format!("{} is {}", agent.name, agent.status))?,
    }
    Ok(Value::Null)
}

fn status(
    name: &TargetArg,
    format: Format,
    connection: &mut Connection,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let answer = connection.ask(
        "agent.status",
        &NameParams {
            name: name.to_string(),
        },
    )?;
    if format == Format::Json {
        return Ok(screen.json(&answer)?);
    }
    let agent: AgentMeta = connection.read("agent.status", answer)?;
    match format {
        // The one word that a script asks for when it names the agent itself.
        Format::Quiet => screen.line(&agent.status)?,
        Format::Table | Format::Json => screen.print(&agent_detail(&agent, screen.style()))?,
    }
    Ok(())
}

fn list(
    format: Format,
    connection: &mut Connection,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let answer = connection.ask("agent.list", &Empty {})?;
    if format == Format::Json {
        return Ok(screen.json(&answer)?);
    }
    let agents: Vec<AgentMeta> = connection.read("agent.list", answer)?;
    if format == Format::Quiet {
        return Ok(agents
            .iter()
            .try_for_each(|agent| screen.line(&agent.name))?);
    }
    if agents.is_empty() {
        return Ok(screen.note(
            "there are no agents yet; `agentcraft agent create NAME -t TEMPLATE` makes one",
        )?);
    }
    Ok(screen.table(&agent_table(&agents))?)
}

fn destroy(
    arguments: &DestroyArgs,
    connection: &mut Connection,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let name = &arguments.name.to_string();
    if !arguments.force {
        confirm_destroy(name, connection, screen)?;
    }
    let params = DestroyParams {
        name: name.to_owned(),
        force: arguments.force,
    };
    let answer = connection.ask("agent.destroy", &params)?;
    match arguments.output.format {
        Format::Json => screen.json(&answer)?,
        Format::Quiet => screen.line(name)?,
        Format::Table => {
            let Success { .. } = connection.read("agent.destroy", answer)?;
            screen.line(&format!("destroyed {name}"))?;
        }
    }
    Ok(())
}

/// A running agent may be in the middle of something, so a person decides.
fn confirm_destroy(
    name: &str,
    connection: &mut Connection,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let agent: AgentMeta = match connection.call(
        "agent.status",
        &NameParams {
            name: name.to_owned(),
        },
    ) {
        Ok(agent) => agent,
        // A record that cannot be read has no process to lose; the destroy itself says what is wrong with it.
        Err(CommandError::Remote(remote)) if remote.error_code == "INSTANCE_CORRUPTED" => {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if !matches!(agent.status.as_str(), "starting" | "running" | "stopping") {
        return Ok(());
    }
    let refused = |message: String| CommandError::Refused {
        message,
        hint: format!("stop it first with `agentcraft agent stop {name}`, or use --force"),
    };
    if !screen.can_ask() {
        return Err(refused(format!(
            "{name} is {}, and there is no terminal to ask on",
            agent.status
        )));
    }
    match screen.confirm(&format!("{name} is {}. Destroy it?", agent.status))? {
        true => Ok(()),
        false => Err(refused(format!("{name} was left as it is"))),
    }
}

fn resolve(
    arguments: &ResolveArgs,
    connection: &mut Connection,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let params = ResolveParams {
        name: arguments.name.to_string(),
        template: arguments.template.as_ref().map(TargetArg::to_string),
        overrides: overrides(&arguments.overrides),
    };
    let answer = connection.ask("agent.resolve", &params)?;
    if arguments.output.format == Format::Json {
        return Ok(screen.json(&answer)?);
    }
    let resolved: ResolveResult = connection.read("agent.resolve", answer)?;
    match arguments.output.format {
        Format::Quiet => screen.line(&resolved.workspace_dir)?,
        Format::Table | Format::Json => screen.print(&resolve_detail(&resolved, screen.style()))?,
    }
    Ok(())
}

fn attach(
    arguments: AttachArgs,
    connection: &mut Connection,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let params = AttachParams {
        name: arguments.name.to_string(),
        pid: arguments.pid,
        metadata: metadata(&arguments.metadata),
    };
    let attached =
        |agent: &AgentMeta| format!("attached process {} to {}", arguments.pid, agent.name);
    act(
        connection,
        screen,
        arguments.output.format,
        ("agent.attach", &params),
        attached,
    )
}

fn detach(
    arguments: &DetachArgs,
    connection: &mut Connection,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let name = &arguments.name.to_string();
    let params = DetachParams {
        name: name.to_owned(),
        cleanup: arguments.cleanup,
        pid: None,
    };
    let answer = connection.ask("agent.detach", &params)?;
    match arguments.output.format {
        Format::Json => screen.json(&answer)?,
        Format::Quiet => screen.line(name)?,
        Format::Table => {
            let detached: DetachResult = connection.read("agent.detach", answer)?;
            let rest = if detached.workspace_cleaned {
                " and removed its workspace"
            } else {
                ""
            };
            screen.line(&format!("detached {name}{rest}"))?;
        }
    }
    Ok(())
}

/// Calls a method that answers with the agent, and says in one line what was done.
fn act(
    connection: &mut Connection,
    screen: &mut Screen,
    format: Format,
    (method, params): (&str, &impl Serialize),
    words: impl FnOnce(&AgentMeta) -> String,
) -> Result<(), CommandError> {
    let answer = connection.ask(method, params)?;
    if format == Format::Json {
        return Ok(screen.json(&answer)?);
    }
    let agent: AgentMeta = connection.read(method, answer)?;
    match format {
        Format::Quiet => screen.line(&agent.name)?,
        Format::Table | Format::Json => screen.line(&words(&agent))?,
    }
    Ok(())
}

fn overrides(arguments: &OverrideArgs) -> Overrides {
    Overrides {
        launch_mode: arguments.launch_mode.clone(),
        workspace_policy: arguments.workspace_policy.clone(),
        metadata: metadata(&arguments.metadata),
        ..Overrides::default()
    }
}

fn metadata(pairs: &[Pair]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|pair| (pair.key.clone(), pair.value.clone()))
        .collect()
}

/// Paths travel as JSON text, so a folder whose name is not text cannot be asked for.
fn work_dir(folder: &Path) -> Result<String, CommandError> {
    let path = absolute(folder)?;
    path.into_os_string()
        .into_string()
        .map_err(|path| CommandError::Refused {
            message: format!(
                "the name of the folder {} is not UTF-8 text",
                path.display()
            ),
            hint: "rename it, or use another folder".to_owned(),
        })
}
