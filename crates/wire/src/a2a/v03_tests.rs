//! What 0.3 writes is read back as it was meant.

use serde_json::json;

use super::*;
use crate::a2a::{
    AgentCapabilities, AgentCard, AgentInterface, ArtifactUpdate, Binding, StatusUpdate, TaskState,
    Version,
};

fn message_of_all_parts() -> Message {
    let mut file = Part::of(Content::Raw("AAA=".to_owned()));
    file.media_type = Some("image/png".to_owned());
    file.filename = Some("a.png".to_owned());
    let mut message = Message::new(
        "m".to_owned(),
        Role::User,
        vec![
            Part::text("hi"),
            file,
            Part::of(Content::Url("https://x/y".to_owned())),
            Part::data(json!({ "awcp": { "type": "INVITE" } })),
        ],
    );
    message.context_id = Some("c".to_owned());
    message
}

fn task_with(state: TaskState) -> Task {
    Task {
        id: "t".to_owned(),
        context_id: "c".to_owned(),
        status: TaskStatus {
            state,
            message: Some(Message::of_agent("s".to_owned(), "words".to_owned())),
            timestamp: Some("2026-01-01T00:00:00.000Z".to_owned()),
        },
        artifacts: vec![Artifact::new("a", vec![Part::text("made")])],
        history: vec![message_of_all_parts()],
        metadata: None,
    }
}

#[test]
fn a_message_has_the_shape_of_the_older_version() {
    let value = message(&message_of_all_parts());
    assert_eq!(
        value,
        json!({
            "kind": "message", "messageId": "m", "role": "user", "contextId": "c",
            "parts": [
                { "kind": "text", "text": "hi" },
                { "kind": "file", "file": { "bytes": "AAA=", "mimeType": "image/png", "name": "a.png" } },
                { "kind": "file", "file": { "uri": "https://x/y" } },
                { "kind": "data", "data": { "awcp": { "type": "INVITE" } } },
            ],
        })
    );
    assert_eq!(read_message(&value), Ok(message_of_all_parts()));
}

#[test]
fn every_event_is_read_back() {
    for (state, _, _) in TaskState::ALL {
        let events = [
            StreamResponse::Task(task_with(state)),
            StreamResponse::StatusUpdate(StatusUpdate {
                task_id: "t".to_owned(),
                context_id: "c".to_owned(),
                status: task_with(state).status,
                metadata: None,
            }),
        ];
        for event in events {
            assert_eq!(read_stream_response(&stream_response(&event)), Ok(event));
        }
    }
    let update = StreamResponse::ArtifactUpdate(ArtifactUpdate {
        task_id: "t".to_owned(),
        context_id: "c".to_owned(),
        artifact: Artifact::new("a", vec![Part::text("x")]),
        append: true,
        last_chunk: false,
        metadata: None,
    });
    assert_eq!(read_stream_response(&stream_response(&update)), Ok(update));
}

#[test]
fn a_stream_ends_with_a_terminal_or_an_interrupted_state() {
    for (state, ends) in [
        (TaskState::Working, false),
        (TaskState::InputRequired, true),
        (TaskState::Completed, true),
    ] {
        let update = StreamResponse::StatusUpdate(StatusUpdate {
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            status: task_with(state).status,
            metadata: None,
        });
        assert_eq!(stream_response(&update)["final"], json!(ends), "{state:?}");
    }
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    for (params, words) in [
        (json!({}), "missing field `message`"),
        (json!([]), "`params` is an object"),
        (
            json!({ "message": { "role": "user", "parts": [] } }),
            "missing field `messageId`",
        ),
        (
            json!({ "message": { "messageId": "m", "role": "boss", "parts": [] } }),
            "`role` is user or agent, not \"boss\"",
        ),
        (
            json!({ "message": { "messageId": "m", "role": "user", "parts": [{ "kind": "text" }] } }),
            "a part has one of `text`, `file` and `data`",
        ),
    ] {
        assert_eq!(
            read_send_message(&params).unwrap_err().to_string(),
            words,
            "{params}"
        );
    }
}

#[test]
fn a_request_says_whether_it_waits_and_where_to_tell() {
    let send = read_send_message(&json!({
        "message": { "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "x" }] },
        "configuration": {
            "blocking": false, "historyLength": 2,
            "pushNotificationConfig": {
                "url": "https://x", "token": "t",
                "authentication": { "schemes": ["Bearer"], "credentials": "c" },
            },
        },
    }))
    .unwrap();
    let configuration = send.configuration.clone().unwrap();
    assert!(configuration.return_immediately);
    assert_eq!(configuration.history_length, Some(2));
    let push = configuration.task_push_notification_config.unwrap();
    assert_eq!(push.authentication.unwrap().scheme, "Bearer");
    assert_eq!(read_send_message(&send_message(&send)), Ok(send));
}

#[test]
fn a_card_for_both_versions_is_read_back_with_both_ways() {
    let card = AgentCard {
        name: "n".to_owned(),
        supported_interfaces: vec![AgentInterface::new(
            "http://h/a".to_owned(),
            Binding::HttpJson,
            Version::V1,
        )],
        capabilities: AgentCapabilities {
            extended_agent_card: Some(true),
            ..AgentCapabilities::default()
        },
        security_schemes: json!({ "bearer": { "httpAuthSecurityScheme": { "scheme": "Bearer" } } })
            .as_object()
            .cloned()
            .unwrap(),
        security_requirements: vec![json!({ "schemes": { "bearer": { "list": [] } } })],
        ..AgentCard::default()
    };
    let value = hybrid_card(&card, "http://h/a");
    assert_eq!(value["protocolVersion"], "0.3.0");
    assert_eq!(value["security"], json!([{ "bearer": [] }]));
    assert_eq!(value["securitySchemes"]["bearer"]["type"], "http");
    let read = read_card(&value).unwrap();
    let ways: Vec<_> = read
        .supported_interfaces
        .iter()
        .map(|way| (way.protocol_binding.as_str(), way.protocol_version.as_str()))
        .collect();
    assert_eq!(ways, [("HTTP+JSON", "1.0"), ("JSONRPC", "0.3")]);
}
