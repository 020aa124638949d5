//! `agentcraft proxy`: an agent on our own stdin and stdout, for an editor that believes we are the agent.
//!
//! The daemon says what to start (`instance`), we start and attach it, carry the editor's bytes to it (`acp::bridge`), and
//! end it with the connection (`agent`). With --lease the
//! daemon's own agent is talked to instead (`lease`). The agent writes to the editor's pipe by itself; we write to stderr alone.

mod agent;
mod instance;
mod lease;
mod sessions;

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use acp::bridge::{Carried, FolderRewriter, Folders, carry, wait_until_stuck};
use platform::{Exit as AgentExit, Guardian, Owner};
use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use crate::{
    args::{ProxyArgs, SessionFolder},
    config::Config,
    error::CommandError,
    exit::Exit,
    render::Screen,
};
use agent::Agent;
use instance::Instance;

/// How long an agent has to end by itself once its input is closed, and to take what its client had written before.
const EOF_GRACE: Duration = Duration::from_secs(3);

/// How long it may take until an end is seen that came just before the client's own.
const END_SEEN: Duration = Duration::from_millis(20);

/// How long it has after SIGTERM: editors kill a proxy that does not go soon.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// Both who carry and who watch report once.
const REPORTS_MAX: usize = 2;

/// The editor's pipes. Our own stdout leads to stderr from here on, so that nothing can ever get between the agent's bytes.
#[derive(Debug)]
struct Client {
    input: OwnedFd,
    output: OwnedFd,
}

/// Everything that a life of the bridge needs.
#[derive(Debug)]
struct Bridge<'a> {
    config: &'a Config,
    runtime: Runtime,
    guardian: Guardian,
    owner: Owner,
    signals: Signals,
}

/// Why it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    ClientLeft,
    Told,
    AgentEnded(AgentExit),
}

pub(super) fn run(
    arguments: &ProxyArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    if arguments.env_passthrough {
        return Err(CommandError::Refused {
            message: match arguments.lease {
                true => "--env-passthrough is of no use here: the agent runs already".to_owned(),
                false => "--env-passthrough is not needed: the agent is a child of this command".to_owned(),
            },
            hint: "it has the variables its backend needs and those the template lists under passEnv; name others there"
                .to_owned(),
        });
    }
    if arguments.lease || arguments.name.name().is_none() {
        return lease::run(arguments, config, screen);
    }
    let client = Client::take().map_err(of("take over stdin and stdout"))?;
    let mut bridge = Bridge::build(config)?;
    let mut instance = Instance::find(arguments, config, screen)?;
    let lived = bridge.live(arguments, &mut instance, client, screen);
    bridge.runtime.block_on(bridge.guardian.close());
    // Whoever still reads from the client is stuck in a call of the system.
    bridge.runtime.shutdown_background();
    match lived {
        Ok(over) => instance.leave(over, config, screen),
        Err(error) => {
            instance.give_up(config, screen);
            Err(error)
        }
    }
}

impl Client {
    fn take() -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(Self { input, output })
    }
}

impl<'a> Bridge<'a> {
    fn build(config: &'a Config) -> Result<Self, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(of("start the runtime"))?;
        let entered = runtime.enter();
        // Before there is anything to leave behind.
        let signals = Signals::new().map_err(of("listen to signals"))?;
        // A home of its own: a daemon that starts ends what an earlier daemon left, and we are not that.
        let owner = Owner::starting(&platform::owner::fresh_id())
            .map_err(|error| CommandError::machine("name our processes", error))?;
        let executable = std::env::current_exe().map_err(of("find our own program"))?;
        let guardian = Guardian::spawn(&executable, &["guardian"], &owner)
            .map_err(|error| CommandError::machine("start the guardian", error))?;
        drop(entered);
        Ok(Self {
            config,
            runtime,
            guardian,
            owner,
            signals,
        })
    }

    /// Starts the agent, carries until it is over, and ends the agent.
    fn live(
        &mut self,
        arguments: &ProxyArgs,
        instance: &mut Instance,
        client: Client,
        screen: &mut Screen,
    ) -> Result<Over, CommandError> {
        instance.check_folder(arguments.cwd)?;
        let agent = self.start(instance, &client, screen)?;
        let Client { input, output } = client;
        drop(output); // From here on only the agent holds it, so the client sees when the agent closes it.
        let folders = match arguments.cwd {
            SessionFolder::Workspace => {
                let (begun, loaded) = instance.folders();
                Some(FolderRewriter::new(Folders::new(begun, loaded)))
            }
            SessionFolder::Client => None,
        };
        let (group, stdin) = agent.split();
        let over = carry_to_agent(input, stdin, folders).map_err(of("start a thread"))?;
        let lived = life(&group, &self.guardian, &mut self.signals, over);
        Ok(self.runtime.block_on(lived))
    }

