//! Terminals: real processes, their output and their end.

use std::sync::Arc;

use engine::Driver;
use serde_json::{Value, json};

use super::support::{Fake, PATIENCE, Scene, patiently, with_session};

async fn create(fake: &Fake, params: Value) -> String {
    let created = fake.call("terminal/create", params).await.unwrap();
    created["terminalId"].as_str().unwrap().to_owned()
}

async fn shell(fake: &Fake, script: &str) -> String {
    create(
        fake,
        json!({ "sessionId": "s", "command": "sh", "args": ["-c", script] }),
    )
    .await
}

fn named(id: &str) -> Value {
    json!({ "sessionId": "s", "terminalId": id })
}

/// Waits until an output holds a text.
async fn until_output(fake: &Fake, id: &str, wanted: &str) {
    let seen = async {
        loop {
            let output = fake.call("terminal/output", named(id)).await.unwrap();
            if output["output"].as_str().unwrap().contains(wanted) {
                assert!(output.get("exitStatus").is_none());
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    patiently(seen).await;
}

#[tokio::test]
async fn a_command_runs_with_its_folder_environment_and_both_outputs() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path().join("sub")).unwrap();
    let (_driver, fake, _seat) = with_session(&scene).await;
    let script = "echo $COLOUR; echo err >&2; basename $(pwd); exit 7";
    let id = create(
        &fake,
        json!({
            "sessionId": "s", "command": "sh", "args": ["-c", script], "cwd": scene.path().join("sub"),
            "env": [{ "name": "COLOUR", "value": "green" }],
        }),
    )
    .await;
    let exit = fake
        .call("terminal/wait_for_exit", named(&id))
        .await
        .unwrap();
    assert_eq!(exit, json!({ "exitCode": 7, "signal": null }));
    let output = fake.call("terminal/output", named(&id)).await.unwrap();
    let expected = json!({ "output": "green\nerr\nsub\n", "truncated": false, "exitStatus": exit });
    assert_eq!(output, expected);
    assert_eq!(
        fake.call("terminal/release", named(&id)).await,
        Ok(json!({}))
    );
    let (code, _) = fake.call("terminal/output", named(&id)).await.unwrap_err();
    assert_eq!(code, -32002);
}

#[tokio::test]
async fn the_tail_of_a_long_output_is_kept_on_a_character_boundary() {
    let scene = Scene::new();
    let (_driver, fake, _seat) = with_session(&scene).await;
    let id = create(
        &fake,
        json!({ "sessionId": "s", "command": "printf 'aaaa%s' ééééé", "outputByteLimit": 5 }),
    )
    .await;
    fake.call("terminal/wait_for_exit", named(&id))
        .await
        .unwrap();
    let output = fake.call("terminal/output", named(&id)).await.unwrap();
    assert_eq!(
        (&output["output"], &output["truncated"]),
        (&json!("éé"), &json!(true))
    );
}

#[tokio::test]
async fn a_killed_command_keeps_its_output_until_it_is_released() {
    let scene = Scene::new();
    let (_driver, fake, _seat) = with_session(&scene).await;
    let id = shell(&fake, "echo begun; sleep 600 & sleep 600").await;
    until_output(&fake, &id, "begun").await;
    let waiting = tokio::spawn(fake.peer.call("terminal/wait_for_exit", &named(&id)));
    assert_eq!(fake.call("terminal/kill", named(&id)).await, Ok(json!({})));
    let exit = patiently(waiting).await.unwrap().unwrap();
    assert_eq!(exit.get(), r#"{"exitCode":null,"signal":"SIGTERM"}"#);
    assert_eq!(scene.left(), 0);
    let output = fake.call("terminal/output", named(&id)).await.unwrap();
    assert_eq!(output["output"], "begun\n");
}

#[tokio::test]
async fn commands_end_with_their_session() {
    let scene = Scene::new();
    let (driver, fake, _seat) = with_session(&scene).await;
    for _ in 0..3 {
        let id = shell(&fake, "echo begun; exec sleep 600").await;
        until_output(&fake, &id, "begun").await;
    }
    assert_eq!(scene.left(), 3);
    patiently(driver.close("s")).await;
    assert_eq!(scene.left(), 0);
}

#[tokio::test]
async fn commands_end_with_the_agent() {
    let scene = Scene::new();
    let (driver, fake, _seat) = with_session(&scene).await;
    let id = shell(&fake, "trap '' TERM; echo begun; sleep 600; sleep 600").await;
    until_output(&fake, &id, "begun").await;
    drop(fake);
    let gone = async {
        while scene.around.tasks.running() > 0 {
            tokio::task::yield_now().await;
        }
    };
    patiently(gone).await;
    assert_eq!(scene.left(), 0);
    drop(Arc::into_inner(driver).unwrap());
    let drained = scene.around.tasks.drain(PATIENCE).await;
    assert_eq!(drained, platform::Drained::Clean);
}

#[tokio::test]
async fn a_command_that_cannot_be_started_says_why() {
    let scene = Scene::new();
    let (driver, fake, _seat) = with_session(&scene).await;
    let missing = json!({ "sessionId": "s", "command": "no-such-program" });
    let (_, message) = fake.call("terminal/create", missing).await.unwrap_err();
    assert!(message.contains("there is no such program"), "{message}");
    for folder in ["/", "/etc"] {
        let outside = json!({ "sessionId": "s", "command": "ls", "cwd": folder });
        let (_, message) = fake.call("terminal/create", outside).await.unwrap_err();
        assert!(message.contains("outside the workspace"), "{message}");
    }
    // Nothing of a command that never ran is waited for.
    patiently(driver.close("s")).await;
}
