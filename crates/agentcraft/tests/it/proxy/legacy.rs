//! `proxy.connect` and its kin: ACP inside of the socket's own messages.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use serde_json::{Value, json};
use testkit::{RawClient, TestDaemon, eventually};

use super::with_builtin;
use crate::node;

fn warm() -> TestDaemon {
    let daemon = with_builtin();
    daemon.client().ok("agent.start", json!({"name": "a1"}));
    daemon
}

struct Proxy {
    client: RawClient,
    id: String,
    next: u64,
    told: Vec<Value>,
}

impl Proxy {
    fn connect(daemon: &TestDaemon, passthrough: bool) -> Self {
        let mut client = daemon.client();
        let made = client.ok(
            "proxy.connect",
            json!({"agentName": "a1", "envPassthrough": passthrough}),
        );
        assert_eq!(
            (&made["agentName"], &made["envPassthrough"]),
            (&json!("a1"), &json!(passthrough))
        );
        Self {
            client,
            id: made["sessionId"].as_str().unwrap().to_owned(),
            next: 1,
            told: Vec::new(),
        }
    }

    /// Forwards a request, answers what the agent asks meanwhile, and gives the answer.
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let (number, id) = (self.next, format!("own-{}", self.next));
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(
            number,
            "proxy.forward",
            json!({"sessionId": self.id, "acpMessage": message}),
        );
        loop {
            let told = self.client.receive();
            if told["id"] == json!(number) {
                let answer = &told["result"];
                assert_eq!(answer["id"], json!(id), "{told}");
                return answer["result"].clone();
            }
            let Some(message) = told
                .get("params")
                .map(|params| params["acpMessage"].clone())
            else {
                continue; // The answer to a callback.
            };
            if message["method"] == "session/request_permission" {
                let option = &message["params"]["options"][0]["optionId"];
                let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
                let response = json!({"jsonrpc": "2.0", "id": message["id"], "result": outcome});
                self.send(
                    9000,
                    "proxy.envCallback",
                    json!({"sessionId": self.id, "response": response}),
                );
            }
            self.told.push(message);
        }
    }

    fn send(&mut self, id: u64, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.client.send_line(&line.to_string());
    }

    fn prompt(&mut self, text: &str) -> Value {
        self.request(
            "initialize",
            json!({"protocolVersion": 1, "clientCapabilities": {}}),
        );
        let made = self.request("session/new", json!({"cwd": "/home/me", "mcpServers": []}));
        let prompt = json!([{"type": "text", "text": text}]);
        self.request(
            "session/prompt",
            json!({"sessionId": made["sessionId"], "prompt": prompt}),
        )
    }
}

#[test]
fn messages_are_forwarded_and_what_the_agent_asks_is_called_back() {
    let daemon = warm();
    let mut proxy = Proxy::connect(&daemon, true);
    assert_eq!(
        proxy.prompt("/write note.txt legacy")["stopReason"],
        "end_turn"
    );
    let asked = proxy
        .told
        .iter()
        .filter(|it| it["method"] == "session/request_permission");
    assert_eq!(asked.count(), 1);
    assert!(super::workspace(&daemon, "a1").join("note.txt").exists());
    let streamed = proxy
        .told
        .iter()
        .filter(|it| it["method"] == "session/update");
    assert!(streamed.count() > 3);
    let Proxy { mut client, id, .. } = proxy;
    assert_eq!(
        client.ok("proxy.disconnect", json!({"sessionId": id})),
        json!({"ok": true})
    );
    let gone = client.call(
        "proxy.forward",
        json!({"sessionId": id, "acpMessage": {"jsonrpc": "2.0", "method": "x"}}),
    );
    assert!(gone.unwrap_err().message.contains("proxy.connect"));
}

#[test]
fn a_request_is_taken_back_by_the_id_that_the_client_gave_it() {
    let daemon = warm();
    let mut proxy = Proxy::connect(&daemon, true);
    proxy.prompt("hello");
    let made = proxy.request("session/new", json!({"cwd": "/home/me", "mcpServers": []}));
    let prompt = json!([{"type": "text", "text": "/hang"}]);
    let params = json!({"sessionId": made["sessionId"], "prompt": prompt});
    for (number, message) in [
        (
            100,
            json!({"id": 7, "method": "session/prompt", "params": params}),
        ),
        // One that was answered, and one that never was there: neither means another.
        (
            101,
            json!({"method": "$/cancel_request", "params": {"requestId": "own-2"}}),
        ),
        (
            102,
            json!({"method": "$/cancel_request", "params": {"requestId": 3}}),
        ),
        (103, json!({"id": 8, "method": "_ping", "params": {}})),
        (
            104,
            json!({"method": "$/cancel_request", "params": {"requestId": 7}}),
        ),
    ] {
        let mut message = message;
        message["jsonrpc"] = json!("2.0");
        let params = json!({"sessionId": proxy.id, "acpMessage": message});
        proxy.send(number, "proxy.forward", params);
    }
    let mut due = vec![100, 101, 102, 103, 104];
    while !due.is_empty() {
        let told = proxy.client.receive();
        due.retain(|number| told["id"] != *number);
    }
}

