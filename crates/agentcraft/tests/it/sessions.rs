//! Conversations: streamed, shared, decided once, and there again after everything else has gone.

mod limits;
mod withdrawn;

use std::{collections::BTreeMap, fs, io::Write, os::unix::net::UnixStream};

use serde_json::{Value, json};
use testkit::{RawClient, TestDaemon, eventually};

use crate::node;

/// A node with the built-in agent `a1` started.
fn with_agent(permissions: Value) -> TestDaemon {
    let daemon = node().start();
    daemon.template(
        "plain",
        json!({"backend": {"type": "builtin"}, "permissions": permissions}),
    );
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a1", "template": "plain"}));
    client.ok("agent.start", json!({"name": "a1"}));
    daemon
}

/// A client that is attached to a session and has seen some of its events.
struct Watcher {
    client: RawClient,
    events: Vec<Value>,
    answers: BTreeMap<String, Value>,
}

impl Watcher {
    fn attach(daemon: &TestDaemon, session: &str, from: u64, answers: bool) -> Self {
        let mut client = daemon.client();
        let params = json!({"sessionId": session, "fromSeq": from, "answers": answers});
        client.send_line(&json!({"jsonrpc": "2.0", "id": "attach", "method": "session.attach", "params": params}).to_string());
        let mut watcher = Self {
            client,
            events: Vec::new(),
            answers: BTreeMap::new(),
        };
        watcher.until(|watcher| watcher.answers.contains_key("attach"));
        watcher
    }

