//! One trace through everything that follows from one request: found in the journal of every node it reached.

use serde_json::json;
use testkit::TestDaemon;

use crate::{network::http::Http, node};

/// The trace ids that the journal has for the turns of an agent.
fn traces(daemon: &TestDaemon, agent: &str) -> Vec<String> {
    let query = json!({"agent": agent, "kind": "turn.started"});
    let lines = daemon.client().ok("journal.query", query);
    let traces = lines.as_array().unwrap().iter();
    traces
        .map(|line| line["body"]["trace"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn one_trace_goes_through_faces_and_nodes() {
    let far = node().listening().start();
    far.template("echo", json!({"backend": {"type": "builtin"}}));
    let mut client = far.client();
    client.ok("agent.create", json!({"name": "echo", "template": "echo"}));
    client.ok("agent.start", json!({"name": "echo"}));
    let near = node().listening().start();
    for way in ["peer", "a2a"] {
        let template = json!({
            "backend": {"type": way, "config": {"url": far.url(), "agent": "echo", "tokenEnv": "FAR"}},
            "env": {"FAR": far.token()},
        });
        near.template(way, template);
        let mut client = near.client();
        client.ok("agent.create", json!({"name": way, "template": way}));
    }
    let http = Http::owner(&near);
    let by_runs = "4bf92f3577b34da6a3ce929d0e0e4736";
    let header = format!("00-{by_runs}-00f067aa0ba902b7-01");
    let input =
        json!([{"role": "user", "parts": [{"content_type": "text/plain", "content": "hi"}]}]);
    let run = json!({"agent_name": "peer", "mode": "sync", "input": input});
    let answer = http.call("POST", "/runs", &[("traceparent", &header)], Some(&run));
    assert_eq!(answer.ok()["status"], "completed", "{answer:?}");
    let by_a2a = "aaf92f3577b34da6a3ce929d0e0e4736";
    let header = format!("00-{by_a2a}-00f067aa0ba902b7-01");
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]});
    let send =
        json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}});
    let headers = [("traceparent", header.as_str()), ("a2a-version", "1.0")];
    http.call("POST", "/a2a/a2a", &headers, Some(&send)).ok();

    assert_eq!(traces(&near, "peer"), [by_runs]);
    assert_eq!(traces(&near, "a2a"), [by_a2a]);
    assert_eq!(traces(&far, "echo"), [by_runs, by_a2a]);

    let found = far
        .cli(&["journal", "--grep", by_runs, "-f", "json"])
        .stdout;
    for kind in ["run.completed", "turn.started", "turn.ended"] {
        assert!(found.contains(kind), "{kind}: {found}");
    }

    // A turn that belongs to nothing begins a trace of its own.
    client.ok("agent.prompt", json!({"name": "echo", "message": "alone"}));
    let all = traces(&far, "echo");
    assert_eq!(all.len(), 3);
    assert!(!all[..2].contains(&all[2]) && all[2].len() == 32, "{all:?}");
}
