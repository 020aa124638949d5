//! The official SDKs as clients and as servers. Where they are not installed, the tests say so and pass.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use wire::a2a::{Message, Part, Role, SendConfiguration, SendMessage, SendResponse, TaskState};

use super::*;
use crate::client::{Client, ClientOptions};

/// Where `./test` installs what the tests need.
fn installed(path: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("AGENTCRAFT_TEST_CACHE").map(PathBuf::from);
    let home =
        std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/agentcraft-test"));
    let found = cache.or(home)?.join(path);
    if !found.exists() {
        println!("skipped: ./test installs {}", found.display());
        return None;
    }
    Some(found)
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("src/tests/sdk")
        .join(name)
}

/// Runs a client's script against the agent, and gives the steps that went as they should.
async fn steps(mut command: Command) -> Vec<String> {
    let running = tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output());
    let output = running.await.unwrap().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_sdk_of_1_0_does_everything_over_both_bindings() {
    let Some(python) = installed("venv-a2a/bin/python") else {
        return;
    };
    let scene = Scene::new().await;
    for binding in ["JSONRPC", "HTTP+JSON"] {
        let mut command = Command::new(&python);
        command
            .arg(script("client_1_0.py"))
            .arg(format!("{}/a2a/tck", scene.url))
            .arg(binding);
        let expected = [
            "card",
            "send",
            "get and list",
            "extension",
            "stream",
            "subscribe and answer",
            "cancel",
            "push",
        ];
        assert_eq!(steps(command).await, expected, "{binding}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_sdk_of_0_3_does_everything() {
    let Some(python) = installed("venv-a2a03/bin/python") else {
        return;
    };
    let scene = Scene::new().await;
    let mut command = Command::new(&python);
    command
        .arg(script("client_0_3.py"))
        .arg(format!("{}/a2a/tck", scene.url));
    let expected = [
        "card",
        "send",
        "get",
        "extension",
        "stream",
        "resubscribe and answer",
        "cancel",
        "push",
    ];
    assert_eq!(steps(command).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_javascript_sdks_of_both_versions_do_everything() {
    for (modules, name, binding, following) in [
        (
            "node-a2a",
            "client_1_0.mjs",
            "JSONRPC",
            "subscribe and answer",
        ),
        (
            "node-a2a",
            "client_1_0.mjs",
            "HTTP+JSON",
            "subscribe and answer",
        ),
        (
            "node-a2a03",
            "client_0_3.mjs",
            "JSONRPC",
            "resubscribe and answer",
        ),
    ] {
        let Some(modules) = installed(modules) else {
            return;
        };
        let scene = Scene::new().await;
        let mut command = Command::new("node");
        command
            .arg(script(name))
            .arg(modules)
            .arg(format!("{}/a2a/tck", scene.url))
            .arg(binding);
        let expected = ["card", "send", "get", "stream", following, "cancel", "push"];
        assert_eq!(steps(command).await, expected, "{name} {binding}");
    }
}

/// A server of an SDK; it ends with its standard input.
struct Server {
    child: Child,
    url: String,
}

/// Every server of an SDK: where it is installed, its script, and what it is told.
const SERVERS: [(&str, &str, &[&str]); 6] = [
    ("venv-a2a/bin/python", "server_1_0.py", &["JSONRPC"]),
    ("venv-a2a/bin/python", "server_1_0.py", &["HTTP+JSON"]),
    ("venv-a2a03/bin/python", "server_0_3.py", &[]),
    ("node-a2a", "server_1_0.mjs", &["JSONRPC"]),
    ("node-a2a", "server_1_0.mjs", &["HTTP+JSON"]),
    ("node-a2a03", "server_0_3.mjs", &[]),
];

impl Server {
    /// Nothing where it is not installed.
    fn start((place, name, args): (&str, &str, &[&str])) -> Option<Self> {
        let place = installed(place)?;
        let mut command = if name.ends_with(".py") {
            let mut command = Command::new(place);
            command.arg(script(name));
            command
        } else {
            let mut command = Command::new("node");
            command.arg(script(name)).arg(place);
            command
        };
        command.args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut url).unwrap();
        Some(Self {
            child,
            url: url.trim().to_owned(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait(); // It has been asked to end.
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_the_sdks_are_agents_here() {
    for which @ (_, name, args) in SERVERS {
        let Some(server) = Server::start(which) else {
            continue;
        };
        let near = driver_tests::behind(json!({ "url": server.url })).await;
        let said = near.send("hello").await;
        assert_eq!(
            (state(&said), text(&said).as_str()),
            ("TASK_STATE_COMPLETED", "echo hello"),
            "{name} {args:?}: {said}"
        );
        let asked = near.send("ask").await;
        assert_eq!(
            state(&asked),
            "TASK_STATE_INPUT_REQUIRED",
            "{name}: {asked}"
        );
        assert_eq!(asked["status"]["message"]["parts"][0]["text"], "which?");
        assert_eq!(
            text(&near.answer(&asked, "this").await),
            "echo this",
            "{name}"
        );
        let mut params = send("wait");
        params["configuration"] = json!({ "returnImmediately": true });
        let waiting = near.call("SendMessage", params).await["result"]["task"].clone();
        let cancelled = near
            .call("CancelTask", json!({ "id": waiting["id"] }))
            .await;
        assert_eq!(state(&cancelled["result"]), "TASK_STATE_CANCELED", "{name}");
    }
}

/// A message that is answered at once, or when there is something to answer.
fn message(words: &str, return_immediately: bool) -> SendMessage {
    let id = uuid::Uuid::new_v4().to_string();
    SendMessage {
        tenant: None,
        message: Message::new(id, Role::User, vec![Part::text(words)]),
        configuration: Some(SendConfiguration {
            return_immediately,
            ..SendConfiguration::default()
        }),
        metadata: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_client_does_everything_at_the_servers_of_the_sdks() {
    for which @ (_, name, args) in SERVERS {
        let Some(server) = Server::start(which) else {
            continue;
        };
        let client = Client::connect(&server.url, ClientOptions::default()).await;
        let client = client.unwrap();
        assert_eq!(client.card().name, "echo", "{name} {args:?}");

        let said = client.send(&message("hello", false)).await.unwrap();
        let SendResponse::Task(said) = said else {
            panic!("{name} {args:?}: {said:?}");
        };
        assert_eq!(said.artifacts[0].parts[0].as_text(), Some("echo hello"));
        let got = client.get(&said.id).await.unwrap();
        assert_eq!(got.status.state, TaskState::Completed, "{name} {args:?}");

        let mut updates = client.stream(&message("again", false)).await.unwrap();
        let mut states = Vec::new();
        while let Some(update) = updates.next().await.unwrap() {
            states.extend(update.state());
        }
        assert_eq!(
            states.last(),
            Some(&TaskState::Completed),
            "{name} {args:?}"
        );

        let waiting = client.send(&message("wait", true)).await.unwrap();
        let SendResponse::Task(waiting) = waiting else {
            panic!("{name} {args:?}: {waiting:?}");
        };
        let mut updates = client.subscribe(&waiting.id).await.unwrap();
        let (cancelled, last) = tokio::join!(client.cancel(&waiting.id), async {
            let mut last = None;
            while let Ok(Some(update)) = updates.next().await {
                last = update.state().or(last);
            }
            last
        });
        assert_eq!(cancelled.unwrap().status.state, TaskState::Canceled);
        // Not every server tells its followers before it closes their streams.
        assert!(
            matches!(last, None | Some(TaskState::Working | TaskState::Canceled)),
            "{name} {args:?}: {last:?}"
        );
        let got = client.get(&waiting.id).await.unwrap();
        assert_eq!(got.status.state, TaskState::Canceled, "{name} {args:?}");
    }
}
