//! An office: a computer lends the node's own MCP server, and whoever is in the office talks to its agents.

use std::fs;

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use super::{Act, End, Seen, Way, is_cancelled};
use crate::{office::Running, proxy::editor::Editor};

/// What the computer's server has for a prompt.
const TOOL: &str = "nova__node__agentcraft_prompt_agent";

/// A computer that is in the office for as long as the way is open.
pub(super) fn open(daemon: &TestDaemon) -> Way<'_> {
    let computer = join(daemon);
    Box::new(move |agent, act, prompt| {
        let _in_the_office = &computer;
        call(daemon, agent, act, prompt)
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

/// An MCP client of the office.
fn enter(daemon: &TestDaemon) -> Editor {
    let (url, token) = (daemon.url(), path(daemon, "office.token"));
    let mut client =
        Editor::run(daemon.command(&["mcp", "office", &url, "studio", "--token-file", &token]));
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    client.call("initialize", params);
    client.send(json!({"method": "notifications/initialized"}));
    while !client
        .call("tools/list", json!({}))
        .0
        .to_string()
        .contains(TOOL)
    {
        assert_eq!(client.next()["method"], "notifications/tools/list_changed");
    }
    client
}

fn call(daemon: &TestDaemon, agent: &str, act: Act, prompt: &str) -> Seen {
    let mut client = enter(daemon);
    let arguments = json!({"name": agent, "message": prompt});
    let params = json!({"name": TOOL, "arguments": arguments, "_meta": {"progressToken": "p"}});
    let id = client.ask("tools/call", params);
    let mut seen = Seen::default();
    loop {
        let message = client.next();
        if message["method"] == "notifications/progress" {
            seen.pieces += 1;
            if act == Act::Cancel {
                let params = json!({"requestId": id, "reason": "enough"});
                client.send(json!({"method": "notifications/cancelled", "params": params}));
                eventually("the turn is cancelled", || is_cancelled(daemon, agent));
                seen.end = End::Cancelled;
                break;
            }
        }
        if message["id"] == id {
            let result = &message["result"];
            let response = result.pointer("/structuredContent/response");
            let response = response.and_then(Value::as_str).unwrap_or_default();
            seen.text = response.to_owned();
            if result["isError"] != false {
                seen.end = End::Failed(message.to_string());
            }
            break;
        }
    }
    let output = client.close();
    assert_eq!(output.code, 0, "{output:?}");
    seen
}
