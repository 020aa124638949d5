//! Claims about servers of tools, against real ones written with the official Python library.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use catalog::McpServer;
use domain::Name;
use engine::{
    DriverSurroundings, ServerStatus, ToolCall, ToolError, ToolOutput, ToolProgress, ToolServer,
    ToolSource,
};
use platform::{Guardian, Owner, Tasks, owner};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(60);

const GUARDIAN_MARK: &str = "mark-of-the-guardian";

/// Does nothing in an ordinary run; a scene starts it with the mark.
#[test]
fn role_of_the_guardian() {
    if std::env::args().any(|arg| arg == GUARDIAN_MARK) {
        platform::guardian::run(std::io::stdin().lock());
    }
}

struct Scene {
    folder: tempfile::TempDir,
    around: DriverSurroundings,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let owner = Owner::starting(&format!("test-{}", owner::fresh_id())).unwrap();
        let role = "client::tests::role_of_the_guardian";
        let exe = std::env::current_exe().unwrap();
        let guardian = Guardian::spawn(&exe, &["--exact", role, GUARDIAN_MARK], &owner).unwrap();
        let around = DriverSurroundings {
            tasks: Tasks::new(),
            guardian,
            owner,
            agent: "tools".to_owned(),
            workspace: folder.path().to_owned(),
            environment: BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]),
            start_timeout: PATIENCE,
        };
        Self { folder, around }
    }

    fn logins(&self) -> super::Logins {
        super::Logins::of_home(self.folder.path().join("home"))
    }

    fn mark(&self) -> PathBuf {
        self.folder.path().join("cancelled")
    }

    fn stdio(&self) -> ToolServer {
        ToolServer::Stdio(McpServer {
            name: Name::parse("scripted").unwrap(),
            description: None,
            command: python(),
            args: vec![script(), "stdio".to_owned()],
            env: BTreeMap::from([
                ("CANCEL_MARK".to_owned(), self.mark().display().to_string()),
                ("COLOUR".to_owned(), "green".to_owned()),
            ]),
        })
    }

    fn open(&self, server: ToolServer) -> Arc<dyn ToolSource> {
        super::tool_sources(self.logins()).open(
            vec![server],
            self.folder.path().to_owned(),
            self.around.clone(),
        )
    }
}

fn python() -> String {
    std::env::var("AGENTCRAFT_TEST_PYTHON").unwrap_or_else(|_| {
        let home = std::env::var("HOME").unwrap();
        format!("{home}/.cache/agentcraft-test/venv-main/bin/python")
    })
}

fn script() -> String {
    format!("{}/src/client/tests/server.py", env!("CARGO_MANIFEST_DIR"))
}

/// A server that listens on a port; ended with the test.
struct Listening(Child, u16);

impl Listening {
    fn start(transport: &str) -> Self {
        Self::start_at(transport, 0)
    }

