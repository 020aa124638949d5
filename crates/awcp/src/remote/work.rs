//! The task itself: a turn of an agent that is made for it, works in the lent workspace, and goes with it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use domain::{
    Name, Trace,
    delegation::{Code, Failure, Report},
    lifecycle::{Force, LaunchMode, WorkspacePolicy},
    session::WhenBusy,
    turn::{Dialect, Raw, Stop, TurnId},
};
use engine::{
    Clash, Confinement, Create, CreateSession, Engine, EngineError, NativeOpen, NativeSession,
    Overrides, Prompt, Purpose, TurnOptions, TurnOutcome, Walls,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{error::chain, node::Node};

/// How long a turn that was cancelled has to end by itself before its agent is ended.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// What is to be done, and what it belongs to.
pub(super) struct Task {
    pub(super) prompt: String,
    pub(super) trace: Option<Trace>,
    /// Who has called whom, this node included.
    pub(super) chain: Vec<String>,
}

/// Where the task is carried out.
pub(super) struct Place {
    pub(super) cwd: PathBuf,
    /// A folder of our own that holds it.
    pub(super) root: PathBuf,
}

/// Carries the task out. When it returns, nothing of the agent is left.
pub(super) async fn work(
    node: &Node,
    Place { cwd, root }: Place,
    task: Task,
    stop: &CancellationToken,
) -> Result<Report, Failure> {
    let engine = node.engine();
    let nobody = || Failure::new(Code::Declined, "nobody works in lent workspaces here");
    let executor = node.config().executor.clone().ok_or_else(nobody)?;
    let template = match engine.agent(&executor) {
        Ok(agent) => agent.template_name.clone(),
        Err(_) => executor,
    };
    let id = uuid::Uuid::new_v4().simple().to_string();
    let name = Name::parse(&format!("lent-{}", &id[..12])).expect("letters and digits are a name");
    let create = Create {
        name: name.clone(),
        template,
        // Its own folder holds what its template brings along, so that nothing of it lands in the workspace.
        overrides: Overrides {
            launch_mode: Some(LaunchMode::OneShot),
            workspace_policy: Some(WorkspacePolicy::Ephemeral),
            // Somebody else's folder: whoever may use the agents of this node may not use this one.
            purpose: Purpose::Passing,
            confinement: Some(confinement(node, cwd.clone(), root)),
            ..Overrides::default()
        },
    };
    engine
        .create(create)
        .await
        .map_err(|error| failed(&error))?;
    let outcome = match is_confined(node, &name) {
        true => {
            let calls = &node.config().calls;
            let _entered = calls.enter(name.as_str(), &task.prompt, &task.chain);
            turn(engine, &name, cwd, task, stop).await
        }
        false => Err(EngineError::NotStarted { name: name.clone() }),
    };
    let destroyed = engine.destroy(name.as_str(), Force::Yes).await;
    if let Err(error) = destroyed {
        tracing::warn!(agent = %name, error = %chain(&error), "an agent of a lent workspace is left");
    }
    let cancelled = || Failure::new(Code::Cancelled, "the task was cancelled");
    let outcome = outcome.map_err(|error| failed(&error))?;
    let outcome = outcome.ok_or_else(cancelled)?;
    match outcome.stop {
        Stop::EndTurn | Stop::MaxTokens | Stop::MaxTurnRequests => Ok(Report {
            summary: outcome.text,
            highlights: Vec::new(),
            notes: (outcome.stop != Stop::EndTurn)
                .then(|| format!("the agent stopped early: {}", outcome.stop.as_str())),
        }),
        Stop::Refusal => Err(Failure::new(Code::TaskFailed, "the agent refused the task")),
        Stop::Cancelled => Err(cancelled()),
        Stop::Failed { message } => Err(Failure::new(Code::TaskFailed, message)),
    }
}

/// Whether the sandbox that was declared holds this agent: it holds processes that last.
fn is_confined(node: &Node, name: &Name) -> bool {
    let has_process = matches!(
        node.engine().sessions().driver(name),
        Err(EngineError::NotStarted { .. })
    );
    node.config().sandbox.is_none() || has_process
}

/// Where the agent's programs run, and what holds them there.
fn confinement(node: &Node, cwd: PathBuf, root: PathBuf) -> Confinement {
    let sandbox = node.config().sandbox.as_ref().map(|sandbox| Walls {
        read: sandbox.read.clone(),
        write: sandbox.write.clone(),
        network: sandbox.network,
    });
    Confinement {
        environment: git_settings(),
        cwd,
        root: Some(root),
        sandbox,
    }
}

/// Numbers and times of files differ here from those at home. With these settings git compares what stays the same,
/// instead of reading every file again, and takes the folder for its own though somebody else's user owns it.
fn git_settings() -> BTreeMap<String, String> {
    let settings = [
        ("core.checkStat", "minimal"),
        ("core.trustctime", "false"),
        ("safe.directory", "*"),
    ];
    let mut variables =
        BTreeMap::from([("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string())]);
    for (number, (key, value)) in settings.into_iter().enumerate() {
        variables.insert(format!("GIT_CONFIG_KEY_{number}"), key.to_owned());
        variables.insert(format!("GIT_CONFIG_VALUE_{number}"), value.to_owned());
    }
    variables
}

/// A turn from its agent's start to its end; nothing if it was stopped on the way.
async fn turn(
    engine: &Engine,
    name: &Name,
    cwd: PathBuf,
    task: Task,
    stop: &CancellationToken,
) -> Result<Option<TurnOutcome>, EngineError> {
    let (session, turn) = tokio::select! { biased;
        // Whoever comes up slowly is not waited for: the agent is destroyed with whatever it was doing.
        () = stop.cancelled() => return Ok(None),
        begun = begin(engine, name, cwd, task) => begun?,
    };
    let sessions = engine.sessions();
    tokio::select! { biased;
        () = stop.cancelled() => {}
        outcome = sessions.outcome(&session, turn, 1) => return outcome.map(Some),
    }
    sessions.cancel(&session).await?;
    let ending = sessions.outcome(&session, turn, 1);
    match tokio::time::timeout(CANCEL_GRACE, ending).await {
        Ok(outcome) => outcome.map(Some),
        Err(_) => Ok(None),
    }
}

/// Starts the agent, opens its session and gives it the task.
async fn begin(
    engine: &Engine,
    name: &Name,
    cwd: PathBuf,
    task: Task,
) -> Result<(String, TurnId), EngineError> {
    if let Err(EngineError::NotStarted { .. }) = engine.sessions().driver(name) {
        engine.start(name.as_str()).await?;
    }
    let params = json!({ "cwd": cwd, "mcpServers": [] }).to_string();
    let session = NativeSession {
        create: CreateSession {
            agent: name.clone(),
            client: Some("delegation".to_owned()),
            idle_ttl: None,
        },
        cwd: Some(cwd),
        open: NativeOpen {
            method: "session/new".to_owned(),
            params: Raw {
                dialect: Dialect::Acp,
                frame: params.into(),
            },
            clash: Clash::default(),
        },
        resume: None,
    };
    let sessions = engine.sessions();
    let session = sessions.create_native(session).await?.session_id;
    let prompt = Prompt {
        text: task.prompt,
        options: TurnOptions {
            trace: task.trace,
            ..TurnOptions::default()
        },
        when_busy: WhenBusy::Queue,
        by: None,
    };
    let turn = sessions.prompt(&session, prompt).await?;
    Ok((session, turn))
}

fn failed(error: &EngineError) -> Failure {
    Failure::new(Code::TaskFailed, chain(error))
}
