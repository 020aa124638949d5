//! The node's page in a real browser: everything a person does there, by mouse and by keys, in both themes, at both
//! widths, and over breaks of the line.
//!
//! Each test drives a script of Playwright's that prints one line per step, so that a failure names the step.

mod browser;

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Stdio},
};

use browser::{browser, browser_at, link};
use serde_json::json;
use testkit::{Builder, TestDaemon, eventually, kill};

use crate::{network::http::Http, node};

const RELEASE: &str = "name: release
description: Checks the tree, builds it, asks somebody, and publishes
inputs:
  - {name: version, type: string, required: true, description: 'What to call it, such as 1.4.0'}
  - {name: channel, type: string, default: beta, validation: {enum: [stable, beta, nightly]}}
  - {name: retries, type: integer, default: 2, validation: {min: 0, max: 5}}
  - {name: dry_run, type: boolean}
states:
  initial: check
  check: {type: command, command: 'echo checking {{.inputs.version}}', on_success: build, on_failure: failed}
  build: {type: agent, provider: 'agent:writer', prompt: /slow 3 20, on_success: publish, on_failure: failed}
  publish: {type: command, command: echo published, approval: {message: 'Publish {{.inputs.version}}?', destructive: true}, on_success: done, on_failure: failed}
  done: {type: terminal, message: '{{.inputs.version}} is out'}
  failed: {type: terminal, status: failure, message: not published}
";

/// A loop with a step in it, and an end after it.
const LOOPS: &str = "name: loops
description: Counts
states:
  initial: each
  each: {type: for_each, items: [red, green], body: [paint], on_complete: done, on_failure: failed}
  paint: {type: command, command: 'echo {{.loop.Item}}'}
  done: {type: terminal, message: counted}
  failed: {type: terminal, status: failure, message: not counted}
";

/// A step that fails, and the end for it.
const BREAKS: &str = "name: breaks
states:
  initial: build
  build: {type: command, command: echo built, on_success: test, on_failure: failed}
  test: {type: command, command: exit 1, on_success: done, on_failure: failed}
  done: {type: terminal, message: out}
  failed: {type: terminal, status: failure, message: the tests failed}
";

/// A step that fails inside another, and is made good.
const MENDS: &str = "name: mends
states:
  initial: both
  both: {type: parallel, parallel: [good, bad], strategy: all_succeed, max_concurrent: 1, on_success: done, on_failure: mend}
  bad: {type: command, command: exit 1}
  good: {type: command, command: echo fine}
  mend: {type: command, command: echo mended, on_success: done, on_failure: failed}
  done: {type: terminal, message: out}
  failed: {type: terminal, status: failure, message: not mended}
";

/// Ways with conditions, and one without.
const CHOOSES: &str = "name: chooses
states:
  initial: look
  look:
    type: command
    command: echo 7
    transitions:
      - {when: 'states.look.Output == \"7\"', goto: odd}
      - {goto: even}
    on_failure: even
  odd: {type: terminal, message: odd}
  even: {type: terminal, status: failure, message: even}
";

/// Works on what is lent to it: changes a file and adds one, or goes on until it is ended.
const WORKER: &str = r#"#!/bin/sh
case "$1" in
  *wait*) sleep 1000 ;;
  *) sed -i s/two/2/ notes.txt; echo done > result.txt; echo "Counted with digits." ;;
esac
"#;

/// A node with the templates of the tests, and a workflow.
fn prepared() -> Builder {
    node()
        .listening()
        .file("configs/workflows/release.yaml", RELEASE)
        .file("configs/workflows/loops.yaml", LOOPS)
        .file("configs/workflows/breaks.yaml", BREAKS)
        .file("configs/workflows/mends.yaml", MENDS)
        .file("configs/workflows/chooses.yaml", CHOOSES)
        .file("config.toml", "[http]\nname = \"desk\"\n")
}

fn templates(daemon: &TestDaemon) {
    let described = |backend, words| json!({"backend": {"type": backend, "config": {"workflow": "*"}}, "description": words});
    daemon.template(
        "writer",
        json!({"backend": {"type": "builtin"}, "description": "Reads, writes and runs things in its workspace"}),
    );
    daemon.template(
        "flows",
        described("workflow", "Runs every workflow of this node"),
    );
}

