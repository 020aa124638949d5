//! The faces of the network, each against a real daemon on a port of its own.

mod a2a;
mod chains;
mod command;
mod configured;
mod crashes;
mod exchange;
pub(crate) mod http;
mod late;
mod listener;
pub(crate) mod mcp;
mod port_commands;
mod printed;
mod runs;

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::json;
use testkit::TestDaemon;

use crate::node;

/// A node that listens, with `echo`, the built-in agent.
fn listening() -> TestDaemon {
    let daemon = node().listening().start();
    with_echo(&daemon);
    daemon
}

fn with_echo(daemon: &TestDaemon) {
    daemon.template("echo", json!({"backend": {"type": "builtin"}}));
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "echo", "template": "echo"}));
    client.ok("agent.start", json!({"name": "echo"}));
}

/// The agent of a phone, written in Python.
fn with_phone(daemon: &TestDaemon) {
    let args = json!(["-c", include_str!("network/phone.py")]);
    let program = json!({"executablePath": "python3", "args": args, "protocol": "acp"});
    let backend = json!({"type": "custom", "config": program});
    daemon.template(
        "phone",
        json!({"backend": backend, "description": "电台、新闻、日历"}),
    );
    let mut client = daemon.client();
    client.ok(
        "agent.create",
        json!({"name": "phone", "template": "phone"}),
    );
    client.ok("agent.start", json!({"name": "phone"}));
}

/// What an agent of the node has in its workspace.
fn workspace_file(daemon: &TestDaemon, agent: &str, file: &str) -> PathBuf {
    daemon.home().join("instances").join(agent).join(file)
}

/// The Python that has the packages of one list; nothing where they were not installed.
pub(crate) fn python(list: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("AGENTCRAFT_TEST_CACHE")?;
    let python = PathBuf::from(cache).join(format!("venv-{list}/bin/python"));
    python.exists().then_some(python)
}

/// Runs a client written in Python against the daemon; false where its packages are not there.
fn passes(list: &str, script: &str, daemon: &TestDaemon, arguments: &[&str]) -> bool {
    let Some(python) = python(list) else {
        println!("skipped: ./test installs the packages of tests/python/{list}.txt");
        return false;
    };
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(python)
        .args(["-c", script, &daemon.url(), &daemon.token()])
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    );
    true
}
