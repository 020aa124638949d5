//! The protocol itself: versions, capabilities, errors, broken lines.

use jsonrpc::{INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::{Client, patiently, prompt};

#[tokio::test]
async fn whatever_version_the_client_speaks_the_answer_is_one() {
    let folder = tempfile::tempdir().unwrap();
    for version in [0, 1, 2, 65535] {
        let client = Client::connect(folder.path());
        let answer = client
            .call("initialize", json!({ "protocolVersion": version }))
            .await
            .unwrap();
        let expected = json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": false, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": false, "sse": false },
                "sessionCapabilities": { "list": {}, "resume": {}, "close": {} },
                "auth": {},
            },
            "authMethods": [],
            "agentInfo": {
                "name": "agentcraft-builtin",
                "title": "AgentCraft built-in agent",
                "version": env!("CARGO_PKG_VERSION"),
            },
        });
        assert_eq!(answer, expected);
        client.leave().await.unwrap();
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "The cases are data.")]
async fn wrong_requests_are_answered_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    let cases = [
        ("initialize", json!({}), INVALID_PARAMS, "protocolVersion"),
        ("session/new", json!({}), INVALID_PARAMS, "cwd"),
        (
            "session/new",
            json!({ "cwd": "relative", "mcpServers": [] }),
            INVALID_PARAMS,
            "not an absolute path",
        ),
        (
            "session/new",
            json!({ "cwd": "/", "mcpServers": 7 }),
            INVALID_PARAMS,
            "invalid type",
        ),
        (
            "session/prompt",
            json!({ "sessionId": session }),
            INVALID_PARAMS,
            "prompt",
        ),
        (
            "session/prompt",
            json!({ "sessionId": session, "prompt": [] }),
            INVALID_PARAMS,
            "empty",
        ),
        (
            "session/prompt",
            json!({ "sessionId": session, "prompt": [{ "type": "x" }] }),
            INVALID_PARAMS,
            "unknown",
        ),
        (
            "session/prompt",
            prompt("nobody", "hello"),
            -32002,
            "there is no session \"nobody\"",
        ),
        (
            "session/set_mode",
            json!({ "sessionId": session, "modeId": "x" }),
            INVALID_PARAMS,
            "ask, auto or plan",
        ),
        (
            "session/set_mode",
            json!({ "sessionId": "nobody", "modeId": "ask" }),
            -32002,
            "no session",
        ),
        (
            "session/close",
            json!({ "sessionId": "nobody" }),
            -32002,
            "no session",
        ),
        (
            "session/load",
            json!({ "sessionId": "nobody", "cwd": "/", "mcpServers": [] }),
            -32002,
            "no session",
        ),
        (
            "session/load",
            json!({ "sessionId": "../x", "cwd": "/", "mcpServers": [] }),
            -32002,
            "no session",
        ),
        (
            "session/resume",
            json!({ "sessionId": "nobody", "cwd": "/" }),
            -32002,
            "no session",
        ),
        (
            "session/list",
            json!({ "cursor": "x" }),
            INVALID_PARAMS,
            "cursor",
        ),
        (
            "session/nonsense",
            json!({}),
            METHOD_NOT_FOUND,
            "session/nonsense",
        ),
        (
            "_custom/method",
            json!({}),
            METHOD_NOT_FOUND,
            "_custom/method",
        ),
    ];
    for (method, params, code, words) in cases {
        let error = client.call(method, params.clone()).await.unwrap_err();
        assert_eq!(error.code, code, "{method} {params}: {error}");
        assert!(error.message.contains(words), "{method} {params}: {error}");
    }
    client.ask(&session, "hello").await;
}

#[tokio::test]
async fn a_busy_session_refuses_a_second_prompt_and_takes_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    let first = client.start_prompt(&session, "/hang");
    client
        .until_update(|update| update["update"]["sessionUpdate"] == "agent_message_chunk")
        .await;
    let error = client.try_prompt(&session, "hello").await.unwrap_err();
    assert_eq!(error.code, INVALID_REQUEST);
    assert!(error.message.contains("still running"), "{error}");
    client.cancel(&session).await;
    assert_eq!(
        patiently(first).await.unwrap().unwrap()["stopReason"],
        "cancelled"
    );
    assert!(
        client
            .ask(&session, "hello")
            .await
            .contains("You said: hello")
    );
}

#[tokio::test]
async fn notifications_that_make_no_sense_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.cancel("nobody").await;
    client.cancel(&session).await;
    client.notify("session/cancel", json!({})).await;
    client
        .notify("$/cancel_request", json!({ "requestId": "never" }))
        .await;
    client.notify("$/cancel_request", json!([1])).await;
    client.notify("unknown/notification", json!({})).await;
    client.ask(&session, "hello").await;
}

#[tokio::test]
async fn broken_lines_are_answered_and_the_connection_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(theirs);
    let options = builtin::Options {
        workspace: folder.path().to_owned(),
        environment: Default::default(),
    };
    let server = tokio::spawn(builtin::serve(reader, writer, options));
    let (reader, mut writer) = tokio::io::split(ours);
    let mut lines = BufReader::new(reader).lines();
    let cases = [
        ("nonsense", "-32700"),
        ("{\"jsonrpc\":\"2.0\"}", "-32600"),
        ("[]", "-32600"),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}",
            "\"id\":\"a\"",
        ),
    ];
    for (line, expected) in cases {
        writer
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
        let answer = patiently(lines.next_line()).await.unwrap().unwrap();
        assert!(answer.contains(expected), "{line}: {answer}");
    }
    writer.shutdown().await.unwrap();
    patiently(server).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_workspace_that_does_not_exist_is_told() {
    let (reader, writer) = tokio::io::split(tokio::io::duplex(64).0);
    let options = builtin::Options {
        workspace: "/nonexistent/workspace".into(),
        environment: Default::default(),
    };
    let error = builtin::serve(reader, writer, options).await.unwrap_err();
    assert_eq!(error.to_string(), "could not open the workspace");
}