    fn send(&mut self, id: &str, method: &str, params: Value) {
        self.client.send_line(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
    }

    fn until(&mut self, mut holds: impl FnMut(&Self) -> bool) {
        while !holds(self) {
            let message = self.client.receive();
            match message["method"].as_str() {
                Some("session.event") => self.events.push(message["params"]["event"].clone()),
                _ => {
                    self.answers.insert(
                        message["id"].as_str().unwrap_or_default().to_owned(),
                        message,
                    );
                }
            }
        }
    }

    fn of(&self, kind: &str) -> Vec<&Value> {
        self.events
            .iter()
            .filter(|event| event["type"] == kind)
            .collect()
    }

    fn text(&self) -> String {
        self.of("text")
            .iter()
            .map(|event| event["text"].as_str().unwrap())
            .collect()
    }
}

fn session(client: &mut RawClient) -> String {
    let created = client.ok(
        "session.create",
        json!({"agentName": "a1", "clientId": "test"}),
    );
    created["sessionId"].as_str().unwrap().to_owned()
}

#[test]
fn a_prompt_is_answered_and_a_session_remembers_its_turns() {
    let daemon = with_agent(json!({}));
    let mut client = daemon.client();
    let answer = client.ok(
        "agent.prompt",
        json!({"name": "a1", "message": "hello there"}),
    );
    assert!(
        answer["response"].as_str().unwrap().contains("hello there"),
        "{answer}"
    );
    assert_eq!(answer["stopReason"], "end_turn");
    let session = answer["sessionId"].clone();
    let again = client.ok(
        "agent.prompt",
        json!({"name": "a1", "message": "and again", "sessionId": session}),
    );
    assert_eq!(again["sessionId"], session);
    assert_eq!(
        client.ok("session.get", json!({"sessionId": session}))["turns"],
        2
    );
    let failed = client.ok(
        "agent.prompt",
        json!({"name": "a1", "message": "/fail on purpose"}),
    );
    assert_eq!(failed["stopReason"], "failed");
    assert!(
        failed["error"].as_str().unwrap().contains("on purpose"),
        "{failed}"
    );
    assert_eq!(
        client.ok("agent.prompt", json!({"name": "a1", "message": "/refuse"}))["stopReason"],
        "refusal"
    );
}

#[test]
fn an_agent_that_is_not_started_is_said_not_to_be() {
    let daemon = node().start();
    daemon.template("plain", json!({"backend": {"type": "builtin"}}));
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a1", "template": "plain"}));
    for (method, params) in [
        ("agent.prompt", json!({"name": "a1", "message": "hi"})),
        ("session.create", json!({"agentName": "a1"})),
    ] {
        let error = client.call(method, params).unwrap_err();
        assert_eq!(
            (error.code, &error.data["errorCode"]),
            (-32010, &json!("AGENT_NOT_ATTACHED"))
        );
        assert!(
            error.message.contains("agent start a1"),
            "{}",
            error.message
        );
    }
    // A single run starts it for as long as it takes.
    let ran = client.ok("agent.run", json!({"name": "a1", "prompt": "hi"}));
    assert!(ran["text"].as_str().unwrap().contains("hi"), "{ran}");
    assert_eq!(
        client.ok("agent.status", json!({"name": "a1"}))["status"],
        "stopped"
    );
    assert_eq!(daemon.agent_processes(), Vec::<u32>::new());
}

#[test]
fn a_run_of_a_template_gives_its_artifacts_and_leaves_nothing() {
    let daemon = node().start();
    daemon.template(
        "writer",
        json!({"backend": {"type": "builtin"}, "permissions": {"allow": ["edit"]}}),
    );
    let mut client = daemon.client();
    let ran = client.ok(
        "agent.run",
        json!({"template": "writer", "prompt": "/write notes/a.txt some text"}),
    );
    assert_eq!(ran["artifacts"], json!(["notes/a.txt"]), "{ran}");
    assert_eq!(client.ok("agent.list", json!({})), json!([]));
    assert_eq!(
        fs::read_dir(daemon.home().join("instances"))
            .unwrap()
            .count(),
        0
    );
    let kept = client.ok(
        "agent.run",
        json!({"template": "writer", "prompt": "/write b.txt x", "cleanup": false}),
    );
    assert!(
        daemon
            .home()
            .join("instances")
            .join(kept["instanceName"].as_str().unwrap())
            .join("b.txt")
            .exists()
    );
    let late = client.call(
        "agent.run",
        json!({"template": "writer", "prompt": "/hang", "options": {"timeoutMs": 200}}),
    );
    assert!(
        late.unwrap_err().message.contains("did not finish"),
        "a run has a limit"
    );
}

#[test]
fn nobody_to_ask_is_denied_at_once_and_the_policy_decides_where_it_can() {
    for (permissions, written) in [
        (json!({}), false),
        (json!({"allow": ["edit(src/**)"]}), true),
        (json!({"deny": ["edit"], "allow": ["edit(src/**)"]}), false),
    ] {
        let daemon = with_agent(permissions.clone());
        let mut client = daemon.client();
        // Once asked for by the agent, once done through the client without asking.
        for (message, path) in [
            ("/write src/a.txt hi", "src/a.txt"),
            ("/fs write src/b.txt hi", "src/b.txt"),
        ] {
            fs::create_dir_all(daemon.home().join("instances/a1/src")).unwrap();
            client.ok("agent.prompt", json!({"name": "a1", "message": message}));
            let file = daemon.home().join("instances/a1").join(path);
            assert_eq!(file.exists(), written, "{permissions} {message}");
        }
        let settled = client.ok(
            "journal.query",
            json!({"agent": "a1", "kind": "ask.settled"}),
        );
        assert_eq!(settled.as_array().unwrap().len(), 2, "{settled}");
        assert_eq!(settled[0]["body"]["by"], "policy", "{settled}");
    }
}

#[test]
fn a_rule_that_denies_reading_holds_for_what_the_daemon_reads_for_the_agent() {
    let daemon = with_agent(json!({"deny": ["read(**/.env)"], "allow": ["read"]}));
    let workspace = daemon.home().join("instances/a1");
    fs::write(workspace.join(".env"), "KEY=hidden").unwrap();
    fs::write(workspace.join("open.txt"), "plain words").unwrap();
    let mut client = daemon.client();
    let mut read = |file: &str| {
        let message = format!("/fs read {file}");
        let answer = client.ok("agent.prompt", json!({"name": "a1", "message": message}));
        answer["response"].as_str().unwrap().to_owned()
    };
    assert!(read("open.txt").contains("plain words"));
    let denied = read(".env");
    assert!(!denied.contains("hidden"), "{denied}");
    assert!(denied.contains("denied"), "{denied}");
}

#[test]
fn a_rule_on_the_name_of_a_tool_decides_whatever_its_title_is() {
    let daemon = with_agent(json!({"rules": [{"tool": "write", "decision": "allow"}]}));
    let mut client = daemon.client();
    for (message, path, written) in [
        ("/write a.txt hi", "a.txt", true),
        ("/fs write b.txt hi", "b.txt", false),
    ] {
        client.ok("agent.prompt", json!({"name": "a1", "message": message}));
        let file = daemon.home().join("instances/a1").join(path);
        assert_eq!(file.exists(), written, "{message}");
    }
    let calls = client.ok("journal.query", json!({"agent": "a1", "kind": "tool.call"}));
    assert_eq!(calls[0]["body"]["name"], "write", "{calls}");
    assert_ne!(calls[0]["body"]["title"], "write", "{calls}");
    // The request for permission itself said only which call it is about.
    let asks = client.ok(
        "journal.query",
        json!({"agent": "a1", "kind": "ask.opened"}),
    );
    assert_eq!(asks[0]["body"]["tool"]["name"], "write", "{asks}");
}

#[test]
fn three_clients_see_one_stream_and_the_first_answer_wins() {
    let daemon = with_agent(json!({}));
    let session = session(&mut daemon.client());
    let mut watchers: Vec<Watcher> = (0..3)
        .map(|_| Watcher::attach(&daemon, &session, 1, true))
        .collect();
    let mut prompter = daemon.client();
    prompter.send_line(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "session.prompt", "params": {"sessionId": session, "text": "/write a.txt hi"}})
            .to_string(),
    );
    for watcher in &mut watchers {
        watcher.until(|watcher| !watcher.of("ask").is_empty());
    }
    let ask = watchers[0].of("ask")[0].clone();
    assert_eq!(ask["ask"], "permission");
    let allow = ask["options"]
        .as_array()
        .unwrap()
        .iter()
        .find(|option| option["kind"] == "allow-once")
        .unwrap()["id"]
        .clone();
    let answer = json!({"sessionId": session, "ask": ask["id"], "option": allow});
    watchers[1].send("answer", "session.answer", answer.clone());
    watchers[1].until(|watcher| watcher.answers.contains_key("answer"));
    watchers[2].send("answer", "session.answer", answer);
    watchers[2].until(|watcher| watcher.answers.contains_key("answer"));
    assert_eq!(watchers[1].answers["answer"]["result"], json!({"ok": true}));
    assert!(
        watchers[2].answers["answer"]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("settled already")
    );
    drop(watchers.remove(0)); // One of them goes in the middle.
    for watcher in &mut watchers {
        watcher.until(|watcher| !watcher.of("turn-ended").is_empty());
    }
    assert_eq!(watchers[0].events, watchers[1].events);
    let seqs: Vec<u64> = watchers[0]
        .events
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(
        seqs,
        (1..=seqs.len() as u64).collect::<Vec<_>>(),
        "in order, without gaps"
    );
    assert_eq!(prompter.receive()["result"]["stopReason"], "end_turn");
    assert!(daemon.home().join("instances/a1/a.txt").exists());

    // A late joiner gets the whole history.
    let late = {
        let mut late = Watcher::attach(&daemon, &session, 1, false);
        late.until(|watcher| !watcher.of("turn-ended").is_empty());
        late.events
    };
    assert_eq!(late, watchers[0].events);
}

