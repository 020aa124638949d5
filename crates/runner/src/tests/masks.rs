//! What is never shown of a run, whoever looks at it.

use serde_json::json;
use workflow::{Mask, Outcome};

use super::scene::{Scene, nothing};
use crate::{RunState, detail};

const KEY: &str = "supersecret-value-1";

const SECRET: &str = "outputs: {key: '{{.states.a.Output}}'}\nstates:\n  initial: a\n  a: {type: command, command: 'echo key is $MY_API_KEY', on_success: b}\n  b: {type: command, idempotent: true, command: 'echo b >> b.txt; while ! test -e go; do sleep 0.02; done', on_success: done}\n  done: {type: terminal, message: 'it was {{.states.a.Output}}'}\n";

#[tokio::test]
async fn secrets_of_a_run_are_not_shown_to_whoever_does_not_have_them_in_the_environment() {
    let mut scene = Scene::with(&[("MY_API_KEY", KEY)]);
    scene.workflow("secret", SECRET);
    let running = scene.begin("secret", nothing()).await;
    scene.until_file("b.txt", &["b"]).await;
    let id = running.id.clone();
    scene.killed(running).await;
    scene.write("go", "");
    let node = scene.seen_with(&[]);
    let shown = detail(&scene.history(), &id, &node.around.environment)
        .await
        .unwrap();
    let shown = shown.masked(&Mask::default());
    assert_eq!(shown.steps[0].record.output, "key is ***\n");
    let resumed = Scene::resume_on(&node, &id).await.unwrap();
    let (finish, watcher) = resumed.end().await;
    assert_eq!(finish.outcome, Outcome::Succeeded, "{}", finish.message);
    assert_eq!(
        watcher.audience.masked(&finish).message,
        "it was key is ***\n"
    );
    assert!(!format!("{:?}", watcher.told()).contains(KEY));
    let view = scene.history().get(&id).await.unwrap().unwrap();
    assert_eq!(view.state, RunState::Succeeded);
    let line = serde_json::to_string(&view.masked(&Mask::default())).unwrap();
    assert!(line.contains("key is ***") && !line.contains(KEY), "{line}");
}

#[tokio::test]
async fn a_short_secret_that_is_a_word_of_frames_does_not_switch_masking_off() {
    let variables = [
        ("TOKEN_TYPE", "text"),
        ("TOKEN_STATE", "completed"),
        ("MY_API_KEY", KEY),
    ];
    let scene = Scene::with(&variables);
    scene.workflow("secret", SECRET);
    scene.write("go", "");
    let (finish, watcher) = scene.run("secret", nothing()).await;
    watcher.audience.conclude(&finish);
    let told = format!("{:?}", watcher.told());
    assert!(told.contains("it was key is ***"), "{told}");
    assert!(!told.contains(KEY), "{told}");
}

#[tokio::test]
async fn names_that_the_settings_add_are_secret_too() {
    let mut scene = Scene::with(&[("MY_DSN", KEY)]);
    scene.node.secret_names = vec!["_DSN".to_owned()];
    let states = "states:\n  initial: a\n  a: {type: command, command: 'echo $MY_DSN', on_success: done}\n  done: {type: terminal, message: '{{.states.a.Output}}'}\n";
    scene.workflow("dsn", states);
    let (finish, watcher) = scene.run("dsn", json!({})).await;
    assert_eq!(watcher.audience.masked(&finish).message, "***\n");
    assert!(!format!("{:?}", watcher.told()).contains(KEY));
}
