//! A2A on the node's port, in plain HTTP: the cards, a message, a stream, an ask and a cancel.

use serde_json::{Value, json};
use testkit::eventually;

use super::{http::Http, listening, workspace_file};

const VERSION: [(&str, &str); 1] = [("a2a-version", "1.0")];

fn rpc(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn message(text: &str) -> Value {
    json!({"message": {"messageId": format!("m-{text}"), "role": "ROLE_USER", "parts": [{"text": text}]}})
}

/// Calls a method of version 1.0 and gives its result.
fn call(http: &Http, method: &str, params: &Value) -> Value {
    let answer = http.call("POST", "/a2a/echo", &VERSION, Some(&rpc(method, params)));
    let answer = answer.ok();
    assert!(answer["error"].is_null(), "{method}: {answer}");
    answer["result"].clone()
}

fn said(task: &Value) -> String {
    let artifacts = task["artifacts"].as_array().cloned().unwrap_or_default();
    let parts = artifacts
        .iter()
        .flat_map(|it| it["parts"].as_array().unwrap());
    parts.filter_map(|part| part["text"].as_str()).collect()
}

#[test]
fn the_card_tells_every_address_and_that_a_token_is_needed() {
    let daemon = listening();
    let http = Http::owner(&daemon);
    let node = http.get("/.well-known/agent-card.json").ok();
    assert!(node.to_string().contains(&daemon.url()), "{node}");
    assert!(node["securitySchemes"].is_object(), "{node}");
    let card = http.get("/a2a/echo/.well-known/agent-card.json").ok();
    assert_eq!(card["name"], "echo", "{card}");
    assert_eq!(card["capabilities"]["streaming"], true, "{card}");
}

#[test]
fn a_message_of_either_version_is_answered_with_a_task() {
    let daemon = listening();
    let http = Http::owner(&daemon);
    let task = &call(&http, "SendMessage", &message("hello new"))["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    assert!(said(task).contains("hello new"), "{task}");
    let params = json!({"message": {"kind": "message", "messageId": "m", "role": "user",
        "parts": [{"kind": "text", "text": "hello old"}]}});
    let old = http.post("/a2a/echo", &rpc("message/send", &params)).ok();
    assert_eq!(old["result"]["status"]["state"], "completed", "{old}");
    assert!(said(&old["result"]).contains("hello old"), "{old}");
}

#[test]
fn a_stream_brings_the_answer_in_parts_and_ends_with_the_task() {
    let daemon = listening();
    let http = Http::owner(&daemon);
    let body = rpc("SendStreamingMessage", &message("/slow 4 60"));
    let events: Vec<Value> = http
        .stream("POST", "/a2a/echo", &VERSION, Some(&body))
        .collect();
    let parts = events
        .iter()
        .filter(|event| event["result"]["artifactUpdate"].is_object());
    assert!(parts.count() >= 2, "{events:?}");
    let last = &events.last().unwrap()["result"]["statusUpdate"];
    assert_eq!(
        last["status"]["state"], "TASK_STATE_COMPLETED",
        "{events:?}"
    );
}

#[test]
fn an_ask_waits_for_its_answer_and_a_task_is_cancelled() {
    let daemon = listening();
    let http = Http::owner(&daemon);
    let task = call(&http, "SendMessage", &message("/write asked.txt yes"))["task"].clone();
    assert_eq!(
        task["status"]["state"], "TASK_STATE_AUTH_REQUIRED",
        "{task}"
    );
    let mut yes = message("yes");
    yes["message"]["taskId"] = task["id"].clone();
    let done = call(&http, "SendMessage", &yes);
    assert_eq!(
        done["task"]["status"]["state"], "TASK_STATE_COMPLETED",
        "{done}"
    );
    assert!(workspace_file(&daemon, "echo", "asked.txt").exists());

    let mut hanging = message("/hang");
    hanging["configuration"] = json!({"returnImmediately": true});
    let task = call(&http, "SendMessage", &hanging)["task"].clone();
    let id = json!({"id": task["id"]});
    eventually("it is at work", || {
        call(&http, "GetTask", &id)["status"]["state"] == "TASK_STATE_WORKING"
    });
    let cancelled = call(&http, "CancelTask", &id);
    assert_eq!(
        cancelled["status"]["state"], "TASK_STATE_CANCELED",
        "{cancelled}"
    );
}

#[test]
fn a_task_that_awaits_outlives_a_kill() {
    let mut daemon = listening();
    let task = call(
        &Http::owner(&daemon),
        "SendMessage",
        &message("/write later.txt yes"),
    )["task"]
        .clone();
    daemon.kill();
    daemon.start();
    let http = Http::owner(&daemon);
    let found = call(&http, "GetTask", &json!({"id": task["id"]}));
    assert_eq!(
        found["status"]["state"], "TASK_STATE_AUTH_REQUIRED",
        "{found}"
    );
}

#[test]
fn a_context_goes_on_after_its_agent_has_stopped() {
    let daemon = listening();
    let http = Http::owner(&daemon);
    let task = call(&http, "SendMessage", &message("first"))["task"].clone();
    daemon.client().ok("agent.stop", json!({"name": "echo"}));
    let mut next = message("second");
    next["message"]["contextId"] = task["contextId"].clone();
    let task = call(&http, "SendMessage", &next)["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    assert!(said(&task).contains("second"), "{task}");
}
