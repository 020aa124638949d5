//! `agentcraft computer join`: lends the tools of MCP servers to an office, in the foreground, until Ctrl-C.

mod agreement;
mod login;
mod stay;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use engine::DriverSurroundings;
use platform::{Guardian, Owner, Tasks, environment::base_environment, owner};
use smcp::computer::{Computer, ComputerConfig};

use self::{
    agreement::agreement,
    stay::{Servers, Stay, Watches},
};
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

/// What keeps the servers there: how they fare is said on the screen.
const SAID_ON_SCREEN: &str = "mcp::client";

/// How long leaving the office may take.
const LEAVE_MAX: Duration = Duration::from_secs(3);

/// How long the servers have to end.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// How long a server may take to start; the driver's own limits are stricter.
const START_MAX: Duration = Duration::from_secs(60);

pub(super) fn run(
    command: ComputerCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    log::to_stderr_except(config, Some(SAID_ON_SCREEN));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::machine("start the runtime", error))?;
    let result = match command {
        ComputerCommand::Join(arguments) => runtime.block_on(join(&arguments, config, screen)),
        ComputerCommand::Login(arguments) => {
            runtime.block_on(login::login(&arguments, config, screen))
        }
    };
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
    // A login may be kept in it later, which only a folder that is there tells.
    platform::files::create_private_dir(&config.home)
        .map_err(|error| CommandError::machine("make the home", error))?;
    let logins = mcp::Logins::of_home(&config.home);
    let mut watches = Watches::start(arguments, &origin, &logins);
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
    let lending = Lending::start(offer, &mcp::tool_sources(logins), &folder, &around);
    let mut computing = ComputerConfig::new(link);
    let policy = config.policy.at_home(&config.user_home());
    let workspace = folder.to_string_lossy().into_owned();
    computing.confirm = Some(agreement(policy, workspace, asking));
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
