//! Offices: servers, computers and agents as processes of their own, with real MCP servers and the official client.

mod changing;
mod inputs;
mod killed;
mod login;
mod others;
mod several;
mod slow;
mod template;

use std::{
    env, fs,
    io::{BufRead, BufReader, Read},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
};

use serde_json::{Value, json};
use testkit::{Output, PATIENCE, TestDaemon, eventually, kill};

use crate::node;

const CLIENT: &str = include_str!("office/client.py");

/// A few tools, and a window.
const SERVER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../mcp/src/client/tests/server.py"
);

/// A window that says when it has changed.
const BOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/office/board.py");

const AGENT: &str = "token-of-the-agent";
const COMPUTER: &str = "token-of-the-computer";

/// A process of ours that says what happens, line by line; killed with the test.
pub(crate) struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: Command) -> Self {
        Self::complaining(command, Stdio::null())
    }

    /// With a place for what it complains of.
    fn complaining(mut command: Command, stderr: Stdio) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line); // The test may have read enough.
            }
        });
        Self { child, lines }
    }

    /// The next line that begins so; others are passed over.
    pub(crate) fn until(&self, start: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("it never said {start:?}"));
            if line.starts_with(start) {
                return line;
            }
        }
    }

    /// Sends a signal and gives the exit code.
    fn end(&mut self, signal: &str) -> Option<i32> {
        kill(self.child.id(), signal);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended already.
        let _ = self.child.wait();
    }
}

/// An office server with a token for each role, and everything to join it.
struct Scene {
    home: TestDaemon,
    python: PathBuf,
    server: Option<Running>,
    url: String,
}

impl Scene {
    /// Nothing without a Python for the MCP servers.
    fn start() -> Option<Self> {
        let Some(python) = env::var_os("AGENTCRAFT_TEST_PYTHON") else {
            println!(
                "skipped: ./test sets AGENTCRAFT_TEST_PYTHON to a Python that has the MCP library"
            );
            return None;
        };
        let mut scene = Self {
            home: node().stopped(),
            python: python.into(),
            server: None,
            url: String::new(),
        };
        scene.write(
            "tokens",
            &format!("{AGENT} agent studio\n{COMPUTER} computer studio\n"),
        );
        scene.write("both", &format!("{AGENT}-{COMPUTER} any *\n"));
        scene.write("agent.token", AGENT);
        scene.write("computer.token", COMPUTER);
        scene.write("servers.json", &scene.servers().to_string());
        scene.serve("127.0.0.1:0");
        Some(scene)
    }

    fn serve(&mut self, address: &str) {
        let tokens = self.path("tokens");
        let command = self.home.command(&[
            "office",
            "serve",
            "--listen",
            address,
            "--token-file",
            &tokens,
        ]);
        let server = Running::start(command);
        let said = server.until("office server at ");
        said.trim_start_matches("office server at ")
            .clone_into(&mut self.url);
        self.server = Some(server);
    }

    fn servers(&self) -> Value {
        let (key, value) = self
            .home
            .mark()
            .split_once('=')
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .unwrap();
        json!({
            "inputs": [{"id": "word", "type": "promptString", "password": true, "default": "sesame"}],
            "servers": {
                "scripted": {
                    "type": "stdio", "command": self.python, "args": [SERVER, "stdio"],
                    "env": {
                        (key): value, "CANCEL_MARK": self.path("cancelled"),
                        "WORD": "${input:word}", "PLAIN": "a-secret",
                    },
                    "forbidden_tools": ["die"], "tool_meta": {"add": {"alias": "plus"}},
                },
                "off": {"type": "http", "url": "http://127.0.0.1:1/mcp", "disabled": true},
                "missing": {"type": "stdio", "command": "no-such-program-anywhere"},
            }
        })
    }

