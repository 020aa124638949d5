//! The life of the daemon: prepare, build, announce, wait for a signal or a request to stop, drain, go.

use std::{
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use acp::lease;
use anyhow::{Context, bail};
use domain::{chain::Ourselves, session::WhenBusy};
use engine::{Engine, chain};
use platform::{
    Guardian, Owner, Tasks, crash,
    files::{self, Durability, FileLock, Lock, Mode},
    pid,
};
use socket::{EditorAsks, EditorFolder, EditorLink, Listener, Proxies, Service};
use store::{Change, Store};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{
    config::Config,
    connection::VERSION,
    endpoints::Endpoints,
    log,
    network::{self, Address, Children},
    office,
    standalone::{run_records, tidy_runs},
};

/// Threads that run tasks: the work is waiting, so more than a few would only cost memory.
const THREADS_MAX: usize = 4;

/// How long open connections have once every agent has stopped.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs that are too old are looked for when the daemon starts and this long after each time.
const TIDY_EVERY: Duration = Duration::from_secs(3600);

/// The fact that tells this home from every other one, whatever path it has.
const HOME_ID: &str = "home-id";

/// Editors that come through the socket speak ACP.
fn serve_editor(link: EditorLink) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let EditorLink {
        engine,
        agent,
        folder,
        asks,
        number,
        peer,
        incoming,
        tasks,
    } = link;
    let folder = match folder {
        EditorFolder::Workspace => lease::Folder::Workspace,
        EditorFolder::Client => lease::Folder::Client,
    };
    let asks = match asks {
        EditorAsks::Relayed => lease::Asks::Relayed,
        EditorAsks::Unheard => lease::Asks::Unheard,
    };
    // A prompt to workflows is a command; one that came while another ran would begin at a moment nobody expects.
    let is_workflow = engine
        .agent(agent.as_str())
        .is_ok_and(|agent| agent.backend_type == "workflow");
    let when_busy = match is_workflow {
        true => WhenBusy::Refuse,
        false => WhenBusy::Queue,
    };
    Box::pin(lease::serve(lease::Editor {
        engine,
        agent,
        folder,
        asks,
        when_busy,
        number,
        peer,
        incoming,
        tasks,
    }))
}

/// What there is to say of a daemon that has come up.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    pub(crate) socket: PathBuf,
    pub(crate) pid: u32,
    /// The address on the network, if it listens.
    pub(crate) url: Option<String>,
}

/// Runs the daemon until it is told to stop. `announce` is called once it answers.
pub(crate) fn run(config: Config, announce: impl FnOnce(&Ready)) -> anyhow::Result<()> {
    crash::arm(config.crash_at.as_deref());
    if let Some(path) = &config.crash_trace {
        crash::trace(path).context("could not open the trace of crash points")?;
    }
    log::to_stderr(&config);
    let _home = prepare(&config)?;
    let threads =
        std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("could not start the runtime")?;
    let result = runtime.block_on(live(&config, announce));
    // Whatever still runs is stuck in a call of the system; the process ends without waiting for it.
    runtime.shutdown_background();
    result
}

/// Makes the folders, private to the user, and takes the home: one daemon for each.
fn prepare(config: &Config) -> anyhow::Result<FileLock> {
    let own = [
        &config.home,
        &config.state_dir,
        &config.instances_dir,
        &agent_logs(config),
    ];
    for folder in own {
        files::create_private_dir(folder)?;
    }
    for folder in [&config.configs_dir, &config.configs_dir.join("templates")] {
        files::create_dir_all(folder)?;
    }
    match files::lock_exclusive(&config.home.join("daemon.lock"))? {
        Lock::Acquired(lock) => Ok(lock),
        Lock::Held { by } => {
            let who = by.map_or_else(String::new, |pid| format!(" (pid {pid})"));
            bail!(
                "another daemon{who} already uses {}; stop it with `agentcraft daemon stop`",
                config.home.display()
            )
        }
    }
}

