//! Asks and answers.

use domain::turn::{ToolCall, ToolKind, ToolStatus};

use super::*;

fn permission(title: &str, kind: ToolKind, destructive: bool) -> AskKind {
    let option = |id: &str, name: &str, kind| AskOption {
        id: id.to_owned(),
        name: name.to_owned(),
        kind,
    };
    AskKind::Permission {
        tool: ToolCall {
            id: "t".to_owned(),
            title: title.to_owned(),
            name: None,
            kind,
            status: ToolStatus::Pending,
            locations: Vec::new(),
            content: Vec::new(),
            input: Some("{\"path\":\"a\"}".to_owned()),
            output: None,
        },
        options: vec![
            option("always", "Always", OptionKind::AllowAlways),
            option("once", "Allow", OptionKind::AllowOnce),
            option("never", "Reject", OptionKind::RejectOnce),
        ],
        destructive,
    }
}

fn said(text: &str) -> Vec<Message> {
    vec![Message::new("user", vec![Part::text(text)])]
}

fn option(id: &str) -> Answer {
    Answer::Option { id: id.to_owned() }
}

#[test]
fn words_choose_an_option_and_yes_is_never_always() {
    let kind = permission("write a", ToolKind::Edit, false);
    for (words, expected) in [
        ("once", Some(option("once"))),
        ("always", Some(option("always"))),
        ("Yes.", Some(option("once"))),
        ("确认", Some(option("once"))),
        ("reject", Some(option("never"))),
        ("no!", Some(option("never"))),
        ("Yes, please", Some(option("once"))),
        ("是的", Some(option("once"))),
        ("好的。", Some(option("once"))),
        ("可以", Some(option("once"))),
        ("同意", Some(option("once"))),
        ("No, thanks.", Some(option("never"))),
        ("取消", Some(option("never"))),
        ("不要", Some(option("never"))),
        ("不行", Some(option("never"))),
        ("maybe", None),
        ("", None),
    ] {
        assert_eq!(answer(&kind, &said(words)).ok(), expected, "{words}");
    }
    let mut part = Part::text("{\"option\":\"once\"}");
    part.content_type = "application/json".to_owned();
    let messages = [Message::new("user", vec![part])];
    assert_eq!(answer(&kind, &messages), Ok(option("once")));
}

#[test]
fn a_question_takes_all_the_words_of_all_messages() {
    let kind = AskKind::Question {
        text: "which?".to_owned(),
        schema: None,
    };
    let mut messages = said("the first");
    messages.extend(said("and the last"));
    let text = "the first\nand the last".to_owned();
    assert_eq!(answer(&kind, &messages), Ok(Answer::Text { text }));
    assert!(answer(&kind, &[]).is_err());
}

#[test]
fn an_act_that_cannot_be_undone_says_so_in_every_place_a_client_looks() {
    let id = AskId("ask-1-1".to_owned());
    let agent = Name::parse("writer").unwrap();
    for (kind, destructive) in [
        (permission("delete all", ToolKind::Delete, false), true),
        (permission("pay", ToolKind::Other, true), true),
        (permission("write a", ToolKind::Edit, false), false),
    ] {
        let request = request(&id, &kind, &agent);
        let metadata = request.metadata.unwrap();
        assert_eq!(metadata.is_final(), destructive, "{kind:?}");
        let part = &request.message.parts[0];
        let severity = if destructive { "destructive" } else { "normal" };
        assert_eq!(part.extra["severity"], severity);
        assert_eq!(metadata.extra["options"].as_array().unwrap().len(), 3);
    }
}