/// An agent that writes, and runs.
fn writer(daemon: &TestDaemon) {
    templates(daemon);
    let mut client = daemon.client();
    client.ok("agent.create", named("writer"));
    client.ok("agent.start", json!({"name": "writer"}));
}

/// Two agents: one that writes, one that runs workflows.
fn agents(daemon: &TestDaemon) {
    writer(daemon);
    daemon.client().ok("agent.create", named("flows"));
}

fn named(template: &str) -> serde_json::Value {
    json!({"name": template, "template": template})
}

fn create_late(daemon: &TestDaemon) {
    let late = json!({"name": "late", "template": "writer"});
    daemon.client().ok("agent.create", late);
}

/// One prompt through the network, to its end.
fn run_through_the_network(daemon: &TestDaemon) {
    let body = json!({
        "agent_name": "writer", "mode": "sync",
        "input": [{"parts": [{"content": "hello from the network"}]}],
    });
    let run = Http::owner(daemon).post("/runs", &body).ok();
    assert_eq!(run["status"], "completed");
}

/// A node that takes workspaces, known to the other as a peer.
fn peer_of(daemon: &TestDaemon) -> TestDaemon {
    let peer = node()
        .listening()
        .file(
            "config.toml",
            "[http]\nname = \"build-box\"\n[lending]\nexecutor = \"worker\"\n",
        )
        .start();
    let program = peer.scratch("worker");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::write(&program, WORKER).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    peer.template(
        "worker",
        json!({"backend": {"type": "command", "config": {"executablePath": program}}, "description": "Works on what others lend"}),
    );
    let mut client = peer.client();
    client.ok(
        "agent.create",
        json!({"name": "worker", "template": "worker"}),
    );
    let known = json!({"url": peer.url(), "token": peer.token()});
    Http::owner(daemon).post("/peers", &known).ok();
    peer
}

/// Lends a folder with a file of three lines, and gives the delegation's id.
fn lend(daemon: &TestDaemon, peer: &TestDaemon, folder: &Path, task: &str) -> String {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("notes.txt"), "one\ntwo\nthree\n").unwrap();
    let wanted = json!({
        "peerUrl": peer.url(), "token": peer.token(), "dir": folder, "prompt": task, "background": true,
    });
    let lent = Http::owner(daemon).post("/delegations", &wanted).ok();
    lent["id"].as_str().unwrap().to_owned()
}

fn state_of(daemon: &TestDaemon, delegation: &str) -> String {
    let path = format!("/delegations/{delegation}");
    let view = Http::owner(daemon).get(&path).ok();
    view["state"].as_str().unwrap().to_owned()
}

fn run(script: &str, daemon: &TestDaemon) {
    if let Some(mut browser) = browser(script, daemon) {
        browser.finish(|demand| panic!("nobody can {demand}"));
    }
}

#[test]
fn a_person_starts_an_agent_talks_to_it_and_answers_what_it_asks() {
    let daemon = prepared().start();
    templates(&daemon);
    run("acts.mjs", &daemon);
}

#[test]
fn a_workflow_is_run_with_a_form_and_its_graph_is_coloured_to_the_end() {
    let daemon = prepared().start();
    writer(&daemon);
    run_through_the_network(&daemon);
    run("flows.mjs", &daemon);
}

#[test]
fn an_ask_shows_what_it_is_for_takes_its_form_and_stays_until_it_is_answered() {
    let daemon = prepared().start();
    let talker = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/dashboard/talker.mjs");
    let script = format!("exec node '{}'", talker.display());
    daemon.template(
        "talker",
        json!({"backend": {"type": "custom", "config": {"executablePath": "/bin/sh", "args": ["-c", script], "protocol": "acp"}}}),
    );
    // Without the packages for the browser there may be no node for the agent either.
    let Some(mut browser) = browser("asks.mjs", &daemon) else {
        return;
    };
    let mut client = daemon.client();
    client.ok("agent.create", named("talker"));
    client.ok("agent.start", json!({"name": "talker"}));
    browser.finish(|demand| panic!("nobody can {demand}"));
}

