//! What editors are told: the agent's own frames with the id changed, and frames made of meanings.

use domain::{
    Timestamp,
    turn::{PlanEntry, Usage},
};

use super::*;

const STYLE: Style<'static> = Style {
    session: "s-1",
    terminals: false,
    notices: false,
};

fn event(kind: EventKind, frame: Option<&str>) -> Event {
    Event {
        seq: 1,
        at: Timestamp(0),
        kind,
        raw: frame.map(|frame| Raw {
            dialect: Dialect::Acp,
            frame: frame.into(),
        }),
    }
}

fn told(kind: EventKind, frame: Option<&str>) -> Option<(String, String)> {
    let frame = of_event(&event(kind, frame), STYLE)?;
    Some((frame.method, frame.params.get().to_owned()))
}

fn other(name: &str) -> EventKind {
    EventKind::Other {
        name: name.to_owned(),
    }
}

#[test]
fn an_agents_frame_passes_with_only_the_session_changed() {
    let frame =
        r#"{"sessionId":"x","update":{"sessionUpdate":"hologram","n":1.50},"_meta":{"a":[]}}"#;
    let (method, params) = told(other("hologram"), Some(frame)).unwrap();
    assert_eq!(method, "session/update");
    assert_eq!(params, frame.replace("\"x\"", "\"s-1\""));
    let custom = r#"{"sessionId":"x","n":1}"#;
    let (method, params) = told(other("_vendor/thing"), Some(custom)).unwrap();
    assert_eq!(
        (method.as_str(), params.as_str()),
        ("_vendor/thing", r#"{"sessionId":"s-1","n":1}"#)
    );
}

#[test]
fn the_answer_to_a_prompt_is_no_update() {
    let usage = EventKind::Usage(Usage::default());
    let answer = r#"{"stopReason":"end_turn","usage":{"inputTokens":1}}"#;
    assert!(prompt_answer(&event(usage.clone(), Some(answer))).is_some());
    assert!(prompt_answer(&event(other("session/prompt"), Some(r#"{"error":{}}"#))).is_some());
    let update = r#"{"sessionId":"x","update":{"sessionUpdate":"usage_update"}}"#;
    assert!(prompt_answer(&event(usage, Some(update))).is_none());
}

#[test]
fn a_terminal_that_the_editor_does_not_have_is_not_shown_to_it() {
    let call = EventKind::ToolUpdate(ToolUpdate {
        id: "t".to_owned(),
        ..ToolUpdate::default()
    });
    let frame = r#"{"sessionId":"x","update":{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"terminal","terminalId":"1"},{"type":"content","content":{"type":"text","text":"a"}}]}}"#;
    let (_, params) = told(call.clone(), Some(frame)).unwrap();
    assert!(
        !params.contains("terminalId") && params.contains("\"text\":\"a\""),
        "{params}"
    );
    let shown = Style {
        terminals: true,
        ..STYLE
    };
    let frame = of_event(&event(call, Some(frame)), shown).unwrap();
    assert!(frame.params.get().contains("terminalId"));
}

#[test]
fn an_agent_of_another_kind_is_put_into_the_protocols_words() {
    let (method, params) = told(
        EventKind::Text {
            text: "hi".to_owned(),
        },
        None,
    )
    .unwrap();
    assert_eq!(method, "session/update");
    let params: Value = serde_json::from_str(&params).unwrap();
    assert_eq!(
        params["update"],
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "hi" } })
    );
    let entries = vec![PlanEntry {
        text: "a".to_owned(),
        status: PlanStatus::InProgress,
    }];
    let (_, plan) = told(EventKind::Plan { entries }, None).unwrap();
    assert!(
        plan.contains("\"in_progress\"") && plan.contains("\"priority\""),
        "{plan}"
    );
    assert!(told(EventKind::Usage(Usage::default()), None).is_none());
}

#[test]
fn a_prompt_is_repeated_in_its_own_blocks_where_they_are_known() {
    let words = Raw {
        dialect: Dialect::Acp,
        frame: r#"{"sessionId":"x","prompt":[{"type":"text","text":"a"},{"type":"image","data":"","mimeType":"image/png"}]}"#.into(),
    };
    assert_eq!(of_prompt("a\n[image]", Some(&words), STYLE).len(), 2);
    let plain = of_prompt("a", None, STYLE);
    assert!(plain[0].params.get().contains("user_message_chunk"));
}
