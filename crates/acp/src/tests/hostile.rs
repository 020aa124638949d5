//! What real agents send beside the protocol: none of it ends a turn, a session or the connection.

use domain::turn::{Dialect, Stop};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::support::{Scene, patiently, prompt, text, update, with_session};

#[tokio::test]
async fn stray_lines_are_ignored_and_never_answered() {
    let scene = Scene::new();
    let (driver, mut fake, seat) = with_session(&scene).await;
    let running = prompt(&driver, "s", "hello", &CancellationToken::new());
    let asked = fake.request("session/prompt").await;
    for line in [
        "Debugger attached.",
        "{ level: 'info' }",
        "[1,2]",
        "\u{1b}[32mready\u{1b}[0m",
        r#"{"some":"json"}"#,
        "null",
        r#"{"jsonrpc":"2.0","method":"session/update","params":null}"#,
    ] {
        fake.line(line).await;
    }
    fake.update(text("s", "fine")).await;
    asked.reply(json!({ "stopReason": "end_turn" })).await;
    assert_eq!(patiently(running).await.unwrap(), Ok(Stop::EndTurn));
    assert_eq!(seat.said(), "fine");
    // A round trip shows that nothing else was on its way to the agent.
    let unknown = fake.call("_probe", json!({})).await;
    assert_eq!(unknown.unwrap_err().0, -32601);
    assert!(fake.pending().is_none());
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_answered_so_that_nobody_waits() {
    let scene = Scene::new();
    let (_driver, mut fake, _seat) = with_session(&scene).await;
    for line in [
        r#"{"jsonrpc":"2.0","id":"r1","method":"_x/do","params":5}"#,
        r#"{"id":"r1","method":"_x/do","params":{}}"#,
    ] {
        fake.line(line).await;
        let answer = fake.raw_answer().await;
        assert_eq!(answer.0, -32600, "{line}: {answer:?}");
    }
    // No parameters may be said as null.
    fake.line(r#"{"jsonrpc":"2.0","id":"r1","method":"_x/do","params":null}"#)
        .await;
    assert_eq!(fake.raw_answer().await.0, -32601);
}

#[tokio::test]
async fn notifications_for_nobody_are_ignored() {
    let scene = Scene::new();
    let (mut fake, connecting) = scene.start();
    let asked = fake.request("initialize").await;
    fake.notify("_auth/status_update", json!({ "state": "ok" }))
        .await;
    asked.reply(json!({ "protocolVersion": 1 })).await;
    let driver = patiently(connecting).await.unwrap().unwrap();
    let seat = super::support::Seat::new();
    super::support::open(&driver, &mut fake, &seat, scene.path().to_owned()).await;
    fake.update(text("unknown", "a")).await;
    fake.update(json!({ "update": { "sessionUpdate": "plan" } }))
        .await;
    fake.update(json!({ "sessionId": 7, "update": {} })).await;
    fake.notify("session/update", json!([])).await;
    fake.peer.notify("session/update", &()).await.unwrap();
    fake.update(text("s", "b")).await;
    seat.until(|seat| seat.said() == "b").await;
    assert_eq!(seat.events().len(), 1);
}

#[tokio::test]
async fn custom_notifications_reach_the_session_they_name_word_for_word() {
    let scene = Scene::new();
    let (_driver, fake, seat) = with_session(&scene).await;
    let params = r#"{"sessionId":"s","number":1.50,"nested":{"b":1,"a":[null]}}"#;
    let line = format!(r#"{{"jsonrpc":"2.0","method":"_vendor/thing","params":{params}}}"#);
    fake.line(&line).await;
    let strange = update(
        "s",
        json!({ "sessionUpdate": "of_next_year", "x": { "y": 1 } }),
    );
    fake.update(strange.clone()).await;
    fake.update(json!({ "sessionId": "s" })).await;
    seat.until(|seat| seat.events().len() == 3).await;
    assert_eq!(
        seat.others(),
        ["_vendor/thing", "of_next_year", "session/update"]
    );
    let events = seat.events();
    let raw = |index: usize| events[index].raw.clone().unwrap();
    assert_eq!(raw(0).dialect, Dialect::Acp);
    assert_eq!(&*raw(0).frame, params);
    let kept: Value = serde_json::from_str(&raw(1).frame).unwrap();
    assert_eq!(kept, strange);
}

#[tokio::test]
async fn an_update_nested_beyond_reading_is_kept_as_it_is() {
    let scene = Scene::new();
    let (_driver, fake, seat) = with_session(&scene).await;
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let params = format!(r#"{{"sessionId":"s","update":{{"sessionUpdate":"x","deep":{deep}}}}}"#);
    fake.line(&format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#
    ))
    .await;
    fake.update(text("s", "fine")).await;
    seat.until(|seat| seat.said() == "fine").await;
    assert_eq!(seat.others(), ["session/update"]);
}

#[tokio::test]
async fn unknown_requests_are_refused_and_ids_of_every_kind_come_back() {
    let scene = Scene::new();
    let (_driver, mut fake, _seat) = with_session(&scene).await;
    // Number 0 and up are what agents count with, and the driver's own requests use such numbers too.
    for id in ["0", "1", "2", r#""one""#, r#""1""#, "1.50"] {
        fake.line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"craft/drainMidTurnQueue","params":{{"sessionId":"s"}}}}"#
        ))
        .await;
        match fake.next().await {
            jsonrpc::Received::Response {
                id: Some(answered),
                outcome: Err(error),
                ..
            } => assert_eq!((answered.to_string().as_str(), error.code), (id, -32601)),
            received => panic!("{received:?}"),
        }
    }
}

