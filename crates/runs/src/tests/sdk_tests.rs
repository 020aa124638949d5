//! The standard's own clients. Where they are not installed, the tests say so and pass.

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::scene::{Scene, Wish};

/// Where `./test` installs what the tests need.
fn installed(path: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("AGENTCRAFT_TEST_CACHE").map(PathBuf::from);
    let home =
        std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/agentcraft-test"));
    let found = cache.or(home)?.join(path);
    if !found.exists() {
        println!("skipped: ./test installs {}", found.display());
        return None;
    }
    Some(found)
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("src/tests/sdk")
        .join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_npm_does_everything() {
    let Some(modules) = installed("node-acp_rest") else {
        return;
    };
    let scene = Scene::new().await;
    let mut command = Command::new("node");
    command
        .arg(script("client.mjs"))
        .arg(modules)
        .arg(&scene.url);
    let running = tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output());
    let output = running.await.unwrap().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    let text = String::from_utf8(output.stdout).unwrap();
    let steps: Vec<&str> = text.lines().collect();
    let expected = [
        "agents", "sync", "async", "stream", "answer", "cancel", "session", "refusal",
    ];
    assert_eq!(steps, expected, "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_changes_between_the_standards_server_and_ours_and_loses_nothing() {
    let Some(python) = installed("venv-acp_rest/bin/python") else {
        return;
    };
    let mut child = Command::new(python)
        .arg(script("alternating.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let there = lines.next().unwrap().unwrap();
    let scene = Scene::with(Wish {
        history_from: vec![format!("{there}/resources/")],
        ..Wish::default()
    })
    .await;
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", scene.url).unwrap();
    let told = tokio::task::spawn_blocking(move || lines.next());
    let told = told.await.unwrap().expect("it tells").unwrap();
    assert!(child.wait().unwrap().success());
    let told: Value = serde_json::from_str(&told).unwrap();
    // Each server has been told of everything that was said before, at either.
    let outputs: Vec<&str> = told["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(outputs[0], "number 0");
    assert_eq!(outputs[1], "there 2");
    assert!(
        outputs[2].contains("there 2") && outputs[2].contains("number 2"),
        "{told}"
    );
    assert_eq!((outputs[3], outputs[4]), ("there 6", "there 8"));
    assert!(
        outputs[5].contains("there 6") && outputs[5].contains("there 8"),
        "{told}"
    );
    assert!(!outputs[5].contains("there 2"), "{told}");
    assert_eq!((&told["here"], &told["there"]), (&json!(6), &json!(6)));
}