    fn path(&self, name: &str) -> String {
        self.home.scratch(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.home.scratch(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn computer(&self, more: &[&str]) -> Running {
        let (token, servers) = (self.path("computer.token"), self.path("servers.json"));
        let mut arguments = vec![
            "computer",
            "join",
            &self.url,
            "studio",
            "--name",
            "nova",
            "--token-file",
            &token,
            "--config",
            &servers,
        ];
        arguments.extend(more);
        Running::start(self.home.command(&arguments))
    }

    /// A computer whose tools are there.
    fn lending_computer(&self) -> Running {
        let computer = self.computer(&["--yes"]);
        assert_eq!(
            computer.until("lending 3"),
            "lending 3 tools: scripted (plus, variable, slow)"
        );
        computer
    }

    fn office(&self, command: &str, more: &[&str]) -> Output {
        let token = self.path("agent.token");
        let mut arguments = vec![
            "office",
            command,
            &self.url,
            "studio",
            "--token-file",
            &token,
        ];
        arguments.extend(more);
        self.home.cli(&arguments)
    }

    fn tools(&self) -> Vec<String> {
        let listed = self.office("tools", &["-f", "quiet"]);
        listed.stdout.lines().map(str::to_owned).collect()
    }

    fn json(&self, command: &str, more: &[&str]) -> Value {
        let mut arguments = more.to_vec();
        arguments.extend(["-f", "json"]);
        let output = self.office(command, &arguments);
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }
}

const TOOLS: [&str; 3] = ["scripted__plus", "scripted__slow", "scripted__variable"];

#[test]
fn a_computer_lends_the_tools_of_its_servers_to_the_agent_of_its_office() {
    let Some(scene) = Scene::start() else { return };
    let mut computer = scene.lending_computer();
    assert_eq!(scene.tools(), TOOLS);
    let tools = scene.json("tools", &["--computer", "nova"]);
    assert_eq!(tools[0]["computer"], "nova");
    assert_eq!(tools[0]["description"], "Adds two numbers.");
    assert_eq!(tools[0]["params_schema"]["required"], json!(["a", "b"]));
    let sum = scene.office("call", &["nova", "scripted__plus", "{\"a\": 1, \"b\": 2}"]);
    assert_eq!((sum.stdout.as_str(), sum.code), ("3\n", 0), "{sum:?}");
    let word = scene.json(
        "call",
        &["nova", "scripted__variable", "{\"name\": \"WORD\"}"],
    );
    assert_eq!(word["content"][0]["text"], "sesame");
    let windows = scene.json("desktop", &["nova"]);
    assert_eq!(windows, json!(["window://notes\n\nthe notes"]));
    let rooms = scene.json("rooms", &[]);
    let members: Vec<&str> = rooms
        .as_array()
        .unwrap()
        .iter()
        .map(|member| member["role"].as_str().unwrap())
        .collect();
    assert_eq!(members, ["agent", "computer"]);
    for (tool, words) in [
        ("scripted__die", "forbidden"),
        ("scripted__nothing", "not found"),
        ("off__any", "disabled"),
    ] {
        let refused = scene.office("call", &["nova", tool]);
        assert_eq!(refused.code, 1, "{refused:?}");
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains(words), "{refused:?}");
    }
    assert_eq!(computer.end("INT"), Some(0));
    assert_eq!(computer.until("left"), "left the office");
    assert_eq!(scene.home.agent_processes(), Vec::<u32>::new());
    assert_eq!(scene.tools(), Vec::<String>::new());
}

#[test]
fn a_configuration_is_told_without_its_secrets_and_without_what_cannot_be_used() {
    let Some(scene) = Scene::start() else { return };
    let _computer = scene.lending_computer();
    let config = scene.json("config", &["nova"]);
    let servers: Vec<&String> = config["servers"].as_object().unwrap().keys().collect();
    assert_eq!(servers, ["off", "scripted"]);
    let env = &config["servers"]["scripted"]["server_parameters"]["env"];
    assert_eq!(env["WORD"], "${input:word}");
    let text = config.to_string();
    assert!(
        !text.contains("a-secret") && !text.contains("sesame"),
        "{text}"
    );
}

#[test]
fn what_is_said_of_a_server_that_is_away_holds_no_secret_and_no_command_to_the_terminal() {
    let Some(scene) = Scene::start() else { return };
    let away = json!({
        "inputs": [{"id": "key", "type": "promptString", "password": true, "default": "SECRET"}],
        "servers": {
            "web\u{1b}[2J": {
                "type": "http", "bundle_id": "web",
                "url": "http://u:${input:key}@127.0.0.1:1/${input:key}?k=${input:key}",
            },
            "old": {"type": "sse", "url": "http://127.0.0.1:1/${input:key}"},
            "bad\u{1b}[2J": {"type": "stdio", "command": "x", "forbidden_tools": "delete"},
        }
    });
    scene.write("servers.json", &away.to_string());
    let (token, servers) = (scene.path("computer.token"), scene.path("servers.json"));
    let complaints = scene.path("complaints");
    let file = fs::File::create(&complaints).unwrap();
    let computer = Running::complaining(
        scene.home.command(&[
            "computer",
            "join",
            &scene.url,
            "studio",
            "--name",
            "nova",
            "--token-file",
            &token,
            "--config",
            &servers,
            "--yes",
        ]),
        file.into(),
    );
    computer.until("joined");
    let said = || fs::read_to_string(&complaints).unwrap();
    eventually("both servers are missed", || {
        said().matches("is not there: it cannot be reached").count() >= 2
    });
    assert!(said().contains("`forbidden_tools`"), "{}", said());
    for tool in ["web__add", "old__add"] {
        let refused = scene.office("call", &["nova", tool]);
        let told = format!("{}{}", refused.stdout, refused.stderr);
        assert!(!told.contains("SECRET"), "{told}");
    }
    let said = said();
    assert!(
        !said.contains("SECRET") && !said.contains('\u{1b}'),
        "{said}"
    );
}

#[test]
fn a_call_that_nobody_agreed_to_is_not_carried_out() {
    let Some(scene) = Scene::start() else { return };
    let computer = scene.computer(&[]);
    computer.until("lending 3");
    let refused = scene.office("call", &["nova", "scripted__plus", "{\"a\": 1, \"b\": 2}"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stdout.contains("needs a confirmation"),
        "{refused:?}"
    );
}

#[test]
fn rules_of_the_node_decide_before_anybody_is_asked() {
    let Some(scene) = Scene::start() else { return };
    let rules = "[permissions]\nallow = [\"scripted__plus\"]\ndeny = [\"scripted__variable\"]\n";
    let home = scene.home.home();
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("config.toml"), rules).unwrap();
    let computer = scene.computer(&[]);
    computer.until("lending 3");
    let sum = scene.office("call", &["nova", "scripted__plus", "{\"a\": 1, \"b\": 2}"]);
    assert_eq!((sum.stdout.as_str(), sum.code), ("3\n", 0), "{sum:?}");
    let word = "{\"name\": \"WORD\"}";
    let denied = scene.office("call", &["nova", "scripted__variable", word]);
    assert!(denied.stdout.contains("denied"), "{denied:?}");
    let slow = scene.office("call", &["nova", "scripted__slow"]);
    assert!(slow.stdout.contains("nobody is there"), "{slow:?}");
    drop(computer);
    // A rule counts also where the file applies everything by itself.
    let computer = scene.computer(&["--yes"]);
    computer.until("lending 3");
    let denied = scene.office("call", &["nova", "scripted__variable", word]);
    assert!(
        denied.code == 1 && denied.stdout.contains("denied"),
        "{denied:?}"
    );
}

#[test]
fn a_call_that_takes_too_long_or_is_interrupted_is_cancelled_in_its_server() {
    let Some(scene) = Scene::start() else { return };
    let _computer = scene.lending_computer();
    let mark = scene.home.scratch("cancelled");
    let begun = scene.home.scratch("cancelled.begun");
    let late = scene.office("call", &["nova", "scripted__slow", "--timeout", "1"]);
    assert_eq!(late.code, 1);
    assert!(late.stdout.contains("did not end in time"), "{late:?}");
    eventually("the server hears of the end", || mark.exists());
    fs::remove_file(&mark).unwrap();
    let token = scene.path("agent.token");
    let mut arguments = vec!["office", "call", &scene.url, "studio", "nova"];
    arguments.extend(["scripted__slow", "--timeout", "600", "--token-file", &token]);
    fs::remove_file(&begun).unwrap();
    let mut asking = scene
        .home
        .command(&arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the call has begun", || begun.exists());
    kill(asking.id(), "INT");
    assert_eq!(asking.wait().unwrap().code(), Some(1));
    eventually("the server hears of the interruption", || mark.exists());
}

#[test]
fn a_computer_that_is_killed_takes_its_tools_and_its_servers_with_it() {
    let Some(scene) = Scene::start() else { return };
    let mut computer = scene.lending_computer();
    assert_ne!(scene.home.agent_processes(), Vec::<u32>::new());
    assert_eq!(computer.end("KILL"), None);
    eventually("its tools are gone", || scene.tools().is_empty());
    eventually("its servers are gone", || {
        scene.home.agent_processes().is_empty()
    });
}

#[test]
fn a_server_that_dies_is_started_again_by_its_computer() {
    let Some(scene) = Scene::start() else { return };
    let computer = scene.lending_computer();
    let [server] = scene.home.agent_processes()[..] else {
        panic!("one server runs");
    };
    kill(server, "KILL");
    assert_eq!(computer.until("lending no"), "lending no tools now");
    computer.until("lending 3");
    eventually("its tools are back", || scene.tools() == TOOLS);
    assert_ne!(scene.home.agent_processes(), [server]);
}

#[test]
fn a_computer_joins_again_when_the_office_server_was_restarted() {
    let Some(mut scene) = Scene::start() else {
        return;
    };
    let computer = scene.lending_computer();
    let address = scene.url.trim_start_matches("http://").to_owned();
    let mut server = scene.server.take().unwrap();
    assert_eq!(server.end("TERM"), Some(0));
    computer.until("away: ");
    scene.serve(&address);
    computer.until("joined ");
    assert_eq!(scene.tools(), TOOLS);
}

#[test]
fn a_token_opens_its_office_in_its_role_and_nothing_else() {
    let Some(scene) = Scene::start() else { return };
    scene.write("stranger.token", "a-token-of-nobody");
    for (token, command, office) in [
        ("stranger.token", "office rooms", "studio"),
        ("computer.token", "office rooms", "studio"),
        ("agent.token", "office rooms", "lab"),
        ("agent.token", "computer join", "studio"),
        ("computer.token", "computer join", "lab"),
    ] {
        let token = scene.path(token);
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.extend([&scene.url, office, "--token-file", &token]);
        let refused = scene.home.cli(&arguments);
        assert_eq!(refused.code, 1, "{command} {office}: {refused:?}");
        assert!(refused.stderr.contains("the office refused"), "{refused:?}");
    }
}

#[test]
fn a_server_that_stands_alone_closes_connections_that_say_nothing() {
    let home = node().stopped();
    let server = Running::start(home.command(&["office", "serve", "--listen", "127.0.0.1:0"]));
    let said = server.until("office server at ");
    let address = said.rsplit('/').next().unwrap();
    let mut silent = TcpStream::connect(address).unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut heard = Vec::new();
    silent.read_to_end(&mut heard).expect("it is closed");
}

#[test]
fn a_token_that_is_revoked_ends_its_computers_stay_in_an_office_of_the_node() {
    let node = node().listening().start();
    let right = "office:computer:studio";
    let made = node.cli(&["token", "create", "laptop", "--right", right, "-f", "json"]);
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    let [token, servers] = ["laptop.token", "servers.json"].map(|name| node.scratch(name));
    fs::create_dir_all(token.parent().unwrap()).unwrap();
    fs::write(&token, made["token"].as_str().unwrap()).unwrap();
    fs::write(&servers, r#"{"servers": {}}"#).unwrap();
    let (token, servers) = (token.display().to_string(), servers.display().to_string());
    let url = node.url();
    let computer = Running::start(node.command(&[
        "computer",
        "join",
        &url,
        "studio",
        "--token-file",
        &token,
        "--config",
        &servers,
    ]));
    computer.until("joined");
    let revoked = node.cli(&["token", "revoke", made["id"].as_str().unwrap()]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    computer.until("away: ");
    let said = computer.until("away: the office refused");
    assert!(said.contains("token"), "{said}");
}

#[test]
fn a_node_that_listens_is_an_office_server_for_its_own_components() {
    let Some(python) = env::var_os("AGENTCRAFT_TEST_PYTHON") else {
        println!("skipped: ./test sets AGENTCRAFT_TEST_PYTHON");
        return;
    };
    let component = json!({
        "name": "clock", "command": python.to_str().unwrap(), "args": [SERVER, "stdio"],
    });
    for (settings, scheme) in [("", "http:"), ("[http]\ntls = true\n", "https:")] {
        let node = node()
            .listening()
            .file("configs/mcp/clock.json", component.to_string())
            .file("config.toml", settings)
            .start();
        let url = node.url();
        assert!(url.starts_with(scheme), "{url}");
        let command = node.command(&["computer", "join", &url, "studio", "--yes"]);
        let computer = Running::start(command);
        assert_eq!(
            computer.until("lending"),
            "lending 4 tools: clock (add, die, variable, slow)"
        );
        let tools = node.cli(&["office", "tools", &url, "studio", "-f", "quiet"]);
        assert_eq!(tools.stdout.lines().count(), 4, "{tools:?}");
    }
}

#[test]
fn both_sides_of_an_office_can_ask_for_certificates() {
    let Some(scene) = Scene::start() else { return };
    let settings = "[http]\ntls = true\n";
    let node = node().listening().file("config.toml", settings).start();
    let pem = node.home().join("listener.pem");
    let pem = pem.to_str().unwrap();
    let tokens = scene.path("both");
    let mut serve = vec!["office", "serve", "--listen", "127.0.0.1:0"];
    serve.extend(["--token-file", &tokens, "--cert", pem, "--key", pem]);
    serve.extend(["--client-ca", pem]);
    let server = Running::start(scene.home.command(&serve));
    let said = server.until("office server at https://");
    let (_, port) = said.rsplit_once(':').unwrap();
    let url = format!("https://localhost:{port}");
    scene.write("token", &format!("{AGENT}-{COMPUTER}"));
    let token = scene.path("token");
    let rooms = ["office", "rooms", &url, "studio", "--token-file", &token];
    let ask = |more: &[&str]| scene.home.cli(&[&rooms[..], more].concat());
    let known = ask(&["--ca", pem, "--cert", pem, "--key", pem]);
    assert_eq!(known.code, 0, "{known:?}");
    assert!(known.stdout.contains("agentcraft"), "{known:?}");
    for more in [&["--ca", pem][..], &[]] {
        let refused = ask(more);
        assert_eq!(refused.code, 1, "{refused:?}");
    }
}

/// Runs the official client in one of its modes and gives the protocol version that was spoken; nothing without a client.
fn official_client(transport: &str, mode: &str) -> Option<String> {
    let scene = Scene::start()?;
    let mut servers = scene.servers();
    servers["servers"]["board"] = json!({
        "command": scene.python, "args": [BOARD],
        "env": servers["servers"]["scripted"]["env"],
    });
    scene.write("servers.json", &servers.to_string());
    scene.write("token", &format!("{AGENT}-{COMPUTER}"));
    let tokens = scene.path("both");
    let command = scene.home.command(&[
        "office",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        &tokens,
    ]);
    let server = Running::start(command);
    let said = server.until("office server at ");
    let url = said.trim_start_matches("office server at ");
    let output = Command::new(&scene.python)
        .args([
            "-c",
            CLIENT,
            env!("CARGO_BIN_EXE_agentcraft"),
            transport,
            mode,
            url,
        ])
        .args(["token", "servers.json", "cancelled"].map(|name| scene.path(name)))
        .env("AGENTCRAFT_HOME", scene.home.home())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{transport} {mode}: {said}");
    eventually("no server is left", || {
        scene.home.agent_processes().is_empty()
    });
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn any_mcp_client_uses_the_tools_of_an_office_after_initialize() {
    if let Some(spoken) = official_client("stdio", "legacy") {
        assert_eq!(spoken, "2025-11-25");
    }
}

#[test]
fn any_mcp_client_uses_the_tools_of_an_office_without_initialize() {
    if let Some(spoken) = official_client("stdio", "auto") {
        assert_eq!(spoken, "2026-07-28");
    }
}

#[test]
fn any_mcp_client_uses_the_tools_of_an_office_over_http_after_initialize() {
    if let Some(spoken) = official_client("http", "legacy") {
        assert_eq!(spoken, "2025-11-25");
    }
}

#[test]
fn any_mcp_client_uses_the_tools_of_an_office_over_http_without_initialize() {
    if let Some(spoken) = official_client("http", "auto") {
        assert_eq!(spoken, "2026-07-28");
    }
}
