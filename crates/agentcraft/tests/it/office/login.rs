//! A computer at an MCP server that wants a login: told so, logged in by a person, renewed by itself, and never told.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use serde_json::json;
use testkit::eventually;

use super::{Running, Scene};

/// The server and who gives its logins, written with the official library.
const GUARDED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../mcp/src/client/tests/guarded.py"
);

/// A server that wants a login; ended with the test.
struct Guarded {
    child: Child,
    url: String,
    journal: String,
}

impl Guarded {
    fn start(scene: &Scene, environment: &[(&str, &str)]) -> Self {
        let journal = scene.path("journal");
        scene.write("journal", "");
        let mut child = Command::new(&scene.python)
            .arg(GUARDED)
            .env("JOURNAL", &journal)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut port).unwrap();
        let url = format!("http://127.0.0.1:{}/mcp", port.trim());
        eventually("the server listens", || {
            TcpStream::connect(format!("127.0.0.1:{}", port.trim())).is_ok()
        });
        let servers = json!({ "servers": { "guarded": { "type": "http", "url": url } } });
        scene.write("servers.json", &servers.to_string());
        Self {
            child,
            url,
            journal,
        }
    }

    fn happened(&self, word: &str) -> usize {
        let journal = fs::read_to_string(&self.journal).unwrap();
        journal.lines().filter(|line| *line == word).count()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// What a browser does: asks, and goes where it is sent.
fn browse(url: &str) {
    let mut next = url.to_owned();
    for _ in 0..5 {
        let (host, path) = next.trim_start_matches("http://").split_once('/').unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let sent_to = answer.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("location").then_some(value)
        });
        match sent_to {
            Some(location) => location.trim().clone_into(&mut next),
            None => return assert!(answer.starts_with("HTTP/1.1 200"), "{answer}"),
        }
    }
    panic!("it is sent around for ever");
}

fn begin_login(scene: &Scene) -> (Running, String) {
    let servers = scene.path("servers.json");
    let command = scene
        .home
        .command(&["computer", "login", "guarded", "--config", &servers]);
    let complaints = fs::File::create(scene.path("complaints")).unwrap();
    let login = Running::complaining(command, complaints.into());
    login.until("open this address");
    let address = login.until("http://127.0.0.1");
    (login, address)
}

fn sum(scene: &Scene) -> testkit::Output {
    scene.office("call", &["nova", "guarded__add", "{\"a\": 1, \"b\": 2}"])
}

#[test]
fn a_server_that_wants_a_login_is_lent_once_somebody_has_logged_in() {
    let Some(scene) = Scene::start() else { return };
    // Tokens that are nearly over from the beginning are renewed with each use.
    let guarded = Guarded::start(&scene, &[("LIFETIME", "5")]);
    let complaints = scene.path("said");
    let file = fs::File::create(&complaints).unwrap();
    let (token, servers) = (scene.path("computer.token"), scene.path("servers.json"));
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
    eventually("it is said what to do", || {
        let said = fs::read_to_string(&complaints).unwrap();
        said.contains("it wants a login: run `agentcraft computer login`")
    });
    assert_eq!(scene.tools(), Vec::<String>::new());
    let (mut login, address) = begin_login(&scene);
    browse(&address);
    login.until("logged in at guarded");
    assert_eq!(login.child.wait().unwrap().code(), Some(0));
    // The computer is told by the system, and lends it now.
    assert_eq!(computer.until("lending 1"), "lending 1 tool: guarded (add)");
    let three = sum(&scene);
    assert_eq!((three.stdout.as_str(), three.code), ("3\n", 0), "{three:?}");
    assert!(guarded.happened("refresh") > 0, "no token was renewed");
    assert_eq!(
        (guarded.happened("register"), guarded.happened("code")),
        (1, 1)
    );
    // The tokens are in the file for nobody else, and nowhere else.
    let kept = fs::read_to_string(scene.home.home().join("mcp-logins.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    let secret = kept[&guarded.url]["token_response"]["access_token"].as_str();
    let secret = secret.unwrap_or_else(|| panic!("{kept}")).to_owned();
    let config = scene.json("config", &["nova"]).to_string();
    let said = fs::read_to_string(&complaints).unwrap();
    assert!(!config.contains(&secret) && !said.contains(&secret));
    let forgotten = scene.home.cli(&[
        "computer", "login", "guarded", "--config", &servers, "--forget",
    ]);
    assert_eq!(
        forgotten.stdout, "the login at guarded is forgotten\n",
        "{forgotten:?}"
    );
}

#[test]
fn a_login_that_nobody_agrees_to_keeps_nothing() {
    let Some(scene) = Scene::start() else { return };
    let _guarded = Guarded::start(&scene, &[("DENY", "1")]);
    let (mut login, address) = begin_login(&scene);
    browse(&address);
    assert_eq!(login.child.wait().unwrap().code(), Some(1));
    let said = fs::read_to_string(scene.path("complaints")).unwrap();
    assert!(said.contains("access_denied"), "{said}");
    assert!(!scene.home.home().join("mcp-logins.json").exists());
    for (server, words) in [("nothing", "no server"), ("scripted", "no server")] {
        let servers = scene.path("servers.json");
        let refused = scene
            .home
            .cli(&["computer", "login", server, "--config", &servers]);
        assert!(refused.code != 0, "{refused:?}");
        assert!(refused.stderr.contains(words), "{refused:?}");
    }
}
