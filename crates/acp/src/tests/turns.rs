//! Turns with an agent played by the test: order, cancel, errors, usage, death.

use std::sync::Arc;

use domain::turn::{EventKind, Stop, ToolKind, Usage};
use engine::{Driver, DriverError};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::support::{Scene, patiently, prompt, text, update, with_session};

#[tokio::test]
async fn events_come_before_the_end_and_usage_is_one_of_them() {
    let scene = Scene::new();
    let (driver, mut fake, seat) = with_session(&scene).await;
    let running = prompt(&driver, "s", "hello", &CancellationToken::new());
    let asked = fake.request("session/prompt").await;
    let expected = json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": "hello" }] });
    assert_eq!(asked.params, expected);
    for index in 0..500 {
        fake.update(text("s", &format!("{index},"))).await;
    }
    let usage = json!({ "inputTokens": 5, "outputTokens": 7, "totalTokens": 12 });
    asked
        .reply(json!({ "stopReason": "end_turn", "usage": usage }))
        .await;
    assert_eq!(patiently(running).await.unwrap(), Ok(Stop::EndTurn));
    assert_eq!(seat.events().len(), 501);
    assert!(seat.said().ends_with("498,499,"));
    let expected = Usage {
        input_tokens: Some(5),
        output_tokens: Some(7),
        cost_usd: None,
    };
    assert_eq!(seat.kinds().pop(), Some(EventKind::Usage(expected)));
}

#[tokio::test]
async fn updates_after_the_answer_and_between_turns_reach_the_session() {
    let scene = Scene::new();
    let (driver, mut fake, seat) = with_session(&scene).await;
    fake.update(update(
        "s",
        json!({ "sessionUpdate": "session_info_update" }),
    ))
    .await;
    seat.until(|seat| seat.others() == ["session_info_update"])
        .await;
    let running = prompt(&driver, "s", "hello", &CancellationToken::new());
    fake.request("session/prompt")
        .await
        .reply(json!({ "stopReason": "end_turn" }))
        .await;
    patiently(running).await.unwrap().unwrap();
    fake.update(text("s", "late")).await;
    seat.until(|seat| seat.said() == "late").await;
}

#[tokio::test]
async fn errors_of_a_prompt_are_told_with_their_code() {
    let scene = Scene::new();
    let (driver, mut fake, _seat) = with_session(&scene).await;
    let running = prompt(&driver, "s", "hello", &CancellationToken::new());
    fake.request("session/prompt")
        .await
        .fail(-32603, "overloaded")
        .await;
    let expected = DriverError::Refused {
        code: -32603,
        message: "overloaded".to_owned(),
    };
    assert_eq!(patiently(running).await.unwrap(), Err(expected));
    let nowhere = prompt(&driver, "never-opened", "hello", &CancellationToken::new());
    let nowhere = patiently(nowhere).await.unwrap();
    assert!(
        matches!(nowhere, Err(DriverError::Unsupported { .. })),
        "{nowhere:?}"
    );
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_ends_the_turn() {
    let scene = Scene::new();
    let (driver, mut fake, _seat) = with_session(&scene).await;
    let running = prompt(&driver, "s", "hello", &CancellationToken::new());
    let id = fake.request("session/prompt").await.into_id();
    fake.line(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":1,"error":2}}"#
    ))
    .await;
    let broken = patiently(running).await.unwrap();
    assert!(
        matches!(broken, Err(DriverError::Protocol { .. })),
        "{broken:?}"
    );
}

