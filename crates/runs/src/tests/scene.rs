//! A node with an agent that plays a script, and a plain client of its API.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::Extension;
use domain::{
    Name,
    chain::Ourselves,
    run::Limits,
    turn::{
        Answer, AskKind, AskOption, EventKind, Location, OptionKind, Stop, ToolCall, ToolKind,
        ToolStatus,
    },
};
use engine::{
    Caller, Calls, Continuity, Create, Driver, DriverError, DriverFuture, Drivers, EndpointDrivers,
    Engine, EngineConfig, LauncherMode, OpenSession, Opened, Overrides, SessionSink, Turn,
};
use platform::{Guardian, Owner, Tasks, owner};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::GUARDIAN_MARK;
use crate::{Capabilities, Dropbox, ExchangeConfig, PeerDriver, PublicAgents, Runs, RunsConfig};

/// How long a test waits for what should happen at once.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) const NODE: &str = "a797ca02-11b5-4080-9263-a31d6d30cba7";

/// Where an agent is that plays the script.
pub(super) const SCRIPT: &str = "http://script.example";

/// Plays what the prompt says, a line at a time.
#[derive(Debug, Default)]
pub(super) struct Script {
    sessions: Mutex<HashMap<String, (SessionSink, PathBuf)>>,
    /// Turns of each conversation, open or not.
    counts: Mutex<HashMap<String, usize>>,
    pub(super) turns: AtomicUsize,
}

impl Script {
    async fn play(&self, turn: Turn) -> Result<Stop, DriverError> {
        self.turns.fetch_add(1, Ordering::SeqCst);
        let (sink, cwd) = self.sessions.lock().unwrap()[&turn.session].clone();
        let count = {
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry(turn.session.clone()).or_default();
            *count += 1;
            *count
        };
        let say = |text: String| sink.emit(EventKind::Text { text }, None);
        for line in turn.prompt.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "say" => say(rest.to_owned()),
                "think" => sink.emit(
                    EventKind::Thought {
                        text: rest.to_owned(),
                    },
                    None,
                ),
                "count" => say(format!("turn {count}")),
                "long" => say("x".repeat(rest.parse().unwrap())),
                "write" => std::fs::write(cwd.join(rest), format!("{rest}!")).unwrap(),
                // As a tool that says what it works on.
                "touch" => {
                    std::fs::write(cwd.join(rest), format!("{rest}!")).unwrap();
                    let path = cwd.join(rest).to_string_lossy().into_owned();
                    let mut tool = tool("touch", ToolKind::Edit);
                    tool.locations = vec![Location { path, line: None }];
                    sink.emit(EventKind::ToolCall(tool), None);
                }
                "fail" => {
                    return Ok(Stop::Failed {
                        message: rest.to_owned(),
                    });
                }
                "wait" => {
                    turn.cancel.cancelled().await;
                    return Ok(Stop::Cancelled);
                }
                "ask" | "delete" | "edit" => {
                    let kind = question(word, rest);
                    let answer = tokio::select! {
                        () = turn.cancel.cancelled() => return Ok(Stop::Cancelled),
                        answer = sink.ask(kind, None) => answer,
                    };
                    say(match answer {
                        Answer::Text { text } => format!("heard {text}"),
                        Answer::Option { id } => format!("chose {id}"),
                        Answer::Declined => "declined".to_owned(),
                    });
                }
                "The" if rest.starts_with("answer is") => say("got it ".to_owned()),
                _ => say(format!("<{line}>")),
            }
        }
        Ok(Stop::EndTurn)
    }
}

fn tool(title: &str, kind: ToolKind) -> ToolCall {
    ToolCall {
        id: "t".to_owned(),
        title: title.to_owned(),
        name: None,
        kind,
        status: ToolStatus::Pending,
        locations: Vec::new(),
        content: Vec::new(),
        input: None,
        output: None,
    }
}

fn question(word: &str, rest: &str) -> AskKind {
    if word == "ask" {
        return AskKind::Question {
            text: rest.to_owned(),
            schema: None,
        };
    }
    let option = |id: &str, kind| AskOption {
        id: id.to_owned(),
        name: id.to_owned(),
        kind,
    };
    let kind = match word {
        "delete" => ToolKind::Delete,
        _ => ToolKind::Edit,
    };
    AskKind::Permission {
        tool: tool(&format!("{word} {rest}"), kind),
        options: vec![
            option("allow", OptionKind::AllowOnce),
            option("reject", OptionKind::RejectOnce),
        ],
        destructive: false,
    }
}

/// The script as a driver; several agents may share one.
#[derive(Debug, Clone, Default)]
pub(super) struct Scripted(pub(super) Arc<Script>);

