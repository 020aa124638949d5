//! `agentcraft acp-serve`: workflows as an agent on our own stdin and stdout.
//!
//! Where a daemon runs, its sessions are used, and they outlive the editor. Otherwise the node is this process alone:
//! everything it has started ends with the connection, and its sessions can be loaded by the next. What is said of a workflow is said by the same face either way.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    time::Duration,
};

use acp::lease::{self, Asks, Editor, Folder};
use domain::{Name, session::WhenBusy, turn::EventKind};
use engine::{Create, Overrides, SessionView, Sessions};
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
    endpoints,
    error::CommandError,
    exit::Exit,
    log,
    render::Screen,
    standalone::{Standalone, Stays},
};

use super::proxy;

/// The agent that runs workflows for editors, and the template it is made of.
const AGENT: &str = "workflows";

/// What is embedded of it.
const TEMPLATE: &str = include_str!("acp_serve/template.json");

/// A prompt without a name as a workflow, where it is for an agent.
const AGENT_WORKFLOW: &str = include_str!("acp_serve/agent.yaml");

/// The most a file of settings has.
const CONFIG_MAX: u64 = 64 * 1024;

/// How long runs have to end once the editor has gone: the grace of their commands and a little more.
const RUNS_END: Duration = Duration::from_secs(7);

/// Threads: the work is waiting.
const THREADS: usize = 2;

/// The file of settings; what else stands in it is not for us.
#[derive(Debug, Deserialize)]
struct Settings {
    workflows_dir: Option<PathBuf>,
    /// What a prompt runs that names no workflow.
    default_workflow: Option<String>,
    /// Who is told a prompt that names no workflow: a provider, as steps have one.
    default_agent: Option<String>,
}

/// What was chosen on the command line and in the file of settings.
#[derive(Debug, Default)]
struct Chosen {
    folder: Option<PathBuf>,
    usual: Option<Usual>,
}

/// Where a prompt goes that names no workflow.
#[derive(Debug)]
enum Usual {
    Workflow(String),
    Agent(String),
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
    if chosen.folder.is_none()
        && chosen.usual.is_none()
        && let Some(connection) = Connection::open_if_running(config)?
    {
        return through_daemon(connection, config, screen);
    }
    let shelf = Shelf {
        chosen: chosen.folder,
        ..endpoints::shelf(config)
    };
    log::to_stderr(config);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|error| CommandError::machine("start the runtime", error))?;
    let served = runtime.block_on(alone(config, shelf, chosen.usual));
    // Whoever still reads from the editor is stuck in a call of the system.
    runtime.shutdown_background();
    served.map_err(|error| CommandError::machine("serve the editor", error))
}

/// What was named; a folder must be there.
fn chosen(arguments: &AcpServeArgs) -> Result<Chosen, String> {
    let mut chosen = match &arguments.config {
        Some(file) => configured(file)?,
        None => Chosen::default(),
    };
    if let Some(folder) = &arguments.workflows {
        chosen.folder = Some(folder.clone());
    }
    let Some(folder) = chosen.folder else {
        return Ok(chosen);
    };
    let here =
        std::env::current_dir().map_err(|error| format!("USER.ACP.CONFIG_INVALID: {error}"))?;
    let folder = here.join(folder);
    match files::list(&folder) {
        Ok(_) => Ok(Chosen {
            folder: Some(folder),
            ..chosen
        }),
        Err(error) => Err(format!(
            "USER.ACP.WORKFLOWS_DIR_MISSING: {}",
            engine::chain(&error)
        )),
    }
}

/// A file of YAML or JSON; a path in it is meant from the file's own folder.
fn configured(file: &Path) -> Result<Chosen, String> {
    let bytes = files::read_bounded(file, CONFIG_MAX)
        .map_err(|error| format!("USER.ACP.CONFIG_MISSING: {}", engine::chain(&error)))?;
    let text = String::from_utf8_lossy(&bytes);
    let invalid = |why: String| format!("USER.ACP.CONFIG_INVALID: {}: {why}", file.display());
    let settings: Settings =
        serde_saphyr::from_str(&text).map_err(|error| invalid(error.to_string()))?;
    let usual = match (settings.default_workflow, settings.default_agent) {
        (None, None) => None,
        (Some(workflow), None) => Some(Usual::Workflow(workflow)),
        (None, Some(agent)) => {
            workflow::Provider::parse(&agent).map_err(invalid)?;
            Some(Usual::Agent(agent))
        }
        (Some(_), Some(_)) => {
            let why = "default_workflow and default_agent cannot both be named";
            return Err(invalid(why.to_owned()));
        }
    };
    let base = file.parent().unwrap_or(Path::new(""));
    Ok(Chosen {
        folder: settings.workflows_dir.map(|folder| base.join(folder)),
        usual,
    })
}

/// Names that are tried in the daemon: an agent or a template of somebody else may have ours.
fn names() -> impl Iterator<Item = Name> {
    const TRIED: usize = 9;
    let more = (2..=TRIED).map(|number| format!("{AGENT}-{number}"));
    let names = std::iter::once(AGENT.to_owned()).chain(more);
    names.map(|name| Name::parse(&name).expect("letters, a dash and a digit are a name"))
}