async fn live(config: &Config, announce: impl FnOnce(&Ready)) -> anyhow::Result<()> {
    let started = Instant::now();
    let tasks = Tasks::new();
    let asked_to_stop = CancellationToken::new();
    let mut signals = Signals::new()?;
    let listener = Listener::bind(&config.socket).await?;
    let (engine, children, endpoints) = build(config, &tasks).await?;
    let service = Arc::new(Service {
        engine: engine.clone(),
        version: VERSION,
        home: config.home.to_string_lossy().into_owned(),
        started,
        shutdown: asked_to_stop.clone(),
        editor: serve_editor,
        proxies: Proxies::default(),
        lender: network::lender(endpoints.lending().clone()),
    });
    let serving = tasks.child();
    office::hub::serve(config, &serving).await;
    let address = network::open(config, &engine, &endpoints, &children, &serving).await?;
    // Last, so that whoever is answered here finds the port open too.
    tasks.spawn(|_| socket::serve(listener, service, serving.clone()));
    tidy(config, &tasks);
    let ready = Ready {
        socket: config.socket.clone(),
        pid: pid::own_pid(),
        url: address.map(|address| address.url),
    };
    let pid_file = config.home.join("daemon.pid");
    files::write_atomic(
        &pid_file,
        format!("{}\n", ready.pid).as_bytes(),
        Mode::PRIVATE,
        Durability::ProcessDeath,
    )?;
    info!(version = VERSION, pid = ready.pid, socket = %ready.socket.display(), "ready");
    announce(&ready);

    tokio::select! {
        () = asked_to_stop.cancelled() => info!("stopping: somebody asked for it"),
        name = signals.next() => info!(name, "stopping: a signal came"),
    }
    stop(&engine, &tasks, &serving, &mut signals).await;
    children.guardian.close().await;
    files::remove_file_if_there(&pid_file)?;
    Address::forget(&config.home)?;
    info!("stopped");
    Ok(())
}

async fn build(config: &Config, tasks: &Tasks) -> anyhow::Result<(Engine, Children, Endpoints)> {
    let store = Store::open_alone(&config.store_file(), config.store_durability())?;
    let id = home_id(&store).await?;
    let owner = Owner::starting(&id)?;
    let executable = std::env::current_exe().context("could not find our own program")?;
    let guardian = Guardian::spawn(&executable, &["guardian"], &owner)?;
    watch(&guardian, tasks);
    let engine_config = config.engine(executable, config.instances_dir.clone(), agent_logs(config));
    let node = Ourselves {
        id,
        name: network::node_name(config),
    };
    let endpoints = Endpoints::new(config, run_records(config)?, node);
    let engine = Engine::open(
        engine_config,
        store,
        guardian.clone(),
        owner.clone(),
        tasks.child(),
        endpoints.all(),
    )
    .await?;
    endpoints.connect(&engine);
    Ok((engine, Children { guardian, owner }, endpoints))
}

/// Where agents' own words beside their protocol go.
pub(crate) fn agent_logs(config: &Config) -> PathBuf {
    config.home.join("logs").join("agents")
}

async fn home_id(store: &Store) -> anyhow::Result<String> {
    if let Some(id) = store.fact(HOME_ID).await? {
        return Ok(id);
    }
    // Other nodes know this one by it.
    let id = platform::owner::fresh_uuid();
    store
        .write(vec![Change::PutFact {
            key: HOME_ID.to_owned(),
            value: id.clone(),
        }])
        .await?;
    Ok(id)
}

/// A guardian that dies is replaced at once: without one, a crash of ours would leave agents running.
fn watch(guardian: &Guardian, tasks: &Tasks) {
    let guardian = guardian.clone();
    tasks.spawn(|stop| async move {
        loop {
            tokio::select! { biased;
                () = stop.cancelled() => return,
                () = guardian.died() => {}
            }
            warn!("the guardian died; starting another");
            if let Err(error) = guardian.respawn() {
                error!(error = %chain(&error), "could not start another guardian");
                return;
            }
        }
    });
}

/// Forgets runs of workflows that are too old, as the journal's lines are forgotten. Nothing waits for it.
fn tidy(config: &Config, tasks: &Tasks) {
    let config = config.clone();
    tasks.spawn(|stop| async move {
        let mut times = tokio::time::interval(TIDY_EVERY);
        times.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! { biased;
                () = stop.cancelled() => return,
                _ = times.tick() => {}
            }
            if let Err(error) = tidy_runs(&config).await {
                warn!(error = %format!("{error:#}"), "could not look through old runs");
            }
        }
    });
}

/// Ends every agent, then every connection. A second signal ends them without grace.
async fn stop(engine: &Engine, tasks: &Tasks, serving: &Tasks, signals: &mut Signals) {
    let limit = engine.shutdown_limit();
    tokio::select! {
        ended = tokio::time::timeout(limit, engine.shutdown()) => {
            if ended.is_err() {
                warn!(?limit, "some agents did not stop in time");
            }
        }
        name = signals.next() => warn!(name, "stopping at once: a second signal came"),
    }
    serving.cancel();
    tasks.cancel();
    if let platform::Drained::Stuck(count) = tasks.drain(DRAIN).await {
        warn!(count, "left while something was still at work");
    }
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("could not listen to signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// The name of the next one.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_id_of_a_node_is_made_once_and_kept() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("store.db");
        let store = Store::open(&file, store::Durability::ProcessDeath).unwrap();
        let id = home_id(&store).await.unwrap();
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(home_id(&store).await.unwrap(), id);
    }
}
