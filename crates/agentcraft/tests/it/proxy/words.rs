//! What passes between an editor and a leased agent word for word: answers with what nobody here knows, params of every shape.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use serde_json::{Value, json};
use testkit::TestDaemon;

use super::editor::Editor;
use crate::node;

fn with_echo() -> (TestDaemon, Editor, String) {
    let daemon = node().start();
    daemon.scripted_agent("own", json!({}), json!({}));
    let mut editor = Editor::open(&daemon, &["own", "--lease"]);
    editor.capabilities = json!({"elicitation": {"form": {}}});
    let session = editor.begin("/home/me");
    (daemon, editor, session)
}

/// Has the agent send a request, answers it with these words, and gives what the agent heard.
fn heard(editor: &mut Editor, session: &str, request: &Value, answer: &str) -> Value {
    let text = format!("raw({})", json!(request.to_string()));
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    let id = editor.ask("session/prompt", prompt);
    let asked = loop {
        let told = editor.next();
        if told["method"] == request["method"] {
            break told;
        }
    };
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{answer}}}"#,
        asked["id"]
    );
    editor.write(format!("{line}\n").as_bytes());
    let (_, updates) = editor.answer(id);
    let updates = updates.as_array().unwrap().iter();
    let said = updates.filter_map(|update| update["params"]["update"]["content"]["text"].as_str());
    let said: String = said.collect();
    let said: Value =
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    said["result"].clone()
}

#[test]
fn what_an_editor_answers_reaches_the_agent_as_it_is() {
    let (_daemon, mut editor, session) = with_echo();
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}});
    let form = json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {
        "sessionId": "own-1", "mode": "form", "message": "Which?", "requestedSchema": schema}});
    let permission = json!({"jsonrpc": "2.0", "id": 8, "method": "session/request_permission", "params": {
        "sessionId": "own-1", "toolCall": {"toolCallId": "t", "title": "Act", "kind": "edit"},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]}});
    for (request, answer) in [
        (
            &form,
            json!({"action": "accept", "content": {"a": "x", "b": 2}, "_meta": {"k": 1}}),
        ),
        (&form, json!({"action": "accept", "content": {}})),
        (&form, json!({"action": "accept"})),
        (
            &form,
            json!({"action": "decline", "_meta": {"why": "no time"}}),
        ),
        (&form, json!({"action": "cancel"})),
        (
            &permission,
            json!({"outcome": {"outcome": "selected", "optionId": "y", "note": "once"}, "_meta": {"k": [1]}}),
        ),
        (
            &permission,
            json!({"outcome": {"outcome": "selected", "optionId": "n"}}),
        ),
    ] {
        let heard = heard(&mut editor, &session, request, &answer.to_string());
        assert_eq!(heard, answer, "{request}");
    }
    editor.close();
}

#[test]
fn params_of_every_shape_reach_the_agent_as_they_are() {
    let (_daemon, mut editor, session) = with_echo();
    for params in [
        json!([1, "two"]),
        json!({}),
        json!({"sessionId": session, "deep": [{"n": 1.5}]}),
    ] {
        let (answer, _) = editor.call("_own/thing", params.clone());
        let given: Value = serde_json::from_str(answer["given"].as_str().unwrap()).unwrap();
        let mut expected = params;
        if expected["sessionId"].is_string() {
            expected["sessionId"] = json!("own-1");
        }
        assert_eq!(given["params"], expected);
    }
    editor.send(json!({"id": 900, "method": "_own/thing"}));
    let (answer, _) = editor.answer(900);
    let given: Value = serde_json::from_str(answer["given"].as_str().unwrap()).unwrap();
    assert_eq!(given.get("params"), None, "{given}");
    editor.close();
}

#[test]
fn what_an_editor_sends_reaches_the_agent_in_the_order_in_which_it_was_sent() {
    let (daemon, mut editor, session) = with_echo();
    let mut bytes = String::new();
    for number in 0..30 {
        let params = json!({"sessionId": session, "k": number});
        let note = json!({"jsonrpc": "2.0", "method": "_own/note", "params": params});
        bytes.push_str(&format!("{note}\n"));
    }
    editor.write(bytes.as_bytes());
    let mut ask = |number| editor.ask("_own/thing", json!({"sessionId": session, "k": number}));
    let last = (0..30).map(&mut ask).last().unwrap();
    editor.answer(last);
    let got = daemon.got("own").into_iter();
    let heard = got.filter_map(|message| message["params"].get("k").cloned());
    let heard: Vec<Value> = heard.collect();
    let expected: Vec<Value> = (0..30).chain(0..30).map(|number| json!(number)).collect();
    assert_eq!(heard, expected);
    editor.close();
}

#[test]
fn a_session_that_is_named_twice_is_the_last_one_and_must_be_the_editors_own() {
    let (_daemon, mut editor, session) = with_echo();
    let foreign = format!(
        r#"{{"jsonrpc":"2.0","id":901,"method":"_own/thing","params":{{"sessionId":"{session}","sessionId":"own-1"}}}}"#
    );
    editor.write(format!("{foreign}\n").as_bytes());
    let (outcome, _) = editor.outcome(&json!(901));
    assert_eq!(outcome.unwrap_err()["code"], -32002);
    editor.close();
}
