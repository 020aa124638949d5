//! A2A on the node's port, in plain HTTP: the cards, a message, a stream, an ask, a cancel, a webhook and a kill.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::mpsc,
    thread,
};

use serde_json::{Value, json};
use testkit::{PATIENCE, TestDaemon, eventually};

use super::{http::Http, listening, passes, with_echo, workspace_file};
use crate::node;

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
fn cards_are_for_everybody_and_name_agents_and_extensions_to_whom_they_should() {
    let daemon = listening();
    let (stranger, owner) = (Http::stranger(&daemon), Http::owner(&daemon));
    for place in [
        "/.well-known/agent-card.json",
        "/.well-known/agent.json",
        "/a2a/echo/.well-known/agent-card.json",
        "/a2a/1.0/echo/.well-known/agent-card.json",
    ] {
        let card = stranger.get(place).ok();
        let bearer = &card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"];
        assert_eq!(bearer["scheme"], "Bearer", "{place}: {card}");
        let extension = &card["capabilities"]["extensions"][0];
        assert_eq!(
            extension["uri"], "https://awcp-protocol.org/v1",
            "{place}: {card}"
        );
        assert_ne!(extension["required"], true, "{place}: {card}");
    }
    let node = "/.well-known/agent-card.json";
    let ids = |http: &Http| {
        let skills = http.get(node).ok()["skills"].as_array().cloned().unwrap();
        let ids = skills.iter().map(|skill| skill["id"].to_string());
        ids.collect::<Vec<_>>().join(",")
    };
    assert!(!ids(&stranger).contains("echo"));
    assert!(ids(&owner).contains("echo"));
    let missing = stranger.get("/a2a/nobody/.well-known/agent-card.json");
    assert_eq!(missing.status, 404);
}

#[test]
fn an_official_client_finds_an_agent_by_its_card_and_brings_the_token_that_it_names() {
    let daemon = listening();
    passes("a2a", include_str!("a2a_client.py"), &daemon, &[]);
}

/// Somebody on this machine who wants to be told; gives what comes.
fn hook() -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (heard, hear) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut length = 0;
            for line in reader.by_ref().lines() {
                let line = line.unwrap().to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
            reader.get_mut().write_all(answer).unwrap();
            let told = serde_json::from_slice(&body).unwrap();
            if heard.send(told).is_err() {
                return; // The test is over.
            }
        }
    });
    (url, hear)
}

#[test]
fn a_webhook_on_this_machine_is_called_only_where_the_owner_allows_it() {
    let (url, hear) = hook();
    let mut told = message("hello");
    told["configuration"] = json!({"taskPushNotificationConfig": {"url": url}});
    for (setting, code) in [("public", -32602), ("off", -32003)] {
        let daemon = webhooks(setting);
        let http = Http::owner(&daemon);
        let body = rpc("SendMessage", &told);
        let refused = http.call("POST", "/a2a/echo", &VERSION, Some(&body));
        assert_eq!(refused.json()["error"]["code"], code, "{refused:?}");
        let card = http.get("/.well-known/agent-card.json").ok();
        let offered = setting != "off";
        assert_eq!(card["capabilities"]["pushNotifications"], offered);
    }
    let daemon = webhooks("anywhere");
    let task = call(&Http::owner(&daemon), "SendMessage", &told)["task"].clone();
    loop {
        let told = hear.recv_timeout(PATIENCE).unwrap();
        let told = told.to_string();
        assert!(told.contains(task["id"].as_str().unwrap()), "{told}");
        if told.contains("TASK_STATE_COMPLETED") {
            break;
        }
    }
}

