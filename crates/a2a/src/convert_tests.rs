//! Every way a message, an ask and an end can be put.

use domain::turn::{ToolCall, ToolKind, ToolStatus};
use wire::a2a::Role;

use super::*;

fn message(parts: Vec<Part>) -> Message {
    Message::new("m".to_owned(), Role::User, parts)
}

fn file(raw: &str, media: Option<&str>) -> Part {
    let mut part = Part::of(Content::Raw(raw.to_owned()));
    part.filename = Some("a.txt".to_owned());
    part.media_type = media.map(str::to_owned);
    part
}

fn permission() -> AskKind {
    let option = |id: &str, kind| AskOption {
        id: id.to_owned(),
        name: format!("The {id}"),
        kind,
    };
    AskKind::Permission {
        tool: ToolCall {
            id: "t".to_owned(),
            title: "rm -r x".to_owned(),
            name: None,
            kind: ToolKind::Execute,
            status: ToolStatus::Pending,
            locations: Vec::new(),
            content: Vec::new(),
            input: None,
            output: None,
        },
        options: vec![
            option("always", OptionKind::AllowAlways),
            option("once", OptionKind::AllowOnce),
            option("never", OptionKind::RejectOnce),
        ],
        destructive: false,
    }
}

#[test]
fn an_agent_is_told_every_part_as_text() {
    let told = prompt(&message(vec![
        Part::text("look"),
        file("aGVsbG8=", Some("text/plain")),
        Part::of(Content::Url("https://x/y".to_owned())),
        Part::data(json!({ "k": 1 })),
    ]));
    assert_eq!(
        told,
        "look\n\na.txt:\nhello\n\nattached file: https://x/y\n\n{\"k\":1}"
    );
}

#[test]
fn what_agents_cannot_read_is_refused_by_its_code() {
    for (parts, code) in [
        (vec![], Some(ErrorCode::InvalidParams)),
        (vec![Part::text("x")], None),
        (
            vec![file("aGVsbG8=", Some("application/json; charset=utf-8"))],
            None,
        ),
        (vec![file("aGVsbG8=", Some("application/x-mine"))], None),
        (
            vec![file("iVBORw0KGgo=", Some("image/png"))],
            Some(ErrorCode::ContentTypeNotSupported),
        ),
        (
            vec![file("YQBi", Some("text/plain"))],
            Some(ErrorCode::ContentTypeNotSupported),
        ),
        (
            vec![file("/////w==", None)],
            Some(ErrorCode::ContentTypeNotSupported),
        ),
        (vec![file("§", None)], Some(ErrorCode::InvalidParams)),
    ] {
        let refused = check(&message(parts.clone())).err();
        assert_eq!(refused.map(|refusal| refusal.code), code, "{parts:?}");
    }
}

#[test]
fn every_stop_has_its_state() {
    for (stop, state, has_words) in [
        (Stop::EndTurn, TaskState::Completed, false),
        (Stop::Cancelled, TaskState::Canceled, false),
        (Stop::Refusal, TaskState::Rejected, true),
        (Stop::MaxTokens, TaskState::Failed, true),
        (Stop::MaxTurnRequests, TaskState::Failed, true),
        (
            Stop::Failed {
                message: "why".to_owned(),
            },
            TaskState::Failed,
            true,
        ),
    ] {
        let (got, words) = ending(&stop);
        assert_eq!((got, words.is_some()), (state, has_words), "{stop:?}");
    }
}

#[test]
fn a_question_needs_input_and_a_permission_needs_authorisation() {
    let question = AskKind::Question {
        text: "which?".to_owned(),
        schema: Some("{\"type\":\"object\"}".to_owned()),
    };
    let (state, parts) = asked(&question);
    assert_eq!(state, TaskState::InputRequired);
    assert_eq!(parts[0], Part::text("which?"));
    assert_eq!(
        parts[1],
        Part::data(json!({ "schema": { "type": "object" } }))
    );
    let (state, parts) = asked(&permission());
    assert_eq!(state, TaskState::AuthRequired);
    assert!(parts[0].as_text().unwrap().contains("once (The once)"));
}

#[test]
fn an_answer_names_an_option_and_yes_means_once() {
    for (parts, option) in [
        (vec![Part::text("once")], Some("once")),
        (vec![Part::text("The always")], Some("always")),
        (vec![Part::text(" yes ")], Some("once")),
        (vec![Part::text("No")], Some("never")),
        (
            vec![Part::data(json!({ "optionId": "never" }))],
            Some("never"),
        ),
        (vec![Part::text("perhaps")], None),
    ] {
        let answered = answer(&permission(), &message(parts.clone()), String::new()).ok();
        let expected = option.map(|id| Answer::Option { id: id.to_owned() });
        assert_eq!(answered, expected, "{parts:?}");
    }
}
