//! Cancelling in the middle of everything.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Answer, Client, allow, patiently, statuses};

/// What a person takes for at once; the real time is far below.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Starts the prompt, waits for the sign, cancels, and sees the turn end.
async fn check(client: &Client, session: &str, text: &str, sign: &str) {
    let turn = client.start_prompt(session, text);
    let sign = sign.to_owned();
    client
        .until(|client| {
            let seen = |text: String| text.contains(&sign);
            client
                .updates()
                .iter()
                .any(|update| seen(update.to_string()))
                || client
                    .requests()
                    .iter()
                    .any(|(method, _)| seen(method.clone()))
        })
        .await;
    let before = Instant::now();
    client.cancel(session).await;
    client.cancel(session).await;
    let answer = patiently(turn).await.unwrap().unwrap();
    assert_eq!(answer, json!({ "stopReason": "cancelled" }), "{text}");
    assert!(before.elapsed() < AT_ONCE, "{text}: {:?}", before.elapsed());
    client.ask(session, "/pwd").await;
}

#[tokio::test]
async fn talking_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    check(&client, &session, "/slow 1000 20", "chunk 3 of 1000").await;
    check(&client, &session, "/hang", "cancel.").await;
    check(&client, &session, "/burst 1000000 100", "chunk 2000 of").await;
}

#[tokio::test]
async fn a_running_command_is_killed_and_its_call_closed() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.will_answer([allow("allow_once")]);
    check(
        &client,
        &session,
        "/run sleep 1000 & echo pid $!; wait",
        "\"text\":\"pid ",
    )
    .await;
    assert_eq!(
        statuses(&client.updates(), &session),
        ["pending", "in_progress", "failed"]
    );
    let updates = client.updates();
    let last = updates
        .iter()
        .rfind(|update| update["update"]["sessionUpdate"] == "tool_call_update")
        .unwrap();
    let content = last["update"]["content"].as_array().unwrap();
    let text = content[0]["content"]["text"].as_str().unwrap();
    assert_eq!(content[1]["content"]["text"], "Cancelled.");
    let pid: u32 = text.trim().strip_prefix("pid ").unwrap().parse().unwrap();
    patiently(async {
        while platform::ProcessRef::of(pid).is_some_and(platform::ProcessRef::alive) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_open_question_is_withdrawn() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start_with(folder.path(), json!({ "elicitation": { "form": {} } })).await;
    let session = client.new_session().await;
    client.will_answer([Answer::Hold, Answer::Hold]);
    check(
        &client,
        &session,
        "/write a.txt x",
        "session/request_permission",
    )
    .await;
    assert_eq!(statuses(&client.updates(), &session), ["pending", "failed"]);
    assert!(!folder.path().join("a.txt").exists());
    check(&client, &session, "/ask Why?", "elicitation/create").await;
    client.until(|client| client.withdrawn() == 2).await;
}

#[tokio::test]
async fn a_withdrawn_prompt_is_answered_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    let turn = client.peer.fresh_id();
    let params = crate::support::prompt(&session, "/hang");
    let line =
        json!({ "jsonrpc": "2.0", "id": turn, "method": "session/prompt", "params": params });
    client.peer.send_line(line.to_string()).await.unwrap();
    client
        .until_update(|update| update.to_string().contains("cancel."))
        .await;
    client
        .notify("$/cancel_request", json!({ "requestId": turn }))
        .await;
    client
        .until(|client| client.stray_errors() == [jsonrpc::REQUEST_CANCELLED])
        .await;
    client.ask(&session, "/pwd").await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_everything() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.will_answer([allow("allow_once")]);
    let _turn = client.start_prompt(&session, "/run echo pid $$; exec sleep 1000");
    let pid = |client: &Client| {
        let updates = client.updates();
        updates.iter().find_map(|update| {
            let text = update["update"]["content"][0]["content"]["text"].as_str()?;
            text.trim().strip_prefix("pid ")?.parse::<u32>().ok()
        })
    };
    client.until(|client| pid(client).is_some()).await;
    let process = platform::ProcessRef::of(pid(&client).unwrap()).unwrap();
    client.leave().await.unwrap();
    patiently(process.exited()).await;
}

#[tokio::test]
async fn closing_a_session_cancels_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    let turn = client.start_prompt(&session, "/hang");
    client
        .until_update(|update| update.to_string().contains("cancel."))
        .await;
    client
        .call("session/close", json!({ "sessionId": session }))
        .await
        .unwrap();
    assert_eq!(
        patiently(turn).await.unwrap().unwrap()["stopReason"],
        "cancelled"
    );
    assert_eq!(
        client.try_prompt(&session, "hello").await.unwrap_err().code,
        -32002
    );
}
