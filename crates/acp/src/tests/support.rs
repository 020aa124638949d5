//! A scene for a driver: a workspace, a guardian, a history to look at, and an agent played by the test.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use domain::turn::{Answer, AskKind, Event, EventKind};
use engine::{
    AskRequest, Driver, DriverError, DriverSurroundings, EventLog, OpenSession, Opened, Page,
    SessionSink, Turn, TurnOptions,
};
use jsonrpc::{Connection, Limits, Peer, Received, Responder};
use platform::{Guardian, Owner, OwnerScope, Tasks, owner};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::DuplexStream,
    sync::mpsc::{self, UnboundedReceiver},
};
use tokio_util::sync::CancellationToken;

use crate::driver::{AcpDriver, connect_streams};

/// How long a test waits for what should happen at once.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

const GUARDIAN_MARK: &str = "mark-of-the-guardian";

/// Does nothing in an ordinary run; `Scene` starts it with the mark.
#[test]
fn role_of_the_guardian() {
    if std::env::args().any(|arg| arg == GUARDIAN_MARK) {
        platform::guardian::run(std::io::stdin().lock());
    }
}

pub(super) async fn patiently<T>(future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.expect("it takes too long")
}

/// What a driver needs of the machine.
pub(super) struct Scene {
    folder: TempDir,
    pub(super) around: DriverSurroundings,
}

impl Scene {
    pub(super) fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let home = format!("test-{}", owner::fresh_id());
        let owner = Owner::starting(&home).unwrap();
        let exe = std::env::current_exe().unwrap();
        let role = "tests::support::role_of_the_guardian";
        let guardian = Guardian::spawn(&exe, &["--exact", role, GUARDIAN_MARK], &owner).unwrap();
        let around = DriverSurroundings {
            tasks: Tasks::new(),
            guardian,
            owner,
            agent: "tester".to_owned(),
            workspace: folder.path().to_owned(),
            environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            start_timeout: PATIENCE,
        };
        Scene { folder, around }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn environment(&self) -> BTreeMap<OsString, OsString> {
        self.around.environment.clone()
    }

    /// Processes that were started and still run.
    pub(super) fn left(&self) -> usize {
        owner::find(&OwnerScope::home(&self.around.owner)).len()
    }

    /// A driver of an agent that the test plays, after a handshake with these capabilities.
    pub(super) async fn fake(&self, answer: Value) -> (AcpDriver, Fake) {
        let (mut fake, driver) = self.start();
        let initialize = fake.request("initialize").await;
        initialize.reply(answer).await;
        (patiently(driver).await.unwrap().unwrap(), fake)
    }

    /// An agent that the test plays, before its handshake.
    pub(super) fn start(
        &self,
    ) -> (
        Fake,
        tokio::task::JoinHandle<Result<AcpDriver, DriverError>>,
    ) {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(ours);
        let driver = tokio::spawn(connect_streams(reader, writer, self.around.clone()));
        (Fake::new(theirs), driver)
    }

    /// A driver of the built-in agent.
    pub(super) async fn builtin(&self) -> AcpDriver {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(theirs);
        let options = builtin::Options {
            workspace: self.path().to_owned(),
            environment: self.environment(),
        };
        tokio::spawn(builtin::serve(reader, writer, options));
        let (reader, writer) = tokio::io::split(ours);
        let connected = connect_streams(reader, writer, self.around.clone());
        patiently(connected).await.unwrap()
    }
}

/// What a session's history and its asks look like from outside.
pub(super) struct Seat {
    pub(super) log: Arc<EventLog>,
    pub(super) asks: mpsc::Receiver<AskRequest>,
    /// Whether acts that the agent has the client do are allowed.
    pub(super) allowed: Arc<AtomicBool>,
    sink: SessionSink,
}

