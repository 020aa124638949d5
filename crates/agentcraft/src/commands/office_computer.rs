//! `agentcraft computer join`: lends the tools of MCP servers to an office, in the foreground, until Ctrl-C.

use std::{sync::Arc, time::Duration};

use engine::DriverSurroundings;
use platform::{Guardian, Owner, Tasks, environment::base_environment, owner};
use smcp::{
    LinkError, Standing,
    computer::{Computer, ComputerConfig, Confirm, Confirmation, ServerTool},
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use wire::smcp::Change;

use super::mcp_serve::{log_to_stderr, stop_on_signals};
use crate::{
    args::{ComputerCommand, ComputerJoinArgs},
    config::Config,
    error::CommandError,
    office::{self, Absent, Consent, Lending},
    render::{Colors, Screen},
};

/// The name that the servers' processes are tagged with.
const NAME: &str = "computer";

/// How long leaving the office may take.
const LEAVE_MAX: Duration = Duration::from_secs(3);

/// How long the servers have to end.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// How long a server may take to start; the driver's own limits are stricter.
const START_MAX: Duration = Duration::from_secs(60);

/// Characters of a call's arguments that are shown to whoever must agree to it.
const SHOWN_MAX: usize = 500;

pub(super) fn run(
    command: ComputerCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let ComputerCommand::Join(arguments) = command;
    log_to_stderr(config);
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
    let consent = match arguments.yes {
        true => Consent::Given,
        false => Consent::Asked,
    };
    let offer = office::read_offer(arguments.config.as_deref(), consent, config)?;
    for unusable in &offer.unusable {
        screen.warning(&format!(
            "{} is not lent: {}",
            unusable.server, unusable.reason
        ))?;
    }
    if offer.servers.is_empty() {
        screen.warning("there is no MCP server to lend; name a file with --config")?;
    }
    let tasks = Tasks::new();
    let (around, guardian) = surroundings(config, &tasks)?;
    let folder = std::env::current_dir()
        .map_err(|error| CommandError::machine("find the folder to work in", error))?;
    let lending = Lending::start(offer, &mcp::tool_sources(), &folder, &around);
    let mut computing = ComputerConfig::new(link);
    computing.confirm = screen.can_ask().then(confirm_in_terminal);
    // The office is left before the servers end, so that no call finds them gone.
    let staying = tasks.child();
    let stay = Stay {
        place: format!(
            "the office {} at {} as {}",
            arguments.place.office, arguments.place.url, computing.link.name
        ),
        lending: lending.clone(),
        computer: Computer::start(computing, lending, &staying),
    };
    let stayed = stay.until(&stop, screen).await;
    drop(stay);
    let _ = staying.drain(LEAVE_MAX).await; // The office notices in any case.
    let _ = tasks.drain(DRAIN_MAX).await; // Whatever is stuck is ended with the guardian.
    guardian.close().await;
    match stayed? {
        Some(error) => Err(office::not_let_in(&error, &arguments.place)),
        None => Ok(screen.line("left the office")?),
    }
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

/// A computer at work.
struct Stay {
    place: String,
    lending: Arc<Lending>,
    computer: Computer,
}

/// What was last said, so that nothing is said twice.
#[derive(Default)]
struct Said {
    tools: Vec<ServerTool>,
    absent: Vec<Absent>,
    standing: Option<String>,
    has_joined: bool,
}

impl Stay {
    /// Says what happens until told to stop, or until the office refuses us before it ever let us in.
    async fn until(
        &self,
        stop: &CancellationToken,
        screen: &mut Screen,
    ) -> Result<Option<LinkError>, CommandError> {
        let mut standing = self.computer.standing();
        let mut changes = self.lending.changes();
        let mut said = Said::default();
        loop {
            let now = standing.borrow_and_update().clone();
            if let Some(refused) = self.say_standing(&now, &mut said, screen)? {
                return Ok(Some(refused));
            }
            changes.mark_unchanged();
            self.say_changes(&mut said, screen).await?;
            tokio::select! { biased;
                () = stop.cancelled() => return Ok(None),
                changed = standing.changed() => if changed.is_err() { return Ok(None) },
                changed = changes.changed() => if changed.is_err() { return Ok(None) },
            }
        }
    }

    /// The refusal, if it is final.
    fn say_standing(
        &self,
        standing: &Standing,
        said: &mut Said,
        screen: &mut Screen,
    ) -> Result<Option<LinkError>, CommandError> {
        let words = match standing {
            Standing::Joined => {
                said.has_joined = true;
                format!("joined {}", self.place)
            }
            Standing::Away {
                because: Some(refused @ LinkError::Refused(_)),
            } if !said.has_joined => return Ok(Some(refused.clone())),
            Standing::Waiting {
                refused: Some(refused),
            } if !said.has_joined => return Ok(Some(LinkError::Refused(refused.clone()))),
            Standing::Away {
                because: Some(because),
            } => format!("away: {because}; trying again"),
            Standing::Waiting {
                refused: Some(refused),
            } => format!("not let in: {}; asking again", refused.message),
            Standing::Away { because: None }
            | Standing::Waiting { refused: None }
            | Standing::Ended => return Ok(None),
        };
        if said.standing.as_ref() != Some(&words) {
            screen.line(&words)?;
            said.standing = Some(words);
        }
        Ok(None)
    }

    async fn say_changes(&self, said: &mut Said, screen: &mut Screen) -> Result<(), CommandError> {
        let absent = self.lending.absent();
        for news in absent.iter().filter(|absent| !said.absent.contains(absent)) {
            screen.warning(&format!("{} is not there: {}", news.server, news.why))?;
        }
        said.absent = absent;
        let tools = self.lending.server_tools();
        if tools == said.tools {
            return Ok(());
        }
        said.tools = tools;
        screen.line(&self.offered())?;
        // When we are away there is nobody to tell; whoever is joined anew is asked by the office.
        let _ = self.computer.announce(Change::ToolList).await;
        let _ = self.computer.announce(Change::Desktop).await; // As above.
        Ok(())
    }

    fn offered(&self) -> String {
        let lent = self.lending.lent();
        let count: usize = lent.values().map(Vec::len).sum();
        let word = if count == 1 { "tool" } else { "tools" };
        let servers: Vec<String> = lent
            .iter()
            .map(|(server, tools)| format!("{server} ({})", tools.join(", ")))
            .collect();
        match count {
            0 => "lending no tools now".to_owned(),
            _ => format!("lending {count} {word}: {}", servers.join("; ")),
        }
    }
}

/// Asks whoever sits at the terminal, one question after the other.
fn confirm_in_terminal() -> Confirm {
    let room = Arc::new(Semaphore::new(1));
    Arc::new(move |asked: Confirmation| {
        let room = room.clone();
        Box::pin(async move {
            let Ok(place) = room.acquire_owned().await else {
                return false;
            };
            // An answer that comes after the call is over still ends its own question, and no other.
            let answering = Tasks::new().spawn_blocking(move |_| {
                let _place = place;
                let mut arguments = serde_json::Value::Object(asked.params).to_string();
                if let Some((end, _)) = arguments.char_indices().nth(SHOWN_MAX) {
                    arguments.truncate(end);
                    arguments.push('…');
                }
                let question = format!(
                    "{} wants {} of {} with {arguments}: carry it out?",
                    asked.agent, asked.tool, asked.server
                );
                Screen::of_process(Colors::Never).confirm(&question)
            });
            matches!(answering.await, Ok(Ok(true)))
        })
    })
}
