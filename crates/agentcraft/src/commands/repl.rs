//! `agentcraft` alone on a terminal: every command line of the program, one after the other, and `use` to talk to an agent.

mod completion;
mod words;

use clap::Parser;
use wire::daemon::{AgentMeta, Empty};

use super::editor::{Editor, Typed};
use crate::{
    args::{Arguments, Command, GlobalArgs},
    config::{Config, Environment},
    connection::Connection,
    error::CommandError,
    render::Screen,
};

const PROMPT: &str = "agentcraft> ";

const HELP: &str = "\
Every command of agentcraft works here, without its first word: `agent list`, `doctor`, `help`.
  use NAME   talk to an agent
  exit       leave (also quit, Ctrl-D)
Tab completes commands, options and names of agents.
";

pub(super) fn run(
    global: &GlobalArgs,
    environment: Environment,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let config = Config::resolve(global, environment.clone())?;
    let mut editor = Editor::with_history(&config.home.join("repl_history"))?;
    screen.note("type `help` for the commands, `exit` to leave")?;
    loop {
        let agents = agents(&config);
        editor.complete(move |line| completion::offer(line, &agents));
        let line = match editor.read(PROMPT)? {
            Typed::Line(line) => line,
            Typed::Interrupt => continue,
            Typed::End => return Ok(()),
        };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        editor.remember(line);
        match line {
            "exit" | "quit" => return Ok(()),
            "?" => screen.print(HELP)?,
            "help" => {
                screen.print(HELP)?;
                perform("--help", global, &environment, screen)?;
            }
            line => perform(line, global, &environment, screen)?,
        }
    }
}

/// Runs one line. What goes wrong is said, and the next line may be typed.
fn perform(
    line: &str,
    global: &GlobalArgs,
    environment: &Environment,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let words = match words::split(line) {
        Ok(words) => words,
        Err(problem) => return Ok(screen.note(problem)?),
    };
    let words = match words.split_first() {
        Some((first, rest)) if first == "use" => {
            let chat = ["agent", "chat"].map(str::to_owned);
            chat.into_iter().chain(rest.iter().cloned()).collect()
        }
        // Typed out of habit.
        Some((first, rest)) if first == "agentcraft" => rest.to_vec(),
        _ => words,
    };
    let parsed = Arguments::try_parse_from(std::iter::once("agentcraft".to_owned()).chain(words));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(usage) => return Ok(screen.print(&usage.render().to_string())?),
    };
    let Some(command) = arguments.command else {
        return Ok(());
    };
    if matches!(command, Command::Guardian | Command::BuiltinAgent) {
        return Ok(screen.note("that is for programs")?);
    }
    let arguments = Arguments {
        global: merged(arguments.global, global),
        command: Some(command),
    };
    let format = arguments.format();
    match super::run(arguments, environment.clone(), screen) {
        Ok(()) => Ok(()),
        Err(CommandError::Print(error)) => Err(CommandError::Print(error)),
        Err(error) => {
            screen.failure(&error, format);
            Ok(())
        }
    }
}

/// What was said when the program was started holds for every line that says nothing else.
fn merged(line: GlobalArgs, global: &GlobalArgs) -> GlobalArgs {
    let global = global.clone();
    GlobalArgs {
        home: line.home.or(global.home),
        socket: line.socket.or(global.socket),
        configs_dir: line.configs_dir.or(global.configs_dir),
        no_color: line.no_color || global.no_color,
    }
}

/// The names to complete; none without a daemon.
fn agents(config: &Config) -> Vec<String> {
    let Ok(Some(mut connection)) = Connection::open_if_running(config) else {
        return Vec::new();
    };
    let agents: Result<Vec<AgentMeta>, _> = connection.call("agent.list", &Empty {});
    agents
        .unwrap_or_default()
        .into_iter()
        .map(|agent| agent.name)
        .collect()
}
