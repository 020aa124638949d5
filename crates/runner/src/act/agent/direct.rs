//! An agent that exists for the step alone: a program in print mode, a model endpoint, a program that speaks ACP.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use domain::turn::{Answer, Stop};
use engine::{
    About, AcpProcess, AskRequest, Driver, DriverFuture, DriverSurroundings, EndpointAgent,
    EventLog, OpenSession, Page, PrintProgram, SessionSink, Turn, chain,
};
use platform::{Group, Spawn, process::Stream};
use serde_json::{Map, Value};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;
use workflow::{AgentAction, Provider, SessionUse};

use super::{Act, Answered, STOPPED, Spoken, WIND_DOWN, at, options};
use crate::{act::context::Context, servers::Takes};

/// What a program has to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Questions of an agent that wait; it asks one at a time.
const ASKS_MAX: usize = 16;

/// Events taken at a time.
const PAGE: usize = 256;

/// Providers that are run once for a prompt, and what their programs are called.
pub(super) const PROGRAMS: [(&str, &str); 6] = [
    ("claude", "claude"),
    ("codex", "codex"),
    ("gemini", "gemini"),
    ("github_copilot", "copilot"),
    ("opencode", "opencode"),
    ("qwen", "qwen"),
];

/// The backend that a provider's name stands for.
pub(super) fn backend(provider: &str) -> Option<&'static str> {
    Some(match provider {
        "claude" | "claude-code" => "claude-code",
        "codex" => "codex",
        "gemini" => "gemini",
        "qwen" => "qwen",
        "github_copilot" | "copilot" => "copilot",
        "opencode" => "opencode",
        "openai_compatible" => "openai-compatible",
        _ => return None,
    })
}

pub(super) async fn speak(
    act: &Act,
    action: &AgentAction,
    context: Context,
) -> Result<Spoken, String> {
    let (driver, process) = connect(act, action).await?;
    let patience = process.as_ref().map(|_| WIND_DOWN);
    let spoken = converse(act, action, context, &*driver, patience).await;
    drop(driver);
    if let Some(process) = process {
        process.end(GRACE).await;
    }
    spoken
}

type Connected = (Arc<dyn Driver>, Option<Group>);

async fn connect(act: &Act, action: &AgentAction) -> Result<Connected, String> {
    let around = act.scene.surroundings(act.tag());
    let name = match &action.provider {
        Provider::Acp(words) => return start(act, words, around).await,
        Provider::Known(name)
        | Provider::Named(name)
        | Provider::Template(name)
        | Provider::Agent(name) => name,
    };
    let backend = backend(name).ok_or_else(|| format!("there is no driver for {name} here"))?;
    let model = text(&action.options, "model");
    let driver = if backend == "openai-compatible" {
        let agent = EndpointAgent {
            backend: backend.to_owned(),
            config: endpoint(&action.options, &around)?,
            model,
            around,
        };
        (act.scene.node.drivers.endpoint.make(agent)).map_err(|error| chain(&error))?
    } else {
        let program = PrintProgram {
            backend: backend.to_owned(),
            program: text(&action.options, "executable").map(PathBuf::from),
            args: Some(Vec::new()),
            model,
            around,
        };
        let driver = (act.scene.node.drivers.print)(program);
        driver.ok_or_else(|| format!("{name} cannot be run once for a prompt"))?
    };
    Ok((driver, None))
}

/// The options of the format in the words of the backend.
fn endpoint(
    options: &Map<String, Value>,
    around: &DriverSurroundings,
) -> Result<Map<String, Value>, String> {
    let mut config = Map::new();
    for (theirs, ours) in [
        ("base_url", "baseUrl"),
        ("temperature", "temperature"),
        ("top_p", "topP"),
        ("max_tokens", "maxTokens"),
        ("max_completion_tokens", "maxCompletionTokens"),
        ("api_key_env", "apiKeyEnv"),
    ] {
        if let Some(value) = options.get(theirs) {
            config.insert(ours.to_owned(), value.clone());
        }
    }
    if !config.contains_key("baseUrl") {
        let variable = around
            .environment
            .get(std::ffi::OsStr::new("OPENAI_BASE_URL"));
        let url = variable.ok_or("openai_compatible needs options.base_url or OPENAI_BASE_URL")?;
        let url = Value::String(url.to_string_lossy().into_owned());
        config.insert("baseUrl".to_owned(), url);
    }
    if options.contains_key("api_key") {
        return Err("options.api_key would put the key into the file; put it into OPENAI_API_KEY, or name a variable in options.api_key_env".to_owned());
    }
    Ok(config)
}