impl Driver for Scripted {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        let id = open
            .resume
            .clone()
            .unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let mut sessions = self.0.sessions.lock().unwrap();
        sessions.insert(id.clone(), (open.sink, open.cwd));
        let continuity = match open.resume {
            Some(_) => Continuity::Resumed,
            None => Continuity::Fresh,
        };
        Box::pin(std::future::ready(Ok(Opened { id, continuity })))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.0.play(turn))
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        self.0.sessions.lock().unwrap().remove(session);
        Box::pin(std::future::ready(()))
    }
}

/// What a test wants to be different.
pub(super) struct Wish {
    pub(super) limits: Limits,
    pub(super) session_ttl: Duration,
    pub(super) quota: u64,
    pub(super) object_max: u64,
    pub(super) node: Ourselves,
    pub(super) history_from: Vec<String>,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            limits: Limits {
                work: PATIENCE,
                answer: PATIENCE,
            },
            session_ttl: PATIENCE,
            quota: 64 * 1024 * 1024,
            object_max: 32 * 1024 * 1024,
            node: Ourselves {
                id: NODE.to_owned(),
                name: "nova9".to_owned(),
            },
            history_from: Vec::new(),
        }
    }
}

/// A node that answers.
pub(super) struct Scene {
    pub(super) home: Arc<tempfile::TempDir>,
    pub(super) engine: Engine,
    pub(super) runs: Runs,
    pub(super) tasks: Tasks,
    pub(super) url: String,
    pub(super) script: Scripted,
    pub(super) http: reqwest::Client,
}

impl Scene {
    pub(super) async fn new() -> Self {
        Self::with(Wish::default()).await
    }

    pub(super) async fn with(wish: Wish) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        Self::at(home, wish, Caller::owner()).await
    }

    /// The same home after the daemon has gone.
    pub(super) async fn restarted(self, wish: Wish) -> Self {
        let home = self.home.clone();
        self.tasks.cancel();
        let _ = self.tasks.drain(PATIENCE).await;
        drop(self);
        Self::at(home, wish, Caller::owner()).await
    }

    /// The same home after the daemon was killed: nothing of it could say goodbye.
    pub(super) async fn killed(self, wish: Wish) -> Self {
        let copy = Arc::new(tempfile::tempdir().unwrap());
        copy_all(self.home.path(), copy.path());
        // What is left of it goes on in a home that nobody looks at, as a process that is frozen.
        std::mem::forget(self);
        Self::at(copy, wish, Caller::owner()).await
    }

    pub(super) async fn at(home: Arc<tempfile::TempDir>, wish: Wish, caller: Caller) -> Self {
        let tasks = Tasks::new();
        let script = Scripted::default();
        let calls = Calls::new(wish.node.clone());
        let engine = engine(&home, &tasks, script.clone(), calls.clone()).await;
        let runs = Runs::open(config(&home, wish, calls), engine.clone(), tasks.child())
            .await
            .unwrap();
        let url = serve(&runs, caller, &tasks).await;
        let scene = Self {
            home,
            engine,
            runs,
            tasks,
            url,
            script,
            http: reqwest::Client::builder()
                .timeout(PATIENCE)
                .build()
                .unwrap(),
        };
        if scene.engine.agent("echo").is_err() {
            scene.agent("echo", SCRIPT).await;
        }
        scene
    }

    /// The same node as another caller sees it.
    pub(super) async fn as_caller(&self, name: &str) -> Self {
        let caller = Caller {
            name: name.to_owned(),
            ..Caller::owner()
        };
        Self {
            home: self.home.clone(),
            engine: self.engine.clone(),
            runs: self.runs.clone(),
            tasks: self.tasks.clone(),
            url: serve(&self.runs, caller, &self.tasks).await,
            script: self.script.clone(),
            http: self.http.clone(),
        }
    }

    /// An agent that asks `url`, or plays the script.
    pub(super) async fn agent(&self, name: &str, url: &str) {
        // What plays the script stands for a model: it makes sense of whatever it is told.
        let backend = match url {
            SCRIPT => "openai-compatible",
            _ => "peer",
        };
        let template = json!({
            "name": name, "version": "1.0.0", "description": format!("the agent {name}"),
            "backend": { "type": backend, "config": { "url": url, "baseUrl": url, "agent": "echo" } },
            "domainContext": { "skills": [] },
        });
        let folder = self.home.path().join("configs/templates");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{name}.json"));
        std::fs::write(&path, template.to_string()).unwrap();
        self.engine.load_template(path).await.unwrap();
        let create = Create {
            name: Name::parse(name).unwrap(),
            template: name.to_owned(),
            overrides: Overrides::default(),
        };
        self.engine.create(create).await.unwrap();
    }

    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> (StatusCode, Value) {
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        let bytes = response.bytes().await.unwrap();
        (
            status,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        )
    }

    pub(super) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// A run in a given mode; more fields of the body in `more`.
    pub(super) async fn run(&self, mode: &str, prompt: &str, more: Value) -> (StatusCode, Value) {
        self.post("/runs", body(mode, prompt, more)).await
    }

    /// The events of a streamed answer: word and data.
    pub(super) async fn stream(&self, path: &str, body: Value) -> Vec<(String, Value)> {
        let request = self.http.post(format!("{}{path}", self.url)).json(&body);
        let text = request.send().await.unwrap().text().await.unwrap();
        sse(&text)
    }

    /// Waits until a run has this status.
    pub(super) async fn until(&self, run: &str, status: &str) -> Value {
        let waiting = async {
            loop {
                let (_, run) = self.get(&format!("/runs/{run}")).await;
                if run["status"] == status {
                    return run;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap()
    }
}

pub(super) fn body(mode: &str, prompt: &str, more: Value) -> Value {
    let mut body = json!({
        "agent_name": "echo", "mode": mode,
        "input": [{ "role": "user", "parts": [{ "content_type": "text/plain", "content": prompt }] }],
    });
    if let Some(more) = more.as_object() {
        for (key, value) in more {
            body[key] = value.clone();
        }
    }
    body
}

pub(super) fn sse(text: &str) -> Vec<(String, Value)> {
    let field = |block: &str, name: &str| {
        let start = format!("{name}: ");
        block
            .lines()
            .find_map(|line| line.strip_prefix(&start).map(str::to_owned))
    };
    text.split("\n\n")
        .filter_map(|block| {
            let data = field(block, "data")?;
            Some((field(block, "event")?, serde_json::from_str(&data).unwrap()))
        })
        .collect()
}

/// All words of a run's output.
pub(super) fn output(run: &Value) -> String {
    let messages = run["output"].as_array().unwrap().iter();
    let parts = messages.flat_map(|message| message["parts"].as_array().unwrap());
    parts
        .filter_map(|part| part["content"].as_str())
        .collect::<Vec<_>>()
        .join("|")
}

async fn serve(runs: &Runs, caller: Caller, tasks: &Tasks) -> String {
    let router = runs.router().layer(Extension(caller));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tasks.spawn(|stop| async move {
        let serving = axum::serve(listener, router);
        tokio::select! {
            () = stop.cancelled() => {}
            served = serving => served.unwrap(),
        }
    });
    url
}

fn copy_all(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_all(&entry.path(), &target),
            false => assert!(std::fs::copy(entry.path(), target).is_ok()),
        }
    }
}

