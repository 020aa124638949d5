//! Any agent behind any face: every kind of agent that exists, through every face that exists, in each cell a prompt,
//! streaming, an ask answered, a cancel and a failure. A cell that makes no sense says why.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};
use testkit::{RawClient, TestDaemon};

use crate::node;

/// What every cell shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Prompt,
    Streaming,
    Ask,
    Cancel,
    Failure,
}

const ACTS: [Act; 5] = [
    Act::Prompt,
    Act::Streaming,
    Act::Ask,
    Act::Cancel,
    Act::Failure,
];

/// A kind of agent.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Whether it has a lasting process that is started first.
    started: bool,
    /// What makes it do each act.
    prompt: fn(Act) -> Option<&'static str>,
    /// Why it cannot do an act, where `prompt` gives nothing.
    cannot: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "acp-process",
        started: true,
        prompt: builtin,
        cannot: "",
    },
    Kind {
        name: "print-program",
        started: false,
        prompt: printed,
        cannot: "a program in print mode cannot ask",
    },
    Kind {
        name: "command",
        started: false,
        prompt: printed,
        cannot: "a program of the user's cannot ask",
    },
];

fn builtin(act: Act) -> Option<&'static str> {
    Some(match act {
        Act::Prompt => "hello matrix",
        Act::Streaming => "/slow 3 50",
        Act::Ask => "/write asked.txt yes",
        Act::Cancel => "/hang",
        Act::Failure => "/fail on purpose",
    })
}

/// The stub programs below do what their prompt says.
fn printed(act: Act) -> Option<&'static str> {
    match act {
        Act::Prompt => Some("hello matrix"),
        Act::Streaming => Some("stream"),
        Act::Ask => None,
        Act::Cancel => Some("hang"),
        Act::Failure => Some("fail"),
    }
}

/// A program that answers in Claude's streaming format.
const CLAUDE: &str = r#"#!/bin/sh
for prompt; do :; done
say() { printf '{"type":"assistant","message":{"id":"m%s","content":[{"type":"text","text":"%s"}]},"session_id":"stub"}\n' "$2" "$1"; }
echo '{"type":"system","subtype":"init","session_id":"stub"}'
case "$prompt" in
  *stream*) say one 1; sleep 0.05; say two 2 ;;
  *hang*) say waiting 1; sleep 1000 ;;
  *fail*) echo '{"type":"result","subtype":"error_during_execution","is_error":true,"result":"on purpose","session_id":"stub"}'; exit 1 ;;
  *) say "You said: $prompt" 1 ;;
esac
echo '{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"stub"}'
"#;

/// A program of the user's.
const COMMAND: &str = r#"#!/bin/sh
case "$1" in
  *stream*) echo one; sleep 0.05; echo two ;;
  *hang*) echo waiting; sleep 1000 ;;
  *fail*) echo "on purpose" >&2; exit 3 ;;
  *) echo "You said: $1" ;;
esac
"#;

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A node with one agent of each kind, ready to be prompted.
fn everything() -> TestDaemon {
    let daemon = node().start();
    program(&daemon.scratch("claude"), CLAUDE);
    program(&daemon.scratch("mine"), COMMAND);
    let backends = [
        ("acp-process", json!({"type": "builtin"})),
        (
            "print-program",
            json!({"type": "claude-code", "config": {"executablePath": daemon.scratch("claude")}}),
        ),
        (
            "command",
            json!({"type": "command", "config": {"executablePath": daemon.scratch("mine")}}),
        ),
    ];
    let mut client = daemon.client();
    for (name, backend) in backends {
        daemon.template(
            name,
            json!({"backend": backend, "provider": {"type": "custom"}}),
        );
        client.ok("agent.create", json!({"name": name, "template": name}));
    }
    for kind in KINDS.iter().filter(|kind| kind.started) {
        client.ok("agent.start", json!({"name": kind.name}));
    }
    daemon
}

/// What came of an act.
#[derive(Debug)]
struct Seen {
    text: String,
    stop: String,
    /// How many pieces the text came in.
    pieces: usize,
}

