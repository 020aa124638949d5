//! A node for runs: a project folder, a store, a guardian, and an agent that plays the part it is given.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use domain::turn::{
    AskKind, AskOption, EventKind, OptionKind, Stop, ToolCall, ToolKind, ToolStatus,
};
use engine::{
    AcpProcess, AskRequest, Connecting, Continuity, Driver, DriverError, DriverFuture,
    DriverSurroundings, Drivers, EndpointAgent, EndpointDrivers, EventLog, OpenSession, Opened,
    Page, Records, SessionSink, Turn, TurnOptions,
};
use platform::{Guardian, Owner, OwnerScope, Tasks, owner, process::ChildStdout};
use serde_json::{Map, Value, json};
use store::{Durability, Store};
use tempfile::TempDir;
use tokio::{io::AsyncReadExt, sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use workflow::{Finish, Outcome};

use crate::{
    Audience, Choices, Execution, History, Order, Progress, RunState, Servers, Shelf, StartError,
    Surroundings, TakenUp,
};

pub(super) const GUARDIAN_MARK: &str = "mark-of-the-guardian";

/// How long a test waits for what should happen at once, on a machine that is busy with others.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn patiently<T>(future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.expect("it takes too long")
}

pub(super) struct Scene {
    folder: TempDir,
    pub(super) node: Surroundings,
}

impl Scene {
    pub(super) fn new() -> Self {
        Self::with(&[])
    }

    /// With these variables beside those that every program needs.
    pub(super) fn with(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        std::fs::create_dir_all(project.join(".agentcraft/workflows")).unwrap();
        let owner = Owner::starting(&format!("test-{}", owner::fresh_id())).unwrap();
        let exe = std::env::current_exe().unwrap();
        let role = ["--exact", "tests::role_of_the_guardian", GUARDIAN_MARK];
        let around = DriverSurroundings {
            tasks: Tasks::new(),
            guardian: Guardian::spawn(&exe, &role, &owner).unwrap(),
            owner,
            agent: "tester".to_owned(),
            workspace: project,
            environment: BTreeMap::new(),
            start_timeout: PATIENCE,
        };
        let node = Surroundings {
            around,
            drivers: Drivers {
                acp: connect,
                print: |_| None,
                endpoint: EndpointDrivers::none(),
            },
            engine: Arc::default(),
            elsewhere: None,
            records: records(&folder.path().join("home")),
            folder: folder.path().join("home/runs"),
            shelf: Shelf::default(),
            secret_names: Vec::new(),
            user_home: None,
        };
        let scene = Self { folder, node };
        Self {
            node: scene.seen_with(variables),
            ..scene
        }
    }

    /// The same node as somebody with other variables sees it.
    pub(super) fn seen_with(&self, variables: &[(&str, &str)]) -> Surroundings {
        let mut node = self.node.clone();
        let path = ("PATH", "/usr/bin:/bin");
        let variables = variables.iter().copied().chain([path]);
        node.around.environment = variables
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        node
    }

