//! Questions that nobody waits for any more: taken back by the agent, or left behind by its death.

use std::fs;

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use super::Watcher;
use crate::node;

/// Asks for permission to do something and, when it is told to, does what comes after it.
const ASKING: &str = r#"
def answered(line): pass
send(id=7, method="session/request_permission", params={"sessionId": session,
    "toolCall": {"toolCallId": "t", "title": "Act", "kind": "edit"},
    "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]})
while not os.path.exists("go"): time.sleep(0.01)
"#;

/// A session with an agent that does so, in which a client that answers has given a prompt.
fn asked(afterwards: &str) -> (TestDaemon, Watcher, String) {
    let daemon = node().start();
    daemon.scripted_agent("own", json!({}), json!({}));
    let mut client = daemon.client();
    let session = client.ok("session.create", json!({"agentName": "own"}));
    let id = session["sessionId"].as_str().unwrap().to_owned();
    let mut watcher = Watcher::attach(&daemon, &id, 1, true);
    watcher.send(
        "prompt",
        "session.prompt",
        json!({"sessionId": id, "text": format!("{ASKING}{afterwards}")}),
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
