//! What each command does: one file per group. They decide and call; `render` prints.

mod acp_serve;
mod agent;
mod ask;
mod chat;
mod component;
mod daemon;
mod dashboard;
mod debug;
mod delegation;
mod describe;
mod doctor;
mod editor;
mod editor_entry;
mod intent;
mod journal;
mod mcp_serve;
mod office;
mod office_computer;
mod office_mcp;
mod office_serve;
mod peer;
mod policy;
mod proxy;
mod question;
mod repl;
mod run;
mod service;
mod session;
mod talk;
mod template;
mod token;
mod up;
mod upgrade_check;
mod workflow;

use std::process::ExitCode;

use clap::CommandFactory;
use serde_json::{Value, json};

use crate::{
    args::{Arguments, Command, Format, McpCommand},
    config::{Config, Environment},
    error::CommandError,
    exit::Exit,
    render::{Field, Screen, Table, value_table},
};
use component::Kind;
pub(crate) use workflow::past_runs;

/// Runs the command that was asked for.
pub(crate) fn run(
    arguments: Arguments,
    environment: Environment,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let Some(command) = arguments.command else {
        return match screen.is_interactive() {
            true => repl::run(&arguments.global, environment, screen),
            false => Ok(screen.print(&Arguments::command().render_help().to_string())?),
        };
    };
    let config = |environment| Config::resolve(&arguments.global, environment);
    match command {
        Command::Up => up::run(config(environment)?, screen),
        Command::Agent(command) => agent::run(command, &config(environment)?, screen),
        Command::Proxy(arguments) => proxy::run(&arguments, &config(environment)?, screen),
        Command::Editor(arguments) => editor_entry::run(&arguments, &config(environment)?, screen),
        Command::Template(command) => template::run(command, || config(environment), screen),
        Command::Skill(command) => {
            component::run(Kind::Skill, command, &config(environment)?, screen)
        }
        Command::Prompt(command) => {
            component::run(Kind::Prompt, command, &config(environment)?, screen)
        }
        Command::Mcp(McpCommand::Component(command)) => {
            component::run(Kind::Mcp, command, &config(environment)?, screen)
        }
        Command::Mcp(McpCommand::Serve) => mcp_serve::run(&config(environment)?),
        Command::Mcp(McpCommand::Office(arguments)) => {
            office_mcp::run(&arguments, &config(environment)?, screen)
        }
        Command::Workflow(command) => workflow::run(command, &config(environment)?, screen),
        Command::Session(command) => session::run(command, &config(environment)?, screen),
        Command::Journal(arguments) => journal::run(arguments, &config(environment)?, screen),
        Command::Policy(command) => policy::run(command, || config(environment), screen),
        Command::Daemon(command) => daemon::run(command, config(environment)?, screen),
        Command::Dashboard(arguments) => dashboard::run(&arguments, &config(environment)?, screen),
        Command::Token(command) => token::run(command, &config(environment)?, screen),
        Command::Peer(command) => peer::run(command, &config(environment)?, screen),
        Command::Office(command) => office::run(command, &config(environment)?, screen),
        Command::Computer(command) => office_computer::run(command, &config(environment)?, screen),
        Command::Run(arguments) => run::run(arguments, &config(environment)?, screen),
        Command::Intent(arguments) => intent::run(arguments, &config(environment)?, screen),
        Command::Delegate(arguments) => {
            delegation::delegate(arguments, &config(environment)?, screen)
        }
        Command::Delegation(command) => delegation::run(command, &config(environment)?, screen),
        Command::Doctor(given) => {
            let (config, problem) = Config::resolve_anyway(&arguments.global, environment)?;
            doctor::run(&given, &config, problem.as_ref(), screen)
        }
        Command::Service(command) => service::run(command, &config(environment)?, screen),
        Command::UpgradeCheck(arguments) => {
            upgrade_check::run(&arguments, &config(environment)?, screen)
        }
        Command::Debug(command) => {
            let (config, problem) = Config::resolve_anyway(&arguments.global, environment)?;
            debug::run(command, &config, problem.as_ref(), screen)
        }
        Command::Schema(arguments) => describe::schema(&arguments, screen),
        Command::Completions(arguments) => describe::completions(&arguments, screen),
        Command::Man(arguments) => describe::man(&arguments, screen),
        Command::AcpServe(arguments) => acp_serve::run(&arguments, &config(environment)?, screen),
        Command::Guardian => succeed(platform::guardian::run(std::io::stdin())),
        Command::SandboxedProgram { words } => platform::sandbox::become_program(&words)
            .map(|never| match never {})
            .map_err(|error| CommandError::machine("enter the sandbox", error)),
        Command::BuiltinAgent => {
            let workspace = std::env::current_dir()
                .map_err(|error| CommandError::machine("find the folder to work in", error))?;
            succeed(builtin::run(workspace, environment))
        }
    }
}

/// Part of our processes end with a code of their own; whoever started them reads nothing but that.
fn succeed(code: ExitCode) -> Result<(), CommandError> {
    if code == ExitCode::SUCCESS {
        Ok(())
    } else {
        Err(CommandError::Shown(Exit::Failed))
    }
}

/// Prints what was listed: names, or a table if there is anything to put into it.
fn list(
    screen: &mut Screen,
    format: Format,
    values: &[Value],
    table: impl FnOnce(&[Value]) -> Table,
) -> Result<(), CommandError> {
    match format {
        Format::Json => screen.json(&values)?,
        Format::Quiet => {
            for name in values
                .iter()
                .filter_map(|value| value.get("name")?.as_str())
            {
                screen.line(name)?;
            }
        }
        Format::Table if values.is_empty() => {
            screen.note("there are none yet; `agentcraft up` writes samples")?
        }
        Format::Table => screen.table(&table(values))?,
    }
    Ok(())
}

/// The rows of an answer: the answer itself, or what it has under this name.
fn rows_of(answer: &Value, name: &str) -> Vec<Value> {
    let rows = answer.as_array().or_else(|| answer[name].as_array());
    rows.cloned().unwrap_or_default()
}

/// Says that something was done: the answer for programs, its name for scripts, a sentence for people.
fn done(
    answer: &Value,
    name: &str,
    words: &str,
    format: Format,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    match (format, answer) {
        // An answer without a body has nothing more to say than this.
        (Format::Json, Value::Null) => screen.json(&json!({ "ok": true }))?,
        (Format::Json, answer) => screen.json(answer)?,
        (Format::Quiet, _) => screen.line(name)?,
        (Format::Table, _) => screen.line(words)?,
    }
    Ok(())
}

/// Values in the format that was asked for; quiet prints the first field of each. Where there are none, a person is told
/// what to do about it.
fn print_values<const N: usize>(
    values: &[Value],
    fields: [Field; N],
    none: &str,
    format: Format,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    match format {
        Format::Json => screen.json(&values)?,
        Format::Table if values.is_empty() => screen.note(none)?,
        Format::Table => screen.table(&value_table(values, fields))?,
        Format::Quiet => {
            for value in values {
                let first = fields
                    .first()
                    .and_then(|(_, pointer)| value.pointer(pointer));
                screen.line(first.and_then(Value::as_str).unwrap_or_default())?;
            }
        }
    }
    Ok(())
}
