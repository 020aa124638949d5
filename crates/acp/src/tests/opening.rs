//! Handshakes and the opening of sessions with agents of all manners.

use std::{sync::Arc, time::Duration};

use engine::{Continuity, Driver, DriverError};
use serde_json::json;

use super::support::{PATIENCE, Scene, Seat, patiently, said, text};

#[tokio::test]
async fn an_agent_of_another_version_is_refused_in_words() {
    let scene = Scene::new();
    let (mut fake, driver) = scene.start();
    let asked = fake.request("initialize").await;
    assert_eq!(asked.params["protocolVersion"], 1);
    asked
        .reply(json!({ "protocolVersion": 2, "capabilities": {} }))
        .await;
    let error = patiently(driver).await.unwrap().unwrap_err();
    let expected = "the agent does not follow its protocol: it speaks version 2 of ACP, and this program speaks version 1";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_start_in_time_is_silent() {
    let mut scene = Scene::new();
    scene.around.start_timeout = Duration::from_secs(30);
    let (fake, driver) = scene.start();
    let silent = driver.await.unwrap().unwrap_err();
    let expected = DriverError::Silent {
        what: "initialize",
        limit: Duration::from_secs(30),
    };
    assert_eq!(silent, expected);
    drop(fake);
}

#[tokio::test(start_paused = true)]
async fn a_slow_start_is_waited_for() {
    let scene = Scene::new();
    let (mut fake, driver) = scene.start();
    let asked = fake.request("initialize").await;
    tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
    asked.reply(json!({ "protocolVersion": 1 })).await;
    driver.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_agent_that_dies_at_its_start_is_gone() {
    let scene = Scene::new();
    let (mut fake, driver) = scene.start();
    let _asked = fake.request("initialize").await;
    drop(fake);
    let gone = patiently(driver).await.unwrap().unwrap_err();
    assert!(matches!(gone, DriverError::Gone { .. }), "{gone:?}");
}

#[tokio::test]
async fn a_missing_sign_in_is_said_with_the_ways_the_agent_offers() {
    let scene = Scene::new();
    let methods = json!([{ "id": "web", "name": "Log in in the browser" }]);
    let answer = json!({ "protocolVersion": 1, "authMethods": methods });
    let (driver, mut fake) = scene.fake(answer).await;
    let seat = Seat::new();
    let opening = driver.open(seat.open(scene.path(), None));
    let answering = async {
        let asked = fake.request("session/new").await;
        asked.fail(-32000, "Authentication required").await;
    };
    let (refused, ()) = tokio::join!(opening, answering);
    let Err(DriverError::Refused { code, message }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(code, -32000);
    assert!(message.contains("Sign in once"), "{message}");
    assert!(message.contains("Log in in the browser"), "{message}");
}

#[tokio::test]
async fn what_is_told_around_the_answer_to_a_new_session_is_not_lost() {
    let scene = Scene::new();
    let (driver, mut fake) = scene.fake(json!({ "protocolVersion": 1 })).await;
    let seat = Seat::new();
    let opening = driver.open(seat.open(scene.path(), None));
    let answering = async {
        let asked = fake.request("session/new").await;
        fake.update(text("s", "before ")).await;
        fake.update(text("another", "not ours")).await;
        // One write, so that the update is read in the same breath as the answer.
        asked.reply(json!({ "sessionId": "s" })).await;
        fake.update(text("s", "after")).await;
    };
    let (opened, ()) = tokio::join!(opening, answering);
    assert_eq!(opened.unwrap().id, "s");
    seat.until(|seat| seat.said() == "before after").await;
}

#[tokio::test]
async fn a_session_without_an_id_is_a_breach_of_the_protocol() {
    let scene = Scene::new();
    let (driver, mut fake) = scene.fake(json!({ "protocolVersion": 1 })).await;
    let seat = Seat::new();
    let opening = driver.open(seat.open(scene.path(), None));
    let answering = async { fake.request("session/new").await.reply(json!({})).await };
    let (opened, ()) = tokio::join!(opening, answering);
    assert!(
        matches!(opened, Err(DriverError::Protocol { .. })),
        "{opened:?}"
    );
}

#[tokio::test]
async fn what_is_repeated_during_a_load_is_not_told_again() {
    let scene = Scene::new();
    let answer = json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": true } });
    let (driver, mut fake) = scene.fake(answer).await;
    let seat = Seat::new();
    let opening = driver.open(seat.open(scene.path(), Some("old")));
    let answering = async {
        let asked = fake.request("session/load").await;
        assert_eq!(asked.params["sessionId"], "old");
        for _ in 0..100 {
            fake.update(text("old", "as before ")).await;
        }
        asked.reply(json!({})).await;
        fake.update(text("old", "new")).await;
    };
    let (opened, ()) = tokio::join!(opening, answering);
    let opened = opened.unwrap();
    assert_eq!(
        (opened.id.as_str(), opened.continuity),
        ("old", Continuity::Resumed)
    );
    seat.until(|seat| seat.said() == "new").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_repeated_after_a_load_is_not_told_again_and_nothing_else_is_lost() {
    let scene = Scene::new();
    let answer = json!({ "agentCapabilities": { "loadSession": true } });
    let (driver, mut fake) = scene.fake(answer).await;
    let seat = Seat::new();
    let opening = driver.open(seat.open(scene.path(), Some("old")));
    let answering = async {
        let asked = fake.request("session/load").await;
        // It stops after the first words of a person, so their answer must be on its way.
        fake.update(said("old", "user_message_chunk")).await;
        asked.reply(json!({})).await;
        for _ in 0..100 {
            fake.update(text("old", "as before ")).await;
            fake.update(said("old", "user_message_chunk")).await;
        }
        fake.update(said("old", "available_commands_update")).await;
    };
    let (opened, ()) = tokio::join!(opening, answering);
    assert_eq!(opened.unwrap().continuity, Continuity::Resumed);
    fake.update(text("old", "new")).await;
    seat.until(|seat| seat.said() == "new").await;
    let others: Vec<String> = seat.others();
    assert_eq!(others, ["available_commands_update"]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_known_to_repeat_late_is_heard_out() {
    let scene = Scene::new();
    let answer = json!({
        "agentCapabilities": { "loadSession": true },
        "agentInfo": { "name": "gemini-cli" },
    });
    let (driver, mut fake) = scene.fake(answer).await;
    let seat = Seat::new();
    let opening = driver.open(seat.open(scene.path(), Some("old")));
    let answering = async {
        fake.request("session/load").await.reply(json!({})).await;
        fake.update(text("old", "as before")).await;
    };
    let (opened, ()) = tokio::join!(opening, answering);
    assert_eq!(opened.unwrap().continuity, Continuity::Resumed);
    fake.update(text("old", "new")).await;
    seat.until(|seat| seat.said() == "new").await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_stops_repeating_is_not_waited_for_for_ever() {
    let scene = Scene::new();
    let answer = json!({
        "agentCapabilities": { "loadSession": true },
        "agentInfo": { "name": "gemini-cli" },
    });
    let (driver, mut fake) = scene.fake(answer).await;
    let seat = Seat::new();
    let opening = driver.open(seat.open(scene.path(), Some("old")));
    let answering = async {
        fake.request("session/load").await.reply(json!({})).await;
        loop {
            fake.update(text("old", "again ")).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        opened = opening => assert_eq!(opened.unwrap().continuity, Continuity::Resumed),
        () = answering => {}
    }
}

/// Modes as Codex offers them.
fn modes(current: &str) -> serde_json::Value {
    let offered =
        json!([{ "id": "read-only", "name": "Read-only" }, { "id": "agent", "name": "Agent" }]);
    json!({ "currentModeId": current, "availableModes": offered })
}

#[tokio::test]
async fn a_session_that_would_act_unasked_is_put_into_the_mode_that_asks() {
    let scene = Scene::new();
    let answer = json!({ "agentCapabilities": { "loadSession": true } });
    let (driver, mut fake) = scene.fake(answer).await;
    for resume in [None, Some("s")] {
        let seat = Seat::new();
        let opening = driver.open(seat.open(scene.path(), resume));
        let answering = async {
            let method = if resume.is_some() {
                "session/load"
            } else {
                "session/new"
            };
            let asked = fake.request(method).await;
            asked
                .reply(json!({ "sessionId": "s", "modes": modes("agent") }))
                .await;
            let asked = fake.request("session/set_mode").await;
            assert_eq!(
                asked.params,
                json!({ "sessionId": "s", "modeId": "read-only" })
            );
            asked.reply(json!({})).await;
        };
        let (opened, ()) = patiently(async { tokio::join!(opening, answering) }).await;
        opened.unwrap();
        assert!(seat.notices().is_empty());
    }
}

#[tokio::test]
async fn a_mode_that_is_refused_is_told_and_a_mode_that_was_chosen_is_kept() {
    let mut scene = Scene::new();
    let (driver, mut fake) = scene.fake(json!({})).await;
    let seat = Seat::new();
    let opening = driver.open(seat.open(scene.path(), None));
    let answering = async {
        let asked = fake.request("session/new").await;
        asked
            .reply(json!({ "sessionId": "s", "modes": modes("agent") }))
            .await;
        let asked = fake.request("session/set_mode").await;
        asked.fail(-32603, "not now").await;
    };
    let (opened, ()) = patiently(async { tokio::join!(opening, answering) }).await;
    opened.unwrap();
    let notices = seat.notices();
    assert!(notices[0].contains("may act without asking"), "{notices:?}");

    let chosen = ("INITIAL_AGENT_MODE".into(), "agent".into());
    scene.around.environment.extend([chosen]);
    let (driver, mut fake) = scene.fake(json!({})).await;
    let seat = Seat::new();
    let opening = driver.open(seat.open(scene.path(), None));
    let answering = async {
        let asked = fake.request("session/new").await;
        asked
            .reply(json!({ "sessionId": "s", "modes": modes("agent") }))
            .await;
    };
    let (opened, ()) = patiently(async { tokio::join!(opening, answering) }).await;
    opened.unwrap();
}

#[tokio::test]
async fn an_agent_that_can_do_neither_loses_the_thread_in_words() {
    let scene = Scene::new();
    let (driver, mut fake) = scene.fake(json!({ "protocolVersion": 1 })).await;
    let seat = Seat::new();
    let opening = driver.open(seat.open(scene.path(), Some("old")));
    let answering = async {
        let asked = fake.request("session/new").await;
        asked.reply(json!({ "sessionId": "new" })).await;
    };
    let (opened, ()) = tokio::join!(opening, answering);
    let opened = opened.unwrap();
    let why = "this agent cannot take up earlier sessions".to_owned();
    assert_eq!(
        (opened.id.as_str(), opened.continuity),
        ("new", Continuity::Lost { why })
    );
}

#[tokio::test]
async fn a_refused_resume_falls_back_to_load_and_then_to_a_new_session() {
    let scene = Scene::new();
    let answer = json!({ "agentCapabilities": { "loadSession": true, "sessionCapabilities": { "resume": {} } } });
    let (driver, mut fake) = scene.fake(answer).await;
    let seat = Seat::new();
    let opening = driver.open(seat.open(scene.path(), Some("old")));
    let answering = async {
        let asked = fake.request("session/resume").await;
        asked.fail(-32601, "no such method").await;
        let asked = fake.request("session/load").await;
        asked.fail(-32002, "no such session").await;
        fake.update(text("old", "nobody listens")).await;
        let asked = fake.request("session/new").await;
        asked.reply(json!({ "sessionId": "new" })).await;
    };
    let (opened, ()) = tokio::join!(opening, answering);
    let Continuity::Lost { why } = opened.unwrap().continuity else {
        panic!("it cannot have been resumed");
    };
    assert!(why.contains("no such session"), "{why}");
    assert_eq!(seat.said(), "");
}

#[tokio::test]
async fn a_session_is_closed_where_the_agent_declares_it() {
    let scene = Scene::new();
    let answer = json!({ "agentCapabilities": { "sessionCapabilities": { "close": {} } } });
    let (driver, mut fake) = scene.fake(answer).await;
    let driver = Arc::new(driver);
    let seat = Seat::new();
    super::support::open(&driver, &mut fake, &seat, scene.path().to_owned()).await;
    let closing = driver.close("s");
    let answering = async {
        let asked = fake.request("session/close").await;
        assert_eq!(asked.params, json!({ "sessionId": "s" }));
        asked.reply(json!({})).await;
    };
    patiently(async { tokio::join!(closing, answering) }).await;
    fake.update(text("s", "too late")).await;
    let unknown = fake.call("_probe", json!({ "sessionId": "s" })).await;
    assert_eq!(unknown.unwrap_err().0, -32601);
    assert_eq!(seat.said(), "");
}

#[tokio::test]
async fn a_real_process_is_connected_and_its_end_is_noticed() {
    let scene = Scene::new();
    let around = scene.around.clone();
    let script = r#"read hello; echo noise; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'; read open"#;
    let tag = around.owner.tag(&around.agent).unwrap();
    let mut spawn = platform::Spawn::new("/bin/sh", scene.path(), tag);
    spawn.args = vec!["-c".into(), script.into()];
    spawn.stdin = platform::Stream::Piped;
    spawn.stdout = platform::Stream::Piped;
    let (group, pipes) = spawn.spawn(&around.guardian).unwrap();
    let process = engine::AcpProcess {
        stdin: pipes.stdin.unwrap(),
        stdout: pipes.stdout.unwrap(),
        around,
    };
    let driver = patiently(crate::connect(process)).await.unwrap();
    let seat = Seat::new();
    let opened = patiently(driver.open(seat.open(scene.path(), None))).await;
    assert!(
        matches!(opened, Err(DriverError::Gone { .. })),
        "{opened:?}"
    );
    patiently(group.end(Duration::ZERO)).await;
}
