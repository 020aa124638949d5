//! The official clients in TypeScript: both lines of releases, both handshakes, over stdio and over the node's port.

use std::{env, path::PathBuf, process::Command};

use testkit::TestDaemon;

use super::templates;
use crate::node;

const CLIENT: &str = include_str!("client.mjs");

/// The first line of releases, and the second one with and without `initialize`.
const LINES: [&str; 3] = ["sdk", "legacy", "modern"];

/// Runs each client with what says where the server is.
fn every_line(daemon: fn() -> TestDaemon, place: fn(&TestDaemon) -> Vec<String>) {
    let Some(modules) = env::var_os("AGENTCRAFT_TEST_EDITORS").map(PathBuf::from) else {
        return println!("skipped: ./test sets AGENTCRAFT_TEST_EDITORS to where the clients are");
    };
    for line in LINES {
        let daemon = daemon();
        templates(&daemon);
        let script = daemon.home().join("client.mjs");
        std::fs::write(&script, CLIENT).unwrap();
        let output = Command::new(modules.join(".bin/node"))
            .arg(script)
            .arg(&modules)
            .arg(line)
            .args(place(&daemon))
            .env("AGENTCRAFT_HOME", daemon.home())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
    }
}

#[test]
fn the_typescript_clients_use_every_tool() {
    every_line(
        || node().start(),
        |_| vec![env!("CARGO_BIN_EXE_agentcraft").to_owned()],
    );
}

#[test]
fn the_typescript_clients_use_every_tool_over_http() {
    every_line(
        || node().listening().start(),
        |daemon| vec![daemon.url(), daemon.token()],
    );
}