#[test]
fn cancel_ends_a_turn_and_a_second_prompt_is_refused_or_queued() {
    let daemon = with_agent(json!({}));
    let session = session(&mut daemon.client());
    let mut watcher = Watcher::attach(&daemon, &session, 1, false);
    watcher.send(
        "p1",
        "session.prompt",
        json!({"sessionId": session, "text": "/hang"}),
    );
    watcher.until(|watcher| !watcher.of("turn-started").is_empty());
    let mut other = daemon.client();
    let refused = other
        .call(
            "session.prompt",
            json!({"sessionId": session, "text": "too early"}),
        )
        .unwrap_err();
    assert!(
        refused.message.contains("a turn is running"),
        "{}",
        refused.message
    );
    other.ok("session.cancel", json!({"sessionId": session}));
    watcher.until(|watcher| watcher.answers.contains_key("p1"));
    assert_eq!(watcher.answers["p1"]["result"]["stopReason"], "cancelled");
    watcher.send(
        "p2",
        "session.prompt",
        json!({"sessionId": session, "text": "/slow 3 50"}),
    );
    watcher.send(
        "p3",
        "session.prompt",
        json!({"sessionId": session, "text": "after it", "queue": true}),
    );
    watcher.until(|watcher| watcher.answers.contains_key("p3"));
    assert_eq!(watcher.answers["p2"]["result"]["stopReason"], "end_turn");
    assert!(
        watcher.answers["p3"]["result"]["text"]
            .as_str()
            .unwrap()
            .contains("after it")
    );
    assert_eq!(
        other.ok("session.cancel", json!({"sessionId": session})),
        json!({"ok": true}),
        "nothing to cancel"
    );
}