/// The socket as a face: a session with streaming.
fn through_the_socket(daemon: &TestDaemon, kind: &Kind, act: Act, prompt: &str) -> Seen {
    let mut client = daemon.client();
    let created = client.ok(
        "session.create",
        json!({"agentName": kind.name, "stream": true, "answers": true}),
    );
    let session = created["sessionId"].clone();
    let line = json!({"jsonrpc": "2.0", "id": "turn", "method": "session.prompt", "params": {"sessionId": session, "text": prompt}});
    client.send_line(&line.to_string());
    let mut seen = Seen {
        text: String::new(),
        stop: String::new(),
        pieces: 0,
    };
    loop {
        let message = client.receive();
        if message["id"] == "turn" {
            seen.stop = message["result"]["stopReason"]
                .as_str()
                .unwrap_or("error")
                .to_owned();
            return seen;
        }
        let event = &message["params"]["event"];
        match event["type"].as_str() {
            Some("text") => {
                seen.text.push_str(event["text"].as_str().unwrap());
                seen.pieces += 1;
            }
            Some("ask") => answer(&mut client, &session, event),
            _ => {}
        }
        let under_way =
            event["type"] == "turn-started" && kind.name == "acp-process" || seen.pieces > 0;
        if act == Act::Cancel && under_way {
            let line = json!({"jsonrpc": "2.0", "id": "cancel", "method": "session.cancel", "params": {"sessionId": session}});
            client.send_line(&line.to_string());
        }
    }
}

fn answer(client: &mut RawClient, session: &Value, ask: &Value) {
    let allow = ask["options"]
        .as_array()
        .unwrap()
        .iter()
        .find(|option| option["kind"] == "allow-once")
        .unwrap();
    let params = json!({"sessionId": session, "ask": ask["id"], "option": allow["id"]});
    client.send_line(
        &json!({"jsonrpc": "2.0", "id": "answer", "method": "session.answer", "params": params})
            .to_string(),
    );
}

#[test]
fn every_kind_of_agent_does_every_act_through_the_socket() {
    let daemon = everything();
    for kind in &KINDS {
        for act in ACTS {
            let Some(prompt) = (kind.prompt)(act) else {
                assert!(
                    !kind.cannot.is_empty(),
                    "{kind:?} leaves {act:?} out without a reason"
                );
                continue;
            };
            let seen = through_the_socket(&daemon, kind, act, prompt);
            let cell = format!("{} {act:?}: {seen:?}", kind.name);
            match act {
                Act::Prompt => assert!(
                    seen.text.contains("hello matrix") && seen.stop == "end_turn",
                    "{cell}"
                ),
                Act::Streaming => assert!(seen.pieces >= 2 && seen.stop == "end_turn", "{cell}"),
                Act::Ask => {
                    assert_eq!(seen.stop, "end_turn", "{cell}");
                    assert!(
                        daemon
                            .home()
                            .join("instances")
                            .join(kind.name)
                            .join("asked.txt")
                            .exists(),
                        "{cell}"
                    );
                }
                Act::Cancel => assert_eq!(seen.stop, "cancelled", "{cell}"),
                Act::Failure => assert_eq!(seen.stop, "failed", "{cell}"),
            }
        }
    }
}

#[test]
fn every_kind_of_agent_answers_on_the_command_line() {
    let daemon = everything();
    for kind in &KINDS {
        let answered = daemon.cli(&["agent", "run", kind.name, "--prompt", "hello matrix"]);
        assert_eq!(answered.code, 0, "{} {answered:?}", kind.name);
        assert!(
            answered.stdout.contains("hello matrix"),
            "{} {answered:?}",
            kind.name
        );
        let failing = (kind.prompt)(Act::Failure).unwrap();
        let failed = daemon.cli(&["agent", "run", kind.name, "--prompt", failing]);
        assert_ne!(failed.code, 0, "{} {failed:?}", kind.name);
        assert!(
            failed.stderr.contains("on purpose"),
            "{} {failed:?}",
            kind.name
        );
    }
}
