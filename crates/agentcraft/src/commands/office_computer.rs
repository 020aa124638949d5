//! `agentcraft computer join`: lends the tools of MCP servers to an office, in the foreground, until Ctrl-C.

mod stay;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use engine::DriverSurroundings;
use platform::{Guardian, Owner, Tasks, environment::base_environment, owner};
use serde_json::Value;
use smcp::computer::{Computer, ComputerConfig, Confirm, Confirmation};

use self::stay::{Servers, Stay, Watches};
use super::mcp_serve::stop_on_signals;
use crate::{
    args::{ComputerCommand, ComputerJoinArgs},
    config::Config,
    error::CommandError,
    log,
    office::{self, Asking, Inputs, Kept, Lending},
    render::Screen,
};

/// The name that the servers' processes are tagged with.
const NAME: &str = "computer";

/// How long leaving the office may take.
const LEAVE_MAX: Duration = Duration::from_secs(3);

/// How long the servers have to end.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// How long a server may take to start; the driver's own limits are stricter.
const START_MAX: Duration = Duration::from_secs(60);

/// Characters of one text in a call's arguments that are shown to whoever must agree to it: what comes after a long text
/// must be seen too.
const TEXT_SHOWN_MAX: usize = 200;

/// Characters of all arguments that are shown. Nobody can agree to more.
const SHOWN_MAX: usize = 4000;

pub(super) fn run(
    command: ComputerCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let ComputerCommand::Join(arguments) = command;
    log::to_stderr(config);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::machine("start the runtime", error))?;
    let result = runtime.block_on(join(&arguments, config, screen));
    // A question that nobody has answered holds a thread; the process ends without waiting for it.
    runtime.shutdown_background();
    result
}

async fn join(
    arguments: &ComputerJoinArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let stop = stop_on_signals()?;
    let link = office::link(&arguments.place, &office::computer_name(), config)?;
    let uploads = arguments.uploads.as_deref().map(landing_folder);
    let uploads = uploads.transpose()?;
    let asking = screen.can_ask().then(Asking::new);
    let origin = office::origin(arguments.config.as_deref(), config);
    // It is watched before it is read, so that no change falls between the two.
    let mut watches = Watches::start(arguments, &origin);
    let servers = Servers {
        arguments,
        config,
        inputs: Inputs::new(&origin, asking.clone(), config),
    };
    let kept = match arguments.ask {
        true => Kept::AskedAgain,
        false => Kept::Used,
    };
    let offer = tokio::select! { biased;
        () = stop.cancelled() => return Ok(()),
        offer = servers.read(kept, screen) => offer?,
    };
    if offer.servers.is_empty() {
        screen.warning("there is no MCP server to lend; name a file with --config")?;
    }
    let tasks = Tasks::new();
    let (around, guardian) = surroundings(config, &tasks)?;
    let folder = std::env::current_dir()
        .map_err(|error| CommandError::machine("find the folder to work in", error))?;
    let lending = Lending::start(offer, &mcp::tool_sources(), &folder, &around);
    let mut computing = ComputerConfig::new(link);
    computing.confirm = asking.map(confirm_in_terminal);
    computing.uploads = uploads;
    computing.skills = arguments.skills.as_deref().map(absolute);
    // The office is left before the servers end, so that no call finds them gone.
    let staying = tasks.child();
    let stay = Stay {
        place: format!(
            "the office {} at {} as {}",
            arguments.place.office, arguments.place.url, computing.link.name
        ),
        servers,
        lending: lending.clone(),
        computer: Computer::start(computing, lending, &staying),
    };
    let stayed = stay.until(&stop, &mut watches, screen).await;
    drop(stay);
    let _ = staying.drain(LEAVE_MAX).await; // The office notices in any case.
    let _ = tasks.drain(DRAIN_MAX).await; // Whatever is stuck is ended with the guardian.
    guardian.close().await;
    match stayed? {
        Some(error) => Err(office::not_let_in(&error, &arguments.place)),
        None => Ok(screen.line("left the office")?),
    }
}

/// The folder that files of the agent go to, made for nobody else if it is not there.
fn landing_folder(path: &Path) -> Result<PathBuf, CommandError> {
    let path = absolute(path);
    if !path.is_dir() {
        platform::files::create_private_dir(&path)
            .map_err(|error| CommandError::machine("make the folder for uploads", error))?;
    }
    Ok(path)
}

/// Agents are told whole paths.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// What the servers' processes get of this machine.
fn surroundings(
    config: &Config,
    tasks: &Tasks,
) -> Result<(DriverSurroundings, Guardian), CommandError> {
    let wrong = |error: anyhow::Error| CommandError::machine("prepare to start the servers", error);
    let owner = Owner::starting(&owner::fresh_id()).map_err(|error| wrong(error.into()))?;
    let executable = std::env::current_exe().map_err(|error| wrong(error.into()))?;
    let guardian =
        Guardian::spawn(&executable, &["guardian"], &owner).map_err(|error| wrong(error.into()))?;
    let around = DriverSurroundings {
        tasks: tasks.child(),
        guardian: guardian.clone(),
        owner,
        agent: NAME.to_owned(),
        workspace: config.home.clone(),
        environment: base_environment(config.environment.clone()),
        start_timeout: START_MAX,
    };
    Ok((around, guardian))
}

/// Asks whoever sits at the terminal.
fn confirm_in_terminal(asking: Asking) -> Confirm {
    Arc::new(move |asked: Confirmation| {
        let asking = asking.clone();
        Box::pin(async move {
            let mut arguments = Value::Object(asked.params);
            shorten(&mut arguments);
            let arguments = arguments.to_string();
            if arguments.chars().count() > SHOWN_MAX {
                return false;
            }
            let question = format!(
                "{} wants {} of {} with {arguments}: carry it out?",
                asked.agent, asked.tool, asked.server
            );
            asking.agreed(question).await
        })
    })
}

/// Cuts long texts, wherever they are, and says how much is missing.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            let count = text.chars().count();
            if count > TEXT_SHOWN_MAX {
                let shown: String = text.chars().take(TEXT_SHOWN_MAX).collect();
                *text = format!("{shown}… ({} more characters)", count - TEXT_SHOWN_MAX);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_comes_after_a_long_text_is_seen_by_whoever_agrees() {
        let mut arguments =
            json!({"x": "a".repeat(9000), "y": ["é".repeat(201)], "z": "rm -rf HOME"});
        shorten(&mut arguments);
        let shown = arguments.to_string();
        assert!(shown.ends_with(r#""z":"rm -rf HOME"}"#), "{shown}");
        assert!(shown.contains("(8800 more characters)") && shown.contains("(1 more characters)"));
        assert!(shown.len() < SHOWN_MAX);
    }
}