#[test]
fn a_cancel_never_takes_what_others_wait_for() {
    let daemon = with_agent(json!({}));
    let session = session(&mut daemon.client());
    let mut one = Watcher::attach(&daemon, &session, 1, false);
    let mut two = Watcher::attach(&daemon, &session, 1, false);
    let prompt = |text: &str| json!({"sessionId": session, "text": text, "queue": true});
    one.send("runs", "session.prompt", prompt("/hang"));
    one.until(|one| !one.of("turn-started").is_empty());
    two.send("waits", "session.prompt", prompt("after it"));
    two.send("taken back", "session.prompt", prompt("never"));
    // Both have been heard once the refusal of a third is.
    let mut third = daemon.client();
    third
        .call("session.prompt", json!({"sessionId": session, "text": "x"}))
        .unwrap_err();
    let mut leaves = Watcher::attach(&daemon, &session, 1, false);
    leaves.send("own", "session.prompt", prompt("mine"));
    let own = json!({"sessionId": session, "own": true});
    leaves.send("cancel", "session.cancel", own);
    leaves.until(|leaves| leaves.answers.contains_key("own"));
    assert_eq!(leaves.answers["own"]["result"]["stopReason"], "cancelled");
    assert!(!one.answers.contains_key("runs"), "it was not theirs");
    one.send("cancel", "session.cancel", json!({"sessionId": session}));
    one.until(|one| one.answers.contains_key("runs"));
    assert_eq!(one.answers["runs"]["result"]["stopReason"], "cancelled");
    two.until(|two| two.answers.contains_key("taken back"));
    for waited in ["waits", "taken back"] {
        assert_eq!(two.answers[waited]["result"]["stopReason"], "end_turn");
    }
}

#[test]
fn a_run_names_a_session_that_is_there_and_a_system_prompt_that_can_be_read() {
    let daemon = with_agent(json!({}));
    let mut client = daemon.client();
    let unknown = "s-01a1e2d7-951c-7547-8ebc-393e77cbeee0";
    let run = |options: Value| json!({"name": "a1", "prompt": "hello", "options": options});
    let refused = client
        .call("agent.run", run(json!({"sessionId": unknown})))
        .unwrap_err();
    assert!(
        refused.message.contains("no session"),
        "{}",
        refused.message
    );
    let missing = daemon.scratch("missing.md");
    let refused = client
        .call("agent.run", run(json!({"systemPromptFile": missing})))
        .unwrap_err();
    assert!(
        refused.message.contains("missing.md"),
        "{}",
        refused.message
    );
    assert_eq!(client.ok("session.list", json!({})), json!([]));
}

#[test]
fn a_session_that_looks_like_ours_and_is_not_there_is_no_new_conversation() {
    let daemon = with_agent(json!({}));
    for id in ["s-nope", "s-01a1e2d7"] {
        let ran = daemon.cli(&["agent", "run", "a1", "-p", "hello", "--session-id", id]);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.stderr.contains("no session"), "{ran:?}");
    }
    assert_eq!(daemon.client().ok("session.list", json!({})), json!([]));
}

#[test]
fn a_client_that_vanishes_while_it_attaches_is_not_attached() {
    let daemon = with_agent(json!({}));
    let mut client = daemon.client();
    let id = session(&mut client);
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "session.attach", "params": {"sessionId": id, "answers": true}});
    for _ in 0..30 {
        let mut socket = UnixStream::connect(daemon.socket()).unwrap();
        socket.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    eventually("only the client that stays is attached", || {
        client.ok("session.get", json!({"sessionId": id}))["clients"] == 1
    });
}

#[test]
fn the_journal_is_read_page_by_page_and_searched_as_it_is_shown() {
    let daemon = with_agent(json!({}));
    let mut client = daemon.client();
    let id = session(&mut client);
    let words = r#"say "quoted" C:\temp"#;
    client.ok("session.prompt", json!({"sessionId": id, "text": words}));
    let all = client.ok("journal.query", json!({}));
    let all = all.as_array().unwrap();
    let (mut after, mut paged) = (0, Vec::new());
    loop {
        let page = client.ok("journal.query", json!({"afterSeq": after, "limit": 2}));
        let Some(last) = page.as_array().unwrap().last() else {
            break;
        };
        after = last["seq"].as_i64().unwrap();
        paged.extend(page.as_array().unwrap().iter().cloned());
    }
    assert_eq!(&paged[..all.len()], &all[..]);
    let found = client.ok("journal.query", json!({"grep": words}));
    assert!(!found.as_array().unwrap().is_empty());
}

#[test]
fn an_agent_without_an_option_for_instructions_is_told_them_before_the_prompt() {
    let daemon = with_agent(json!({}));
    let file = daemon.home().join("system.md");
    std::fs::write(&file, "Be kind.").unwrap();
    let options = json!({"systemPromptFile": file, "appendSystemPrompt": "Be brief."});
    let run = json!({"name": "a1", "prompt": "hello", "options": options});
    let answer = daemon.client().ok("agent.run", run);
    let text = answer["text"].as_str().unwrap();
    assert!(text.contains("Be kind.\n\nBe brief.\n\nhello"), "{answer}");
}

