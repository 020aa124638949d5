//! The API every face calls, and the register of agents behind it.

mod borrow;
mod create;
mod registry;
mod run;
mod source;
mod target;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use catalog::{EnvironmentPattern, WorkingDirectory, launch_command};
use domain::{
    Name,
    lifecycle::{Force, LaunchMode, Process, WorkspacePolicy},
};
use platform::{Guardian, Owner, ProcessRef, Tasks};
use store::{JournalQuery, JournalRow, Store};
use tokio::sync::{mpsc, watch};

pub use borrow::{Loan, Start};
pub(crate) use registry::Registry;
pub use run::{OpenRun, RunAgent, RunResult, RunTemplate};
pub(crate) use source::{AgentSource, Via, surroundings};

use crate::{
    AgentView, Confinement, Drivers, EngineConfig, EngineError, Library, Records, Sessions,
    Validation, WorkDir,
    agent::{self, AgentHandle, Command, Surroundings, Workspace},
    recovery, retention, session,
    tally::{Counts, Tally},
};

/// Agents that are gone and whose sessions wait to be closed; a task waits here while a thousand are destroyed at once.
const GONE_MAX: usize = 64;

/// The engine. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    library: Arc<Library>,
    around: Arc<Surroundings>,
    sessions: Sessions,
    tally: Tally,
    borrowers: borrow::Borrowers,
    closing: Arc<AtomicBool>,
}

/// What to create.
#[derive(Debug, Clone)]
pub struct Create {
    pub name: Name,
    pub template: String,
    pub overrides: Overrides,
}

/// What a creation decides differently from the template.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    pub launch_mode: Option<LaunchMode>,
    pub workspace_policy: Option<WorkspacePolicy>,
    pub work_dir: Option<WorkDir>,
    pub metadata: BTreeMap<String, String>,
    pub confinement: Option<Confinement>,
    pub purpose: Purpose,
}

/// What an agent is made for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Whatever those want of it who may use the agents of this node.
    #[default]
    General,
    /// One use of whoever makes it. It may hold what is nobody else's business, so no one else on the network reaches it.
    OneUse,
    /// As well, and it goes with that use: one that outlived the daemon is destroyed by the next.
    Passing,
}

/// What a client needs to start an agent's process by itself.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub agent: Arc<AgentView>,
    pub command: PathBuf,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Variables of its own environment that the client passes on.
    pub pass_env: Vec<EnvironmentPattern>,
    /// Where sessions may work.
    pub cwd: WorkingDirectory,
    /// Whether the agent was created by this very call.
    pub created: bool,
}

impl Engine {
    /// Reads what is there and takes up where the last daemon left off. Nothing is adopted: managed agents are started
    /// anew where their mode says so.
    pub async fn open(
        config: EngineConfig,
        store: Store,
        guardian: Guardian,
        owner: Owner,
        tasks: Tasks,
        drivers: Drivers,
    ) -> Result<Self, EngineError> {
        let library = Arc::new(Library::new(
            config.configs_dir.clone(),
            config.own_program(),
        ));
        let node_policy = config.policy.clone();
        let launcher = Arc::new(agent::Launcher {
            config,
            guardian,
            owner,
        });
        let (gone, gone_agents) = mpsc::channel(GONE_MAX);
        let around = Arc::new(Surroundings {
            store: store.clone(),
            tasks: tasks.clone(),
            registry: Arc::default(),
            workspace: Workspace {
                instances_dir: launcher.config.instances_dir.clone(),
                durability: launcher.config.durability,
            },
            launcher: launcher.clone(),
            drivers: drivers.clone(),
            gone,
        });
        let agents = AgentSource {
            registry: around.registry.clone(),
            library: library.clone(),
            launcher,
            drivers,
            tasks: tasks.clone(),
            print: Mutex::default(),
        };
        let tally = Tally::default();
        let closing = Arc::new(AtomicBool::new(false));
        let sessions = Sessions::new(session::Surroundings {
            spares: session::spares(),
            store,
            tally: tally.clone(),
            tasks,
            agents: Arc::new(agents),
            node_policy,
            closing: closing.clone(),
        });
        recovery::prepare_library(&library, &around).await?;
        let passing = recovery::take_up(&around).await?;
        sessions.take_up().await?;
        close_sessions_of(gone_agents, &sessions, &around.tasks);
        retention::keep_pruning(&around);
        let inner = Inner {
            library,
            around,
            sessions,
            tally,
            borrowers: borrow::Borrowers::default(),
            closing,
        };
        let engine = Self {
            inner: Arc::new(inner),
        };
        for name in passing {
            if let Err(error) = engine.destroy(name.as_str(), Force::Yes).await {
                tracing::warn!(agent = %name, error = %crate::chain(&error), "could not destroy what was made for a moment");
            }
        }
        Ok(engine)
    }

    /// Conversations.
    pub fn sessions(&self) -> &Sessions {
        &self.inner.sessions
    }

