//! `agentcraft acp-serve`: workflows as an agent on our own stdin and stdout.
//!
//! Where a daemon runs, its sessions are used, and they outlive the editor. Otherwise the node is this process alone:
//! everything it has started ends with the connection. What is said of a workflow is said by the same face either way.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use acp::lease::{self, Asks, Editor, Folder};
use domain::{Name, session::WhenBusy};
use engine::{Create, Overrides};
use jsonrpc::{Connection as Lines, Limits};
use platform::files::{self, Durability, Mode};
use runner::Shelf;
use serde::Deserialize;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::{AcpServeArgs, ProxyArgs, SessionFolder},
    config::Config,
    connection::Connection,
    daemon, endpoints,
    error::CommandError,
    exit::Exit,
    render::Screen,
    standalone::Standalone,
};

use super::proxy;

/// The agent that runs workflows for editors, and the template it is made of.
const AGENT: &str = "workflows";

/// What is embedded of it.
const TEMPLATE: &str = include_str!("acp_serve/template.json");

/// The most a file of settings has.
const CONFIG_MAX: u64 = 64 * 1024;

/// How long runs have to end once the editor has gone: the grace of their commands and a little more.
const RUNS_END: Duration = Duration::from_secs(7);

/// How often we look whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Threads: the work is waiting.
const THREADS: usize = 2;

/// The file of settings; what else stands in it is not for us.
#[derive(Debug, Deserialize)]
struct Settings {
    workflows_dir: Option<PathBuf>,
}

pub(super) fn run(
    arguments: &AcpServeArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let chosen = chosen(arguments).map_err(|why| {
        let told = screen.note(&format!("error: {why}"));
        told.map_or_else(CommandError::from, |()| CommandError::Shown(Exit::Failed))
    })?;
    // The daemon looks for workflows in its own places, not in a folder that somebody names here.
    if chosen.is_none()
        && let Some(connection) = Connection::open_if_running(config)?
    {
        return through_daemon(connection, config, screen);
    }
    let shelf = Shelf {
        chosen,
        ..endpoints::shelf(config)
    };
    daemon::log_to_stderr(config);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|error| CommandError::machine("start the runtime", error))?;
    let served = runtime.block_on(alone(config, shelf));
    // Whoever still reads from the editor is stuck in a call of the system.
    runtime.shutdown_background();
    served.map_err(|error| CommandError::machine("serve the editor", error))
}

/// The folder that was named, which must be there.
fn chosen(arguments: &AcpServeArgs) -> Result<Option<PathBuf>, String> {
    let named = match (&arguments.workflows, &arguments.config) {
        (Some(folder), _) => Some(folder.clone()),
        (None, Some(file)) => configured(file)?,
        (None, None) => None,
    };
    let Some(folder) = named else {
        return Ok(None);
    };
    let here =
        std::env::current_dir().map_err(|error| format!("USER.ACP.CONFIG_INVALID: {error}"))?;
    let folder = here.join(folder);
    match files::list(&folder) {
        Ok(_) => Ok(Some(folder)),
        Err(error) => Err(format!(
            "USER.ACP.WORKFLOWS_DIR_MISSING: {}",
            engine::chain(&error)
        )),
    }
}

/// `workflows_dir` of a file of YAML or JSON; a path is meant from the file's own folder.
fn configured(file: &Path) -> Result<Option<PathBuf>, String> {
    let bytes = files::read_bounded(file, CONFIG_MAX)
        .map_err(|error| format!("USER.ACP.CONFIG_MISSING: {}", engine::chain(&error)))?;
    let text = String::from_utf8_lossy(&bytes);
    let settings: Settings = serde_saphyr::from_str(&text)
        .map_err(|error| format!("USER.ACP.CONFIG_INVALID: {}: {error}", file.display()))?;
    let base = file.parent().unwrap_or(Path::new(""));
    Ok(settings.workflows_dir.map(|folder| base.join(folder)))
}

fn through_daemon(
    mut connection: Connection,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let known = connection.ask("template.get", &json!({ "name": AGENT }));
    if known.is_err() {
        let path = config
            .configs_dir
            .join("templates")
            .join(format!("{AGENT}.json"));
        if !files::is_there(&path) {
            write_template(&path)
                .map_err(|error| CommandError::machine("write a template", error))?;
        }
        connection.ask("template.load", &json!({ "filePath": path }))?;
    }
    drop(connection);
    let name = Name::parse(AGENT).expect("the name of our own agent is one");
    let arguments = ProxyArgs {
        name: name.clone(),
        template: Some(name),
        lease: true,
        cwd: SessionFolder::Client,
        env_passthrough: false,
    };
    proxy::run(&arguments, config, screen)
}

fn write_template(path: &Path) -> Result<(), files::FileError> {
    files::write_atomic(
        path,
        TEMPLATE.as_bytes(),
        Mode::SHARED,
        Durability::ProcessDeath,
    )
}

async fn alone(config: &Config, shelf: Shelf) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let node = Standalone::with_shelf(config, shelf).await?;
    let template = node.space().join(format!("{AGENT}.json"));
    write_template(&template)?;
    node.engine.load_template(template).await?;
    let agent = Name::parse(AGENT).expect("the name of our own agent is one");
    let create = Create {
        name: agent.clone(),
        template: AGENT.to_owned(),
        overrides: Overrides::default(),
    };
    node.engine.create(create).await?;
    let (peer, incoming) = Lines::new(tokio::io::stdin(), tokio::io::stdout(), Limits::default());
    let editor = Editor {
        engine: node.engine.clone(),
        agent,
        folder: Folder::Client,
        asks: Asks::Relayed,
        when_busy: WhenBusy::Refuse,
        number: 1,
        peer,
        incoming,
        tasks: node.tasks.child(),
    };
    tokio::select! {
        () = lease::serve(editor) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hang_up.recv() => {}
    }
    end_runs(&node).await;
    node.close().await
}

/// Cancels what is in progress and waits until it is gone, so that commands get their time to end.
async fn end_runs(node: &Standalone) {
    let sessions = node.engine.sessions();
    for session in sessions.list(None) {
        let _ = sessions.cancel(&session.session_id).await; // One that is over has nothing to cancel.
    }
    let ended = async {
        while sessions.list(None).iter().any(|session| session.busy) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    if tokio::time::timeout(RUNS_END, ended).await.is_err() {
        tracing::warn!("a run did not end in time");
    }
    for session in sessions.list(None) {
        let _ = sessions.close(&session.session_id).await; // As above.
    }
}