#[test]
fn sessions_of_one_agent_do_not_see_each_other() {
    let daemon = with_agent(json!({}));
    let mut client = daemon.client();
    let (one, two) = (session(&mut client), session(&mut client));
    assert_ne!(one, two);
    client.ok(
        "session.prompt",
        json!({"sessionId": one, "text": "the secret is 4711"}),
    );
    client.ok(
        "session.prompt",
        json!({"sessionId": two, "text": "what did I say?"}),
    );
    let events = client
        .ok("session.events", json!({"sessionId": two}))
        .to_string();
    assert!(!events.contains("4711"), "{events}");
}

#[test]
fn a_session_outlives_its_client_its_agent_and_the_daemon() {
    let mut daemon = with_agent(json!({}));
    let id = session(&mut daemon.client());
    eventually("the client has gone", || {
        daemon.client().ok("session.get", json!({"sessionId": id}))["state"] == "idle"
    });
    let mut client = daemon.client();
    client.ok(
        "session.prompt",
        json!({"sessionId": id, "text": "first words"}),
    );

    // The agent dies in the middle of a turn: the turn fails in words, the session goes on after the restart.
    let crashed = client.ok(
        "session.prompt",
        json!({"sessionId": id, "text": "/crash 3"}),
    );
    assert_eq!(crashed["stopReason"], "failed", "{crashed}");
    eventually("the crash is noticed", || {
        client.ok("agent.status", json!({"name": "a1"}))["status"] == "crashed"
    });
    client.ok("agent.start", json!({"name": "a1"}));
    let after = client.ok(
        "session.prompt",
        json!({"sessionId": id, "text": "second words"}),
    );
    assert_eq!(after["stopReason"], "end_turn", "{after}");

    let before = client.ok("session.events", json!({"sessionId": id}));
    daemon.kill();
    daemon.start();
    let mut client = daemon.client();
    assert_eq!(
        client.ok("session.events", json!({"sessionId": id})),
        before,
        "the history is whole"
    );
    assert_eq!(
        client.ok("session.list", json!({}))[0]["sessionId"],
        json!(id)
    );
    client.ok("agent.start", json!({"name": "a1"}));
    let third = client.ok(
        "session.prompt",
        json!({"sessionId": id, "text": "third words"}),
    );
    assert!(
        third["text"].as_str().unwrap().contains("third words"),
        "{third}"
    );
    let events = client
        .ok("session.events", json!({"sessionId": id}))
        .to_string();
    assert!(
        !events.contains("does not remember"),
        "the built-in agent takes its conversations up: {events}"
    );
    client.ok("session.close", json!({"sessionId": id}));
    assert_eq!(client.ok("session.list", json!({})), json!([]));
    let over = client
        .call(
            "session.prompt",
            json!({"sessionId": id, "text": "too late"}),
        )
        .unwrap_err();
    assert!(over.message.contains("is over"), "{}", over.message);
}

#[test]
fn kill_9_in_the_middle_of_a_turn_loses_at_most_its_last_moments() {
    let mut daemon = with_agent(json!({}));
    let id = session(&mut daemon.client());
    for round in 0..20 {
        let mut watcher = Watcher::attach(&daemon, &id, 1, false);
        watcher.send(
            "p",
            "session.prompt",
            json!({"sessionId": id, "text": "/slow 1000 10"}),
        );
        let wanted = 3 * (round + 1);
        watcher.until(|watcher| {
            watcher.of("turn-started").len() == round + 1 && watcher.of("text").len() >= wanted
        });
        daemon.kill();
        daemon.start();
        let mut client = daemon.client();
        let events = client.ok("session.events", json!({"sessionId": id}));
        let events = events.as_array().unwrap();
        let seqs: Vec<u64> = events
            .iter()
            .map(|event| event["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "no gap");
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["stop"]["reason"]),
            (&json!("turn-ended"), &json!("failed")),
            "{last}"
        );
        client.ok("agent.start", json!({"name": "a1"}));
    }
    let answer = daemon.client().ok(
        "session.prompt",
        json!({"sessionId": id, "text": "still there?"}),
    );
    assert_eq!(answer["stopReason"], "end_turn");
}