    pub(super) fn project(&self) -> &Path {
        &self.node.around.workspace
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.project().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.project().join(name)).unwrap_or_default()
    }

    pub(super) fn workflow(&self, name: &str, states: &str) {
        let text = format!("name: {name}\n{states}");
        self.write(&format!(".agentcraft/workflows/{name}.yaml"), &text);
    }

    /// Waits until a file of the project has these lines, in whatever order.
    pub(super) async fn until_file(&self, name: &str, lines: &[&str]) {
        patiently(async {
            loop {
                if sorted(&self.read(name)) == lines {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }

    /// Waits until a run is in that state.
    pub(super) async fn until_state(&self, id: &str, state: RunState) {
        patiently(async {
            while self.history().get(id).await.unwrap().unwrap().state != state {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }

    /// Begins a run that is worked on in a task.
    pub(super) async fn begin(&self, name: &str, inputs: Value) -> Running {
        let watcher = Watcher::new(&self.node);
        let execution = self.prepare(name, inputs, &watcher).await;
        Running::of(execution, watcher)
    }

    /// A run that has begun and that nobody drives.
    pub(super) async fn prepared(&self, name: &str, inputs: Value) -> Execution {
        self.prepare(name, inputs, &Watcher::new(&self.node)).await
    }

    async fn prepare(&self, name: &str, inputs: Value, watcher: &Watcher) -> Execution {
        let order = Order {
            cwd: self.project().to_owned(),
            servers: Servers::default(),
            choices: Choices::default(),
            audience: watcher.audience.clone(),
            parent: None,
            trace: None,
            call_stack: Vec::new(),
            talk: None,
            earlier: None,
        };
        let found = self.node.shelf.find(self.project(), name).unwrap();
        let inputs = match inputs {
            Value::Object(inputs) => inputs,
            _ => Map::new(),
        };
        let prepared = Execution::prepare(&self.node, &found, inputs, order).await;
        prepared.unwrap()
    }

    /// Runs it to its end.
    pub(super) async fn run(&self, name: &str, inputs: Value) -> (Finish, Watcher) {
        let running = self.begin(name, inputs).await;
        running.end().await
    }

    /// The node as it is found after everything on it was killed at this moment: a copy of what it had written down.
    pub(super) async fn killed(&mut self, running: Running) {
        let home = self.folder.path().join("home");
        let copy = self
            .folder
            .path()
            .join(format!("after-{}", owner::fresh_id()));
        copy_folder(&home, &copy);
        running.driving.abort();
        let tasks = &self.node.around.tasks;
        tasks.cancel();
        let _ = tasks.drain(PATIENCE).await; // Whatever still runs is killed with the guardian.
        let fresh = Self::new();
        self.node.around.tasks = fresh.node.around.tasks;
        self.node.around.guardian = fresh.node.around.guardian;
        self.node.around.owner = fresh.node.around.owner;
        self.node.records = records(&copy);
        self.node.folder = copy.join("runs");
        self.history().orphan_all().await;
    }

    pub(super) fn history(&self) -> History {
        History::new(self.node.records.clone())
    }

    pub(super) async fn resume(&self, id: &str) -> Result<Running, StartError> {
        Self::resume_on(&self.node, id).await
    }

    pub(super) async fn resume_on(node: &Surroundings, id: &str) -> Result<Running, StartError> {
        let watcher = Watcher::new(node);
        let taken_up = TakenUp::going_on(watcher.audience.clone());
        let resumed = Execution::resume(node, id, taken_up).await?;
        Ok(Running::of(resumed, watcher))
    }

    /// The driver of an agent that runs workflows, with this in its template.
    pub(super) fn keeper(&self, config: Value) -> Result<Arc<dyn Driver>, DriverError> {
        let agent = EndpointAgent {
            backend: "workflow".to_owned(),
            config: config.as_object().cloned().unwrap_or_default(),
            model: None,
            around: self.node.around.clone(),
        };
        crate::driver(&agent, self.node.clone())
    }

    /// Processes that were started and still run.
    pub(super) fn left(&self) -> usize {
        owner::find(&OwnerScope::home(&self.node.around.owner)).len()
    }
}

fn records(home: &Path) -> Records {
    std::fs::create_dir_all(home).unwrap();
    Records::new(Store::open(&home.join("runs.db"), Durability::None).unwrap())
}

fn copy_folder(from: &Path, to: &PathBuf) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy_folder(&entry.path(), &target),
            kind if kind.is_file() => drop(std::fs::copy(entry.path(), target).unwrap()),
            _ => {}
        }
    }
}

pub(super) fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Whoever watches a run.
pub(super) struct Watcher {
    pub(super) log: Arc<EventLog>,
    pub(super) asks: mpsc::Receiver<AskRequest>,
    pub(super) audience: Audience,
}

impl Watcher {
    fn new(node: &Surroundings) -> Self {
        let log = Arc::new(EventLog::new(1));
        let (sender, asks) = mpsc::channel(16);
        let audience = Audience::new(SessionSink::new(log.clone(), sender), node.mask());
        Self {
            log,
            asks,
            audience,
        }
    }

    pub(super) fn told(&self) -> Vec<EventKind> {
        told(&self.log)
    }
}

pub(super) fn told(log: &EventLog) -> Vec<EventKind> {
    match log.read(1, 10_000) {
        Page::Events(events) => events.iter().map(|event| event.kind.clone()).collect(),
        other => panic!("{other:?}"),
    }
}

/// A run that a task works on.
pub(super) struct Running {
    pub(super) id: String,
    pub(super) watcher: Watcher,
    pub(super) cancel: CancellationToken,
    driving: JoinHandle<Result<Progress, StartError>>,
}

impl Running {
    fn of(mut execution: Execution, watcher: Watcher) -> Self {
        let cancel = CancellationToken::new();
        let (id, stop) = (execution.id().to_owned(), cancel.clone());
        let driving = tokio::spawn(async move { execution.drive(&stop).await });
        Self {
            id,
            watcher,
            cancel,
            driving,
        }
    }

    pub(super) async fn end(self) -> (Finish, Watcher) {
        match patiently(self.driving).await.unwrap().unwrap() {
            Progress::Finished(finish) => (finish, self.watcher),
            Progress::Waiting(asked) => panic!("it waits: {asked:?}"),
        }
    }

    pub(super) async fn succeeds(self) -> String {
        let (finish, _) = self.end().await;
        assert_eq!(finish.outcome, Outcome::Succeeded, "{}", finish.message);
        finish.message
    }
}

/// A conversation with an agent that runs workflows.
pub(super) struct Talking {
    keeper: Arc<dyn Driver>,
    session: String,
    pub(super) log: Arc<EventLog>,
    _asks: mpsc::Receiver<AskRequest>,
}

impl Talking {
    pub(super) async fn with(keeper: Arc<dyn Driver>, cwd: &Path) -> Self {
        let log = Arc::new(EventLog::new(1));
        let (sender, asks) = mpsc::channel(16);
        let open = OpenSession {
            cwd: cwd.to_owned(),
            mcp_servers: Vec::new(),
            resume: None,
            sink: SessionSink::new(log.clone(), sender),
        };
        let session = keeper.open(open).await.unwrap().id;
        Self {
            keeper,
            session,
            log,
            _asks: asks,
        }
    }

    pub(super) async fn say(&self, prompt: &str) -> Stop {
        let turn = Turn {
            session: self.session.clone(),
            prompt: prompt.to_owned(),
            options: TurnOptions::default(),
            cancel: CancellationToken::new(),
        };
        patiently(self.keeper.turn(turn)).await.unwrap()
    }

    pub(super) fn words(&self) -> String {
        let texts = told(&self.log).into_iter().filter_map(|kind| match kind {
            EventKind::Text { text } => Some(text),
            _ => None,
        });
        texts.collect()
    }
}

/// How the agents of steps behave; a variable of the run says it.
fn connect(process: AcpProcess) -> Connecting {
    let part = process.around.environment.get(std::ffi::OsStr::new("PART"));
    let part = part.map(|part| part.to_string_lossy().into_owned());
    let part = part.unwrap_or_default();
    Box::pin(async move {
        if part == "never connects" {
            std::future::pending::<()>().await;
        }
        let actor = Actor {
            part,
            stdout: tokio::sync::Mutex::new(process.stdout),
            sink: std::sync::Mutex::default(),
        };
        Ok(Arc::new(actor) as Arc<dyn Driver>)
    })
}

#[derive(Debug)]
struct Actor {
    part: String,
    /// Ends with the process.
    stdout: tokio::sync::Mutex<ChildStdout>,
    sink: std::sync::Mutex<Option<SessionSink>>,
}

impl Actor {
    async fn play(&self, turn: Turn) -> Result<Stop, DriverError> {
        let sink = self.sink.lock().unwrap().clone().unwrap();
        let gone = async {
            let mut rest = Vec::new();
            let _ = self.stdout.lock().await.read_to_end(&mut rest).await;
            DriverError::Gone {
                how: "it died".to_owned(),
            }
        };
        match self.part.as_str() {
            "ignores cancel" => {
                std::future::pending::<()>().await;
            }
            "asks and dies" => {
                // As a program does: the question is a request of its own, beside the turn.
                tokio::spawn(async move { sink.ask(permission(), None).await });
                return Err(gone.await);
            }
            "asks" => {
                sink.emit(EventKind::ToolCall(call()), None);
                sink.ask(permission(), None).await;
            }
            "echoes" => sink.emit(EventKind::Text { text: turn.prompt }, None),
            other => panic!("{other} is no part"),
        }
        Ok(Stop::EndTurn)
    }
}

fn call() -> ToolCall {
    ToolCall {
        id: "call1".to_owned(),
        title: "look".to_owned(),
        name: None,
        kind: ToolKind::Read,
        status: ToolStatus::Pending,
        locations: Vec::new(),
        content: Vec::new(),
        input: None,
        output: None,
    }
}

fn permission() -> AskKind {
    AskKind::Permission {
        tool: call(),
        options: vec![AskOption {
            id: "yes".to_owned(),
            name: "Yes".to_owned(),
            kind: OptionKind::AllowOnce,
        }],
        destructive: false,
    }
}

impl Driver for Actor {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        Box::pin(async move {
            if self.part == "never opens" {
                std::future::pending::<()>().await;
            }
            *self.sink.lock().unwrap() = Some(open.sink);
            Ok(Opened {
                id: "s-1".to_owned(),
                continuity: Continuity::Fresh,
            })
        })
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.play(turn))
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn close<'a>(&'a self, _: &'a str) -> DriverFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

pub(super) fn nothing() -> Value {
    json!({})
}
