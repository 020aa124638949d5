//! What the agent asks for: permissions, questions, files; several at a time, withdrawn, refused.

use std::sync::atomic::Ordering;

use domain::turn::{Answer, AskKind, OptionKind, ToolKind};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::support::{Scene, patiently, prompt, update, with_session};

fn permission(tool: Value) -> Value {
    let options = json!([
        { "optionId": "yes", "name": "Yes", "kind": "allow_once" },
        { "optionId": "no", "name": "No", "kind": "reject_once" },
    ]);
    json!({ "sessionId": "s", "toolCall": tool, "options": options, "extra": 1 })
}

#[tokio::test]
async fn a_bare_permission_takes_its_identity_from_the_call_before_it() {
    let scene = Scene::new();
    let (_driver, fake, mut seat) = with_session(&scene).await;
    let call = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Delete a.txt", "kind": "delete",
        "locations": [{ "path": "/w/a.txt" }], "rawInput": { "path": "a.txt" },
    });
    fake.update(update("s", call)).await;
    let params = permission(json!({ "toolCallId": "t" }));
    let asking = tokio::spawn(fake.peer.call("session/request_permission", &params));
    let ask = seat.ask().await;
    let AskKind::Permission {
        tool,
        options,
        destructive,
    } = &ask.kind
    else {
        panic!("{:?}", ask.kind);
    };
    assert_eq!(
        (tool.title.as_str(), tool.kind),
        ("Delete a.txt", ToolKind::Delete)
    );
    assert_eq!(tool.input.as_deref(), Some(r#"{"path":"a.txt"}"#));
    assert_eq!(tool.locations[0].path, "/w/a.txt");
    assert!(destructive);
    assert_eq!(options.len(), 2);
    let raw: Value = serde_json::from_str(&ask.raw.as_ref().unwrap().frame).unwrap();
    assert_eq!(raw, params);
    let id = ask.kind.option(OptionKind::AllowOnce).unwrap().id.clone();
    ask.answer.send(Answer::Option { id }).unwrap();
    let outcome = patiently(asking).await.unwrap().unwrap();
    assert_eq!(
        outcome.get(),
        r#"{"outcome":{"outcome":"selected","optionId":"yes"}}"#
    );
}

#[tokio::test]
async fn a_waiting_permission_blocks_neither_files_nor_other_permissions() {
    let scene = Scene::new();
    std::fs::write(scene.path().join("a.txt"), "words").unwrap();
    let (_driver, fake, mut seat) = with_session(&scene).await;
    let first = permission(json!({ "toolCallId": "1", "title": "first" }));
    let first = tokio::spawn(fake.peer.call("session/request_permission", &first));
    let first_ask = seat.ask().await;
    let second = permission(json!({ "toolCallId": "2", "title": "second" }));
    let second = tokio::spawn(fake.peer.call("session/request_permission", &second));
    let second_ask = seat.ask().await;
    let path = scene.path().join("a.txt");
    let read = fake
        .call(
            "fs/read_text_file",
            json!({ "sessionId": "s", "path": path }),
        )
        .await;
    assert_eq!(read, Ok(json!({ "content": "words" })));
    second_ask.answer.send(Answer::Declined).unwrap();
    let outcome = patiently(second).await.unwrap().unwrap();
    assert_eq!(outcome.get(), r#"{"outcome":{"outcome":"cancelled"}}"#);
    assert!(!first.is_finished());
    drop(first_ask); // Nobody will answer: that is a no too.
    let outcome = patiently(first).await.unwrap().unwrap();
    assert_eq!(outcome.get(), r#"{"outcome":{"outcome":"cancelled"}}"#);
}

#[tokio::test]
async fn a_cancel_answers_open_permissions_before_the_turn_ends() {
    let scene = Scene::new();
    let (driver, mut fake, mut seat) = with_session(&scene).await;
    let cancel = CancellationToken::new();
    let running = prompt(&driver, "s", "hello", &cancel);
    let asked = fake.request("session/prompt").await;
    let params = permission(json!({ "toolCallId": "1" }));
    let asking = tokio::spawn(fake.peer.call("session/request_permission", &params));
    let mut ask = seat.ask().await;
    cancel.cancel();
    let outcome = patiently(asking).await.unwrap().unwrap();
    assert_eq!(outcome.get(), r#"{"outcome":{"outcome":"cancelled"}}"#);
    patiently(ask.answer.closed()).await;
    // One more after the cancel is nobody's question any more.
    let late = fake
        .call("session/request_permission", params)
        .await
        .unwrap();
    assert_eq!(late["outcome"]["outcome"], "cancelled");
    asked.reply(json!({ "stopReason": "cancelled" })).await;
    patiently(running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_request_that_the_agent_withdraws_is_withdrawn_here_too() {
    let scene = Scene::new();
    let (_driver, fake, mut seat) = with_session(&scene).await;
    let params = permission(json!({ "toolCallId": "1" }));
    let asking = fake
        .peer
        .call_with_cancel("session/request_permission", &params);
    let asking = tokio::spawn(asking);
    let mut ask = seat.ask().await;
    asking.abort();
    patiently(ask.answer.closed()).await;
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_in_words() {
    let scene = Scene::new();
    let (_driver, fake, _seat) = with_session(&scene).await;
    let cases = [
        ("session/request_permission", json!({ "sessionId": "s" })),
        (
            "session/request_permission",
            json!({ "sessionId": "x", "toolCall": { "toolCallId": "t" } }),
        ),
        (
            "elicitation/create",
            json!({ "sessionId": "x", "mode": "form", "message": "?" }),
        ),
        (
            "elicitation/create",
            json!({ "sessionId": "s", "mode": "smoke", "message": "?" }),
        ),
        ("fs/read_text_file", json!({ "sessionId": "s" })),
        (
            "fs/read_text_file",
            json!({ "sessionId": "s", "path": "/etc/passwd" }),
        ),
        (
            "fs/write_text_file",
            json!({ "sessionId": "s", "path": "a" }),
        ),
        (
            "terminal/create",
            json!({ "sessionId": "x", "command": "ls" }),
        ),
        ("terminal/create", json!({ "sessionId": "s" })),
    ];
    for (method, params) in cases {
        let (code, message) = fake.call(method, params.clone()).await.unwrap_err();
        assert_eq!(code, -32602, "{method} {params}: {message}");
        assert!(!message.is_empty());
    }
}

#[tokio::test]
async fn a_form_is_answered_as_its_schema_wants() {
    let scene = Scene::new();
    let (_driver, fake, mut seat) = with_session(&scene).await;
    let schema = json!({ "type": "object", "properties": { "count": { "type": "integer" }, "why": { "type": "string" } } });
    let params = json!({ "sessionId": "s", "mode": "form", "message": "How many?", "requestedSchema": schema });
    for (answer, expected) in [
        (
            Answer::Text {
                text: r#"{"count":3}"#.to_owned(),
            },
            json!({ "action": "accept", "content": { "count": 3 } }),
        ),
        (
            Answer::Text {
                text: "three".to_owned(),
            },
            json!({ "action": "decline" }),
        ),
        (Answer::Declined, json!({ "action": "decline" })),
    ] {
        let asking = tokio::spawn(fake.peer.call("elicitation/create", &params));
        let ask = seat.ask().await;
        let kind = AskKind::Question {
            text: "How many?".to_owned(),
            schema: Some(schema.to_string()),
        };
        assert_eq!(ask.kind, kind);
        ask.answer.send(answer).unwrap();
        let answered = patiently(asking).await.unwrap().unwrap();
        let answered: Value = serde_json::from_str(answered.get()).unwrap();
        assert_eq!(answered, expected);
    }
}

#[tokio::test]
async fn a_missing_file_is_said_in_the_words_agents_look_for() {
    let scene = Scene::new();
    let (_driver, fake, _seat) = with_session(&scene).await;
    let path = scene.path().join("none.txt");
    let params = json!({ "sessionId": "s", "path": path });
    let (code, message) = fake.call("fs/read_text_file", params).await.unwrap_err();
    assert_eq!(code, -32002);
    assert!(message.starts_with("Resource not found: ") && message.ends_with("does not exist"));
}

#[tokio::test]
async fn an_agent_that_stumbles_over_missing_files_reads_them_as_empty() {
    let scene = Scene::new();
    let answer =
        json!({ "protocolVersion": 1, "agentInfo": { "name": "gemini-cli", "version": "1" } });
    let (driver, mut fake) = scene.fake(answer).await;
    let seat = super::support::Seat::new();
    super::support::open(&driver, &mut fake, &seat, scene.path().to_owned()).await;
    let params = json!({ "sessionId": "s", "path": scene.path().join("none.txt") });
    let read = fake.call("fs/read_text_file", params).await;
    assert_eq!(read, Ok(json!({ "content": "" })));
}

#[tokio::test]
async fn what_the_agent_has_us_do_is_asked_about_unless_it_was_allowed() {
    let scene = Scene::new();
    let (_driver, fake, mut seat) = with_session(&scene).await;
    let path = scene.around.workspace.join("a.txt");
    let write = json!({ "sessionId": "s", "path": path, "content": "x" });
    let run = json!({ "sessionId": "s", "command": "touch", "args": ["b.txt"] });
    seat.allowed.store(false, Ordering::Relaxed);
    for (method, params) in [("fs/write_text_file", &write), ("terminal/create", &run)] {
        let (_, message) = fake.call(method, params.clone()).await.unwrap_err();
        assert!(message.contains("does not allow it"), "{method}: {message}");
    }
    assert!(!path.exists() && !scene.around.workspace.join("b.txt").exists());

    // What the agent has asked for and was allowed is not asked about again.
    let asking = json!({
        "sessionId": "s",
        "toolCall": { "toolCallId": "t", "kind": "edit", "title": "write", "locations": [{ "path": path }] },
        "options": [{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }],
    });
    let asked = fake.call("session/request_permission", asking);
    let answered = async {
        let ask = seat.ask().await;
        ask.answer
            .send(Answer::Option {
                id: "yes".to_owned(),
            })
            .unwrap();
    };
    tokio::join!(async { asked.await.unwrap() }, answered);
    fake.call("fs/write_text_file", write).await.unwrap();
    assert!(path.exists());
}

#[tokio::test]
async fn a_file_is_read_for_a_session_that_is_open_and_for_no_other() {
    let scene = Scene::new();
    std::fs::write(scene.path().join("a.txt"), "words").unwrap();
    let (_driver, fake, _seat) = with_session(&scene).await;
    let read = |params: Value| fake.call("fs/read_text_file", params);
    let own = read(json!({ "sessionId": "s", "path": "a.txt" })).await;
    assert_eq!(own, Ok(json!({ "content": "words" })));
    for params in [
        json!({ "sessionId": "nobody", "path": "a.txt" }),
        json!({ "path": "a.txt" }),
    ] {
        let (code, message) = read(params).await.unwrap_err();
        assert!(
            code == -32602 && message.contains("no session"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_question_that_names_no_session_is_asked_where_a_turn_runs_and_else_declined() {
    let scene = Scene::new();
    let (driver, mut fake, mut seat) = with_session(&scene).await;
    let params = json!({ "requestId": 7, "mode": "url", "elicitationId": "e", "url": "https://x.test/", "message": "Sign in" });
    let declined = fake.call("elicitation/create", params.clone()).await;
    assert_eq!(declined, Ok(json!({ "action": "decline" })));
    let cancel = CancellationToken::new();
    let running = prompt(&driver, "s", "hello", &cancel);
    let asked = fake.request("session/prompt").await;
    let asking = tokio::spawn(fake.peer.call("elicitation/create", &params));
    let ask = seat.ask().await;
    let raw: Value = serde_json::from_str(&ask.raw.as_ref().unwrap().frame).unwrap();
    assert_eq!(
        (&raw["sessionId"], raw.get("requestId")),
        (&json!("s"), None)
    );
    let text = "opened".to_owned();
    ask.answer.send(Answer::Text { text }).unwrap();
    let answered = patiently(asking).await.unwrap().unwrap();
    assert_eq!(answered.get(), r#"{"action":"accept"}"#);
    let options = permission(json!({ "toolCallId": "1", "title": "act" }))["options"].clone();
    let params = json!({ "toolCall": { "toolCallId": "1" }, "options": options });
    let asking = tokio::spawn(fake.peer.call("session/request_permission", &params));
    let ask = seat.ask().await;
    let id = ask.kind.option(OptionKind::AllowOnce).unwrap().id.clone();
    ask.answer.send(Answer::Option { id }).unwrap();
    let answered = patiently(asking).await.unwrap().unwrap();
    assert!(answered.get().contains("yes"), "{}", answered.get());
    asked.reply(json!({ "stopReason": "end_turn" })).await;
    patiently(running).await.unwrap().unwrap();
}