impl Seat {
    pub(super) fn new() -> Seat {
        let log = Arc::new(EventLog::new(1));
        let (sender, mut all) = mpsc::channel::<AskRequest>(16);
        let (others, asks) = mpsc::channel(16);
        // What the agent has the client do is allowed, unless a test says otherwise; what it asks for is the test's.
        let allowed = Arc::new(AtomicBool::new(true));
        let allowing = Arc::clone(&allowed);
        tokio::spawn(async move {
            while let Some(ask) = all.recv().await {
                match &ask.kind {
                    AskKind::Permission { tool, options, .. }
                        if tool.id.starts_with(crate::grants::ACT) =>
                    {
                        let choice = usize::from(!allowing.load(Ordering::Relaxed));
                        let id = options[choice].id.clone();
                        let _ = ask.answer.send(Answer::Option { id });
                    }
                    _ => {
                        let _ = others.send(ask).await;
                    }
                }
            }
        });
        let sink = SessionSink::new(Arc::clone(&log), sender);
        Seat {
            log,
            asks,
            sink,
            allowed,
        }
    }

    pub(super) fn open(&self, cwd: &Path, resume: Option<&str>) -> OpenSession {
        OpenSession {
            cwd: cwd.to_owned(),
            mcp_servers: Vec::new(),
            resume: resume.map(str::to_owned),
            sink: self.sink.clone(),
        }
    }

    pub(super) fn events(&self) -> Vec<Arc<Event>> {
        match self.log.read(1, usize::MAX) {
            Page::Events(events) => events,
            Page::InStore { until } => panic!("in store until {until}"),
        }
    }

    pub(super) fn kinds(&self) -> Vec<EventKind> {
        let events = self.events();
        events.iter().map(|event| event.kind.clone()).collect()
    }

    /// Everything the agent said.
    pub(super) fn said(&self) -> String {
        let text = |kind: EventKind| match kind {
            EventKind::Text { text } => Some(text),
            _ => None,
        };
        self.kinds().into_iter().filter_map(text).collect()
    }

    /// Names of what had no meaning.
    pub(super) fn others(&self) -> Vec<String> {
        let name = |kind: EventKind| match kind {
            EventKind::Other { name } => Some(name),
            _ => None,
        };
        self.kinds().into_iter().filter_map(name).collect()
    }

    /// What people are told beside the agent's words.
    pub(super) fn notices(&self) -> Vec<String> {
        let text = |kind: EventKind| match kind {
            EventKind::Notice { text } => Some(text),
            _ => None,
        };
        self.kinds().into_iter().filter_map(text).collect()
    }

    pub(super) async fn until(&self, holds: impl Fn(&Seat) -> bool) {
        patiently(async {
            loop {
                let seen = self.log.last_seq();
                if holds(self) {
                    return;
                }
                self.log.newer_than(seen).await;
            }
        })
        .await;
    }

    pub(super) async fn ask(&mut self) -> AskRequest {
        patiently(self.asks.recv()).await.unwrap()
    }
}

pub(super) fn turn(session: &str, prompt: &str, cancel: &CancellationToken) -> Turn {
    Turn {
        session: session.to_owned(),
        prompt: prompt.to_owned(),
        options: TurnOptions::default(),
        cancel: cancel.clone(),
    }
}

/// A prompt that runs beside the test.
pub(super) fn prompt(
    driver: &Arc<AcpDriver>,
    session: &str,
    text: &str,
    cancel: &CancellationToken,
) -> tokio::task::JoinHandle<Result<domain::turn::Stop, DriverError>> {
    let driver = Arc::clone(driver);
    let turn = turn(session, text, cancel);
    tokio::spawn(async move { driver.turn(turn).await })
}

pub(super) fn text(session: &str, text: &str) -> Value {
    update(
        session,
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }),
    )
}

/// An update of this kind with some text in it.
pub(super) fn said(session: &str, kind: &str) -> Value {
    update(
        session,
        json!({ "sessionUpdate": kind, "content": { "type": "text", "text": "some text" } }),
    )
}

pub(super) fn update(session: &str, update: Value) -> Value {
    json!({ "sessionId": session, "update": update })
}

/// An agent whose every word the test writes.
pub(super) struct Fake {
    pub(super) peer: Peer,
    received: UnboundedReceiver<Received>,
}

/// A request of the driver's.
pub(super) struct Asked {
    pub(super) params: Value,
    responder: Responder,
}

impl Asked {
    pub(super) async fn reply(self, result: Value) {
        self.responder.reply(&result).await.unwrap();
    }

