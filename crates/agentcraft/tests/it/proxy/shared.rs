//! One session and several editors: what one of them takes back, leaves or cannot answer is nobody else's loss.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually, kill};

use super::{Editor, LEASE, warm};

/// Two editors in one session.
fn pair(daemon: &TestDaemon) -> (Editor, Editor, String) {
    let mut first = Editor::open(daemon, &LEASE);
    let session = first.begin("/home/me");
    let mut second = Editor::open(daemon, &LEASE);
    second.load(&session);
    (first, second, session)
}

fn say(editor: &mut Editor, session: &str, text: &str) -> u64 {
    let prompt = json!([{"type": "text", "text": text}]);
    editor.ask(
        "session/prompt",
        json!({"sessionId": session, "prompt": prompt}),
    )
}

fn cancel(editor: &mut Editor, session: &str) {
    editor.send(json!({"method": "session/cancel", "params": {"sessionId": session}}));
}

/// Reads until the editor is asked for a permission.
fn asked(editor: &mut Editor) -> Value {
    loop {
        let told = editor.next();
        if told["method"] == "session/request_permission" {
            return told;
        }
    }
}

fn turns(daemon: &TestDaemon, session: &str) -> u64 {
    let view = daemon
        .client()
        .ok("session.get", json!({"sessionId": session}));
    view["turns"].as_u64().unwrap()
}

#[test]
fn whoever_takes_back_a_prompt_that_waits_ends_nothing_of_others() {
    let daemon = warm();
    let (mut first, mut second, session) = pair(&daemon);
    let running = say(&mut first, &session, "/hang");
    eventually("it runs", || turns(&daemon, &session) == 1);
    let waiting = say(&mut second, &session, "never begun");
    eventually("it waits", || turns(&daemon, &session) == 2);
    cancel(&mut second, &session);
    assert_eq!(second.answer(waiting).0["stopReason"], "cancelled");
    let withdrawn = say(&mut second, &session, "withdrawn");
    eventually("it waits", || turns(&daemon, &session) == 3);
    second.send(json!({"method": "$/cancel_request", "params": {"requestId": withdrawn}}));
    let error = second.outcome(&json!(withdrawn)).0.unwrap_err();
    assert_eq!(error["code"], -32800, "{error}");

    // Who has asked for nothing ends what it sees running.
    cancel(&mut second, &session);
    assert_eq!(first.answer(running).0["stopReason"], "cancelled");
    first.close();
    second.close();
}

#[test]
fn an_editor_that_leaves_denies_nothing_for_those_who_stay() {
    let daemon = warm();
    for how in ["TERM", "KILL", ""] {
        let (mut first, mut second, session) = pair(&daemon);
        let id = say(&mut first, &session, "/write stays.txt yes");
        let question = asked(&mut first);
        asked(&mut second);
        match how {
            "" => drop(second.close()),
            how => {
                kill(second.child.id(), how);
                second.wait();
            }
        }
        eventually("it has left", || {
            let view = daemon
                .client()
                .ok("session.get", json!({"sessionId": session}));
            view["clients"] == 1
        });
        let options = question["params"]["options"].as_array().unwrap();
        let once = options
            .iter()
            .find(|it| it["kind"] == "allow_once")
            .unwrap();
        let outcome = json!({"outcome": "selected", "optionId": once["optionId"]});
        first.send(json!({"id": question["id"], "result": {"outcome": outcome}}));
        let (stopped, updates) = first.answer(id);
        assert_eq!(stopped["stopReason"], "end_turn");
        assert!(
            updates.to_string().contains(r#""status":"completed""#),
            "{how}: {updates:.900}"
        );
        first.close();
    }
}

#[test]
fn an_editor_that_cancels_says_so_to_the_question_too_and_the_turn_is_cancelled() {
    let daemon = warm();
    let mut editor = Editor::open(&daemon, &LEASE);
    let session = editor.begin("/home/me");
    for _ in 0..10 {
        let id = say(&mut editor, &session, "/write never.txt no");
        let question = asked(&mut editor);
        let cancelled = json!({"outcome": {"outcome": "cancelled"}});
        editor.send(json!({"id": question["id"], "result": cancelled}));
        cancel(&mut editor, &session);
        assert_eq!(editor.answer(id).0["stopReason"], "cancelled");
    }
    editor.close();
}

#[test]
fn an_answer_that_was_not_offered_is_a_no_also_while_somebody_watches() {
    let daemon = warm();
    let mut editor = Editor::open(&daemon, &LEASE);
    let session = editor.begin("/home/me");
    let mut watcher = daemon.client();
    watcher.ok("session.attach", json!({"sessionId": session}));
    let answers = [
        json!({"result": {"outcome": {"outcome": "selected", "optionId": "no_such"}}}),
        json!({"error": {"code": -32603, "message": "the dialog broke"}}),
    ];
    for mut answer in answers {
        let id = say(&mut editor, &session, "/write never.txt no");
        answer["id"] = asked(&mut editor)["id"].clone();
        editor.send(answer);
        let (stopped, updates) = editor.answer(id);
        assert_eq!(stopped["stopReason"], "end_turn");
        assert!(updates.to_string().contains("rejected"), "{updates:.900}");
    }
    editor.close();
}

#[test]
fn a_session_that_is_loaded_again_in_its_turn_is_told_once() {
    let daemon = warm();
    let mut editor = Editor::open(&daemon, &LEASE);
    let session = editor.begin("/home/me");
    let id = say(&mut editor, &session, "/slow 8 100");
    loop {
        if editor.next().to_string().contains("chunk 2 of 8") {
            break;
        }
    }
    let params = json!({"sessionId": session, "cwd": "/home/me", "mcpServers": []});
    let load = editor.ask("session/load", params);
    let (mut told, mut stopped, mut loaded) = (String::new(), Value::Null, false);
    while stopped.is_null() || !loaded {
        let message = editor.next();
        if message["id"] == id {
            stopped = message["result"]["stopReason"].clone();
        } else if message["id"] == load {
            loaded = true;
        } else if loaded {
            told.push_str(&message.to_string());
        }
    }
    assert_eq!(stopped, "end_turn");
    // What came before the answer is the past, which may have been told before.
    for chunk in 3..=8 {
        let times = told.matches(&format!("chunk {chunk} of 8")).count();
        assert!(times <= 1, "chunk {chunk}: {told:.2000}");
    }
    editor.close();
}