#[test]
fn a_line_that_is_slow_or_dead_without_a_word_loses_nothing() {
    let daemon = prepared().start();
    writer(&daemon);
    let Some(mut browser) = browser("lines.mjs", &daemon) else {
        return;
    };
    browser.finish(|demand| match demand {
        "create late" => create_late(&daemon),
        other => panic!("nobody can {other}"),
    });
}

#[test]
fn each_node_has_its_own_login_and_whoever_has_none_is_told_how() {
    let (daemon, other) = (prepared().start(), prepared().start());
    if let Some(mut browser) = browser_at("logins.mjs", &[&daemon, &other]) {
        browser.finish_answering(|demand| match demand {
            "link" => link(&daemon),
            "other link" => link(&other),
            demand => panic!("nobody can {demand}"),
        });
    }
}

/// The sessions of the node as the page reads them.
fn sessions(daemon: &TestDaemon) -> Vec<serde_json::Value> {
    let listed = Http::owner(daemon).get("/api/sessions").ok();
    listed.as_array().unwrap().clone()
}

#[test]
fn a_conversation_tells_what_waits_that_its_agent_stopped_and_that_it_is_over() {
    let daemon = prepared().start();
    writer(&daemon);
    daemon.script_template("clock", "while read line; do :; done");
    daemon.client().ok("agent.create", named("clock"));
    let Some(mut browser) = browser("ends.mjs", &daemon) else {
        return;
    };
    browser.finish(|demand| match demand {
        "stop the agent" => drop(daemon.client().ok("agent.stop", json!({"name": "writer"}))),
        "close the session" => {
            let id = sessions(&daemon)[0]["sessionId"]
                .as_str()
                .unwrap()
                .to_owned();
            Http::owner(&daemon).call("DELETE", &format!("/api/sessions/{id}"), &[], None);
        }
        other => panic!("nobody can {other}"),
    });
}

#[test]
fn pages_that_nobody_sees_sleep_let_go_of_their_lines_and_catch_up() {
    let daemon = prepared().start();
    writer(&daemon);
    let Some(mut browser) = browser("tabs.mjs", &daemon) else {
        return;
    };
    let busy = || {
        let listed = sessions(&daemon);
        listed.iter().any(|session| session["busy"] == true)
    };
    browser.finish(|demand| match demand {
        "wait until nothing is busy" => eventually("the turn is over", || !busy()),
        "create late" => create_late(&daemon),
        other => panic!("nobody can {other}"),
    });
}

#[test]
fn everything_is_reached_and_answered_by_keys_alone() {
    let daemon = prepared().start();
    agents(&daemon);
    run("keyboard.mjs", &daemon);
}

#[test]
fn a_lent_workspace_counts_down_is_cancelled_and_its_changes_are_read() {
    let daemon = prepared().start();
    templates(&daemon);
    let peer = peer_of(&daemon);
    let done = lend(&daemon, &peer, &daemon.scratch("done"), "count with digits");
    lend(&daemon, &peer, &daemon.scratch("long"), "wait for ever");
    eventually("the work is done", || {
        state_of(&daemon, &done) == "completed"
    });
    let Some(mut browser) = browser("lending.mjs", &daemon) else {
        return;
    };
    browser.finish(|demand| panic!("nobody can {demand}"));
    let notes = fs::read_to_string(daemon.scratch("done").join("notes.txt")).unwrap();
    assert_eq!(notes, "one\ntwo\nthree\n", "it was undone at the page");
}

/// A scene with something in every part.
fn furnished() -> (TestDaemon, TestDaemon) {
    let daemon = prepared().start();
    agents(&daemon);
    run_through_the_network(&daemon);
    let peer = peer_of(&daemon);
    let done = lend(&daemon, &peer, &daemon.scratch("done"), "count with digits");
    eventually("the work is done", || {
        state_of(&daemon, &done) == "completed"
    });
    (daemon, peer)
}