    fn start_at(transport: &str, port: u16) -> Self {
        let mut child = Command::new(python())
            .args([&script(), transport, &port.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        Self(child, line.trim().parse().unwrap())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

async fn until(source: &dyn ToolSource, what: impl Fn(&dyn ToolSource) -> bool) {
    let mut changes = source.changes();
    let reached = async {
        while !what(source) {
            changes.changed().await.unwrap();
        }
    };
    let reached = tokio::time::timeout(PATIENCE, reached).await;
    assert!(reached.is_ok(), "{:?}", source.servers());
}

fn is_ready(source: &dyn ToolSource) -> bool {
    source.servers()[0].status == ServerStatus::Ready
}

fn call(tool: &str, arguments: &Value) -> ToolCall {
    ToolCall {
        server: "scripted".to_owned(),
        tool: tool.to_owned(),
        arguments: arguments.as_object().unwrap().clone(),
        cancel: CancellationToken::new(),
        progress: None,
    }
}

fn text(output: &ToolOutput) -> &str {
    output.raw["content"][0]["text"].as_str().unwrap()
}

async fn check_tools(source: &dyn ToolSource) {
    until(source, is_ready).await;
    let mut names: Vec<String> = source.tools().into_iter().map(|tool| tool.name).collect();
    names.sort();
    assert_eq!(names, ["add", "die", "slow", "variable"]);
    let sum = source.call(call("add", &json!({"a": 2, "b": 40}))).await;
    assert_eq!(text(&sum.unwrap()), "42");
    let wrong = source.call(call("add", &json!({"a": "x"}))).await.unwrap();
    assert!(wrong.is_error, "{wrong:?}");
    let missing = source.call(call("subtract", &json!({}))).await;
    assert_eq!(
        missing.unwrap_err().to_string(),
        "the server scripted has no tool called subtract"
    );
    let resources = source.resources("scripted").await.unwrap();
    assert_eq!(resources[0]["uri"], "window://notes");
    let contents = source.read("scripted", "window://notes").await.unwrap();
    assert_eq!(contents[0]["text"], "the notes");
}

#[tokio::test]
async fn tools_of_a_child_are_called_with_its_environment_and_no_other() {
    let scene = Scene::new();
    let source = scene.open(scene.stdio());
    check_tools(&*source).await;
    for (name, value) in [("COLOUR", "green"), ("HOME", "")] {
        let told = source.call(call("variable", &json!({"name": name}))).await;
        assert_eq!(text(&told.unwrap()), value, "{name}");
    }
}

#[tokio::test]
async fn tools_over_streamable_http_are_called() {
    let server = Listening::start("streamable-http");
    let scene = Scene::new();
    let source = scene.open(ToolServer::Http {
        name: "scripted".to_owned(),
        url: format!("http://127.0.0.1:{}/mcp", server.1),
        headers: BTreeMap::from([("x-colour".to_owned(), "green".to_owned())]),
    });
    check_tools(&*source).await;
}

#[tokio::test]
async fn tools_over_the_older_event_stream_are_called() {
    let server = Listening::start("sse");
    let scene = Scene::new();
    let source = scene.open(ToolServer::Sse {
        name: "scripted".to_owned(),
        url: format!("http://127.0.0.1:{}/sse", server.1),
        headers: BTreeMap::new(),
    });
    check_tools(&*source).await;
}

#[tokio::test]
async fn progress_is_heard_and_a_cancelled_call_is_cancelled_in_the_server() {
    let scene = Scene::new();
    let source = scene.open(scene.stdio());
    until(&*source, is_ready).await;
    let (progress, mut heard) = mpsc::channel(4);
    let cancel = CancellationToken::new();
    let slow = ToolCall {
        cancel: cancel.clone(),
        progress: Some(progress),
        ..call("slow", &json!({}))
    };
    let (outcome, words) = tokio::join!(source.call(slow), async {
        let words = heard.recv().await;
        cancel.cancel();
        words
    });
    assert_eq!(outcome.unwrap_err(), ToolError::Cancelled);
    let half_way = ToolProgress {
        progress: 1.0,
        total: Some(2.0),
        message: Some("half way".to_owned()),
    };
    assert_eq!(words, Some(half_way));
    // The next answer comes after the server has read the cancellation.
    let sum = source.call(call("add", &json!({"a": 1, "b": 1}))).await;
    assert_eq!(text(&sum.unwrap()), "2");
    assert!(scene.mark().exists());
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_fails_it_and_comes_back() {
    let scene = Scene::new();
    let source = scene.open(scene.stdio());
    until(&*source, is_ready).await;
    let died = source.call(call("die", &json!({}))).await;
    assert!(matches!(died, Err(ToolError::Down { .. })), "{died:?}");
    until(&*source, |source| !is_ready(source)).await;
    until(&*source, is_ready).await;
    let sum = source.call(call("add", &json!({"a": 1, "b": 2}))).await;
    assert_eq!(text(&sum.unwrap()), "3");
}

#[tokio::test]
async fn a_server_elsewhere_that_goes_is_missed_though_nobody_calls_it() {
    let server = Listening::start("sse");
    let scene = Scene::new();
    let source = scene.open(ToolServer::Sse {
        name: "scripted".to_owned(),
        url: format!("http://127.0.0.1:{}/sse", server.1),
        headers: BTreeMap::new(),
    });
    until(&*source, is_ready).await;
    drop(server);
    until(&*source, |source| {
        matches!(source.servers()[0].status, ServerStatus::Down { .. })
    })
    .await;
}

#[tokio::test]
async fn tools_of_a_server_over_http_go_when_it_goes_and_come_back_with_it() {
    let server = Listening::start("streamable-http");
    let port = server.1;
    let scene = Scene::new();
    let source = scene.open(ToolServer::Http {
        name: "scripted".to_owned(),
        url: format!("http://127.0.0.1:{port}/mcp"),
        headers: BTreeMap::new(),
    });
    until(&*source, is_ready).await;
    // Nobody calls it, and it has no line that could break.
    drop(server);
    until(&*source, |source| source.tools().is_empty()).await;
    until(&*source, is_absent).await;
    let _again = Listening::start_at("streamable-http", port);
    check_tools(&*source).await;
}

#[tokio::test]
async fn a_server_that_cannot_start_is_told_with_the_reason() {
    let scene = Scene::new();
    let source = scene.open(ToolServer::Stdio(McpServer {
        name: Name::parse("scripted").unwrap(),
        description: None,
        command: "/does/not/exist".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
    }));
    let is_down =
        |source: &dyn ToolSource| matches!(source.servers()[0].status, ServerStatus::Down { .. });
    until(&*source, is_down).await;
    let refused = source.call(call("add", &json!({}))).await.unwrap_err();
    assert!(refused.to_string().contains("no such program"), "{refused}");
    let unknown = ToolCall {
        server: "other".to_owned(),
        ..call("add", &json!({}))
    };
    let refused = source.call(unknown).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no server called other");
}

/// Addresses with a secret in every place that can hold one.
fn secret_addresses(port: u16) -> [String; 2] {
    let address = format!("http://SECRET:SECRET@127.0.0.1:{port}/SECRET?key=SECRET");
    [address, "http://SECRET:SECRET@:0/SECRET".to_owned()]
}

fn is_absent(source: &dyn ToolSource) -> bool {
    !matches!(
        source.servers()[0].status,
        ServerStatus::Starting | ServerStatus::Ready
    )
}

#[tokio::test]
async fn no_secret_of_an_address_is_told_when_its_server_cannot_be_reached() {
    let (name, headers) = ("scripted".to_owned(), BTreeMap::new());
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    for url in secret_addresses(port) {
        let http = ToolServer::Http {
            name: name.clone(),
            url: url.clone(),
            headers: headers.clone(),
        };
        let sse = ToolServer::Sse {
            name: name.clone(),
            url,
            headers: headers.clone(),
        };
        for server in [http, sse] {
            let scene = Scene::new();
            let source = scene.open(server);
            until(&*source, is_absent).await;
            let told = format!("{:?}", source.servers());
            let refused = source.call(call("add", &json!({}))).await.unwrap_err();
            assert!(!told.contains("SECRET"), "{told}");
            assert!(!refused.to_string().contains("SECRET"), "{refused}");
            assert!(!told.contains("rmcp"), "{told}");
        }
    }
}

#[tokio::test]
async fn no_secret_of_an_address_is_told_when_its_server_goes_below_a_call() {
    let server = Listening::start("streamable-http");
    let scene = Scene::new();
    let source = scene.open(ToolServer::Http {
        name: "scripted".to_owned(),
        url: format!("http://127.0.0.1:{}/mcp?key=SECRET", server.1),
        headers: BTreeMap::new(),
    });
    until(&*source, is_ready).await;
    drop(server);
    let refused = source.call(call("add", &json!({"a": 1, "b": 2}))).await;
    let told = format!("{:?} {:?}", refused.unwrap_err(), source.servers());
    assert!(!told.contains("SECRET"), "{told}");
}

/// Answers every request with this head, and counts them.
fn answering(head: &'static str) -> (u16, Arc<std::sync::atomic::AtomicUsize>) {
    let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listening.local_addr().unwrap().port();
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = asked.clone();
    std::thread::spawn(move || {
        for stream in listening.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap())
                .read_line(&mut line)
                .unwrap();
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let answer =
                format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            std::io::Write::write_all(&mut stream, answer.as_bytes()).unwrap();
        }
    });
    (port, asked)
}

#[tokio::test]
async fn a_server_that_wants_a_login_is_told_so_and_not_tried_for_ever() {
    for head in [
        "401 Unauthorized",
        "401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"http://h/SECRET\"",
    ] {
        let (port, asked) = answering(head);
        let url = format!("http://127.0.0.1:{port}/");
        let (name, headers) = ("scripted".to_owned(), BTreeMap::new());
        for server in [
            ToolServer::Http {
                name: name.clone(),
                url: url.clone(),
                headers: headers.clone(),
            },
            ToolServer::Sse {
                name: name.clone(),
                url: url.clone(),
                headers: headers.clone(),
            },
        ] {
            let scene = Scene::new();
            let source = scene.open(server);
            until(&*source, is_absent).await;
            let before = asked.load(std::sync::atomic::Ordering::SeqCst);
            let status = &source.servers()[0].status;
            assert!(
                matches!(status, ServerStatus::Unauthorized { why } if why.contains("`headers`")),
                "{status:?}"
            );
            let refused = source.call(call("add", &json!({}))).await.unwrap_err();
            assert!(
                matches!(refused, ToolError::Unauthorized { .. }),
                "{refused:?}"
            );
            assert!(before > 0);
        }
    }
}

#[tokio::test]
async fn how_a_child_ended_is_told_and_not_that_its_streams_broke() {
    let scene = Scene::new();
    let source = scene.open(ToolServer::Stdio(McpServer {
        name: Name::parse("scripted").unwrap(),
        description: None,
        command: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), "exec 0<&- 1>&-; exit 7".to_owned()],
        env: BTreeMap::new(),
    }));
    until(&*source, is_absent).await;
    let told = format!("{:?}", source.servers());
    assert!(told.contains("it ended before it had answered"), "{told}");
    assert!(told.contains('7'), "{told}");
}