#[test]
fn a_prompt_that_waits_when_the_daemon_ends_is_told_as_not_begun() {
    for end in [TestDaemon::kill, TestDaemon::stop] {
        let mut daemon = with_agent(json!({}));
        let id = session(&mut daemon.client());
        let mut watcher = Watcher::attach(&daemon, &id, 1, false);
        let prompt = |text: &str| json!({"sessionId": id, "text": text, "queue": true});
        watcher.send("runs", "session.prompt", prompt("/hang"));
        watcher.until(|watcher| !watcher.of("turn-started").is_empty());
        for text in ["the first that waits", "the second"] {
            watcher.send(text, "session.prompt", prompt(text));
        }
        let of_session = json!({"sessionId": id});
        eventually("both are taken", || {
            daemon.client().ok("session.get", of_session.clone())["turns"] == 3
        });
        end(&mut daemon);
        daemon.start();
        let mut client = daemon.client();
        let listed = client.ok("session.list", json!({}));
        assert_eq!(listed[0]["prompt"], "the second", "{listed}");
        client.ok("agent.start", json!({"name": "a1"}));
        let later = client.ok(
            "session.prompt",
            json!({"sessionId": id, "text": "and later"}),
        );
        assert_eq!(later["stopReason"], "end_turn", "{later}");
        daemon.kill();
        daemon.start();
        let events = daemon.client().ok("session.events", of_session);
        let of = |event: &Value, at: &str| event.pointer(at).cloned().unwrap_or_default();
        let told: Vec<[Value; 3]> = events
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["type"] == "turn-started" || event["type"] == "turn-ended")
            .map(|event| ["/turn", "/prompt", "/stop/reason"].map(|at| of(event, at)))
            .collect();
        let begun = |turn: u64, prompt: &str| [json!(turn), json!(prompt), Value::Null];
        let ended = |turn: u64, reason: &str| [json!(turn), Value::Null, json!(reason)];
        let all = [
            begun(1, "/hang"),
            ended(1, "failed"),
            begun(2, "the first that waits"),
            ended(2, "failed"),
            begun(3, "the second"),
            ended(3, "failed"),
            begun(4, "and later"),
            ended(4, "end-turn"),
        ];
        assert_eq!(told, all, "each once, and in order");
        let words = events.to_string();
        assert!(words.contains("not begun: the daemon ended"), "{words}");
    }
}

#[test]
fn a_burst_of_events_arrives_whole_and_in_order_also_at_a_slow_reader() {
    let daemon = with_agent(json!({}));
    let session = session(&mut daemon.client());
    let mut slow = Watcher::attach(&daemon, &session, 1, false);
    let mut client = daemon.client();
    client.ok(
        "session.prompt",
        json!({"sessionId": session, "text": "/burst 20000 200"}),
    );
    // Only now does the slow one begin to read; much of it has left the window long ago.
    slow.until(|watcher| {
        watcher
            .events
            .last()
            .is_some_and(|event| event["type"] == "turn-ended")
    });
    let seqs: Vec<u64> = slow
        .events
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(slow.text().matches("chunk ").count(), 20000);
}

#[test]
fn an_idle_lease_expires_and_says_so() {
    let daemon = with_agent(json!({}));
    let id = {
        let mut client = daemon.client();
        let created = client.ok(
            "session.create",
            json!({"agentName": "a1", "idleTtlMs": 100}),
        );
        assert_eq!(created["state"], "active");
        created["sessionId"].as_str().unwrap().to_owned()
    };
    let mut client = daemon.client();
    eventually("the lease has run out", || {
        client.ok("session.get", json!({"sessionId": id}))["state"] == "expired"
    });
    let over = client
        .call("session.prompt", json!({"sessionId": id, "text": "hi"}))
        .unwrap_err();
    assert!(over.message.contains("is over"), "{}", over.message);
}

