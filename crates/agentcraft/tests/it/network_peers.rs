//! Nodes that find each other: two and three real daemons, each in a network namespace of its own.

mod circles;
mod found;
pub(crate) mod lan;
mod stories;
mod trust;

use serde_json::{Value, json};
use testkit::{Output, eventually};

use lan::{Lan, Node};

/// What a node of the plain model of one trusted network says in its settings.
const OPEN: &str = "trust = \"open\"\n";

/// An agent on the built-in one, with words by which intents find it.
fn offer(node: &Node, name: &str, description: &str) {
    let template = json!({"backend": {"type": "builtin"}, "description": description});
    node.daemon.template(name, template);
    let mut client = node.daemon.client();
    client.ok("agent.create", json!({"name": name, "template": name}));
    client.ok("agent.start", json!({"name": name}));
}

/// An agent that is whichever peer fits.
fn route(node: &Node, name: &str) {
    let backend = json!({"type": "peer", "config": {"node": "*"}});
    node.daemon.template(
        name,
        json!({"backend": backend, "description": "asks others"}),
    );
    let mut client = node.daemon.client();
    client.ok("agent.create", json!({"name": name, "template": name}));
}

/// What a command says in JSON.
fn told(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn peers(node: &Node) -> Vec<Value> {
    let output = node.cli(&["peer", "list", "-f", "json"]);
    match told(&output) {
        Value::Array(peers) => peers,
        other => panic!("{other}"),
    }
}

/// Waits until `node` knows a peer with that name, and that it can do this.
fn knows(node: &Node, name: &str, capability: &str) {
    eventually("a peer is known with what it can do", || {
        peers(node).iter().any(|peer| {
            let can = peer["capabilities"].as_array().unwrap();
            peer["name"] == name
                && peer["status"] == "online"
                && can.iter().any(|it| it["id"] == capability)
        })
    });
}

fn intent(node: &Node, arguments: &[&str]) -> Value {
    let mut all = vec!["intent"];
    all.extend(arguments);
    all.extend(["-f", "json"]);
    told(&node.cli(&all))
}

/// The bodies of journal lines of a kind.
fn journal(node: &Node, kind: &str) -> Vec<Value> {
    let output = node.cli(&["journal", "--kind", kind, "-f", "json"]);
    let lines = output.stdout.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