#[tokio::test]
async fn a_cancel_is_told_and_the_agents_word_counts() {
    let scene = Scene::new();
    let (driver, mut fake, seat) = with_session(&scene).await;
    for (answer, expected) in [
        (Ok(json!({ "stopReason": "cancelled" })), Stop::Cancelled),
        (Ok(json!({ "stopReason": "end_turn" })), Stop::EndTurn),
        (Err(-32603), Stop::Cancelled),
    ] {
        let cancel = CancellationToken::new();
        let running = prompt(&driver, "s", "hello", &cancel);
        let asked = fake.request("session/prompt").await;
        cancel.cancel();
        let told = fake.notification("session/cancel").await;
        assert_eq!(told, json!({ "sessionId": "s" }));
        fake.update(text("s", "winding down.")).await;
        match answer {
            Ok(result) => asked.reply(result).await,
            Err(code) => asked.fail(code, "aborted").await,
        }
        assert_eq!(patiently(running).await.unwrap(), Ok(expected));
    }
    assert_eq!(seat.said(), "winding down.".repeat(3));
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let running = prompt(&driver, "s", "hello", &cancelled);
    assert_eq!(patiently(running).await.unwrap(), Ok(Stop::Cancelled));
    assert!(fake.pending().is_none(), "the agent need not hear of it");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_ignores_a_cancel_is_not_waited_for_for_ever() {
    let scene = Scene::new();
    let (driver, mut fake, _seat) = with_session(&scene).await;
    let cancel = CancellationToken::new();
    let running = prompt(&driver, "s", "hello", &cancel);
    let asked = fake.request("session/prompt").await;
    cancel.cancel();
    assert_eq!(running.await.unwrap(), Ok(Stop::Cancelled));
    // Its late answer meets nobody, and the next turn is its own.
    asked.reply(json!({ "stopReason": "max_tokens" })).await;
    fake.notification("session/cancel").await;
    let running = prompt(&driver, "s", "again", &CancellationToken::new());
    fake.request("session/prompt")
        .await
        .reply(json!({ "stopReason": "end_turn" }))
        .await;
    assert_eq!(running.await.unwrap(), Ok(Stop::EndTurn));
}

#[tokio::test]
async fn a_turn_that_is_given_up_is_cancelled_in_the_agent() {
    let scene = Scene::new();
    let (driver, mut fake, _seat) = with_session(&scene).await;
    let running = prompt(&driver, "s", "hello", &CancellationToken::new());
    let _asked = fake.request("session/prompt").await;
    running.abort();
    fake.notification("session/cancel").await;
}

#[tokio::test]
async fn the_death_of_the_agent_ends_every_wait() {
    let scene = Scene::new();
    let (driver, mut fake, mut seat) = with_session(&scene).await;
    let running = prompt(&driver, "s", "hello", &CancellationToken::new());
    let _asked = fake.request("session/prompt").await;
    fake.update(text("s", "last words")).await;
    let permission = json!({
        "sessionId": "s", "toolCall": { "toolCallId": "t" },
        "options": [{ "optionId": "a", "name": "A", "kind": "allow_once" }],
    });
    let asking = fake.peer.call("session/request_permission", &permission);
    let asking = tokio::spawn(asking);
    let mut ask = seat.ask().await;
    drop(fake);
    let gone = patiently(running).await.unwrap();
    let expected = DriverError::Gone {
        how: "its output ended".to_owned(),
    };
    assert_eq!(gone, Err(expected));
    assert_eq!(seat.said(), "last words");
    patiently(ask.answer.closed()).await;
    let opened = patiently(driver.open(seat.open(scene.path(), None))).await;
    assert!(
        matches!(opened, Err(DriverError::Gone { .. })),
        "{opened:?}"
    );
    assert!(patiently(asking).await.unwrap().is_err());
}

#[tokio::test]
async fn letting_go_of_the_driver_ends_the_connection_and_its_tasks() {
    let scene = Scene::new();
    let (driver, fake, _seat) = with_session(&scene).await;
    drop(Arc::into_inner(driver).unwrap());
    patiently(fake.peer.closed()).await;
    let drained = scene.around.tasks.drain(super::support::PATIENCE).await;
    assert_eq!(drained, platform::Drained::Clean);
}

#[tokio::test]
async fn an_update_without_its_call_becomes_the_call() {
    let scene = Scene::new();
    let (_driver, fake, seat) = with_session(&scene).await;
    let done = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "kind": "edit", "title": "Edit", "status": "completed" });
    fake.update(update("s", done.clone())).await;
    fake.update(update("s", done)).await;
    seat.until(|seat| seat.events().len() == 2).await;
    let kinds = seat.kinds();
    let EventKind::ToolCall(call) = &kinds[0] else {
        panic!("{:?}", kinds[0]);
    };
    assert_eq!((call.title.as_str(), call.kind), ("Edit", ToolKind::Edit));
    assert!(matches!(kinds[1], EventKind::ToolUpdate(_)));
}

#[tokio::test]
async fn costs_of_a_session_are_shared_out_to_its_turns() {
    let scene = Scene::new();
    let (driver, mut fake, seat) = with_session(&scene).await;
    for total in [0.25, 0.75] {
        let running = prompt(&driver, "s", "hello", &CancellationToken::new());
        let asked = fake.request("session/prompt").await;
        let cost = json!({ "amount": total, "currency": "USD" });
        fake.update(update(
            "s",
            json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost }),
        ))
        .await;
        asked.reply(json!({ "stopReason": "end_turn" })).await;
        patiently(running).await.unwrap().unwrap();
    }
    let costs: Vec<_> = seat
        .kinds()
        .into_iter()
        .map(|kind| match kind {
            EventKind::Usage(usage) => usage.cost_usd,
            kind => panic!("{kind:?}"),
        })
        .collect();
    assert_eq!(costs, [Some(0.25), Some(0.5)]);
}
