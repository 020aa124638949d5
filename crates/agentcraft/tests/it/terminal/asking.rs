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
    prompt.see("choose one of the numbers");
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

/// Has the agent ask for two things at once and say what it was answered.
const TWICE: &str = r#"
answers = {}
def answered(line):
    message = json.loads(line)
    answers[message["id"]] = message["result"]["outcome"].get("optionId", "none")
    if len(answers) == 2:
        say_and_end("heard %s and %s" % (answers[7], answers[8]))
for number, title in ((7, "first act"), (8, "second act")):
    send(id=number, method="session/request_permission", params={"sessionId": session,
        "toolCall": {"toolCallId": str(number), "title": title, "kind": "edit"},
        "options": [{"optionId": "y", "name": "Allow", "kind": "allow_once"},
                    {"optionId": "n", "name": "Reject", "kind": "reject_once"}]})
"#;

fn with_two_questions() -> TestDaemon {
    let daemon = crate::node().start();
    daemon.scripted_agent("twice", json!({}), json!({}));
    fs::write(daemon.home().join("instances/twice/asks.py"), TWICE).unwrap();
    daemon
}

/// A prompt of one line, as people type them.
const GO: &str = r#"exec(open("asks.py").read())"#;

#[test]
fn of_two_questions_one_is_asked_after_the_other_each_with_what_it_is_about() {
    let daemon = with_two_questions();
    let mut prompt = Pty::open(&daemon, 80, &["agent", "prompt", "twice", "-m", GO]);
    prompt.see("first act");
    prompt.see("choose 1-2");
    prompt.say("1");
    prompt.see("second act");
    prompt.see("choose 1-2");
    prompt.say("2");
    prompt.see("heard y and n");
    assert_eq!(prompt.end(), 0, "{}", prompt.text());
    let told = ["first act", "second act"].map(|act| prompt.text().matches(act).count());
    assert_eq!(told, [1, 1], "{}", prompt.text());
    let mut chat = Pty::open(&daemon, 80, &["agent", "chat", "twice"]);
    chat.see("twice> ");
    chat.say(GO);
    chat.see("first act");
    chat.see("choose 1-2");
    chat.say("2");
    chat.see("second act");
    chat.see("choose 1-2");
    chat.say("1");
    chat.see("heard n and y");
    chat.see("twice> ");
    chat.say("exit");
    assert_eq!(chat.end(), 0);
}

#[test]
fn what_is_typed_before_a_question_is_no_answer_to_it() {
    let daemon = started();
    let mut prompt = Pty::open(&daemon, 80, &["agent", "prompt", "x", "-m", "/slow 20 50"]);
    prompt.see("chunk 3 of 20");
    prompt.end();
    let id = asked_nothing(&daemon);
    let mut waiting = Pty::open(
        &daemon,
        80,
        &[
            "agent",
            "prompt",
            "x",
            "--session-id",
            &id,
            "-m",
            "/write a.txt hi",
        ],
    );
    waiting.press(b"1\r1\r1\r");
    waiting.see("choose 1-");
    waiting.say("");
    waiting.see("you rejected it");
    waiting.end();
    assert!(!daemon.home().join("instances/x/a.txt").exists());
}

/// The only session of the node.
fn asked_nothing(daemon: &TestDaemon) -> String {
    let sessions = daemon.client().ok("session.list", json!({}));
    sessions[0]["sessionId"].as_str().unwrap().to_owned()
}

#[test]
fn a_command_that_leaves_before_its_agent_is_there_gives_no_prompt() {
    let daemon = crate::node().start();
    let script = format!(
        "touch began; while [ ! -e go ]; do sleep 0.02; done; exec python3 -c '{}'",
        TWICE.replace('\'', "'\\''")
    );
    let program = json!({"executablePath": "/bin/sh", "args": ["-c", script], "protocol": "acp"});
    daemon.template(
        "slow",
        json!({"backend": {"type": "custom", "config": program}}),
    );
    done(&daemon, &["agent", "create", "slow", "-t", "slow"]);
    let workspace = daemon.home().join("instances/slow");
    let mut run = Pty::open(&daemon, 80, &["agent", "run", "slow", "-p", "hello"]);
    eventually("it is being started", || workspace.join("began").exists());
    run.press(b"\x03");
    assert_eq!(run.end(), 1, "{}", run.text());
    fs::write(workspace.join("go"), "").unwrap();
    eventually("it has been stopped again", || {
        done(&daemon, &["agent", "status", "slow", "-f", "quiet"]) == "stopped\n"
    });
    let turns = done(&daemon, &["journal", "--kind", "turn.", "-f", "json"]);
    assert_eq!(turns, "");
}

#[test]
fn what_was_made_for_one_prompt_does_not_outlive_its_daemon() {
    let mut daemon = daemon(json!({}));
    for end in [TestDaemon::stop, TestDaemon::kill] {
        let mut run = daemon
            .command(&["agent", "run", "-t", "built-in", "-p", "/slow 1000 20"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        eventually("it works", || daemon.agent_processes().len() == 1);
        end(&mut daemon);
        run.wait().unwrap();
        daemon.start();
        assert_eq!(done(&daemon, &["agent", "list", "-f", "quiet"]), "x\n");
    }
}

#[test]
fn the_same_prompt_of_two_commands_is_answered_to_each() {
    let daemon = daemon(json!({}));
    let script = "n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; sleep 0.2; echo answer number $n";
    daemon.template("counter", json!({"backend": {"type": "command", "config": {"executablePath": "/bin/sh", "args": ["-c", script]}}}));
    done(&daemon, &["agent", "create", "counter", "-t", "counter"]);
    let first = super::json_lines(&done(
        &daemon,
        &["agent", "run", "counter", "-p", "go", "-f", "json"],
    ));
    let id = first.last().unwrap()["sessionId"]
        .as_str()
        .unwrap()
        .to_owned();
    let run = || {
        daemon
            .command(&["agent", "run", "counter", "--session-id", &id, "-p", "go"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let both = [run(), run()]
        .map(|run| String::from_utf8(run.wait_with_output().unwrap().stdout).unwrap());
    let mut both = both.map(|said| said.trim().to_owned());
    both.sort();
    assert_eq!(both, ["answer number 2", "answer number 3"]);
}