    pub(super) async fn fail(self, code: i64, message: &str) {
        let error = jsonrpc::ErrorObject::new(code, message);
        self.responder.fail(error).await.unwrap();
    }

    /// The id that the driver gave it.
    pub(super) fn into_id(self) -> jsonrpc::Id {
        self.responder.into_id()
    }
}

impl Fake {
    fn new(stream: DuplexStream) -> Fake {
        let (reader, writer) = tokio::io::split(stream);
        // Its own lines may be longer than the driver reads.
        let limits = Limits {
            line_max: 2 * jsonrpc::LINE_MAX,
            ..Limits::default()
        };
        let (peer, mut incoming) = Connection::new(reader, writer, limits);
        let (sender, received) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            // Leaving the loop closes the connection: the agent dies when the test lets go of it.
            loop {
                tokio::select! {
                    received = incoming.recv() => {
                        let Some(received) = received else { break };
                        if sender.send(received).is_err() {
                            break;
                        }
                    }
                    () = sender.closed() => break,
                }
            }
        });
        Fake { peer, received }
    }

    pub(super) async fn next(&mut self) -> Received {
        patiently(self.received.recv()).await.unwrap()
    }

    /// What has arrived and was not looked at.
    pub(super) fn pending(&mut self) -> Option<Received> {
        self.received.try_recv().ok()
    }

    pub(super) async fn request(&mut self, method: &str) -> Asked {
        match self.next().await {
            Received::Request(request) => {
                assert_eq!(request.method, method);
                Asked {
                    params: serde_json::from_str(request.params.unwrap().get()).unwrap(),
                    responder: request.responder,
                }
            }
            received => panic!("expected {method}, got {received:?}"),
        }
    }

    pub(super) async fn notification(&mut self, expected: &str) -> Value {
        match self.next().await {
            Received::Notification { method, params, .. } => {
                assert_eq!(method, expected);
                serde_json::from_str(params.unwrap().get()).unwrap()
            }
            received => panic!("expected {expected}, got {received:?}"),
        }
    }

    pub(super) async fn notify(&self, method: &str, params: Value) {
        patiently(self.peer.notify(method, &params)).await.unwrap();
    }

    pub(super) async fn update(&self, params: Value) {
        self.notify("session/update", params).await;
    }

    /// A request to the driver.
    pub(super) async fn call(&self, method: &str, params: Value) -> Result<Value, (i64, String)> {
        match patiently(self.peer.call(method, &params)).await {
            Ok(result) => Ok(serde_json::from_str(result.get()).unwrap()),
            Err(jsonrpc::CallError::Remote(error)) => Err((error.code, error.message)),
            Err(error) => panic!("{method}: {error}"),
        }
    }

    /// The refusal that comes for a line that was no call.
    pub(super) async fn raw_answer(&mut self) -> (i64, String) {
        match self.next().await {
            Received::Response {
                outcome: Err(error),
                ..
            } => (error.code, error.message),
            received => panic!("expected a refusal, got {received:?}"),
        }
    }

    pub(super) async fn line(&self, line: &str) {
        patiently(self.peer.send_line(line)).await.unwrap();
    }
}

/// A fake agent with one open session called `s`.
pub(super) async fn with_session(scene: &Scene) -> (Arc<AcpDriver>, Fake, Seat) {
    let (driver, mut fake) = scene.fake(json!({ "protocolVersion": 1 })).await;
    let seat = Seat::new();
    let opened = open(&driver, &mut fake, &seat, scene.path().to_owned()).await;
    assert_eq!(opened.id, "s");
    (Arc::new(driver), fake, seat)
}

pub(super) async fn open(driver: &AcpDriver, fake: &mut Fake, seat: &Seat, cwd: PathBuf) -> Opened {
    let opening = driver.open(seat.open(&cwd, None));
    let answering = async {
        let asked = fake.request("session/new").await;
        assert_eq!(
            asked.params,
            json!({ "cwd": cwd, "mcpServers": [] }),
            "as the protocol has it"
        );
        asked
            .reply(json!({ "sessionId": "s", "modes": null }))
            .await;
    };
    let (opened, ()) = tokio::join!(opening, answering);
    opened.unwrap()
}