/// Waits longer than a proxy that was ended stays for its last answers, and asks.
const ASKS_LATER: &str = r#"
time.sleep(4)
send(id="p", method="session/request_permission", params={"sessionId": session,
    "toolCall": {"toolCallId": "t", "title": "Act", "kind": "edit"}, "options": [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"}]})
"#;

#[test]
fn a_proxy_that_was_ended_takes_nobody_out_of_a_session_who_came_back_on_the_same_connection() {
    let daemon = node().start();
    daemon.scripted_agent("a1", json!({}), json!({}));
    let mut proxy = Proxy::connect(&daemon, true);
    let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
    proxy.request("initialize", hello.clone());
    let folder = json!({"cwd": "/home/me", "mcpServers": []});
    let made = proxy.request("session/new", folder.clone());
    let say = |proxy: &mut Proxy, program: &str| {
        let prompt = json!([{"type": "text", "text": program}]);
        let params = json!({"sessionId": made["sessionId"], "prompt": prompt});
        proxy.request("session/prompt", params)
    };
    say(&mut proxy, "on['_never'] = lambda id, params: None\nend()");
    let never = json!({"jsonrpc": "2.0", "id": 9, "method": "_never",
        "params": {"sessionId": made["sessionId"]}});
    let params = json!({"sessionId": proxy.id, "acpMessage": never});
    proxy.send(5000, "proxy.forward", params);
    let has_it = || {
        let got = daemon.got("a1");
        got.iter().any(|message| message["method"] == "_never")
    };
    eventually("the agent has it", has_it);
    proxy.send(5001, "proxy.disconnect", json!({"sessionId": proxy.id}));
    let again = json!({"agentName": "a1", "envPassthrough": true});
    proxy.send(5002, "proxy.connect", again);
    proxy.id = loop {
        let told = proxy.client.receive();
        if told["id"] == 5002 {
            break told["result"]["sessionId"].as_str().unwrap().to_owned();
        }
    };
    proxy.request("initialize", hello);
    let mut load = folder;
    load["sessionId"] = made["sessionId"].clone();
    proxy.request("session/load", load);
    assert_eq!(say(&mut proxy, ASKS_LATER)["stopReason"], "end_turn");
    let mut told = proxy.told.iter();
    assert!(told.any(|message| message["method"] == "session/request_permission"));
}

#[test]
fn without_passthrough_nobody_is_asked() {
    let daemon = warm();
    let mut proxy = Proxy::connect(&daemon, false);
    assert_eq!(
        proxy.prompt("/write note.txt legacy")["stopReason"],
        "end_turn"
    );
    assert!(
        proxy
            .told
            .iter()
            .all(|it| it["method"] != "session/request_permission")
    );
    assert!(!super::workspace(&daemon, "a1").join("note.txt").exists());
}

#[test]
fn an_agent_has_one_such_proxy_at_a_time() {
    let daemon = warm();
    let first = Proxy::connect(&daemon, false);
    let refused = daemon
        .client()
        .call("proxy.connect", json!({"agentName": "a1"}))
        .unwrap_err();
    assert_eq!(refused.code, -32011);
    assert!(refused.message.contains("--lease"), "{}", refused.message);
    drop(first);
    testkit::eventually("the first one's place is free", || {
        daemon
            .client()
            .call("proxy.connect", json!({"agentName": "a1"}))
            .is_ok()
    });
    let absent = daemon
        .client()
        .call("proxy.connect", json!({"agentName": "nobody"}))
        .unwrap_err();
    assert_eq!(absent.code, -32003);
    daemon.client().ok("agent.stop", json!({"name": "a1"}));
    let stopped = daemon
        .client()
        .call("proxy.connect", json!({"agentName": "a1"}))
        .unwrap_err();
    assert!(
        stopped.code == -32010 && stopped.message.contains("agent start a1"),
        "{}",
        stopped.message
    );
}