fn config(home: &tempfile::TempDir, wish: Wish, calls: Calls) -> RunsConfig {
    let exchange = ExchangeConfig {
        quota: wish.quota,
        object_max: wish.object_max,
        dropbox: Some(Dropbox {
            dir: home.path().join("dropbox"),
            uri: Some("smb://nas.local/agent-exchange/".to_owned()),
        }),
        ..ExchangeConfig::folder(home.path().join("exchange"))
    };
    RunsConfig {
        description: "a phone".to_owned(),
        public: PublicAgents::All,
        default_agent: Some("echo".to_owned()),
        persistent: std::collections::BTreeSet::new(),
        scheme: "http",
        public_url: None,
        limits: wish.limits,
        session_ttl: wish.session_ttl,
        history_from: wish.history_from,
        capabilities: Capabilities::none(),
        exchange,
        calls,
    }
}

async fn engine(home: &tempfile::TempDir, tasks: &Tasks, script: Scripted, calls: Calls) -> Engine {
    let owner = Owner::starting(&format!("test-{}", owner::fresh_id())).unwrap();
    let args = ["--exact", "tests::role_of_the_guardian", GUARDIAN_MARK];
    let executable = std::env::current_exe().unwrap();
    let guardian = Guardian::spawn(&executable, &args, &owner).unwrap();
    let store = store::Store::open(&home.path().join("state.db"), store::Durability::default());
    let folder = |name: &str| {
        let path = home.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let config = EngineConfig {
        configs_dir: folder("configs"),
        instances_dir: folder("instances"),
        agent_logs_dir: folder("logs"),
        executable,
        environment: BTreeMap::new(),
        launcher: LauncherMode::Real,
        stop_grace: Duration::from_secs(1),
        durability: platform::files::Durability::default(),
        journal_age: Duration::from_secs(3600),
        journal_lines: 10_000,
        policy: domain::permission::Policy::default(),
    };
    let drivers = Drivers {
        acp: |_| unreachable!("no test starts a process"),
        print: |_| None,
        endpoint: EndpointDrivers::new(move |agent| {
            if agent.config["url"] == SCRIPT {
                return Ok(Arc::new(script.clone()));
            }
            PeerDriver::make(&agent, calls.clone())
        }),
    };
    Engine::open(
        config,
        store.unwrap(),
        guardian,
        owner,
        tasks.child(),
        drivers,
    )
    .await
    .unwrap()
}