#[test]
fn the_journal_tells_turns_tools_and_decisions() {
    let daemon = with_agent(json!({"allow": ["edit"]}));
    let mut client = daemon.client();
    client.ok(
        "agent.prompt",
        json!({"name": "a1", "message": "/write report.txt findings"}),
    );
    let kinds = |client: &mut RawClient, params: Value| -> Vec<String> {
        let lines = client.ok("journal.query", params);
        lines
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["kind"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = kinds(&mut client, json!({"agent": "a1"}));
    for kind in [
        "agent.created",
        "agent.running",
        "turn.started",
        "tool.call",
        "ask.settled",
        "turn.ended",
    ] {
        assert!(
            all.iter().any(|one| one == kind),
            "{kind} is missing in {all:?}"
        );
    }
    assert_eq!(
        kinds(&mut client, json!({"grep": "report.txt", "kind": "turn."})),
        ["turn.started"]
    );
    assert_eq!(
        kinds(&mut client, json!({"agent": "nobody"})),
        Vec::<String>::new()
    );
}

#[test]
fn whoever_waits_for_a_turn_is_told_when_it_is_dropped_or_its_session_is_closed() {
    let daemon = with_agent(json!({}));
    let session = session(&mut daemon.client());
    let mut watcher = Watcher::attach(&daemon, &session, 1, false);
    let prompt = |text: &str| json!({"sessionId": session, "text": text, "queue": true});
    watcher.send("runs", "session.prompt", prompt("/hang"));
    watcher.until(|watcher| !watcher.of("turn-started").is_empty());
    watcher.send("waits", "session.prompt", prompt("never begun"));
    let own = json!({"sessionId": session, "own": true});
    watcher.send("cancel", "session.cancel", own);
    watcher.until(|watcher| {
        watcher.answers.contains_key("waits") && watcher.answers.contains_key("runs")
    });
    for id in ["runs", "waits"] {
        assert_eq!(
            watcher.answers[id]["result"]["stopReason"], "cancelled",
            "{id}"
        );
    }
    watcher.send("closed", "session.prompt", prompt("/hang"));
    watcher.until(|watcher| watcher.of("turn-started").len() == 2);
    daemon
        .client()
        .ok("session.close", json!({"sessionId": session}));
    watcher.until(|watcher| watcher.answers.contains_key("closed"));
    assert_eq!(
        watcher.answers["closed"]["result"]["stopReason"],
        "cancelled"
    );
}

#[test]
fn a_session_belongs_to_one_agent_and_goes_with_it() {
    let daemon = with_agent(json!({}));
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a2", "template": "plain"}));
    client.ok("agent.start", json!({"name": "a2"}));
    let session = session(&mut client);
    for (method, params) in [
        (
            "agent.prompt",
            json!({"name": "a2", "message": "hi", "sessionId": session}),
        ),
        (
            "agent.run",
            json!({"name": "a2", "prompt": "hi", "options": {"sessionId": session}}),
        ),
    ] {
        let error = client.call(method, params).unwrap_err();
        assert_eq!(
            (error.code, &error.data["context"]["field"]),
            (-32602, &json!("sessionId")),
            "{method}"
        );
    }
    client.ok("agent.stop", json!({"name": "a1"}));
    let stopped = client.call(
        "session.prompt",
        json!({"sessionId": session, "text": "hi"}),
    );
    assert_eq!(
        stopped.unwrap_err().code,
        -32010,
        "nobody is there to talk to"
    );
    client.ok("agent.destroy", json!({"name": "a1"}));
    eventually("its sessions are over", || {
        client.ok("session.list", json!({"agentName": "a1"})) == json!([])
    });
    client.ok("agent.create", json!({"name": "a1", "template": "plain"}));
    client.ok("agent.start", json!({"name": "a1"}));
    let other = client.call(
        "session.prompt",
        json!({"sessionId": session, "text": "hi"}),
    );
    assert!(
        other.unwrap_err().message.contains("is over"),
        "a new agent of the same name is another one"
    );
}

#[test]
fn several_runs_share_an_agent_that_was_started_for_them() {
    let daemon = node().start();
    daemon.template("plain", json!({"backend": {"type": "builtin"}}));
    daemon
        .client()
        .ok("agent.create", json!({"name": "a1", "template": "plain"}));
    std::thread::scope(|scope| {
        for n in 0..6 {
            let daemon = &daemon;
            scope.spawn(move || {
                let prompt = format!("/slow {} 30", n + 1);
                let ran = daemon
                    .client()
                    .ok("agent.run", json!({"name": "a1", "prompt": prompt}));
                assert_eq!(ran["stopReason"], "end_turn", "{ran}");
            });
        }
    });
    let mut client = daemon.client();
    eventually("the last one has stopped it", || {
        client.ok("agent.status", json!({"name": "a1"}))["status"] == "stopped"
    });
}

#[test]
fn an_agent_that_was_started_for_a_run_stays_for_whoever_has_joined_it_meanwhile() {
    let daemon = node().start();
    daemon.template("plain", json!({"backend": {"type": "builtin"}}));
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a1", "template": "plain"}));
    let mut runner = daemon.client();
    let params = json!({"name": "a1", "prompt": "/slow 5 50"});
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "agent.run", "params": params});
    runner.send_line(&line.to_string());
    eventually("it runs", || {
        client.ok("agent.status", json!({"name": "a1"}))["status"] == "running"
    });
    let session = client.ok("session.create", json!({"agentName": "a1", "stream": true}));
    assert_eq!(runner.receive()["result"]["stopReason"], "end_turn");
    let prompt = json!({"sessionId": session["sessionId"], "text": "still there?"});
    let answer = daemon.client().ok("session.prompt", prompt);
    assert_eq!(answer["stopReason"], "end_turn", "{answer}");
    let status = daemon.client().ok("agent.status", json!({"name": "a1"}));
    assert_eq!(status["status"], "running", "{status}");
}