    /// Starts and attaches the agent. Somebody may have been faster; then a copy is started instead.
    fn start(
        &mut self,
        instance: &mut Instance,
        client: &Client,
        screen: &mut Screen,
    ) -> Result<Agent, CommandError> {
        loop {
            let entered = self.runtime.enter();
            let agent = Agent::start(instance, client, &self.guardian, &self.owner, self.config)?;
            drop(entered);
            match instance.attach(agent.pid()) {
                Ok(()) => {
                    instance.hang_up();
                    return Ok(agent);
                }
                Err(error) => {
                    self.runtime.block_on(agent.end());
                    if !instance::is_busy(&error) || instance.is_copy() {
                        return Err(error);
                    }
                    instance.copy(screen)?;
                }
            }
        }
    }
}

/// Starts the threads that carry and watch; each says when the client is gone.
fn carry_to_agent(
    input: OwnedFd,
    stdin: OwnedFd,
    folders: Option<FolderRewriter>,
) -> io::Result<mpsc::Receiver<Left>> {
    let (over, is_over) = mpsc::channel(REPORTS_MAX);
    let carried = Arc::new(Carried::default());
    let (watched, counter, stuck) = (input.try_clone()?, carried.clone(), over.clone());
    let named = |name: &str| std::thread::Builder::new().name(name.into());
    named("carry").spawn(move || {
        let agent = io::PipeWriter::from(stdin);
        carry(io::PipeReader::from(input), &agent, folders, &carried);
        // The agent's end of input comes after somebody has looked whether it had ended, or it could be taken for the cause.
        let (looking, looked) = std::sync::mpsc::channel();
        let _ = over.blocking_send(Left(Some(looking))); // Nobody waits any more if the agent went first.
        let _ = looked.recv(); // It is told by being dropped.
    })?;
    named("watch").spawn(move || {
        wait_until_stuck(watched, &counter, EOF_GRACE);
        let _ = stuck.blocking_send(Left(None)); // As above.
    })?;
    Ok(is_over)
}

/// The client is gone. As long as this lives, the agent is not told.
#[derive(Debug)]
struct Left(
    #[expect(dead_code, reason = "It is held, and told by its drop.")]
    Option<std::sync::mpsc::Sender<()>>,
);

/// Waits until somebody leaves, and ends what is left of the agent.
async fn life(
    group: &platform::Group,
    guardian: &Guardian,
    signals: &mut Signals,
    mut client_left: mpsc::Receiver<Left>,
) -> Over {
    let over = loop {
        tokio::select! { biased;
            left = client_left.recv() => {
                // Editors close their side as soon as the agent closes its own: then it was the agent that ended.
                let ended = tokio::time::timeout(END_SEEN, group.wait()).await;
                drop(left);
                break match ended {
                    Ok(exit) if !exit.success() => Over::AgentEnded(exit),
                    _ => Over::ClientLeft,
                };
            }
            () = signals.next() => break Over::Told,
            exit = group.wait() => break Over::AgentEnded(exit),
            () = guardian.died() => if guardian.respawn().is_err() {
                // Without one, our own death would leave the agent running.
                break Over::Told;
            },
        }
    };
    let grace = match over {
        Over::AgentEnded(_) => Duration::ZERO,
        Over::Told => TERM_GRACE,
        Over::ClientLeft => {
            tokio::select! { biased;
                () = signals.next() => {}
                _ = tokio::time::timeout(EOF_GRACE, group.wait()) => {}
            }
            TERM_GRACE
        }
    };
    tokio::select! { biased;
        _ = group.end(grace) => {}
        // Whoever asks a second time is in a hurry.
        () = signals.next() => { group.end(Duration::ZERO).await; }
    }
    over
}

impl Over {
    /// What the command itself makes of it.
    fn outcome(self, screen: &mut Screen) -> Result<(), CommandError> {
        match self {
            Self::ClientLeft | Self::Told => Ok(()),
            Self::AgentEnded(exit) if exit.success() => Ok(()),
            Self::AgentEnded(exit) => {
                let _ = screen.warning(&format!("the agent ended by itself: {exit}")); // Nobody may read it.
                Err(CommandError::Shown(Exit::Failed))
            }
        }
    }
}

/// Whatever asks us to go.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

fn of(attempt: &'static str) -> impl Fn(io::Error) -> CommandError {
    move |error| CommandError::machine(attempt, error)
}
