//! Circles of nodes that call one another are refused with the chain, also through a hop that drops it.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use serde_json::json;
use testkit::eventually;

use super::{Lan, Node, OPEN, peers, route, told};
use crate::network::python;

/// An agent that hands everything on to an agent of one node.
fn hand_on(node: &Node, name: &str, url: &str, agent: &str) {
    hand_on_by("peer", node, name, url, agent);
}

fn hand_on_by(way: &str, node: &Node, name: &str, url: &str, agent: &str) {
    let backend = json!({"type": way, "config": {"url": url, "agent": agent}});
    node.daemon.template(name, json!({"backend": backend}));
    let mut client = node.daemon.client();
    client.ok("agent.create", json!({"name": name, "template": name}));
}

#[test]
fn a_circle_of_three_nodes_is_refused_with_its_chain() {
    let Some(mut lan) = Lan::new() else { return };
    let nodes = ["a", "b", "c"].map(|name| lan.node(name, OPEN));
    for (index, node) in nodes.iter().enumerate() {
        let next = &nodes[(index + 1) % nodes.len()];
        hand_on(node, "next", &lan.url(next.machine), "next");
    }
    let output = nodes[0].cli(&["agent", "run", "next", "-p", "round and round"]);
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(
        output.code != 0 && said.contains("circular_call_detected"),
        "{said}"
    );
    assert!(said.contains("already in the chain of calls"), "{said}");
}

#[test]
fn a_circle_over_a2a_is_refused_with_words_also_where_the_protocols_change() {
    let Some(mut lan) = Lan::new() else { return };
    let nodes = ["a", "b"].map(|name| lan.node(name, OPEN));
    let [a, b] = &nodes;
    let (to_a, to_b) = (lan.url(a.machine), lan.url(b.machine));
    for (name, way_back) in [("same", "a2a"), ("other", "peer")] {
        hand_on_by("a2a", a, name, &to_b, name);
        hand_on_by(way_back, b, name, &to_a, name);
        let output = a.cli(&["agent", "run", name, "-p", "round and round"]);
        let said = format!("{}{}", output.stdout, output.stderr);
        assert!(output.code != 0, "{name}: {said}");
        assert!(said.contains("circular_call_detected"), "{name}: {said}");
        assert!(
            said.contains("already in the chain of calls"),
            "{name}: {said}"
        );
    }
}

/// A server of the standard whose one agent asks a node, and passes nothing on but the words.
const MIDDLE: &str = r#"
import os, socket, sys, threading
import uvicorn
from acp_sdk.client import Client
from acp_sdk.models import Message, MessagePart
from acp_sdk.server import agent, create_app

@agent(name="echo", description="plays radio stations")
async def echo(input):
    text = "".join(part.content or "" for message in input for part in message.parts)
    async with Client(base_url=sys.argv[1]) as client:
        run = await client.run_sync(agent="main", input=[Message(role="user", parts=[MessagePart(content=text)])])
        said = "".join(part.content or "" for message in run.output for part in message.parts)
        yield MessagePart(content="it said: %s %s" % (said, run.error))

threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
bound = socket.create_server(("0.0.0.0", 8000))
server = uvicorn.Server(uvicorn.Config(create_app(echo), log_level="error"))
print("ready", flush=True)
server.run(sockets=[bound])
"#;

/// The server, until it is dropped.
struct Middle(Child);

impl Drop for Middle {
    fn drop(&mut self) {
        let _ = self.0.kill(); // It may be gone already.
        let _ = self.0.wait();
    }
}

#[test]
fn a_circle_through_a_standard_server_that_drops_the_chain_is_stopped() {
    let Some(mut lan) = Lan::new() else { return };
    let Some(python) = python("acp_rest") else {
        println!("skipped: ./test installs the packages of tests/python/acp_rest.txt");
        return;
    };
    let desk = lan.node("desk", OPEN);
    route(&desk, "main");
    let machine = lan.machine();
    let mut child = lan
        .on(
            machine,
            &[
                python.to_str().unwrap(),
                "-c",
                MIDDLE,
                &lan.url(desk.machine),
            ],
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    let _middle = Middle(child);
    let there = format!("http://{}:8000", lan.address(machine));
    eventually("the server is added", || {
        desk.cli(&["peer", "add", &there]).code == 0
    });
    assert_eq!(peers(&desk).len(), 1);
    let intent = told(&desk.cli(&["intent", "play the radio stations", "-f", "json"]));
    let said = intent["legs"][0]["text"].as_str().unwrap();
    assert!(said.contains("circular_call_detected"), "{intent}");
    let runs = super::journal(&desk, "run.created").len();
    assert_eq!(runs, 1, "it came back once and went no further");
}