    /// Documents that the faces keep.
    pub fn records(&self) -> Records {
        let store = self.inner.around.store.clone();
        Records::counted(store, self.inner.tally.clone())
    }

    /// What was done since the start.
    pub fn counts(&self) -> Counts {
        self.inner.tally.read()
    }

    /// Changes whenever the journal has new lines.
    pub fn journal_growth(&self) -> watch::Receiver<u64> {
        self.inner.around.store.journal_growth()
    }

    /// The history of the node.
    pub async fn journal(&self, query: JournalQuery) -> Result<Vec<JournalRow>, EngineError> {
        let read = self.inner.around.store.journal(query).await;
        read.map_err(|source| EngineError::Store {
            name: "the journal".to_owned(),
            source,
        })
    }

    fn borrowers(&self) -> &borrow::Borrowers {
        &self.inner.borrowers
    }

    /// Waits for a start that somebody else has asked for.
    async fn wait_until_started(&self, name: &Name) -> Result<(), EngineError> {
        self.handle(name.as_str())?.started().await
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.inner.around.tasks
    }

    /// Templates and components.
    pub fn library(&self) -> &Library {
        &self.inner.library
    }

    /// Loads a template from a file, and again at every start of the daemon until it is unloaded.
    pub async fn load_template(
        &self,
        path: PathBuf,
    ) -> Result<Arc<catalog::Template>, EngineError> {
        let library = self.inner.library.clone();
        let template = self.blocking(move || library.load(&path)).await??;
        recovery::keep_loaded(&self.inner.library, &self.inner.around).await?;
        Ok(template)
    }

    /// What loading a file would find.
    pub async fn validate_template(&self, path: PathBuf) -> Result<Validation, EngineError> {
        let library = self.inner.library.clone();
        self.blocking(move || library.validate(&path)).await?
    }

    /// Forgets a template; says whether there was one.
    pub async fn unload_template(&self, name: &str) -> Result<bool, EngineError> {
        let was_there = self.inner.library.unload(name);
        recovery::keep_loaded(&self.inner.library, &self.inner.around).await?;
        Ok(was_there)
    }

    /// How many agents there are.
    pub fn agent_count(&self) -> usize {
        self.inner.around.registry.count()
    }

    /// Every agent, by name.
    pub fn agents(&self) -> Vec<Arc<AgentView>> {
        self.inner.around.registry.views()
    }

    /// One agent.
    pub fn agent(&self, name: &str) -> Result<Arc<AgentView>, EngineError> {
        let not_found = || EngineError::AgentNotFound {
            name: name.to_owned(),
        };
        self.handle(name)?.view().ok_or_else(not_found)
    }

    /// The agents that others on the network may be told of, by name. Every face of the network asks here, and shows at most
    /// these.
    pub fn public_agents(&self) -> Vec<Arc<AgentView>> {
        let mut agents = self.agents();
        agents.retain(|agent| !agent.private);
        agents
    }

    /// One of these. What is private is, for whoever asks, not there.
    pub fn public_agent(&self, name: &str) -> Result<Arc<AgentView>, EngineError> {
        let agent = self.agent(name)?;
        match agent.private {
            false => Ok(agent),
            true => Err(EngineError::AgentNotFound {
                name: name.to_owned(),
            }),
        }
    }

    /// Makes a new agent with its workspace. A creation that fails leaves nothing.
    pub async fn create(&self, create: Create) -> Result<Arc<AgentView>, EngineError> {
        self.refuse_when_closing()?;
        let template = self.template(&create.template).await?;
        create::create(&self.inner.library, template, &self.inner.around, create).await
    }

    /// Starts an agent; returns when it runs or cannot.
    pub async fn start(&self, name: &str) -> Result<Arc<AgentView>, EngineError> {
        self.refuse_when_closing()?;
        self.ask(name, Command::Start).await
    }

    /// Stops an agent; returns when nothing of it is left. Stopping what does not run is no error.
    pub async fn stop(&self, name: &str) -> Result<Arc<AgentView>, EngineError> {
        self.ask(name, Command::Stop).await
    }

    /// Ends an agent's process and removes what is ours of it.
    pub async fn destroy(&self, name: &str, force: Force) -> Result<(), EngineError> {
        self.handle(name)?
            .ask(Command::Destroy { force })
            .await
            .map(drop)
    }