#[tokio::test]
async fn a_request_with_the_id_of_a_running_prompt_is_not_its_answer() {
    let scene = Scene::new();
    let (driver, mut fake, _seat) = with_session(&scene).await;
    let running = prompt(&driver, "s", "hello", &CancellationToken::new());
    let id = fake.request("session/prompt").await.into_id();
    fake.line(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"_probe"}}"#
    ))
    .await;
    assert!(matches!(
        fake.next().await,
        jsonrpc::Received::Response { .. }
    ));
    fake.line(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"refusal"}}}}"#
    ))
    .await;
    assert_eq!(patiently(running).await.unwrap(), Ok(Stop::Refusal));
    // The same answer again, and one to a request that never was.
    fake.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
        .await;
    fake.line(r#"{"jsonrpc":"2.0","id":"never","result":{}}"#)
        .await;
    assert_eq!(fake.call("_probe", json!({})).await.unwrap_err().0, -32601);
}

#[tokio::test]
async fn lines_of_megabytes_are_read_and_longer_ones_survived() {
    let scene = Scene::new();
    let (_driver, mut fake, seat) = with_session(&scene).await;
    fake.line(&"y".repeat(11 * 1024 * 1024)).await;
    seat.until(|seat| {
        seat.notices()
            .iter()
            .any(|notice| notice.contains("left out"))
    })
    .await;
    fake.update(text("s", "!")).await;
    seat.until(|seat| seat.said() == "!").await;
    assert!(fake.pending().is_none());
    // The last thing that happens, for a history this heavy stops the reading until it is stored.
    let large = "x".repeat(9 * 1024 * 1024);
    fake.update(text("s", &large)).await;
    seat.until(|seat| seat.said().len() == large.len() + 1)
        .await;
}

#[tokio::test]
async fn a_history_that_falls_behind_stops_the_reading() {
    let scene = Scene::new();
    let (_driver, fake, seat) = with_session(&scene).await;
    let large = "x".repeat(5 * 1024 * 1024);
    fake.update(text("s", &large)).await;
    seat.until(|seat| seat.events().len() == 1).await;
    let probe = fake.peer.call("_probe", &json!({}));
    let answered = tokio::time::timeout(std::time::Duration::from_millis(200), probe).await;
    assert!(answered.is_err(), "nobody stores what there is");
}
