//! What each command does: one file per group. They decide and call; `render` prints.

mod agent;
mod component;
mod daemon;
mod describe;
mod doctor;
mod template;
mod up;

use std::process::ExitCode;

use clap::CommandFactory;
use serde_json::Value;

use crate::{
    args::{Arguments, Command, Format},
    config::{Config, Environment},
    error::CommandError,
    exit::Exit,
    render::{Screen, Table},
};
use component::Kind;

/// Runs the command that was asked for.
pub(crate) fn run(
    arguments: Arguments,
    environment: Environment,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let Some(command) = arguments.command else {
        return Ok(screen.print(&Arguments::command().render_help().to_string())?);
    };
    let config = || Config::resolve(&arguments.global, environment);
    match command {
        Command::Up => up::run(config()?, screen),
        Command::Agent(command) => agent::run(command, &config()?, screen),
        Command::Template(command) => template::run(command, config, screen),
        Command::Skill(command) => component::run(Kind::Skill, command, &config()?, screen),
        Command::Prompt(command) => component::run(Kind::Prompt, command, &config()?, screen),
        Command::Mcp(command) => component::run(Kind::Mcp, command, &config()?, screen),
        Command::Workflow(command) => component::run(Kind::Workflow, command, &config()?, screen),
        Command::Daemon(command) => daemon::run(command, config()?, screen),
        Command::Doctor(arguments) => doctor::run(&arguments, &config()?, screen),
        Command::Schema(arguments) => describe::schema(&arguments, screen),
        Command::Completions(arguments) => describe::completions(&arguments, screen),
        Command::Man(arguments) => describe::man(&arguments, screen),
        Command::Guardian => succeed(platform::guardian::run(std::io::stdin())),
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
