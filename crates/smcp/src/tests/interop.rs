//! The software of others: a Python and a JavaScript client of Socket.IO, and the released SDK of the protocol.
//!
//! Each test runs a script beside this file. Where its packages are not installed, the test says so and ends.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use wire::smcp::Profile::{Seed, Shipped};

use super::{
    members::news,
    several::Redis,
    support::{FakeTools, Office, computer_config, link, params},
};
use crate::{
    agent::{Agent, Call, News},
    computer::Computer,
    server::OfficeConfig,
};

/// A script imports a lot before it does anything, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(50);

/// What the scripts need, if it is installed.
fn installed(variable: &str, folder: &str) -> Option<PathBuf> {
    let path = match env::var_os(variable) {
        Some(path) => PathBuf::from(path),
        None => Path::new(&env::var_os("HOME")?)
            .join(".cache/agentcraft-test")
            .join(folder),
    };
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {variable} names nothing that is installed");
    None
}

fn python() -> Option<PathBuf> {
    installed("AGENTCRAFT_TEST_SMCP_PYTHON", "venv-smcp/bin/python")
}

/// A script that runs, with a home of its own.
struct Script {
    child: Child,
    input: ChildStdin,
    lines: tokio::io::Lines<BufReader<ChildStdout>>,
    _home: TempDir,
}