fn webhooks(setting: &str) -> TestDaemon {
    let config = format!("[http]\nwebhooks = \"{setting}\"\n");
    let daemon = node().listening().file("config.toml", config).start();
    with_echo(&daemon);
    daemon
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
fn a_task_is_cancelled_while_its_agent_is_still_being_started() {
    let daemon = listening();
    let program = json!({"executablePath": "/bin/sleep", "args": ["1000"], "protocol": "acp"});
    daemon.template(
        "mute",
        json!({"backend": {"type": "custom", "config": program}}),
    );
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "mute", "template": "mute"}));
    let http = Http::owner(&daemon);
    let call = |method: &str, params: &Value| {
        let answer = http.call("POST", "/a2a/mute", &VERSION, Some(&rpc(method, params)));
        answer.ok()["result"].clone()
    };
    let mut params = message("hello");
    params["configuration"] = json!({"returnImmediately": true});
    let task = call("SendMessage", &params)["task"].clone();
    let cancelled = call("CancelTask", &json!({"id": task["id"]}));
    assert_eq!(
        cancelled["status"]["state"], "TASK_STATE_CANCELED",
        "{cancelled}"
    );
    eventually("the agent that was started for it is gone", || {
        client.ok("agent.status", json!({"name": "mute"}))["status"] == "stopped"
    });
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

/// Tasks of each kind.
const EACH: usize = 8;

/// What the agent has said of a long count: its begin, in order, and nothing twice.
fn assert_counted(text: &str) {
    let numbers = 1..=text.lines().count();
    let expected = numbers.map(|number| format!("chunk {number} of 1000\n"));
    assert_eq!(text, expected.collect::<String>());
    assert!(!text.is_empty());
}

#[test]
fn a_kill_in_the_middle_of_many_tasks_loses_none_and_keeps_their_order() {
    let mut daemon = listening();
    let http = Http::owner(&daemon);
    let begin = |http: &Http, text: String, context: String| {
        let mut told = message(&text);
        told["message"]["contextId"] = json!(context);
        told["configuration"] = json!({"returnImmediately": true});
        json!({"id": call(http, "SendMessage", &told)["task"]["id"]})
    };
    let (mut done, mut asking, mut talking, mut queued) = (vec![], vec![], vec![], vec![]);
    for number in 0..EACH {
        let (ask, talk) = (format!("asking-{number}"), format!("talking-{number}"));
        done.push(begin(
            &http,
            format!("done {number}"),
            format!("done-{number}"),
        ));
        asking.push(begin(
            &http,
            format!("/write {number}.txt yes"),
            ask.clone(),
        ));
        queued.push(begin(&http, format!("after {number}"), ask));
        talking.push(begin(&http, "/slow 1000 20".to_owned(), talk));
    }
    let state = |http: &Http, id: &Value| {
        let task = call(http, "GetTask", id);
        task["status"]["state"].as_str().unwrap().to_owned()
    };
    let all = |tasks: &[Value], wanted: &str| {
        eventually(wanted, || tasks.iter().all(|id| state(&http, id) == wanted));
    };
    all(&done, "TASK_STATE_COMPLETED");
    all(&asking, "TASK_STATE_AUTH_REQUIRED");
    eventually("every one has begun to talk", || {
        let mut texts = talking.iter().map(|id| said(&call(&http, "GetTask", id)));
        // What came in the last moment may be lost, what came before it not.
        texts.all(|text| text.lines().count() > 25)
    });
    daemon.kill();
    drop(http);

    daemon.start();
    let http = Http::owner(&daemon);
    let all = |tasks: &[Value], wanted: &str| {
        eventually(wanted, || tasks.iter().all(|id| state(&http, id) == wanted));
    };
    all(&talking, "TASK_STATE_FAILED");
    for id in &talking {
        assert_counted(&said(&call(&http, "GetTask", id)));
    }
    for (number, id) in done.iter().enumerate() {
        let task = call(&http, "GetTask", id);
        assert!(said(&task).contains(&format!("done {number}")), "{task}");
    }
    all(&queued, "TASK_STATE_SUBMITTED");
    for id in &asking {
        assert_eq!(state(&http, id), "TASK_STATE_AUTH_REQUIRED");
        let mut no = message("no");
        no["message"]["taskId"] = id["id"].clone();
        call(&http, "SendMessage", &no);
    }
    all(&queued, "TASK_STATE_COMPLETED");
    for (number, id) in queued.iter().enumerate() {
        let task = call(&http, "GetTask", id);
        assert!(said(&task).contains(&format!("after {number}")), "{task}");
    }
    let listed = call(&http, "ListTasks", &json!({"pageSize": 1}));
    assert_eq!(listed["totalSize"], 4 * EACH, "{listed}");
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
