//! Talking to agents from the command line: one prompt, chats on real terminals of two widths, sessions that are shared.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

mod asking;
pub(crate) mod pty;
mod tmux;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, Stdio},
};

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use crate::node;
use pty::Pty;

/// A daemon with an agent `x` of the built-in program, which may be started.
fn daemon(permissions: Value) -> TestDaemon {
    let daemon = node().start();
    daemon.template(
        "built-in",
        json!({"backend": {"type": "builtin"}, "permissions": permissions}),
    );
    done(&daemon, &["agent", "create", "x", "-t", "built-in"]);
    daemon
}

fn started() -> TestDaemon {
    let daemon = daemon(json!({}));
    done(&daemon, &["agent", "start", "x"]);
    daemon
}

/// Runs a command that must succeed, and gives what it printed.
#[track_caller]
fn done(daemon: &TestDaemon, arguments: &[&str]) -> String {
    let output = daemon.cli(arguments);
    assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
    output.stdout
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// A session of `x` in which one turn has been.
fn session(daemon: &TestDaemon, prompt: &str) -> String {
    let lines = json_lines(&done(
        daemon,
        &["agent", "run", "x", "-p", prompt, "-f", "json"],
    ));
    let result = lines.last().expect("a result");
    result["sessionId"].as_str().expect("an id").to_owned()
}

#[test]
fn run_prints_the_answer_and_nothing_else() {
    let daemon = daemon(json!({}));
    let answer = "chunk 1 of 3\nchunk 2 of 3\nchunk 3 of 3\n";
    for state in ["stopped", "started"] {
        if state == "started" {
            done(&daemon, &["agent", "start", "x"]);
        }
        let output = daemon.cli(&["agent", "run", "x", "--prompt", "/slow 3 1"]);
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            (answer, ""),
            "{state}"
        );

        let text = done(
            &daemon,
            &["agent", "run", "x", "-p", "/slow 3 1", "-f", "json"],
        );
        let lines = json_lines(&text);
        let kinds: Vec<&str> = lines
            .iter()
            .filter_map(|line| line["type"].as_str())
            .collect();
        assert_eq!(kinds.first(), Some(&"turn-started"), "{state}: {text}");
        assert_eq!(
            kinds.iter().filter(|kind| **kind == "text").count(),
            3,
            "{state}: {text}"
        );
        assert_eq!(
            kinds[kinds.len() - 2..],
            ["turn-ended", "result"],
            "{state}: {text}"
        );
        assert_eq!(lines.last().expect("a result")["text"], answer);
    }
    let status = done(&daemon, &["agent", "status", "x", "-f", "quiet"]);
    assert_eq!(status, "running\n");
}