    /// What a client needs to start the agent's process; creates the agent if it is missing and a template is named.
    pub async fn resolve(
        &self,
        name: Name,
        template: Option<String>,
        overrides: Overrides,
    ) -> Result<Resolved, EngineError> {
        self.refuse_when_closing()?;
        let (agent, created) = match (self.agent(name.as_str()), template) {
            (Ok(agent), _) => {
                self.handle(name.as_str())?.ask(Command::Settle).await?;
                (agent, false)
            }
            (Err(_), Some(template)) => (
                self.create(Create {
                    name: name.clone(),
                    template,
                    overrides,
                })
                .await?,
                true,
            ),
            (Err(error), None) => return Err(error),
        };
        let record = self.handle(name.as_str())?.record();
        let launcher = &self.inner.around.launcher;
        let file = self.inner.around.workspace.instance_file(&record.place);
        if let Some(reason) = self.blocking(move || file.damage()).await? {
            let dir = record.place.dir().clone();
            return Err(EngineError::Corrupted { name, dir, reason });
        }
        let command = launch_command(&record.template, &record.place.dir().to_string_lossy())
            .map_err(|error| EngineError::Launch {
                name,
                reason: error.to_string(),
            })?;
        Ok(Resolved {
            agent,
            command: launcher.program(&command.program),
            args: command.args,
            env: record.template.env.clone(),
            pass_env: command.environment,
            cwd: record.template.cwd,
            created,
        })
    }

    /// Records a process that a client started for the agent, and watches it.
    pub async fn attach(
        &self,
        name: Name,
        pid: u32,
        metadata: BTreeMap<String, String>,
    ) -> Result<Arc<AgentView>, EngineError> {
        self.refuse_when_closing()?;
        let handle = self.handle(name.as_str())?;
        let no_process = |reason| EngineError::NoSuchProcess {
            name: name.clone(),
            pid,
            reason,
        };
        let guardian = self.inner.around.launcher.guardian.pid();
        if pid == platform::pid::own_pid() || Some(pid) == guardian {
            return Err(no_process("it is the daemon itself, or its guardian"));
        }
        if pid == 1 {
            return Err(no_process("it is the system's first process"));
        }
        if !platform::pid::is_process(pid) {
            return Err(no_process("there is no such process"));
        }
        let process = ProcessRef::of(pid).ok_or_else(|| no_process("there is no such process"))?;
        let process = Process {
            pid,
            started: process.start_time,
        };
        let command = Command::Attach {
            process,
            metadata: metadata.into_iter().collect(),
        };
        shown(name.as_str(), handle.ask(command).await?)
    }

    /// Lets go of a client's process, or of this one alone. With `cleanup` an ephemeral workspace goes too; says whether it did.
    pub async fn detach(
        &self,
        name: &str,
        pid: Option<u32>,
        cleanup: bool,
    ) -> Result<bool, EngineError> {
        let handle = self.handle(name)?;
        let ephemeral = handle.record().policy == WorkspacePolicy::Ephemeral;
        let cleanup = cleanup && ephemeral;
        handle.ask(Command::Detach { cleanup, pid }).await?;
        Ok(cleanup)
    }

    /// Stops every agent in good order; services come back with the next daemon.
    pub async fn shutdown(&self) {
        self.inner.closing.store(true, Ordering::SeqCst);
        let handles = self.inner.around.registry.handles();
        let stops: Vec<_> = handles
            .into_iter()
            .map(|handle| {
                self.inner
                    .around
                    .tasks
                    .spawn(|_| async move { handle.ask(Command::Shutdown).await })
            })
            .collect();
        for stop in stops {
            let _ = stop.await; // Each agent has logged what went wrong.
        }
    }

    /// How long `shutdown` may take.
    pub fn shutdown_limit(&self) -> Duration {
        self.inner.around.launcher.config.stop_grace + agent::STOP_MARGIN
    }

    async fn ask(&self, name: &str, command: Command) -> Result<Arc<AgentView>, EngineError> {
        shown(name, self.handle(name)?.ask(command).await?)
    }

    fn handle(&self, name: &str) -> Result<AgentHandle, EngineError> {
        let not_found = || EngineError::AgentNotFound {
            name: name.to_owned(),
        };
        self.inner
            .around
            .registry
            .get(name)
            .filter(|handle| handle.view().is_some())
            .ok_or_else(not_found)
    }

    fn refuse_when_closing(&self) -> Result<(), EngineError> {
        if self.inner.closing.load(Ordering::SeqCst) {
            return Err(EngineError::ShuttingDown);
        }
        Ok(())
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        self.inner
            .around
            .tasks
            .spawn_blocking(|_| work())
            .await
            .map_err(|_| EngineError::ShuttingDown)
    }
}

/// Ends the conversations of agents that are gone.
fn close_sessions_of(mut gone: mpsc::Receiver<String>, sessions: &Sessions, tasks: &Tasks) {
    let sessions = sessions.clone();
    tasks.spawn(|stop| async move {
        loop {
            tokio::select! { biased;
                () = stop.cancelled() => return,
                agent = gone.recv() => match agent {
                    Some(agent) => sessions.agent_gone(&agent).await,
                    None => return,
                },
            }
        }
    });
}

fn shown(name: &str, view: Option<Arc<AgentView>>) -> Result<Arc<AgentView>, EngineError> {
    view.ok_or_else(|| EngineError::AgentNotFound {
        name: name.to_owned(),
    })
}