#[test]
fn no_part_breaks_a_rule_of_accessible_pages_in_either_theme_at_either_width() {
    let (daemon, _peer) = furnished();
    let Some(mut browser) = browser("parts.mjs", &daemon) else {
        return;
    };
    let mut computer = computer_in_office(&daemon);
    browser.finish(|demand| panic!("nobody can {demand}"));
    kill(computer.id(), "INT");
    computer.wait().unwrap();
}

/// A computer that lends one tool to an office of the node, and is there.
fn computer_in_office(daemon: &TestDaemon) -> Child {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/dashboard/server.mjs");
    let servers =
        json!({"servers": {"sums": {"type": "stdio", "command": "node", "args": [server]}}});
    let file = daemon.scratch("servers.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, servers.to_string()).unwrap();
    let (url, file) = (daemon.url(), file.display().to_string());
    let arguments = [
        "computer", "join", &url, "studio", "--name", "nova", "--config", &file, "--yes",
    ];
    let mut computer = daemon
        .command(&arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(computer.stdout.take().unwrap()).lines();
    let lending = said.find(|line| {
        line.as_ref()
            .is_ok_and(|line| line.starts_with("lending 1"))
    });
    assert!(lending.is_some(), "it lends its tool");
    // What it says later is read, so that it never blocks, and dropped.
    std::thread::spawn(move || said.for_each(drop));
    computer
}

#[test]
fn a_tool_of_a_computer_is_tried_at_the_console_of_its_office() {
    let daemon = prepared().start();
    // Without the packages for the browser there may be no node for the tool either.
    let Some(mut browser) = browser("offices.mjs", &daemon) else {
        return;
    };
    let mut computer = computer_in_office(&daemon);
    browser.finish(|demand| match demand {
        "leave" => {
            kill(computer.id(), "INT");
            computer.wait().unwrap();
        }
        other => panic!("nobody can {other}"),
    });
}

/// A port that is given to nobody by chance: below those that the system hands out.
fn lasting_port() -> u16 {
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let mut ports = (first..32_000).chain(20_000..first);
    ports
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

#[test]
fn a_page_catches_up_by_itself_after_a_reload_a_crash_and_a_restart() {
    let mut daemon = prepared()
        .env("AGENTCRAFT_LISTEN", format!("127.0.0.1:{}", lasting_port()))
        .start();
    agents(&daemon);
    let Some(mut browser) = browser("breaks.mjs", &daemon) else {
        return;
    };
    browser.finish(|demand| match demand {
        "kill" => daemon.kill(),
        "stop" => daemon.stop(),
        "start" => {
            daemon.start();
            daemon.client().ok("agent.start", json!({"name": "writer"}));
        }
        "start and create late" => {
            daemon.start();
            create_late(&daemon);
        }
        other => panic!("nobody can {other}"),
    });
}

#[test]
fn a_prompt_that_comes_on_many_lines_at_once_is_one_turn() {
    let daemon = prepared().start();
    writer(&daemon);
    let owner = Http::owner(&daemon);
    let session = owner
        .post("/api/sessions", &json!({"agent": "writer"}))
        .ok();
    let id = session["sessionId"].as_str().unwrap();
    let path = format!("/api/sessions/{id}/prompt");
    let turns: Vec<serde_json::Value> = std::thread::scope(|scope| {
        let lines: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let prompt = json!({"text": "/pwd", "key": "one"});
                    Http::owner(&daemon).post(&path, &prompt).ok()["turn"].clone()
                })
            })
            .collect();
        lines.into_iter().map(|line| line.join().unwrap()).collect()
    });
    assert_eq!(turns, vec![turns[0].clone(); 8]);
    let next = owner
        .post(&path, &json!({"text": "/pwd", "key": "two"}))
        .ok();
    assert_eq!(
        next["turn"].as_u64(),
        turns[0].as_u64().map(|turn| turn + 1)
    );
    let empty = owner.post(&path, &json!({"text": " "}));
    assert_eq!(empty.status, 400, "{empty:?}");
}

#[test]
fn the_page_loads_nothing_from_elsewhere_and_stays_in_no_frame() {
    let daemon = prepared().start();
    let owner = Http::owner(&daemon);
    for path in ["/", "/assets/app.js", "/assets/style.css"] {
        let answer = owner.get(path);
        let policy = answer.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "connect-src 'self'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
    }
}