fn through_daemon(
    mut connection: Connection,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let mut found = None;
    for name in names() {
        if let Some(place) = place(&mut connection, config, &name)? {
            found = Some((name, place));
            break;
        }
    }
    let Some((name, place)) = found else {
        return Err(CommandError::Refused {
            message: format!(
                "the daemon has other agents or templates called {AGENT}, {AGENT}-2, …"
            ),
            hint: format!("rename one of them: {AGENT} runs workflows for editors"),
        });
    };
    drop(connection);
    let arguments = ProxyArgs {
        name: name.clone().into(),
        template: match place {
            Place::Taken => None,
            Place::Free => Some(name),
        },
        lease: true,
        cwd: SessionFolder::Client,
        env_passthrough: false,
    };
    proxy::run(&arguments, config, screen)
}

/// Where an agent that runs workflows for editors has its name.
enum Place {
    /// It is there.
    Taken,
    /// It can be made of the template of the same name.
    Free,
}

/// Whether the agent of this name is the one for editors or can be made it; nothing where it is somebody else's.
fn place(
    connection: &mut Connection,
    config: &Config,
    name: &Name,
) -> Result<Option<Place>, CommandError> {
    let named = json!({ "name": name });
    if let Ok(agent) = connection.ask("agent.status", &named) {
        let is_ours = is_ours(&agent["backendType"], &agent["backendConfig"]);
        return Ok(is_ours.then_some(Place::Taken));
    }
    if let Ok(template) = connection.ask("template.get", &named) {
        let backend = &template["backend"];
        let is_ours = is_ours(&backend["type"], &backend["config"]);
        return Ok(is_ours.then_some(Place::Free));
    }
    let path = config
        .configs_dir
        .join("templates")
        .join(format!("{name}.json"));
    if !files::is_there(&path) {
        let text = TEMPLATE.replacen(AGENT, name.as_str(), 1);
        write(&path, &text).map_err(|error| CommandError::machine("write a template", error))?;
    }
    // A file that is there already may be anything.
    let loaded = connection.ask("template.load", &json!({ "filePath": path }));
    let is_ours = |template: serde_json::Value| {
        let backend = &template["backend"];
        template["name"] == name.as_str() && is_ours(&backend["type"], &backend["config"])
    };
    Ok(loaded.is_ok_and(is_ours).then_some(Place::Free))
}

/// Runs every workflow of the folder, whichever a prompt names.
fn is_ours(backend: &serde_json::Value, config: &serde_json::Value) -> bool {
    backend == "workflow" && config["workflow"] == "*"
}

fn write(path: &Path, text: &str) -> Result<(), files::FileError> {
    files::write_atomic(
        path,
        text.as_bytes(),
        Mode::SHARED,
        Durability::ProcessDeath,
    )
}

/// The template of the agent that runs workflows, with what a prompt runs that names none.
fn template(space: &Path, usual: Option<Usual>) -> anyhow::Result<String> {
    let usual = match usual {
        None => return Ok(TEMPLATE.to_owned()),
        Some(Usual::Workflow(name)) => name,
        Some(Usual::Agent(provider)) => {
            let path = space.join("agent.yaml");
            let provider = json!(provider).to_string();
            write(&path, &AGENT_WORKFLOW.replace("PROVIDER", &provider))?;
            path.to_string_lossy().into_owned()
        }
    };
    let mut template: serde_json::Value = serde_json::from_str(TEMPLATE)?;
    template["backend"]["config"]["default"] = usual.into();
    Ok(template.to_string())
}

/// The same for the same settings: an agent is made of them, and sessions are of their agent.
fn space_name(shelf: &Shelf, usual: Option<&Usual>) -> String {
    if shelf.chosen.is_none() && usual.is_none() {
        return AGENT.to_owned();
    }
    // Where another build has another hash, earlier sessions are not found; nothing is mixed up.
    let mut hasher = DefaultHasher::new();
    format!("{:?} {usual:?}", shelf.chosen).hash(&mut hasher);
    format!("{AGENT}-{:016x}", hasher.finish())
}

async fn alone(config: &Config, shelf: Shelf, usual: Option<Usual>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let name = space_name(&shelf, usual.as_ref());
    let node = Standalone::lasting(config, shelf, &name).await?;
    let file = node.space().join(format!("{AGENT}.json"));
    write(&file, &template(node.space(), usual)?)?;
    node.engine.load_template(file).await?;
    let agent = Name::parse(AGENT).expect("the name of our own agent is one");
    // An earlier process may have made it.
    if node.engine.agent(AGENT).is_err() {
        let create = Create {
            name: agent.clone(),
            template: AGENT.to_owned(),
            overrides: Overrides::default(),
        };
        node.engine.create(create).await?;
    }
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
    node.close(config).await
}

/// Waits until the turn that ran when the session was looked at is over.
async fn turn_ended(sessions: &Sessions, session: &SessionView) {
    // The newest event may be the end itself, told before the session was seen to rest.
    let Ok(mut events) = sessions
        .events(&session.session_id, session.last_seq.max(1))
        .await
    else {
        return;
    };
    while let Ok(Some(event)) = events.next().await {
        if matches!(event.kind, EventKind::TurnEnded { .. }) {
            return;
        }
    }
}

/// Cancels what is in progress and waits until it is gone, so that commands get their time to end.
async fn end_runs(node: &Standalone) {
    let sessions = node.engine.sessions();
    let open = sessions.list(None);
    for session in &open {
        let _ = sessions.cancel(&session.session_id).await; // One that is over has nothing to cancel.
    }
    let ended = async {
        for session in open.iter().filter(|session| session.busy) {
            turn_ended(sessions, session).await;
        }
    };
    if tokio::time::timeout(RUNS_END, ended).await.is_err() {
        tracing::warn!("a run did not end in time");
    }
    if node.stays() == Stays::Yes {
        return;
    }
    for session in sessions.list(None) {
        let _ = sessions.close(&session.session_id).await; // As above.
    }
}