#[test]
fn a_prompt_may_come_from_stdin_and_a_failed_turn_is_a_failure() {
    let daemon = started();
    let mut child = daemon
        .command(&["agent", "run", "x", "--prompt", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"/burst 2").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "chunk 1 of 2\nchunk 2 of 2\n"
    );

    let failed = daemon.cli(&["agent", "run", "x", "-p", "/fail on purpose"]);
    assert_eq!(failed.code, 1);
    assert!(failed.stderr.contains("on purpose"), "{}", failed.stderr);
    let refused = daemon.cli(&["agent", "run", "x", "-p", "/refuse", "-f", "json"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stdout.contains(r#""stopReason":"refusal""#),
        "{}",
        refused.stdout
    );
}

#[test]
fn a_run_of_a_template_lists_what_it_changed_and_leaves_nothing() {
    let daemon = daemon(json!({"allow": ["edit"]}));
    let arguments = [
        "agent",
        "run",
        "--template",
        "built-in",
        "-p",
        "/write a.txt hi",
    ];
    let output = daemon.cli(&arguments);
    assert_eq!(
        output.stdout, "Done: a.txt now has 2 bytes.\n",
        "{}",
        output.stderr
    );
    assert_eq!(output.stderr, "changed a.txt\n");
    assert_eq!(done(&daemon, &["agent", "list", "-f", "quiet"]), "x\n");

    let kept: Vec<&str> = arguments.into_iter().chain(["--keep"]).collect();
    done(&daemon, &kept);
    assert_eq!(
        done(&daemon, &["agent", "list", "-f", "quiet"])
            .lines()
            .count(),
        2
    );
}

#[test]
fn prompt_goes_on_with_a_session_and_needs_a_started_agent() {
    let daemon = daemon(json!({}));
    let refused = daemon.cli(&["agent", "prompt", "x", "-m", "/pwd"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("agentcraft agent start x"),
        "{}",
        refused.stderr
    );

    done(&daemon, &["agent", "start", "x"]);
    let id = session(&daemon, "/pwd");
    let text = done(
        &daemon,
        &[
            "agent",
            "prompt",
            "x",
            "-m",
            "/burst 1",
            "--session-id",
            &id,
        ],
    );
    assert_eq!(text, "chunk 1 of 1\n");
    let shown: Value =
        serde_json::from_str(&done(&daemon, &["session", "show", &id, "-f", "json"])).unwrap();
    assert_eq!(
        (&shown["turns"], &shown["state"]),
        (&json!(2), &json!("idle"))
    );
}

#[test]
fn a_chat_asks_before_a_file_is_written_at_80_and_at_40_columns() {
    let daemon = started();
    let workspace = daemon.home().join("instances/x");
    for columns in [80, 40] {
        let name = format!("a{columns}.txt");
        let mut chat = Pty::open(&daemon, columns, &["agent", "chat", "x"]);
        chat.see("x> ");
        chat.say(&format!("/write {name} hi"));
        chat.see("+ hi");
        chat.see("1 Allow once");
        chat.see("choose 1-");
        // Whoever only presses Enter has not agreed.
        chat.say("");
        chat.see("you rejected it");
        assert!(!workspace.join(&name).exists());
        chat.see("x> ");
        chat.say(&format!("/write {name} hi"));
        chat.see("choose 1-");
        chat.say("1");
        chat.see("now has 2 bytes");
        assert_eq!(fs::read_to_string(workspace.join(&name)).unwrap(), "hi");
        chat.see("x> ");
        chat.say("/help");
        chat.see("cancels the turn");
        chat.say("exit");
        assert_eq!(chat.end(), 0);
        let wide: Vec<&str> = chat.lines_wider_than(columns.into());
        let wide: Vec<_> = wide
            .iter()
            .filter(|line| line.contains("rejected"))
            .collect();
        assert!(wide.is_empty(), "{wide:?}");
    }
    let history = daemon.home().join("chat_history");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(history).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_chat_answers_questions_and_shows_thoughts_and_plans() {
    let daemon = started();
    let mut chat = Pty::open(&daemon, 60, &["agent", "chat", "x"]);
    chat.see("x> ");
    chat.say("/ask Which colour?");
    chat.see("answer [none]");
    chat.say("blue");
    chat.see("You answered: blue");
    chat.say("/plan one; two");
    chat.see("[✓] two");
    chat.see("x> ");
    chat.say("/session");
    chat.see("turns");
    chat.say("quit");
    assert_eq!(chat.end(), 0);
}

#[test]
fn a_chat_says_that_somebody_has_closed_its_session() {
    let daemon = started();
    let mut chat = Pty::open(&daemon, 80, &["agent", "chat", "x"]);
    chat.see("x> ");
    let sessions = daemon.client().ok("session.list", json!({}));
    let id = sessions[0]["sessionId"].as_str().unwrap().to_owned();
    daemon
        .client()
        .ok("session.close", json!({"sessionId": id}));
    chat.see("has been closed; press Enter");
    chat.say("");
    chat.see("the session is over");
    assert_eq!(chat.end(), 0);
}

#[test]
fn ctrl_c_takes_back_a_half_typed_line_and_two_slashes_reach_the_agent() {
    let daemon = started();
    let mut chat = Pty::open(&daemon, 80, &["agent", "chat", "x"]);
    chat.see("x> ");
    chat.press(b"half a thought");
    chat.see("half a thought");
    chat.press(b"\x03");
    chat.say("//help");
    chat.see("/burst");
    chat.see("x> ");
    chat.say("exit");
    assert_eq!(chat.end(), 0);
    let sessions = daemon.client().ok("session.list", json!({}));
    assert_eq!(sessions[0]["turns"], 1, "{sessions}");
}

#[test]
fn ctrl_c_cancels_the_turn_and_leaves_at_the_empty_prompt() {
    let daemon = daemon(json!({}));
    let mut chat = Pty::open(&daemon, 80, &["agent", "chat", "x"]);
    chat.see("started x for this chat");
    chat.see("x> ");
    chat.say("/slow 1000 20");
    chat.see("chunk 3 of 1000");
    chat.press(b"\x03");
    chat.see("cancelled");
    chat.see("x> ");
    chat.press(b"\x03");
    assert_eq!(chat.end(), 0);
    // It was started for the chat.
    until_stopped(&daemon);
}

fn until_stopped(daemon: &TestDaemon) {
    eventually("it is stopped", || {
        done(daemon, &["agent", "status", "x", "-f", "quiet"]) == "stopped\n"
    });
}

#[test]
fn a_chat_that_is_killed_leaves_no_agent_running() {
    let daemon = daemon(json!({}));
    let mut chat = Pty::open(&daemon, 80, &["agent", "chat", "x"]);
    chat.see("x> ");
    let running = done(&daemon, &["agent", "status", "x", "-f", "quiet"]);
    assert_eq!(running, "running\n");
    drop(chat);
    until_stopped(&daemon);
}

#[test]
fn a_chat_without_a_terminal_takes_lines_and_prints_answers() {
    let daemon = daemon(json!({}));
    let mut child = daemon
        .command(&["agent", "chat", "x"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(b"/burst 1\n\n/burst 2\nexit\n/burst 3\n")
        .unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "chunk 1 of 1\nchunk 1 of 2\nchunk 2 of 2\n");
    until_stopped(&daemon);
}

#[test]
fn a_chat_without_a_terminal_streams_and_goes_on_after_a_bad_line() {
    let daemon = started();
    let mut child = daemon
        .command(&["agent", "chat", "x"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdin.write_all(b"\xff\xfe\n/slow 100000 20\n").unwrap();
    let mut first = String::new();
    stdout.read_line(&mut first).unwrap();
    assert_eq!(first, "chunk 1 of 100000\n", "it comes while the turn runs");
    testkit::kill(child.id(), "INT");
    drop(stdin);
    std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("line 1 was left out: it is not UTF-8"),
        "{told}"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_denial_is_told_even_where_only_the_answer_is_shown() {
    let daemon = started();
    let run = daemon.cli(&["agent", "run", "x", "-p", "/write a.txt hi"]);
    assert!(run.stderr.contains("warning: "), "{run:?}");
    assert!(run.stderr.contains("nobody"), "{run:?}");
    assert!(!daemon.home().join("instances/x/a.txt").exists());
}

#[test]
fn a_line_typed_for_a_question_that_another_client_has_answered_is_the_next_prompt() {
    let daemon = started();
    let mut chat = Pty::open(&daemon, 80, &["agent", "chat", "x"]);
    chat.see("x> ");
    chat.say("/write a.txt hi");
    chat.see("choose 1-");
    let sessions = daemon.client().ok("session.list", json!({}));
    let id = sessions[0]["sessionId"].as_str().unwrap().to_owned();
    let asks = daemon
        .client()
        .ok("session.events", json!({"sessionId": id, "fromSeq": 1}));
    let asks = asks.as_array().unwrap();
    let ask = asks.iter().find(|event| event["type"] == "ask").unwrap();
    let option = ask["options"][0]["id"].clone();
    let answer = json!({"sessionId": id, "ask": ask["id"], "option": option});
    daemon.client().ok("session.answer", answer);
    chat.see("no answer is needed any more");
    chat.say("/burst 2");
    chat.see("chunk 2 of 2");
    chat.see("x> ");
    chat.say("exit");
    assert_eq!(chat.end(), 0);
}

#[test]
fn no_escape_sequence_of_an_agent_reaches_the_terminal() {
    let daemon = started();
    let mut run = Pty::open(
        &daemon,
        80,
        &["agent", "run", "x", "-p", "a\x1b[2Jb\u{9b}c"],
    );
    run.see(r"a\u{1b}[2Jb\u{9b}c");
    assert_eq!(run.end(), 0);
    assert!(!run.text().contains("\x1b[2J") && !run.text().contains('\u{9b}'));
}

/// A watcher of a session, from its first event on.
fn watcher(daemon: &TestDaemon, id: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = daemon
        .command(&["session", "watch", id, "--from", "1", "-f", "json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    stdout.read_line(&mut first).unwrap();
    assert!(first.starts_with(r#"{"seq":1,"#), "{first}");
    (child, stdout)
}

#[test]
fn three_watchers_see_the_same_stream_to_its_end() {
    let daemon = started();
    let id = session(&daemon, "/burst 3");
    let watchers: Vec<_> = (0..3).map(|_| watcher(&daemon, &id)).collect();
    done(
        &daemon,
        &["agent", "run", "x", "--session-id", &id, "-p", "/burst 300"],
    );
    done(&daemon, &["session", "close", &id]);
    let seen: Vec<Vec<Value>> = watchers
        .into_iter()
        .map(|(mut child, stdout)| {
            let lines = stdout
                .lines()
                .map(|line| serde_json::from_str(&line.unwrap()).unwrap());
            let lines: Vec<Value> = lines.collect();
            assert!(child.wait().unwrap().success());
            lines
        })
        .collect();
    let numbers: Vec<u64> = seen[0]
        .iter()
        .filter_map(|event| event["seq"].as_u64())
        .collect();
    let expected: Vec<u64> = (2..2 + numbers.len() as u64).collect();
    assert_eq!(numbers, expected);
    assert!(numbers.len() > 300, "{}", numbers.len());
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
}

#[test]
fn a_second_client_answers_what_a_run_of_another_asks() {
    let daemon = started();
    let id = session(&daemon, "/pwd");
    let mut attached = Pty::open(&daemon, 40, &["session", "attach", &id]);
    attached.see("> /pwd");
    attached.see("x> ");
    let mut run = daemon
        .command(&[
            "agent",
            "run",
            "x",
            "--session-id",
            &id,
            "-p",
            "/write b.txt hi",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    attached.see("Enter on an empty line answers");
    attached.say("");
    attached.see("choose 1-");
    attached.say("y");
    attached.see("now has 2 bytes");
    assert!(run.wait().unwrap().success());
    attached.say("exit");
    assert_eq!(attached.end(), 0);
}

#[test]
fn an_ask_is_answered_and_a_turn_cancelled_from_another_command() {
    let daemon = started();
    let mut chat = Pty::open(&daemon, 80, &["agent", "chat", "x"]);
    chat.see("x> ");
    chat.say("/ask Which?");
    chat.see("answer [none]");
    let id = done(&daemon, &["session", "list", "--agent", "x", "-f", "quiet"]);
    let id = id.lines().next().unwrap().to_owned();
    let events = json_lines(&done(&daemon, &["session", "export", &id]));
    let asked = events.iter().find(|event| event["type"] == "ask");
    let ask = asked.and_then(|ask| ask["id"].as_str()).unwrap();
    done(&daemon, &["session", "answer", &id, ask, "--text", "that"]);
    chat.see("that");
    chat.say("");
    chat.see("You answered: that");
    chat.see("x> ");
    chat.say("/hang");
    eventually("the turn runs", || {
        done(&daemon, &["session", "show", &id]).contains("working")
    });
    done(&daemon, &["session", "cancel", &id]);
    chat.see("cancelled");
    chat.see("x> ");
    chat.press(b"\x04");
    assert_eq!(chat.end(), 0);
    let unknown = daemon.cli(&["session", "show", "s-none"]);
    assert_eq!(unknown.code, 4, "{}", unknown.stderr);
}

#[test]
fn a_session_is_meant_by_the_beginning_of_its_id() {
    let daemon = started();
    let first = session(&daemon, "hello");
    let begin = &first[..first.len() - 4];
    let shown = done(&daemon, &["session", "show", begin, "-f", "quiet"]);
    assert_eq!(shown.trim(), first);
    session(&daemon, "again");
    let both = daemon.cli(&["session", "close", "s-"]);
    assert_eq!(both.code, 1, "{both:?}");
    assert!(both.stderr.contains("2 sessions begin with s-"), "{both:?}");
    let none = daemon.cli(&["session", "show", "s-ffff"]);
    assert!(none.stderr.contains("no session s-ffff"), "{none:?}");
}

#[test]
fn a_session_is_exported_as_events_and_as_a_document() {
    let daemon = started();
    let id = session(&daemon, "/burst 1500");
    let events = json_lines(&done(&daemon, &["session", "export", &id]));
    let numbers: Vec<u64> = events
        .iter()
        .filter_map(|event| event["seq"].as_u64())
        .collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(events.last().unwrap()["type"], "turn-ended");
    let document = done(&daemon, &["session", "export", &id, "--format", "markdown"]);
    assert!(
        document.starts_with(&format!("# Session {id}\n")),
        "{document:.200}"
    );
    assert!(
        document.contains("## Turn 1\n\n> /burst 1500\n\nchunk 1 of 1500\n"),
        "{document:.300}"
    );
}

#[test]
fn the_journal_is_searched_and_exported() {
    let daemon = started();
    let id = session(&daemon, "the needle in it");
    session(&daemon, "hay");
    let grep = [
        "journal", "--grep", "needle", "--kind", "turn.", "--since", "1h", "-f", "json",
    ];
    let lines = json_lines(&done(&daemon, &grep));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(
        (&lines[0]["session"], &lines[0]["agent"]),
        (&json!(id), &json!("x"))
    );
    let table = done(&daemon, &["journal", "--session", &id]);
    assert!(
        table.contains("turn.started") && table.contains("turn.ended"),
        "{table}"
    );
    let none = daemon.cli(&["journal", "--agent", "x", "--since", "2999-01-01"]);
    assert_eq!((none.stdout.as_str(), none.code), ("", 0));
}

#[test]
fn policy_test_explains_a_file_without_a_daemon_and_a_template_with_one() {
    let rules = r#"{"permissions": {"allow": ["edit(src/**)", "Grep"], "deny": ["execute(rm *)", "mcp__mail__*"]}}"#;
    let stopped = node().file("rules.json", rules).stopped();
    let file = stopped.home().join("rules.json");
    let file = file.to_str().unwrap();
    let verdict = |arguments: &[&str]| -> Value {
        let all = ["policy", "test", "--policy", file, "-f", "json"];
        let all: Vec<&str> = all.iter().chain(arguments).copied().collect();
        serde_json::from_str(&done(&stopped, &all)).unwrap()
    };
    let cases: [(&[&str], &str); 6] = [
        (&["--tool", "Grep"], "allow"),
        (&["--tool", "mcp__mail__read"], "deny"),
        (&["--kind", "edit", "--path", "src/a.rs"], "allow"),
        (&["--kind", "edit", "--path", "src/../b.rs"], "ask"),
        (&["--command", "cd a && rm -r b"], "deny"),
        (&["--tool", "anything"], "ask"),
    ];
    for (arguments, decision) in cases {
        assert_eq!(verdict(arguments)["decision"], decision, "{arguments:?}");
    }
    let daemon = daemon(json!({"deny": ["execute(rm *)"]}));
    let text = done(
        &daemon,
        &["policy", "test", "-t", "built-in", "--command", "rm -r b"],
    );
    assert!(text.starts_with("deny\n"), "{text}");
    let rules = done(&daemon, &["policy", "show", "--template", "built-in"]);
    assert!(rules.contains("`rm *`"), "{rules}");
}

#[test]
fn without_a_command_a_terminal_gets_a_prompt_and_a_pipe_the_help() {
    let daemon = started();
    assert!(done(&daemon, &[]).contains("Usage: agentcraft"));
    let mut repl = Pty::open(&daemon, 80, &[]);
    repl.see("agentcraft> ");
    repl.say("agent status x -f quiet");
    repl.see("running");
    repl.say("agent nonsense");
    repl.see("unrecognized subcommand");
    repl.say("agent run x -p '/burst 2'");
    repl.see("chunk 2 of 2");
    repl.press(b"agent sta\t\t");
    repl.see("status");
    repl.press(b"\x15");
    repl.say("use x");
    repl.see("talking to x");
    repl.see("x> ");
    repl.say("exit");
    repl.see("agentcraft> ");
    repl.say("exit");
    assert_eq!(repl.end(), 0);
}
