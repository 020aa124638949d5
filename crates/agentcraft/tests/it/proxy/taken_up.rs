//! Sessions that an editor takes up again: closed ones, deleted ones, and what is brought along.

use serde_json::{Value, json};

use testkit::{TestDaemon, eventually, kill};

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

fn eventually_busy(daemon: &TestDaemon, session: &str) {
    let mut client = daemon.client();
    eventually("the turn runs", || {
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
    // By the name that the agent has for it, it is the same one.
    let list = |daemon: &TestDaemon| {
        let list = daemon
            .client()
            .ok("session.list", json!({"agentName": "able"}));
        let list = list.as_array().unwrap().iter();
        list.map(|it| it["sessionId"].clone()).collect::<Vec<_>>()
    };
    editor.call("session/load", of("own-1"));
    assert_eq!(list(&daemon), [json!(session)]);
    editor.call("session/close", json!({"sessionId": "own-1"}));
    assert_eq!(list(&daemon), Vec::<Value>::new());
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

fn view(daemon: &TestDaemon, session: &str) -> Value {
    let mut client = daemon.client();
    client.ok("session.get", json!({"sessionId": session}))
}

/// How often the agent has got a request of this method.
fn times(daemon: &TestDaemon, agent: &str, method: &str) -> usize {
    let got = daemon.got(agent);
    got.iter().filter(|it| it["method"] == method).count()
}

#[test]
fn a_closed_session_is_in_the_list_as_what_it_was() {
    let daemon = node().start();
    let can = json!({"loadSession": true, "sessionCapabilities": {"list": {}}});
    daemon.scripted_agent("own", json!({"agentCapabilities": can}), json!({}));
    let mut editor = Editor::open(&daemon, &["own", "--lease"]);
    let session = editor.begin("/home/me");
    let unused = editor.begin("/home/me");
    editor.prompt(
        &session,
        r#"on["session/list"] = lambda id, params: send(id=id, result={"sessions": [{"sessionId": "own-1", "cwd": "/"}]}); end()"#,
    );
    for closed in [&session, &unused] {
        editor.call("session/close", json!({"sessionId": closed}));
    }
    let (list, _) = editor.call("session/list", json!({}));
    let list = list["sessions"].as_array().unwrap();
    let ids: Vec<&Value> = list.iter().map(|it| &it["sessionId"]).collect();
    assert_eq!(ids, [&json!(session)], "once, under the name that loads it");
    let title = list[0]["title"].as_str().unwrap();
    assert!(title.starts_with("on["), "{title}");
    editor.call("session/load", of(&session));
    assert_eq!(editor.prompt(&session, "end()").0["stopReason"], "end_turn");
    editor.close();
}

#[test]
fn a_session_whose_deletion_is_refused_stays_as_it_is() {
    let daemon = node().start();
    let can = json!({"agentCapabilities": {"loadSession": true}});
    daemon.scripted_agent("own", can, json!({}));
    let mut editor = Editor::open(&daemon, &["own", "--lease"]);
    let session = editor.begin("/home/me");
    editor.prompt(
        &session,
        r#"on["session/delete"] = lambda id, params: send(id=id, error={"code": -32601, "message": "no"}); end()"#,
    );
    let named = json!({"sessionId": session});
    assert_eq!(editor.refusal("session/delete", named.clone()).0, -32601);
    assert_eq!(editor.prompt(&session, "end()").0["stopReason"], "end_turn");
    editor.call("session/close", named.clone());
    assert_eq!(editor.refusal("session/delete", named).0, -32601);
    assert_eq!(view(&daemon, &session)["state"], "closed");
    assert_eq!(times(&daemon, "own", "session/load"), 0);
    let asked = daemon.got("own");
    let asked = asked.iter().filter(|it| it["method"] == "session/delete");
    for asked in asked {
        assert_eq!(
            asked["params"]["sessionId"], "own-1",
            "in the agent's words"
        );
    }
    editor.close();
}

#[test]
fn an_id_that_nobody_knows_opens_nothing() {
    let daemon = node().start();
    let can = json!({"agentCapabilities": {"loadSession": true}});
    daemon.scripted_agent("own", can, json!({}));
    let mut editor = Editor::open(&daemon, &["own", "--lease"]);
    let session = editor.begin("/home/me");
    editor.prompt(
        &session,
        r#"on["session/load"] = lambda id, params: send(id=id, error={"code": -32002, "message": "no such session"}); end()"#,
    );
    for method in ["session/load", "session/resume"] {
        assert_eq!(editor.refusal(method, of("zzz")).0, -32002);
    }
    assert_eq!(times(&daemon, "own", "session/new"), 1);
    // One of ours that the agent has lost goes on, in words.
    editor.call("session/close", json!({"sessionId": session}));
    let (_, told) = editor.call("session/load", of(&session));
    assert!(told.to_string().contains("no such session"), "{told}");
    assert_eq!(times(&daemon, "own", "session/new"), 2);
    editor.close();
}

/// Asks before it acts.
const ASKS: &str = r#"send(id=5, method="session/request_permission", params={"sessionId": session,
    "toolCall": {"toolCallId": "t", "title": "Act", "kind": "edit"}, "options": [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]})"#;

#[test]
fn an_editor_that_fails_or_leaves_while_a_session_opens_is_not_in_it() {
    let daemon = node().start();
    let can = json!({"agentCapabilities": {"loadSession": true}});
    daemon.scripted_agent("own", can, json!({}));
    let nobody_is_in = |session: &str| {
        eventually("nobody is in the session", || {
            let view = view(&daemon, session);
            (&view["state"], &view["clients"]) == (&json!("idle"), &json!(0))
        });
    };
    let mut editor = Editor::open(&daemon, &["own", "--lease"]);
    let session = editor.begin("/home/me");
    editor.prompt(
        &session,
        r#"
def sign_in(id, params):
    del on["session/load"]
    send(id=id, error={"code": -32000, "message": "sign in"})
on["session/load"] = sign_in
end()"#,
    );
    editor.call("session/close", json!({"sessionId": session}));
    assert_eq!(editor.refusal("session/load", of(&session)).0, -32000);
    nobody_is_in(&session);
    // The editor is there, but not in this session: nobody is waited for.
    let alone = daemon.client().ok(
        "session.prompt",
        json!({"sessionId": session, "text": ASKS}),
    );
    let heard = alone["response"].as_str().unwrap();
    assert!(heard.contains(r#""optionId":"n""#), "{heard}");

    // From here on nothing that opens a session is answered.
    let mute = r#"on["session/load"] = on["session/new"] = lambda id, params: None
end()"#;
    editor.call("session/load", of(&session));
    editor.prompt(&session, mute);
    editor.call("session/close", json!({"sessionId": session}));
    let loads = times(&daemon, "own", "session/load");
    editor.ask("session/load", of(&session));
    eventually("it is being loaded", || {
        times(&daemon, "own", "session/load") > loads
    });
    kill(editor.child.id(), "KILL");
    editor.wait();
    nobody_is_in(&session);

    let mut editor = Editor::open(&daemon, &["own", "--lease"]);
    editor.initialize();
    editor.ask("session/new", json!({"cwd": "/home/me", "mcpServers": []}));
    eventually("it is being made", || {
        times(&daemon, "own", "session/new") == 2
    });
    kill(editor.child.id(), "KILL");
    editor.wait();
    eventually("nobody is in any session", || {
        let list = daemon.client().ok("session.list", json!({}));
        list.as_array().unwrap().iter().all(|it| it["clients"] == 0)
    });
}
