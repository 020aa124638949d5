//! Sessions that an editor takes up again: closed ones, deleted ones, and what is brought along.

use serde_json::{Value, json};

use super::{Editor, LEASE, warm};
use crate::node;

fn of(session: &str) -> Value {
    json!({"sessionId": session, "cwd": "/home/me", "mcpServers": []})
}

#[test]
fn a_session_that_was_closed_is_loaded_with_its_history_and_goes_on() {
    let mut daemon = warm();
    let mut editor = Editor::open(&daemon, &LEASE);
    let session = editor.begin("/home/me");
    editor.prompt(&session, "remember the heron");
    for method in ["session/load", "session/resume"] {
        editor.call("session/close", json!({"sessionId": session}));
        let (code, _) = editor.refusal(
            "session/prompt",
            json!({"sessionId": session, "prompt": []}),
        );
        assert_eq!(code, -32002, "it is closed");
        let (_, updates) = editor.call(method, of(&session));
        let told = updates.to_string().contains("remember the heron");
        assert_eq!(told, method == "session/load", "{updates:.500}");
        let (stopped, _) = editor.prompt(&session, "and on");
        assert_eq!(stopped["stopReason"], "end_turn");
    }
    // A turn is under way: it is cancelled, and its end is part of the history.
    let prompt = json!([{"type": "text", "text": "/hang"}]);
    let hanging = editor.ask(
        "session/prompt",
        json!({"sessionId": session, "prompt": prompt}),
    );
    eventually_busy(&daemon, &session);
    editor.call("session/close", json!({"sessionId": session}));
    let _ = hanging; // It was answered before, or is among what is told now.
    editor.close();
    daemon.stop();
    daemon.start();
    daemon.client().ok("agent.start", json!({"name": "a1"}));
    let mut editor = Editor::open(&daemon, &LEASE);
    let updates = editor.load(&session);
    assert!(
        updates.to_string().contains("remember the heron"),
        "{updates:.500}"
    );
    assert_eq!(
        editor.prompt(&session, "still here").0["stopReason"],
        "end_turn"
    );
    let events = daemon.client().ok(
        "session.events",
        json!({"sessionId": session, "fromSeq": 1}),
    );
    let numbers: Vec<u64> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    let expected: Vec<u64> = (1..).take(numbers.len()).collect();
    assert_eq!(numbers, expected, "no number is given twice");
    editor.close();
}

fn eventually_busy(daemon: &testkit::TestDaemon, session: &str) {
    let mut client = daemon.client();
    testkit::eventually("the turn runs", || {
        client.ok("session.get", json!({"sessionId": session}))["busy"] == true
    });
}

#[test]
fn a_closed_session_of_an_agent_that_takes_none_up_stays_closed_and_a_deleted_one_is_gone() {
    let daemon = node().start();
    daemon.scripted_agent("own", json!({}), json!({}));
    let loads =
        json!({"agentCapabilities": {"loadSession": true, "sessionCapabilities": {"delete": {}}}});
    daemon.scripted_agent("able", loads, json!({}));
    let mut editor = Editor::open(&daemon, &["own", "--lease"]);
    let session = editor.begin("/home/me");
    editor.prompt(&session, "end()");
    editor.call("session/close", json!({"sessionId": session}));
    let (code, words) = editor.refusal("session/load", of(&session));
    assert_eq!(code, -32002);
    assert!(words.contains("was closed"), "{words}");
    editor.close();

    let mut editor = Editor::open(&daemon, &["able", "--lease"]);
    let session = editor.begin("/home/me");
    editor.prompt(&session, "end()");
    editor.call("session/close", json!({"sessionId": session}));
    editor.call("session/load", of(&session));
    editor.call("session/close", json!({"sessionId": session}));
    // Somebody has gone on with the conversation under the name that the agent has for it.
    editor.call("session/load", of("own-1"));
    assert_eq!(editor.refusal("session/load", of(&session)).0, -32002);
    editor.call("session/close", json!({"sessionId": "own-1"}));
    editor.call("session/load", of(&session));
    editor.call("session/close", json!({"sessionId": session}));
    editor.call("session/delete", json!({"sessionId": session}));
    assert_eq!(editor.refusal("session/load", of(&session)).0, -32002);
    editor.close();
}

#[test]
fn whoever_loads_or_resumes_a_session_brings_servers_along() {
    let daemon = node().start();
    let can = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let allow = json!({"permissions": {"allow": ["execute(npx*)"]}});
    daemon.scripted_agent("own", json!({"agentCapabilities": can}), allow);
    let mut editor = Editor::open(&daemon, &["own", "--lease"]);
    let session = editor.begin("/home/me");
    for (method, name) in [("session/load", "one"), ("session/resume", "two")] {
        editor.call("session/close", json!({"sessionId": session}));
        let mut params = of(&session);
        params["mcpServers"] = json!([
            {"name": name, "command": "npx", "args": [], "env": []},
            {"name": "bad", "command": "rm", "args": [], "env": []},
        ]);
        editor.call(method, params);
        let got = daemon.got("own");
        let asked = got.iter().rfind(|message| {
            let method = message["method"].as_str().unwrap_or_default();
            ["session/load", "session/resume"].contains(&method)
        });
        let brought = &asked.unwrap()["params"]["mcpServers"];
        let names: Vec<&Value> = brought
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["name"])
            .collect();
        assert_eq!(names, [&json!(name)], "{method}");
    }
    editor.close();
}
