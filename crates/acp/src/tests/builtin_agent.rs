//! The built-in agent behind the driver: everything a session does, end to end.

use std::sync::Arc;

use domain::turn::{Answer, AskKind, EventKind, OptionKind, Stop, ToolStatus};
use engine::{Continuity, Driver, DriverError};
use tokio_util::sync::CancellationToken;

use super::support::{Scene, Seat, patiently, prompt, turn};
use crate::driver::AcpDriver;

async fn session(scene: &Scene) -> (Arc<AcpDriver>, Seat, String) {
    let driver = Arc::new(scene.builtin().await);
    let seat = Seat::new();
    let opened = patiently(driver.open(seat.open(scene.path(), None))).await;
    let opened = opened.unwrap();
    assert_eq!(opened.continuity, Continuity::Fresh);
    (driver, seat, opened.id)
}

async fn take(driver: &AcpDriver, session: &str, text: &str) -> Result<Stop, DriverError> {
    patiently(driver.turn(turn(session, text, &CancellationToken::new()))).await
}

#[tokio::test]
async fn a_turn_is_events_and_a_stop() {
    let scene = Scene::new();
    let (driver, seat, session) = session(&scene).await;
    let stop = take(&driver, &session, "/plan one; two").await.unwrap();
    assert_eq!(stop, Stop::EndTurn);
    assert!(seat.said().ends_with("The plan is done."));
    let plans = seat.kinds();
    let plans = plans
        .iter()
        .filter(|kind| matches!(kind, EventKind::Plan { .. }));
    assert_eq!(plans.count(), 4);
    assert_eq!(seat.others(), ["available_commands_update"]);
    for event in seat.events() {
        let raw = event.raw.as_ref().expect("every event has its raw form");
        let params: serde_json::Value = serde_json::from_str(&raw.frame).unwrap();
        assert_eq!(params["sessionId"], session.as_str());
        assert!(params["update"].is_object());
    }
    for (command, expected) in [("/refuse", Stop::Refusal), ("/limit", Stop::MaxTokens)] {
        assert_eq!(take(&driver, &session, command).await, Ok(expected));
    }
    let refused = take(&driver, &session, "/fail on purpose").await;
    let expected = DriverError::Refused {
        code: -32603,
        message: "on purpose".to_owned(),
    };
    assert_eq!(refused, Err(expected));
    assert_eq!(
        take(&driver, &session, "/think hm").await,
        Ok(Stop::EndTurn)
    );
}

#[tokio::test]
async fn a_permission_is_asked_for_and_decides() {
    let scene = Scene::new();
    let (driver, mut seat, session) = session(&scene).await;
    let cancel = CancellationToken::new();
    for (wanted, written) in [
        (OptionKind::RejectOnce, false),
        (OptionKind::AllowOnce, true),
    ] {
        let running = prompt(&driver, &session, "/write a.txt words", &cancel);
        let ask = seat.ask().await;
        let AskKind::Permission { tool, .. } = &ask.kind else {
            panic!("{:?}", ask.kind);
        };
        assert!(tool.title.contains("a.txt"), "{}", tool.title);
        assert!(ask.raw.unwrap().frame.contains("toolCall"));
        let id = ask.kind.option(wanted).unwrap().id.clone();
        ask.answer.send(Answer::Option { id }).unwrap();
        assert_eq!(patiently(running).await.unwrap(), Ok(Stop::EndTurn));
        assert_eq!(scene.path().join("a.txt").exists(), written);
    }
    let running = prompt(&driver, &session, "/write b.txt words", &cancel);
    seat.ask().await.answer.send(Answer::Declined).unwrap();
    patiently(running).await.unwrap().unwrap();
    assert!(!scene.path().join("b.txt").exists());
}

#[tokio::test]
async fn a_question_is_a_question() {
    let scene = Scene::new();
    let (driver, mut seat, session) = session(&scene).await;
    let cancel = CancellationToken::new();
    let running = prompt(&driver, &session, "/ask Which colour?", &cancel);
    let ask = seat.ask().await;
    let expected = AskKind::Question {
        text: "Which colour?".to_owned(),
        schema: None,
    };
    assert_eq!(ask.kind, expected);
    let text = "green".to_owned();
    ask.answer.send(Answer::Text { text }).unwrap();
    patiently(running).await.unwrap().unwrap();
    assert!(
        seat.said().contains("You answered: green"),
        "{}",
        seat.said()
    );
}

