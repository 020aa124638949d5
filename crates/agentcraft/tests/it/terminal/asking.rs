//! What a single prompt asks at the terminal: it can be answered, taken away by somebody else's answer, and left with Ctrl-C.

use std::fs;

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use super::{Pty, daemon, done, started, until_stopped};

/// The only session of the node, and what its agent asks.
fn asked(daemon: &TestDaemon) -> (String, Value) {
    let mut client = daemon.client();
    let sessions = client.ok("session.list", json!({}));
    let id = sessions[0]["sessionId"].as_str().unwrap().to_owned();
    let events = client.ok("session.events", json!({"sessionId": id, "fromSeq": 1}));
    let events = events.as_array().unwrap();
    let ask = events.iter().find(|event| event["type"] == "ask").unwrap();
    (id, ask.clone())
}

#[test]
fn a_question_of_a_prompt_leaves_the_terminal_when_another_client_answers_it() {
    let daemon = started();
    let mut prompt = Pty::open(
        &daemon,
        80,
        &["agent", "prompt", "x", "-m", "/write a.txt hi"],
    );
    prompt.see("choose 1-");
    prompt.say("perhaps");
    prompt.see("choose one of the numbers above");
    prompt.see("choose 1-");
    prompt.press(b"half an answer");
    let (id, ask) = asked(&daemon);
    let answer = json!({"sessionId": id, "ask": ask["id"], "option": ask["options"][0]["id"]});
    daemon.client().ok("session.answer", answer);
    prompt.see("now has 2 bytes");
    assert_eq!(prompt.end(), 0, "{}", prompt.text());
}

#[test]
fn a_question_of_a_prompt_is_answered_with_a_number_and_its_end_says_no() {
    let daemon = started();
    let file = daemon.home().join("instances/x/a.txt");
    let arguments = ["agent", "prompt", "x", "-m", "/write a.txt hi"];
    let mut prompt = Pty::open(&daemon, 80, &arguments);
    prompt.see("choose 1-");
    prompt.press(b"\x04");
    prompt.see("you rejected it");
    prompt.end();
    assert!(!file.exists());
    let mut prompt = Pty::open(&daemon, 80, &arguments);
    prompt.see("choose 1-");
    prompt.say("1");
    prompt.see("now has 2 bytes");
    assert_eq!(prompt.end(), 0, "{}", prompt.text());
    assert_eq!(fs::read_to_string(file).unwrap(), "hi");
}

#[test]
fn ctrl_c_at_a_question_ends_the_turn() {
    let daemon = daemon(json!({}));
    let mut run = Pty::open(&daemon, 80, &["agent", "run", "x", "-p", "/write a.txt hi"]);
    run.see("choose 1-");
    run.press(b"\x03");
    run.see("cancelled");
    assert_eq!(run.end(), 1, "{}", run.text());
    assert!(!daemon.home().join("instances/x/a.txt").exists());
    until_stopped(&daemon);
}

#[test]
fn a_run_of_a_template_streams_asks_and_is_cancelled_like_any_other() {
    let daemon = daemon(json!({}));
    let template = |prompt| ["agent", "run", "-t", "built-in", "-p", prompt];
    let mut run = Pty::open(&daemon, 80, &template("/write a.txt hi"));
    run.see("choose 1-");
    run.say("1");
    run.see("now has 2 bytes");
    run.see("changed a.txt");
    assert_eq!(run.end(), 0, "{}", run.text());
    let mut run = Pty::open(&daemon, 80, &template("/slow 1000 20"));
    run.see("chunk 3 of 1000");
    run.press(b"\x03");
    run.see("cancelled");
    assert_eq!(run.end(), 1, "{}", run.text());
    assert_eq!(done(&daemon, &["agent", "list", "-f", "quiet"]), "x\n");
}

#[test]
fn a_run_that_loses_its_terminal_leaves_no_agent() {
    let daemon = daemon(json!({}));
    let mut run = Pty::open(
        &daemon,
        80,
        &["agent", "run", "-t", "built-in", "-p", "/slow 1000 20"],
    );
    run.see("chunk 3 of 1000");
    drop(run);
    eventually("its agent is gone", || {
        done(&daemon, &["agent", "list", "-f", "quiet"]) == "x\n"
    });
}

#[test]
fn a_prompt_may_begin_with_a_dash() {
    let daemon = daemon(json!({}));
    let answer = done(&daemon, &["agent", "run", "x", "-p", "- buy milk"]);
    assert!(answer.contains("- buy milk"), "{answer}");
}

#[test]
fn the_journal_tells_why_something_was_allowed_or_denied() {
    let daemon = daemon(json!({"deny": ["read(**/.env)"], "allow": ["edit(a.txt)"]}));
    fs::write(daemon.home().join("instances/x/.env"), "secret").unwrap();
    for prompt in ["/write a.txt hi", "/write b.txt hi", "/fs read .env"] {
        daemon.cli(&["agent", "run", "x", "-p", prompt]);
    }
    let settled = super::json_lines(&done(
        &daemon,
        &["journal", "--kind", "ask.settled", "-f", "json"],
    ));
    let reasons: Vec<_> = settled
        .iter()
        .map(|line| line["body"]["why"].as_str().unwrap())
        .collect();
    assert!(
        reasons.iter().any(|why| why.starts_with("allowed once: ")),
        "{reasons:?}"
    );
    assert!(
        reasons.iter().any(|why| why.contains("nobody is there")),
        "{reasons:?}"
    );
    let notices = done(&daemon, &["journal", "--kind", "notice", "-f", "json"]);
    assert!(notices.contains(".env"), "{notices}");
}
