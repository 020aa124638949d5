//! An office: a computer lends the node's own MCP server, and whoever is in the office talks to its agents.

use std::fs;

use serde_json::{Value, json};
use testkit::TestDaemon;

use super::{End, Seen, Way};
use crate::office::Running;

/// A computer that is in the office for as long as the way is open.
pub(super) fn open(daemon: &TestDaemon) -> Way<'_> {
    let computer = join(daemon);
    Box::new(move |agent, _, prompt| {
        let _in_the_office = &computer;
        call(daemon, agent, prompt)
    })
}

fn path(daemon: &TestDaemon, name: &str) -> String {
    daemon.scratch(name).to_str().unwrap().to_owned()
}

fn join(daemon: &TestDaemon) -> Running {
    fs::create_dir_all(daemon.scratch("")).unwrap();
    fs::write(daemon.scratch("office.token"), daemon.token()).unwrap();
    let servers = json!({"servers": {"node": {
        "type": "stdio", "command": env!("CARGO_BIN_EXE_agentcraft"),
        "args": ["--home", daemon.home(), "mcp", "serve"],
    }}});
    fs::write(daemon.scratch("office.json"), servers.to_string()).unwrap();
    let (url, token, servers) = (
        daemon.url(),
        path(daemon, "office.token"),
        path(daemon, "office.json"),
    );
    let arguments = [
        "computer",
        "join",
        &url,
        "studio",
        "--name",
        "nova",
        "--token-file",
        &token,
        "--config",
        &servers,
        "--yes",
    ];
    let computer = Running::start(daemon.command(&arguments));
    computer.until("lending");
    computer
}

fn call(daemon: &TestDaemon, agent: &str, prompt: &str) -> Seen {
    let (url, token) = (daemon.url(), path(daemon, "office.token"));
    let given = json!({"name": agent, "message": prompt}).to_string();
    let tool = "node__agentcraft_prompt_agent";
    let output = daemon.cli(&[
        "office",
        "call",
        &url,
        "studio",
        "nova",
        tool,
        &given,
        "--token-file",
        &token,
        "-f",
        "json",
    ]);
    let told: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let response = told
        .pointer("/structuredContent/response")
        .and_then(Value::as_str);
    Seen {
        text: response.unwrap_or_default().to_owned(),
        pieces: 1,
        end: if output.code == 0 {
            End::Done
        } else {
            End::Failed(told.to_string())
        },
    }
}