#[tokio::test]
async fn files_and_terminals_of_the_client_work() {
    let scene = Scene::new();
    let (driver, seat, session) = session(&scene).await;
    take(&driver, &session, "/fs write deep/a.txt hello")
        .await
        .unwrap();
    let written = std::fs::read_to_string(scene.path().join("deep/a.txt")).unwrap();
    assert_eq!(written, "hello");
    take(&driver, &session, "/fs read deep/a.txt")
        .await
        .unwrap();
    assert!(
        seat.said().contains("as the client has it:\nhello"),
        "{}",
        seat.said()
    );
    take(
        &driver,
        &session,
        "/terminal echo out; echo err >&2; exit 3",
    )
    .await
    .unwrap();
    let said = seat.said();
    assert!(
        said.contains("out\nerr\nThe client's terminal: exit code 3."),
        "{said}"
    );
    assert_eq!(scene.left(), 0);
}

#[tokio::test]
async fn a_cancelled_turn_ends_as_cancelled_and_the_session_goes_on() {
    let scene = Scene::new();
    let (driver, mut seat, session) = session(&scene).await;
    let cancel = CancellationToken::new();
    let running = prompt(&driver, &session, "/hang", &cancel);
    seat.until(|seat| seat.said().contains("Hanging")).await;
    cancel.cancel();
    assert_eq!(patiently(running).await.unwrap(), Ok(Stop::Cancelled));
    let cancel = CancellationToken::new();
    let running = prompt(&driver, &session, "/write a.txt words", &cancel);
    let mut ask = seat.ask().await;
    cancel.cancel();
    patiently(ask.answer.closed()).await; // The question is withdrawn.
    assert_eq!(patiently(running).await.unwrap(), Ok(Stop::Cancelled));
    let ended = |kind: &EventKind| match kind {
        EventKind::ToolUpdate(update) => update.status == Some(ToolStatus::Failed),
        _ => false,
    };
    seat.until(|seat| seat.kinds().iter().any(ended)).await;
    assert_eq!(
        take(&driver, &session, "/think on").await,
        Ok(Stop::EndTurn)
    );
}

#[tokio::test]
async fn unknown_updates_and_late_ones_reach_the_session() {
    let scene = Scene::new();
    let (driver, seat, session) = session(&scene).await;
    take(&driver, &session, "/unknown").await.unwrap();
    assert!(seat.others().contains(&"agentcraft_unknown".to_owned()));
    assert!(seat.said().contains("error -32601"), "{}", seat.said());
    take(&driver, &session, "/late").await.unwrap();
    let before = seat.events().len();
    seat.until(|seat| seat.events().len() > before).await;
}

#[tokio::test]
async fn every_chunk_of_a_burst_is_there_before_the_turn_returns() {
    let scene = Scene::new();
    let (driver, seat, session) = session(&scene).await;
    take(&driver, &session, "/burst 3000 100").await.unwrap();
    let said = seat.said();
    assert_eq!(said.lines().count(), 3000);
    assert!(
        said.lines()
            .last()
            .unwrap()
            .starts_with("chunk 3000 of 3000")
    );
}

#[tokio::test]
async fn an_agent_that_dies_in_a_turn_is_gone() {
    let scene = Scene::new();
    let (driver, seat, session) = session(&scene).await;
    let gone = take(&driver, &session, "/crash 3").await;
    assert!(matches!(gone, Err(DriverError::Gone { .. })), "{gone:?}");
    assert!(seat.said().contains("Crashing"));
    let again = take(&driver, &session, "/think").await;
    assert!(matches!(again, Err(DriverError::Gone { .. })), "{again:?}");
    patiently(driver.close(&session)).await;
}

#[tokio::test]
async fn a_session_is_taken_up_by_another_connection_without_its_old_words() {
    let scene = Scene::new();
    let (driver, _seat, session) = session(&scene).await;
    take(&driver, &session, "/think of cheese").await.unwrap();
    patiently(driver.close(&session)).await;
    drop(driver);
    let driver = scene.builtin().await;
    let seat = Seat::new();
    let opened = patiently(driver.open(seat.open(scene.path(), Some(&session)))).await;
    let opened = opened.unwrap();
    assert_eq!(
        (opened.id.as_str(), opened.continuity),
        (session.as_str(), Continuity::Resumed)
    );
    take(&driver, &session, "/pwd").await.unwrap();
    assert!(!seat.said().contains("cheese"));
    let strange = patiently(driver.open(seat.open(scene.path(), Some("never-heard-of")))).await;
    let strange = strange.unwrap();
    assert!(
        matches!(strange.continuity, Continuity::Lost { .. }),
        "{strange:?}"
    );
    assert_ne!(strange.id, "never-heard-of");
}
