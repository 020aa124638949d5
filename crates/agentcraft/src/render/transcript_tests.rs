//! Events of whole turns, as they are written to a terminal and to a pipe.

use domain::turn::TurnId;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::*;

fn events(values: Value) -> Vec<EventKind> {
    serde_json::from_value(values).unwrap()
}

fn show(surface: Surface, values: Value) -> String {
    let mut transcript = Transcript::new(Style::Plain, Symbols::UNICODE, surface);
    events(values)
        .iter()
        .map(|event| transcript.event(event))
        .collect()
}

fn turn() -> Value {
    json!([
        {"type": "turn-started", "turn": 1, "prompt": "do\nit"},
        {"type": "thought", "text": "hm"},
        {"type": "text", "text": "I write "},
        {"type": "text", "text": "it."},
        {"type": "tool-call", "id": "t", "title": "Write a", "kind": "edit", "status": "pending"},
        {"type": "tool-update", "id": "t", "status": "in-progress"},
        {"type": "tool-update", "id": "t", "status": "completed"},
        {"type": "tool-update", "id": "t", "status": "completed"},
        {"type": "plan", "entries": [{"text": "one", "status": "in-progress"}, {"text": "two", "status": "pending"}]},
        {"type": "plan", "entries": [{"text": "one", "status": "completed"}, {"text": "two", "status": "pending"}]},
        {"type": "notice", "text": "denied\u{1b}[2J"},
        {"type": "text", "text": "Done"},
        {"type": "turn-ended", "turn": 1, "stop": {"reason": "failed", "message": "boom"}},
    ])
}

#[test]
fn on_paper_a_tool_call_is_told_once_it_is_over() {
    assert_eq!(
        show(Surface::Paper, turn()),
        "> do\n> it\nhm\nI write it.\n✓ edit Write a\n[…] one\n[ ] two\n[✓] one\n\
         note: denied\\u{1b}[2J\nDone\nfailed: boom\n"
    );
}

#[test]
fn on_a_terminal_the_line_of_a_tool_call_changes_in_place() {
    let text = show(Surface::Terminal { width: 40 }, turn());
    let line = "… edit Write a\r\x1b[K… edit Write a\r\x1b[K✓ edit Write a\n[…] one";
    assert!(text.contains(line), "{text:?}");
}

#[test]
fn a_tool_line_that_is_covered_is_repeated_when_the_call_is_over() {
    let text = show(
        Surface::Terminal { width: 40 },
        json!([
            {"type": "tool-call", "id": "t", "title": "Run", "kind": "execute", "status": "in-progress"},
            {"type": "text", "text": "waiting\n"},
            {"type": "tool-update", "id": "t", "title": "Run it"},
            {"type": "tool-update", "id": "t", "status": "failed", "content": [{"type": "text", "text": "exit 1"}]},
        ]),
    );
    assert_eq!(text, "… execute Run\nwaiting\n✗ execute Run it\n  exit 1\n");
}

#[test]
fn nothing_is_wider_than_a_narrow_terminal() {
    let long = "words ".repeat(40);
    let text = show(
        Surface::Terminal { width: 40 },
        json!([
            {"type": "text", "text": long},
            {"type": "tool-call", "id": "t", "title": long, "kind": "execute", "status": "completed",
             "content": [{"type": "diff", "path": "a", "new": long}]},
        ]),
    );
    assert!(text.lines().all(|line| line.width() <= 40), "{text}");
}

#[test]
fn what_the_reader_did_is_not_told_to_them() {
    let mut transcript = Transcript::new(Style::Plain, Symbols::UNICODE, Surface::Paper);
    transcript.typed("hi");
    transcript.answered(&AskId("ask-1".to_owned()));
    let told: Vec<String> = [
        EventKind::TurnStarted {
            turn: TurnId(1),
            prompt: "hi".to_owned(),
            trace: None,
            by: None,
        },
        EventKind::AskSettled {
            ask: AskId("ask-1".to_owned()),
            answer: domain::turn::Answer::Declined,
            by: None,
            why: None,
        },
        EventKind::TurnStarted {
            turn: TurnId(2),
            prompt: "hi".to_owned(),
            trace: None,
            by: None,
        },
    ]
    .iter()
    .map(|event| transcript.event(event))
    .collect();
    assert_eq!(told, ["", "", "> hi\n"]);
}