async fn start(
    act: &Act,
    words: &[String],
    around: DriverSurroundings,
) -> Result<Connected, String> {
    let (program, args) = words.split_first().ok_or("acp: needs a command")?;
    let owner = around.owner.tag(&act.tag());
    let owner = owner.map_err(|error| error.to_string())?;
    let spawn = Spawn {
        args: args.iter().map(OsString::from).collect(),
        env: around.environment.clone(),
        stdin: Stream::Piped,
        stdout: Stream::Piped,
        ..Spawn::new(program, &act.scene.cwd, owner)
    };
    let guardian = around.guardian.clone();
    let spawned = around
        .tasks
        .spawn_blocking(move |_| spawn.spawn(&guardian))
        .await;
    let (group, pipes) = spawned
        .map_err(|_| "the program is shutting down".to_owned())?
        .map_err(|error| chain(&error))?;
    let (Some(stdin), Some(stdout)) = (pipes.stdin, pipes.stdout) else {
        return Err("the agent has no standard streams".to_owned());
    };
    let process = AcpProcess {
        stdin,
        stdout,
        around,
    };
    let connected = tokio::select! { biased;
        () = act.stop.cancelled() => Err(STOPPED.to_owned()),
        connected = (act.scene.node.drivers.acp)(process) => connected.map_err(|error| chain(&error)),
    };
    match connected {
        Ok(driver) => Ok((driver, Some(group))),
        Err(why) => {
            group.end(GRACE).await;
            Err(why)
        }
    }
}

async fn converse(
    act: &Act,
    action: &AgentAction,
    context: Context,
    driver: &dyn Driver,
    patience: Option<Duration>,
) -> Result<Spoken, String> {
    let log = Arc::new(EventLog::new(1));
    let (asks, questions) = mpsc::channel(ASKS_MAX);
    let (servers, takes) = (&act.scene.servers, takes(action, driver));
    let open = OpenSession {
        cwd: folder(act, action),
        mcp_servers: match takes {
            // Its driver is told of all of them in one place.
            Takes::Sorted => Vec::new(),
            Takes::Declared(_) | Takes::None => servers.programs.clone(),
        },
        resume: match &action.session {
            SessionUse::Once | SessionUse::Keep => None,
            SessionUse::Continue { session } => Some(session.clone()),
        },
        sink: SessionSink::new(log.clone(), asks),
    };
    let (words, left_out) = match takes {
        Takes::Sorted => servers.all_for(&called(action), &takes),
        Takes::Declared(_) | Takes::None => servers.remote_for(&called(action), &takes),
    };
    for text in left_out {
        act.audience.notice(text);
    }
    let opening = match words {
        Some(words) => driver.open_with(open, words),
        None => driver.open(open),
    };
    let opened = tokio::select! { biased;
        () = act.stop.cancelled() => return Err(STOPPED.to_owned()),
        opened = opening => opened.map_err(|error| chain(&error))?,
    };
    let cancel = CancellationToken::new();
    let turn = driver.turn(Turn {
        session: opened.id.clone(),
        prompt: context.prompt,
        options: options(act, action, context.system),
        cancel: cancel.clone(),
    });
    let mut answered = Answered::default();
    let listening = Listening {
        act,
        log: &log,
        questions,
        cancel,
        patience,
    };
    let stop = listening.listen(turn, &mut answered).await;
    // A process of the step's own ends with it; nothing has to be said to one that no longer listens.
    if !act.stop.is_cancelled() || patience.is_none() {
        driver.close(&opened.id).await;
    }
    Ok(Spoken {
        stop: stop.map_err(|error| chain(&error))?,
        text: answered.text,
        is_cut: answered.is_cut,
        usage: answered.usage,
        session: Some(opened.id),
    })
}

