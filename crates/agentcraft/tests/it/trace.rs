//! One trace through everything that follows from one request: found in the journal of every node it reached.

use serde_json::json;
use testkit::TestDaemon;

use crate::{
    network::{http::Http, mcp::McpClient},
    node,
};

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

/// Asks an agent of another node, through a workflow of its own.
const RELAY: &str = "\
name: relay
inputs:
  - {name: words, type: string, required: true}
states:
  initial: pass
  pass: {type: call_workflow, workflow: ask, inputs: {words: '{{.inputs.words}}'}, on_success: done, on_failure: failed}
  done: {type: terminal}
  failed: {type: terminal, status: failure}
";

const ASK: &str = "\
name: ask
inputs:
  - {name: words, type: string, required: true}
states:
  initial: ask
  ask: {type: agent, provider: 'agent:peer', prompt: '{{.inputs.words}}', on_success: done, on_failure: failed}
  done: {type: terminal}
  failed: {type: terminal, status: failure}
";

#[test]
fn a_workflow_and_what_its_steps_ask_of_another_node_belong_to_one_trace() {
    let far = node().listening().start();
    far.template("echo", json!({"backend": {"type": "builtin"}}));
    let mut client = far.client();
    client.ok("agent.create", json!({"name": "echo", "template": "echo"}));
    client.ok("agent.start", json!({"name": "echo"}));
    let near = node()
        .listening()
        .file("configs/workflows/relay.yaml", RELAY)
        .file("configs/workflows/ask.yaml", ASK)
        .start();
    let template = json!({
        "backend": {"type": "peer", "config": {"url": far.url(), "agent": "echo", "tokenEnv": "FAR"}},
        "env": {"FAR": far.token()},
    });
    near.template("peer", template);
    let mut client = near.client();
    client.ok("agent.create", json!({"name": "peer", "template": "peer"}));
    let ran = near.cli(&["agent", "run", "workflow:relay", "-p", "hello from afar"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let [trace] = &traces(&near, "workflow-relay")[..] else {
        panic!("one turn of the workflow");
    };
    assert_eq!(traces(&near, "peer"), std::slice::from_ref(trace));
    assert_eq!(traces(&far, "echo"), std::slice::from_ref(trace));
    let kinds = |daemon: &TestDaemon| -> Vec<String> {
        let found = daemon
            .cli(&["journal", "--trace", trace, "-f", "json"])
            .stdout;
        let lines = found.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["kind"].as_str().unwrap().to_owned()
        });
        lines.filter(|kind| !kind.starts_with("audit")).collect()
    };
    let near = kinds(&near);
    let ends = near.iter().filter(|kind| *kind == "turn.ended").count();
    assert_eq!(ends, 2, "the workflow's and its step's: {near:?}");
    let far = kinds(&far);
    for kind in ["run.completed", "turn.started", "turn.ended"] {
        assert!(far.iter().any(|found| found == kind), "{kind}: {far:?}");
    }
}

#[test]
fn what_comes_from_nowhere_begins_a_trace_that_all_its_lines_tell() {
    let daemon = node().listening().start();
    daemon.template("echo", json!({"backend": {"type": "builtin"}}));
    daemon
        .client()
        .ok("agent.create", json!({"name": "echo", "template": "echo"}));
    let http = Http::owner(&daemon);
    let input =
        json!([{"role": "user", "parts": [{"content_type": "text/plain", "content": "hi"}]}]);
    let run = json!({"agent_name": "echo", "mode": "sync", "input": input});
    http.post("/runs", &run).ok();
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]});
    let send =
        json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}});
    http.call("POST", "/a2a/echo", &[("a2a-version", "1.0")], Some(&send))
        .ok();
    // A tool call may say what it belongs to.
    let by_tool = "0af7651916cd43dd8448eb211c80319c";
    let said = json!({"traceparent": format!("00-{by_tool}-00f067aa0ba902b7-01")});
    let arguments = json!({"name": "echo", "message": "hi"});
    McpClient::new(Http::owner(&daemon)).tool_with("agentcraft_prompt_agent", &arguments, &said);
    let [by_runs, by_a2a, tool] = &traces(&daemon, "echo")[..] else {
        panic!("three turns");
    };
    assert_eq!(tool, by_tool);
    for (trace, kind) in [(by_runs, "run.completed"), (by_a2a, "a2a.completed")] {
        let found = daemon.cli(&["journal", "--trace", trace]).stdout;
        assert!(found.contains(kind), "{kind}: {found}");
        assert!(found.contains("turn.ended"), "{found}");
    }
    let refused = daemon.cli(&["journal", "--trace", "4711"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("32"), "{refused:?}");
}

#[test]
fn a_circle_through_a_workflow_is_refused_where_it_would_close() {
    let near = node().listening().start();
    let far = node()
        .listening()
        .file("configs/workflows/ask.yaml", ASK)
        .start();
    let to = |node: &TestDaemon, other: &TestDaemon, name: &str, agent: &str| {
        let template = json!({
            "backend": {"type": "peer", "config": {"url": other.url(), "agent": agent, "tokenEnv": "OTHER"}},
            "env": {"OTHER": other.token()},
        });
        node.template(name, template);
        let mut client = node.client();
        client.ok("agent.create", json!({"name": name, "template": name}));
    };
    let create = json!({"name": "asks", "template": "workflow:ask"});
    far.client().ok("agent.create", create);
    to(&near, &far, "there", "asks");
    to(&far, &near, "peer", "there");
    let ran = near.cli(&["agent", "run", "there", "-p", "round and round"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(traces(&near, "there").len(), 1, "it went round once");
}
