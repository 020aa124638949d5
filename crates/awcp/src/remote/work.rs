//! The task itself: a turn of an agent that is made for it, works in the lent workspace, and goes with it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use domain::{
    Name, Trace,
    delegation::{Code, Failure, Report},
    lifecycle::{Force, LaunchMode, WorkspacePolicy},
    session::WhenBusy,
    turn::{Dialect, Raw, Stop},
};
use engine::{
    Clash, Confinement, Create, CreateSession, Engine, EngineError, NativeOpen, NativeSession,
    Overrides, Prompt, Purpose, TurnOptions, TurnOutcome, Walls,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::rounds::Between;
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

/// Carries the task out, and those of the rounds after it. When it returns, nothing of the agent is left.
pub(super) async fn work(
    node: &Node,
    Place { cwd, root }: Place,
    task: Task,
    between: Option<&Between<'_>>,
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
        true => rounds(node, (&name, cwd), task, between, stop).await,
        false => Err(failed(&EngineError::NotStarted { name: name.clone() })),
    };
    let destroyed = engine.destroy(name.as_str(), Force::Yes).await;
    if let Err(error) = destroyed {
        tracing::warn!(agent = %name, error = %chain(&error), "an agent of a lent workspace is left");
    }
    outcome
}

fn cancelled() -> Failure {
    Failure::new(Code::Cancelled, "the task was cancelled")
}

/// What a turn came to, as the host hears it.
fn report(outcome: TurnOutcome) -> Result<Report, Failure> {
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
        exec: sandbox.exec,
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

/// One conversation from its agent's start to the end of its last turn.
async fn rounds(
    node: &Node,
    (name, cwd): (&Name, PathBuf),
    mut task: Task,
    between: Option<&Between<'_>>,
    stop: &CancellationToken,
) -> Result<Report, Failure> {
    let engine = node.engine();
    let session = tokio::select! { biased;
        // Whoever comes up slowly is not waited for: the agent is destroyed with whatever it was doing.
        () = stop.cancelled() => return Err(cancelled()),
        begun = begin(engine, name, cwd) => begun.map_err(|error| failed(&error))?,
    };
    loop {
        let calls = &node.config().calls;
        let entered = calls.enter(name.as_str(), &task.prompt, &task.chain);
        let outcome = turn(engine, &session, &task, stop).await;
        drop(entered);
        let outcome = outcome.map_err(|error| failed(&error))?;
        let report = report(outcome.ok_or_else(cancelled)?)?;
        let next = match between {
            None => None,
            Some(between) => between.next(&report, stop).await?,
        };
        match next {
            None => return Ok(report),
            Some(prompt) => task.prompt = prompt,
        }
    }
}

/// A turn; nothing if it was stopped on the way.
async fn turn(
    engine: &Engine,
    session: &str,
    task: &Task,
    stop: &CancellationToken,
) -> Result<Option<TurnOutcome>, EngineError> {
    let sessions = engine.sessions();
    let prompt = Prompt {
        text: task.prompt.clone(),
        options: TurnOptions {
            trace: task.trace,
            ..TurnOptions::default()
        },
        when_busy: WhenBusy::Queue,
        by: None,
    };
    let turn = tokio::select! { biased;
        () = stop.cancelled() => return Ok(None),
        turn = sessions.prompt(session, prompt) => turn?,
    };
    tokio::select! { biased;
        () = stop.cancelled() => {}
        outcome = sessions.outcome(session, turn, 1) => return outcome.map(Some),
    }
    sessions.cancel(session).await?;
    let ending = sessions.outcome(session, turn, 1);
    match tokio::time::timeout(CANCEL_GRACE, ending).await {
        Ok(outcome) => outcome.map(Some),
        Err(_) => Ok(None),
    }
}

/// Starts the agent and opens its session.
async fn begin(engine: &Engine, name: &Name, cwd: PathBuf) -> Result<String, EngineError> {
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
    Ok(sessions.create_native(session).await?.session_id)
}

fn failed(error: &EngineError) -> Failure {
    Failure::new(Code::TaskFailed, chain(error))
}