impl Script {
    fn start(program: &Path, name: &str, args: &[&str], environment: &[(&str, &Path)]) -> Self {
        let home = TempDir::new().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src/tests")
            .join(name);
        let mut child = Command::new(program)
            .arg(script)
            .args(args)
            .env("HOME", home.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(environment.iter().copied())
            .current_dir(home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self {
            child,
            input,
            lines: BufReader::new(output).lines(),
            _home: home,
        }
    }

    /// The next line of JSON; the SDK logs between them.
    async fn line(&mut self) -> Value {
        loop {
            let line = timeout(PATIENCE, self.lines.next_line()).await;
            let line = line.expect("the script says something").unwrap();
            let line = line.expect("the script has not failed");
            if let Ok(said) = serde_json::from_str(&line) {
                return said;
            }
        }
    }

    async fn go_on(&mut self) {
        self.input.write_all(b"\n").await.unwrap();
    }

    async fn end(mut self) {
        let ended = timeout(PATIENCE, self.child.wait()).await;
        assert!(ended.expect("the script ends").unwrap().success());
    }

    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// What a plain client has seen, whatever it is written in.
fn check_plain(said: &Value, transport: &str, is_shipped: bool, calls: usize) {
    assert_eq!(said["transport"], transport);
    assert_eq!(said["joined"], json!([[true, null], [true, null]]));
    let membership = json!({"office_id": "o", "computer": "pc"});
    assert_eq!(said["entered"], json!(["notify:enter_office", membership]));
    assert_eq!(said["left"], json!(["notify:leave_office", membership]));
    assert_eq!(said["right"], calls, "every call has its own answer");
    for (answer, code) in [("refused", 404), ("binary", 400), ("malformed", 400)] {
        let body = if is_shipped {
            &said[answer]
        } else {
            &said[answer]["error"]
        };
        assert_eq!(body["code"], code, "{answer}: {said}");
    }
}

async fn plain_python(transports: &str, ends_on: &str, calls: usize) {
    let Some(python) = python() else { return };
    for (query, is_shipped) in [("", false), ("?a2c_version=0.4.0", true)] {
        let office = Office::start().await;
        let args = [&office.url(), query, transports, &calls.to_string()];
        let mut script = Script::start(&python, "plain_client.py", &args, &[]);
        let said = script.line().await;
        check_plain(&said, ends_on, is_shipped, calls);
        script.end().await;
        office.stop().await;
    }
}

#[tokio::test]
async fn a_python_client_polls() {
    plain_python("polling", "polling", 200).await;
}

#[tokio::test]
async fn a_python_client_uses_websocket() {
    plain_python("websocket", "websocket", 200).await;
}

#[tokio::test]
async fn a_python_client_upgrades() {
    plain_python("polling,websocket", "websocket", 200).await;
}

async fn plain_javascript(transports: &str, calls: usize) {
    let variable = "AGENTCRAFT_TEST_SMCP_NODE_MODULES";
    let Some(modules) = installed(variable, "node-smcp/node_modules") else {
        return;
    };
    for (version, is_shipped) in [("", false), ("0.4.0", true)] {
        let office = Office::start().await;
        let args = [&office.url(), version, transports, &calls.to_string()];
        let environment = [("NODE_PATH", modules.as_path())];
        let mut script = Script::start(Path::new("node"), "plain_client.cjs", &args, &environment);
        let said = script.line().await;
        let ends_on = said["transport"].as_str().unwrap_or_default();
        assert!(transports.contains(ends_on), "{said}");
        check_plain(&said, ends_on, is_shipped, calls);
        assert!(
            said["unknown"].as_str().unwrap().contains("token"),
            "{said}"
        );
        script.end().await;
        office.stop().await;
    }
}

#[tokio::test]
async fn a_javascript_client_polls() {
    plain_javascript("polling", 200).await;
}

#[tokio::test]
async fn a_javascript_client_uses_websocket() {
    plain_javascript("websocket", 200).await;
}

#[tokio::test]
async fn a_javascript_client_upgrades() {
    plain_javascript("polling,websocket", 200).await;
}

#[tokio::test]
async fn the_released_agent_uses_our_computer() {
    let Some(python) = python() else { return };
    for profile in [Shipped, Seed] {
        let office = Office::start().await;
        let config = computer_config(office.link(profile, "pc", "o"));
        let computer = Computer::start(config, FakeTools::new(), &office.tasks);
        computer.joined().await.unwrap();
        let mut script = Script::start(&python, "sdk_agent.py", &[&office.url()], &[]);
        let mut said = script.line().await;
        let config = said["config"].take().to_string();
        assert!(!config.contains("SECRET"), "{config}");
        // Whatever is refused is a failed result that says why.
        let errors = said.as_object_mut().unwrap().remove("errors").unwrap();
        for (error, words) in errors.as_array().unwrap().iter().zip([
            "Join an office first.",
            "not found",
            "forbidden",
            "disabled",
            "`computer` is not right",
            "'nobody' not found",
            "in time",
        ]) {
            let said = error.as_str().unwrap_or_default();
            assert!(
                said.contains(words) && !said.contains("pydantic"),
                "{errors}"
            );
        }
        assert_eq!(
            said,
            json!({
                "computers": ["pc"],
                "tools": ["one__ask", "one__denied", "one__fail", "one__hang", "one__image", "one__say"],
                "said": "{\"k\":\"é\"}",
                "image": 700_000_usize.div_ceil(3) * 4,
                "servers": ["off", "one"],
                "config": null,
                "desktop": ["window://one/high\n\nbody of window://one/high"],
            })
        );
        script.end().await;
        office.stop().await;
    }
}

#[tokio::test]
async fn the_released_agent_sends_files_and_reads_skills() {
    let Some(python) = python() else { return };
    let (files, skills) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let tidy = skills.path().join("tidy");
    std::fs::create_dir(&tidy).unwrap();
    let entry = "---\ndescription: Tidies up.\n---\nPut things away.\n";
    std::fs::write(tidy.join("SKILL.md"), entry).unwrap();
    std::fs::write(tidy.join("long.txt"), "x".repeat(100_000)).unwrap();
    std::fs::write(tidy.join("picture.png"), [0xff, 0, 7]).unwrap();
    let office = Office::start().await;
    let mut config = computer_config(office.link(Shipped, "pc", "o"));
    config.uploads = Some(files.path().to_owned());
    config.skills = Some(skills.path().to_owned());
    let computer = Computer::start(config, FakeTools::new(), &office.tasks);
    computer.joined().await.unwrap();
    let mut script = Script::start(&python, "sdk_files.py", &[&office.url()], &[]);
    let mut said = script.line().await;
    let path = said["path"].take();
    let path = Path::new(path.as_str().unwrap());
    assert_eq!(path.parent(), Some(files.path()));
    assert!(path.to_str().unwrap().ends_with("_a_file.bin"), "{path:?}");
    assert_eq!(
        said,
        json!({
            "whole": true, "size": 640_000, "sum": true, "path": null,
            "skills": [["tidy", "Tidies up."]], "entry": "Put things away.\n", "long": 100_000,
            "picture": [0xff, 0, 7],
            "refused": ["BlobUploadError", "BlobUploadError", 4016, 4017],
        })
    );
    script.end().await;
    office.stop().await;
}

#[tokio::test]
async fn our_agent_uses_the_released_computer() {
    let Some(python) = python() else { return };
    for profile in [Shipped, Seed] {
        let office = Office::start().await;
        let mut script = Script::start(&python, "sdk_computer.py", &[&office.url()], &[]);
        let (agent, mut listening) = Agent::start(office.link(profile, "ann", "o"), &office.tasks);
        agent.joined().await.unwrap();
        assert_eq!(script.line().await, "joined");
        let pc = || "pc".to_owned();
        news(&mut listening, &News::Entered { computer: pc() }).await;
        let tools = agent.tools("pc").await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["adder__add", "adder__wait"]);
        let config = agent.config("pc").await.unwrap();
        assert_eq!(config.servers["adder"].forbidden_tools.len(), 1);
        let never = CancellationToken::new();
        let call = |tool: &str, body| Call::new("pc", tool, params(body), Duration::from_secs(20));
        let sum = call("adder__add", json!({"a": 2, "b": 3}));
        let result = agent.call(&sum, &never).await.unwrap();
        assert_eq!(
            (result.is_error, &result.content[0]["text"]),
            (false, &json!("5"))
        );
        let refused = agent.call(&call("adder__secret", json!({})), &never).await;
        assert!(refused.unwrap_err().to_string().contains("forbidden"));
        let cancel = CancellationToken::new();
        cancel.cancel();
        let cancelled = agent
            .call(&call("adder__wait", json!({})), &cancel)
            .await
            .unwrap();
        assert!(cancelled.is_error, "{cancelled:?}");
        let file = vec![7; 600_000];
        let path = agent.upload("pc", &file, "sevens.bin").await.unwrap();
        assert_eq!(std::fs::read(path).unwrap(), file);
        assert_eq!(agent.skills("pc").await.unwrap(), Vec::<Value>::new());
        script.go_on().await;
        news(&mut listening, &News::ToolsChanged { computer: pc() }).await;
        script.go_on().await;
        news(&mut listening, &News::Left { computer: pc() }).await;
        script.end().await;
        office.stop().await;
    }
}

#[tokio::test]
async fn the_released_agent_and_computer_meet_across_two_servers() {
    let Some(python) = python() else { return };
    let Some(redis) = Redis::start().await else {
        return;
    };
    let here = Office::sharing(OfficeConfig::default(), &redis.url()).await;
    let there = Office::sharing(OfficeConfig::default(), &redis.url()).await;
    let mut computer = Script::start(&python, "sdk_computer.py", &[&there.url()], &[]);
    assert_eq!(computer.line().await, "joined");
    let mut agent = Script::start(&python, "sdk_caller.py", &[&here.url()], &[]);
    assert_eq!(
        agent.line().await,
        json!({
            "computers": ["pc"], "tools": ["adder__add", "adder__wait"],
            "sums": (1..=20).collect::<Vec<_>>(), "errors": [true, true], "servers": ["adder"], "desktop": [],
        })
    );
    agent.end().await;
    computer.go_on().await;
    computer.go_on().await;
    computer.end().await;
    here.stop().await;
    there.stop().await;
}

#[tokio::test]
async fn our_members_meet_in_the_released_server_and_find_back_after_its_death() {
    let Some(python) = python() else { return };
    let mut server = Script::start(&python, "sdk_server.py", &["0"], &[]);
    let port = server.line().await.to_string();
    let url = format!("http://127.0.0.1:{port}");
    let tasks = platform::Tasks::new();
    let tools = FakeTools::new();
    let config = computer_config(link(&url, Shipped, "pc", "o"));
    let computer = Computer::start(config, tools.clone(), &tasks);
    computer.joined().await.unwrap();
    let (agent, mut listening) = Agent::start(link(&url, Shipped, "ann", "o"), &tasks);
    agent.joined().await.unwrap();
    let never = CancellationToken::new();
    let call = |tool: &str| Call::new("pc", tool, params(json!({"k": 1})), Duration::from_secs(30));
    assert!(
        !agent
            .call(&call("one__say"), &never)
            .await
            .unwrap()
            .is_error
    );
    assert_eq!(agent.tools("pc").await.unwrap().len(), 6);
    assert_eq!(agent.members().await.unwrap().len(), 2);
    assert_eq!(agent.desktop("pc", None, None).await.unwrap().len(), 2);
    let cancel = CancellationToken::new();
    let hanging = call("one__hang");
    let (cancelled, ()) = tokio::join!(agent.call(&hanging, &cancel), async {
        tools.begun.notified().await;
        tools.begun.notified().await;
        cancel.cancel();
    });
    assert_eq!(cancelled.unwrap().meta.unwrap()["a2c_cancelled"], true);
    let hanging = call("one__hang");
    let (lost, ()) = tokio::join!(agent.call(&hanging, &never), async {
        tools.begun.notified().await;
        server.kill().await;
    });
    assert!(lost.is_err());
    news(&mut listening, &News::Away).await;
    let mut server = Script::start(&python, "sdk_server.py", &[&port], &[]);
    server.line().await;
    news(&mut listening, &News::Joined).await;
    let mut standing = computer.standing();
    let back = standing.wait_for(|standing| *standing == crate::Standing::Joined);
    timeout(PATIENCE, back).await.unwrap().unwrap();
    assert!(
        !agent
            .call(&call("one__say"), &never)
            .await
            .unwrap()
            .is_error
    );
    assert_eq!(tasks.drain(PATIENCE).await, platform::Drained::Clean);
    server.kill().await;
}