#[test]
fn an_agent_that_stops_speaking_is_not_said_to_run() {
    let daemon = node().start();
    // It shakes hands, closes its output and sleeps on.
    let script = r#"read line; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'; exec >&-; exec sleep 1000"#;
    daemon.template(
        "mute",
        json!({"backend": {"type": "custom", "config": {"executablePath": "/bin/sh", "args": ["-c", script], "protocol": "acp"}}, "stopGraceMs": 200}),
    );
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "m1", "template": "mute"}));
    let _ = client.call("agent.start", json!({"name": "m1"})); // It may be noticed before the answer.
    eventually("it is noticed", || {
        let status = client.ok("agent.status", json!({"name": "m1"}))["status"].clone();
        status == "crashed" || status == "error"
    });
    eventually("nothing of it is left", || {
        daemon.agent_processes().is_empty()
    });
}

/// A conversation with a tool, a decision and a second turn. Stops where the daemon dies.
fn talk(client: &mut RawClient) -> Option<()> {
    client
        .call_if_alive("agent.start", json!({"name": "a1"}))?
        .ok();
    let created = client.call_if_alive("session.create", json!({"agentName": "a1"}))?;
    let id = created.ok()?["sessionId"].clone();
    for text in ["/write a.txt hi", "and a second turn"] {
        client
            .call_if_alive("session.prompt", json!({"sessionId": id, "text": text}))?
            .ok();
    }
    client
        .call_if_alive("session.close", json!({"sessionId": id}))?
        .ok();
    Some(())
}

#[test]
fn a_crash_at_any_point_of_a_turn_leaves_a_session_that_goes_on() {
    let prepared = |daemon: &TestDaemon| {
        daemon.template("plain", json!({"backend": {"type": "builtin"}}));
    };
    let mut daemon = node().stopped();
    prepared(&daemon);
    let trace = daemon.scratch("trace");
    fs::create_dir_all(trace.parent().unwrap()).unwrap();
    daemon.set_env("AGENTCRAFT_CRASH_TRACE", trace.to_str());
    daemon.start();
    daemon
        .client()
        .ok("agent.create", json!({"name": "a1", "template": "plain"}));
    assert!(talk(&mut daemon.client()).is_some());
    daemon.stop();
    let mut points: BTreeMap<String, u32> = BTreeMap::new();
    for line in fs::read_to_string(&trace)
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("session."))
    {
        *points.entry(line.to_owned()).or_default() += 1;
    }
    assert!(points.len() >= 3, "{points:?}");
    for (name, times) in points {
        for time in 1..=times {
            let story = format!("{name}:{time}");
            let mut daemon = node().stopped();
            prepared(&daemon);
            daemon.start();
            daemon
                .client()
                .ok("agent.create", json!({"name": "a1", "template": "plain"}));
            daemon.stop();
            daemon.set_env("AGENTCRAFT_CRASH_AT", Some(&story));
            daemon.start();
            match talk(&mut daemon.client()) {
                // How many batches a stream makes varies; a point that was not reached is no crash.
                Some(()) => daemon.stop(),
                None => daemon.wait_for_death(),
            }
            daemon.set_env("AGENTCRAFT_CRASH_AT", None);
            daemon.start();
            let mut client = daemon.client();
            client.ok("agent.start", json!({"name": "a1"}));
            for session in client.ok("session.list", json!({})).as_array().unwrap() {
                let id = &session["sessionId"];
                let events = client.ok("session.events", json!({"sessionId": id}));
                let seqs: Vec<u64> = events
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|event| event["seq"].as_u64().unwrap())
                    .collect();
                assert_eq!(
                    seqs,
                    (1..=seqs.len() as u64).collect::<Vec<_>>(),
                    "{story}: no gap"
                );
                let answer = client.ok(
                    "session.prompt",
                    json!({"sessionId": id, "text": "still there?"}),
                );
                assert_eq!(answer["stopReason"], "end_turn", "{story}: {answer}");
            }
        }
    }
}
