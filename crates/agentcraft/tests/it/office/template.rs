//! An agent of this node in an office, by one line of its template.

use std::{
    env,
    io::Write,
    net::{TcpListener, TcpStream},
    thread,
};

use serde_json::json;
use testkit::eventually;

use super::{Running, SERVER};
use crate::{matrix::model, node};

/// A model that adds with whatever tool can, and says what the tool said.
fn serve_model() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(stream));
        }
    });
    url
}

/// One request; a client that leaves early is no failure.
fn answer(mut stream: TcpStream) -> Option<()> {
    let body = model::read(&stream)?;
    let last = body["messages"].as_array()?.last()?;
    let tools = body["tools"].as_array().into_iter().flatten();
    let names = tools.filter_map(|tool| tool["function"]["name"].as_str());
    let adder = names.into_iter().find(|name| name.ends_with("__add"));
    let delta = match (last["role"] == "tool", adder) {
        (true, _) => json!({"content": format!("It says {}.", last["content"])}),
        (false, Some(name)) => json!({"tool_calls": [{
            "index": 0, "id": "c1", "type": "function",
            "function": {"name": name, "arguments": "{\"a\": 40, \"b\": 2}"},
        }]}),
        (false, None) => json!({"content": "There is no tool yet."}),
    };
    let chunk = json!({"choices": [{"delta": delta}]});
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
         data: {chunk}\n\ndata: [DONE]\n\n"
    )
    .ok()
}

#[test]
fn an_agent_of_this_node_uses_an_office_by_one_line_of_its_template() {
    let Some(python) = env::var_os("AGENTCRAFT_TEST_PYTHON") else {
        println!("skipped: ./test sets AGENTCRAFT_TEST_PYTHON");
        return;
    };
    let component = json!({
        "name": "clock", "command": python.to_str().unwrap(), "args": [SERVER, "stdio"],
    });
    let node = node()
        .listening()
        .file("configs/mcp/clock.json", component.to_string())
        .start();
    let url = node.url();
    let command = node.command(&[
        "computer", "join", &url, "studio", "--name", "nova", "--yes",
    ]);
    let computer = Running::start(command);
    computer.until("lending 4");
    node.template(
        "worker",
        json!({
            "backend": {"type": "openai-compatible", "config": {"baseUrl": serve_model()}},
            "domainContext": {"mcpServers": [{"office": "studio"}]},
            "permissions": {"allow": ["studio__*"]},
        }),
    );
    let mut client = node.client();
    for name in ["w1", "w2"] {
        client.ok("agent.create", json!({"name": name, "template": "worker"}));
    }
    let add = |name: &str| {
        node.cli(&["agent", "run", name, "--prompt", "40 and 2?"])
            .stdout
    };
    // A turn may begin before its MCP server is up. Sessions go on, and all of them are the one agent of the office.
    for name in ["w1", "w2", "w1", "w2"] {
        eventually("the agent adds with a tool of the office", || {
            add(name).contains("42")
        });
    }
}
