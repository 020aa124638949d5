//! The chain of calls from one protocol to another: a circle that begins with A2A and goes on over peers is refused.

use serde_json::{Value, json};
use testkit::TestDaemon;

use super::http::Http;
use crate::node;

/// An agent of `here` that is `round` at another node, which is reached with its owner's token.
fn round(here: &TestDaemon, there: &TestDaemon) {
    let token = there.home().join("listener.token");
    let config = json!({"url": there.url(), "agent": "round", "tokenFile": token});
    let template = json!({"backend": {"type": "peer", "config": config}});
    here.template("round", template);
    let made = json!({"name": "round", "template": "round"});
    here.client().ok("agent.create", made);
}

/// What was written down of a kind.
fn lines(daemon: &TestDaemon, kind: &str) -> Vec<Value> {
    let lines = daemon.client().ok("journal.query", json!({ "kind": kind }));
    lines.as_array().unwrap().clone()
}

fn ids(nodes: &[TestDaemon]) -> Vec<String> {
    let id = |node: &TestDaemon| {
        let manifest = Http::owner(node).get("/manifest").ok();
        manifest["agent_id"].as_str().unwrap().to_owned()
    };
    nodes.iter().map(id).collect()
}

#[test]
fn a_circle_from_a2a_over_peers_is_refused_with_its_chain_and_runs_nowhere_twice() {
    let nodes = [(); 3].map(|()| node().listening().start());
    for (index, here) in nodes.iter().enumerate() {
        round(here, &nodes[(index + 1) % nodes.len()]);
    }
    let version = [("a2a-version", "1.0")];
    let text = "round and round";
    let message = json!({"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]});
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}});
    let answer = Http::owner(&nodes[0]).call("POST", "/a2a/round", &version, Some(&body));
    let task = &answer.ok()["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_FAILED", "{answer:?}");
    let said = task["status"]["message"].to_string();
    assert!(said.contains("circular_call_detected"), "{answer:?}");
    assert!(said.contains("already in the chain of calls"), "{answer:?}");
    // Whoever reads it sees the way it took, in order.
    let mut from = 0;
    for id in ids(&nodes) {
        let short = &id[..8];
        let at = said[from..].find(short);
        from += at.unwrap_or_else(|| panic!("{short} after {from}: {said}"));
    }
    let runs = nodes
        .each_ref()
        .map(|node| lines(node, "run.created").len());
    assert_eq!(
        runs,
        [0, 1, 1],
        "the first node was asked again and ran nothing"
    );
    // Nothing is left at work: the same is refused in the same way at once.
    let again = Http::owner(&nodes[0]).call("POST", "/a2a/round", &version, Some(&body));
    assert!(again.text.contains("circular_call_detected"), "{again:?}");
}

#[test]
fn a_chain_that_a2a_brings_goes_on_to_a_peer_and_back_into_the_first_node_no_more() {
    let nodes = [(); 2].map(|()| node().listening().start());
    round(&nodes[0], &nodes[1]);
    round(&nodes[1], &nodes[0]);
    let ids = ids(&nodes);
    // Somebody who is not one of them called first.
    let headers = [
        ("a2a-version", "1.0"),
        ("x-agentcraft-call-chain", "phone-1"),
    ];
    let message = json!({"messageId": "m-2", "role": "ROLE_USER", "parts": [{"text": "once"}]});
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}});
    let answer = Http::owner(&nodes[0]).call("POST", "/a2a/round", &headers, Some(&body));
    let said = answer.ok()["result"]["task"]["status"]["message"].to_string();
    assert!(said.contains("circular_call_detected"), "{answer:?}");
    let begun = lines(&nodes[1], "run.created");
    assert_eq!(begun.len(), 1, "{begun:?}");
    let first = said.find("phone-1").unwrap_or_else(|| panic!("{said}"));
    let second = said.find(&ids[0][..8]);
    assert!(second.is_some_and(|second| first < second), "{said}");
}
