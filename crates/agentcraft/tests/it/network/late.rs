//! Answers that come when the turn that asked has gone with its daemon: the work goes on where it asked, wherever it is.

use std::fs;

use serde_json::json;
use testkit::TestDaemon;

use super::{
    http::Http,
    runs::{resume, turns, until},
    workspace_file,
};
use crate::node;

/// A run of an agent, which awaits.
fn awaiting(daemon: &TestDaemon, agent: &str, words: &str) -> String {
    let http = Http::owner(daemon);
    let input = json!([{ "parts": [{ "content": words }] }]);
    let body = json!({ "agent_name": agent, "mode": "async", "input": input });
    let run = http.post("/runs", &body).ok();
    let id = run["run_id"].as_str().unwrap().to_owned();
    until(&http, &id, "awaiting");
    id
}

fn says_yes(daemon: &TestDaemon, run: &str) {
    let http = Http::owner(daemon);
    let mut answer = resume("yes");
    answer["mode"] = json!("sync");
    let done = http.post(&format!("/runs/{run}/resume"), &answer).ok();
    assert_eq!(done["status"], "completed", "{done}");
}

#[test]
fn a_workflow_goes_on_at_its_gate_after_a_kill() {
    let mut daemon = node().listening().start();
    let count = daemon.scratch("count.txt");
    fs::create_dir_all(count.parent().unwrap()).unwrap();
    let (folder, count) = (daemon.home().join("configs/workflows"), count.display());
    fs::create_dir_all(&folder).unwrap();
    let text = format!(
        "name: gated\ndescription: counts, asks, ends\nstates:\n  initial: first\n  \
         first: {{ type: command, command: \"echo first >> {count}\", on_success: gate }}\n  \
         gate: {{ type: approval, message: \"go on?\", on_deny: abort, on_success: last }}\n  \
         last: {{ type: command, command: \"echo last >> {count}\", on_success: done }}\n  \
         done: {{ type: terminal, status: success }}\n"
    );
    fs::write(folder.join("gated.yaml"), text).unwrap();
    let run = awaiting(&daemon, "workflow:gated", "/gated");
    daemon.kill();
    daemon.start();
    says_yes(&daemon, &run);
    let counted = fs::read_to_string(daemon.scratch("count.txt")).unwrap();
    assert_eq!(counted, "first\nlast\n", "each step once");
}

#[test]
fn an_intent_is_answered_at_the_peer_that_asked_after_a_kill_here() {
    let there = node().listening().start();
    let description = "writes notes into files";
    there.template(
        "notes",
        json!({"backend": {"type": "builtin"}, "description": description}),
    );
    let mut client = there.client();
    client.ok(
        "agent.create",
        json!({"name": "notes", "template": "notes"}),
    );
    client.ok("agent.start", json!({"name": "notes"}));

    let mut here = node().listening().start();
    let backend = json!({"type": "peer", "config": {"node": "*"}});
    here.template("any", json!({"backend": backend}));
    here.client()
        .ok("agent.create", json!({"name": "any", "template": "any"}));
    let token = here.scratch("token");
    fs::create_dir_all(token.parent().unwrap()).unwrap();
    fs::write(&token, there.token()).unwrap();
    let (url, token) = (there.url(), token.to_str().unwrap());
    let added = here.cli(&["peer", "add", &url, "--token-file", token]);
    assert_eq!(added.code, 0, "{added:?}");

    let words = "/write notes.txt writes notes into files";
    let run = awaiting(&here, "any", words);
    here.kill();
    here.start();
    says_yes(&here, &run);
    assert!(workspace_file(&there, "notes", "notes.txt").exists());
    assert_eq!(
        turns(&there, "/write notes.txt"),
        1,
        "nothing was begun anew"
    );
}