/// A turn on its way.
struct Listening<'a> {
    act: &'a Act,
    log: &'a EventLog,
    questions: mpsc::Receiver<AskRequest>,
    /// Tells the agent to end its turn.
    cancel: CancellationToken,
    /// How long it may take over that, where its process can be ended instead.
    patience: Option<Duration>,
}

impl Listening<'_> {
    /// Passes on what happens until the turn is over, which it may be while a question is open: then nobody is asked any
    /// more.
    async fn listen(
        mut self,
        mut turn: engine::DriverFuture<'_, Result<Stop, engine::DriverError>>,
        answered: &mut Answered,
    ) -> Result<Stop, engine::DriverError> {
        let act = self.act;
        let mut next = 1;
        let mut asking: Option<DriverFuture<'_, ()>> = None;
        let mut given_up = None;
        let stop = loop {
            next = pass_on(act, self.log, next, answered);
            tokio::select! { biased;
                () = act.stop.cancelled(), if !self.cancel.is_cancelled() => {
                    self.cancel.cancel();
                    asking = None;
                    given_up = self.patience.map(|patience| Instant::now() + patience);
                }
                stop = &mut turn => break stop,
                () = asked(&mut asking) => asking = None,
                Some(question) = self.questions.recv(), if asking.is_none() => {
                    next = pass_on(act, self.log, next, answered);
                    asking = Some(Box::pin(ask(act, question)));
                }
                () = self.log.newer_than(next - 1) => {}
                () = at(given_up) => break Ok(Stop::Cancelled),
            }
        };
        drop(asking);
        pass_on(act, self.log, next, answered);
        act.audience.silence(&act.path);
        stop
    }
}

/// Asks whoever watches the run, until the agent does not want to know any more.
async fn ask(act: &Act, question: AskRequest) {
    let AskRequest {
        kind,
        raw,
        mut answer,
    } = question;
    let given = tokio::select! { biased;
        () = act.stop.cancelled() => Answer::Declined,
        () = answer.closed() => return,
        given = act.audience.ask_inner(&act.path, kind, raw) => given,
    };
    let _ = answer.send(given); // The agent may have given up.
}

/// The end of what is asked; never, where nothing is.
async fn asked(asking: &mut Option<DriverFuture<'_, ()>>) {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

fn pass_on(act: &Act, log: &EventLog, mut next: u64, answered: &mut Answered) -> u64 {
    while let Page::Events(events) = log.read(next, PAGE) {
        let Some(last) = events.last() else {
            break;
        };
        next = last.seq + 1;
        for event in &events {
            answered.hear(act, &event.kind);
        }
        // Nobody reads them again, and the driver waits while too many are kept.
        log.stored(last.seq);
    }
    next
}

/// How the agent of the step is told of servers behind an address.
fn takes(action: &AgentAction, driver: &dyn Driver) -> Takes {
    match &action.provider {
        Provider::Acp(_) => driver
            .said(About::Agent)
            .map_or(Takes::None, Takes::Declared),
        Provider::Known(name)
        | Provider::Named(name)
        | Provider::Template(name)
        | Provider::Agent(name) => match backend(name) {
            None => Takes::None,
            Some(_) => Takes::Sorted,
        },
    }
}

/// The agent of the step, in words.
fn called(action: &AgentAction) -> String {
    match &action.provider {
        Provider::Acp(words) => words.first().cloned().unwrap_or_default(),
        Provider::Known(name)
        | Provider::Named(name)
        | Provider::Template(name)
        | Provider::Agent(name) => name.clone(),
    }
}

fn folder(act: &Act, action: &AgentAction) -> PathBuf {
    match &action.dir {
        Some(dir) => act.scene.cwd.join(dir),
        None => act.scene.cwd.clone(),
    }
}

fn text(options: &Map<String, Value>, key: &str) -> Option<String> {
    options.get(key).and_then(Value::as_str).map(str::to_owned)
}
