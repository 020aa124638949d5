//! Questions that nobody waits for any more: taken back by the agent, or left behind by its death.

use std::fs;

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use super::Watcher;
use crate::node;

/// An agent that asks for permission to do something and, when it is told to, does what AFTERWARDS says. It ends its turn when it is cancelled.
const ASKING: &str = r#"
import json, os, sys, time
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
turn = None
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        send(id=id, result={"protocolVersion": 1, "agentCapabilities": {}})
    elif method == "session/new":
        send(id=id, result={"sessionId": "own"})
    elif method == "session/prompt":
        turn = id
        send(id=7, method="session/request_permission", params={"sessionId": "own",
            "toolCall": {"toolCallId": "t", "title": "Act", "kind": "edit"},
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]})
        while not os.path.exists("go"):
            time.sleep(0.01)
        AFTERWARDS
    elif method == "session/cancel":
        send(id=turn, result={"stopReason": "cancelled"})
    elif method is not None and id is not None:
        send(id=id, error={"code": -32601, "message": "no"})
"#;

/// A session with that agent in which a client that answers has given a prompt.
fn asked(afterwards: &str) -> (TestDaemon, Watcher, String) {
    let daemon = node().start();
    let script = ASKING.replace("AFTERWARDS", afterwards);
    let program = json!({"executablePath": "python3", "args": ["-c", script], "protocol": "acp"});
    daemon.template(
        "own",
        json!({"backend": {"type": "custom", "config": program}}),
    );
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "own", "template": "own"}));
    client.ok("agent.start", json!({"name": "own"}));
    let session = client.ok("session.create", json!({"agentName": "own"}));
    let id = session["sessionId"].as_str().unwrap().to_owned();
    let mut watcher = Watcher::attach(&daemon, &id, 1, true);
    watcher.send(
        "prompt",
        "session.prompt",
        json!({"sessionId": id, "text": "go"}),
    );
    watcher.until(|watcher| kinds(watcher).contains(&"ask"));
    fs::write(daemon.home().join("instances/own/go"), "").unwrap();
    (daemon, watcher, id)
}

fn kinds(watcher: &Watcher) -> Vec<&str> {
    let kinds = watcher.events.iter().map(|event| &event["type"]);
    kinds.map(|kind| kind.as_str().unwrap()).collect()
}

#[test]
fn a_question_that_the_agent_takes_back_is_settled_at_once() {
    let take_back = r#"send(method="$/cancel_request", params={"requestId": 7})"#;
    let (daemon, mut watcher, id) = asked(take_back);
    watcher.until(|watcher| kinds(watcher).contains(&"ask-settled"));
    let mut client = daemon.client();
    eventually("nothing is asked, and the turn goes on", || {
        let view = client.ok("session.get", json!({"sessionId": id}));
        view["asks"] == 0 && view["busy"] == true
    });
    watcher.send("cancel", "session.cancel", json!({"sessionId": id}));
    watcher.until(|watcher| watcher.answers.contains_key("prompt"));
    assert_eq!(
        watcher.answers["prompt"]["result"]["stopReason"],
        "cancelled"
    );
}

#[test]
fn a_question_of_an_agent_that_dies_is_settled_before_its_turn_ends() {
    let (_daemon, mut watcher, _) = asked("os._exit(3)");
    watcher.until(|watcher| kinds(watcher).contains(&"turn-ended"));
    let last: Vec<_> = kinds(&watcher).into_iter().rev().take(2).collect();
    assert_eq!(last, ["turn-ended", "ask-settled"]);
    let stop: &Value = &watcher.events.last().unwrap()["stop"];
    assert_eq!(stop["reason"], "failed", "{stop}");
}
