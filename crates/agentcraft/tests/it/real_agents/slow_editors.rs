//! Every agent in an editor's hands: the official Python client, through both ways to it. As in `slow`, the module's name gives
//! the tests minutes.

use std::{env, process::Command};

use serde_json::json;

use super::{agents::TakesUp, scene::Scene, table::each};

const CLIENT: &str = include_str!("editor.py");

/// How long a minute takes in which a session was begun.
const NEXT_MINUTE_SECS: u64 = 61;

fn with_an_editor(scene: &mut Scene, way: &str) {
    let Some(python) = env::var_os("AGENTCRAFT_TEST_PYTHON") else {
        return println!("skipped: ./test sets AGENTCRAFT_TEST_PYTHON to where the client is");
    };
    let file = scene.file("from-the-editor.txt");
    let (write, _) = scene.agent.write(file.to_str().unwrap(), "content");
    scene.create(json!({}));
    let pause = match (scene.agent.takes_up, way) {
        (TakesUp::FromTheNextMinute, "direct") => NEXT_MINUTE_SECS,
        _ => 0,
    };
    if way == "lease" {
        scene.start();
    }
    let proxy = scene.daemon.command(&[]);
    let mut client = Command::new(python);
    client.args(["-c", CLIENT]).arg(proxy.get_program());
    client.args([way, &write]).arg(&file).arg(pause.to_string());
    client.env_clear();
    for (name, value) in proxy.get_envs() {
        client.env(name, value.unwrap_or_default());
    }
    let output = client.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let (start, _) = said.char_indices().rev().nth(1500).unwrap_or_default();
    assert!(output.status.success(), "{}", &said[start..]);
    if way == "direct" {
        scene.expect_no_process("the editor left");
    }
}

#[test]
#[ignore = "slow: starts every real agent twice"]
fn an_editor_with_an_agent_of_its_own() {
    each("editor, direct", &[], |scene| {
        with_an_editor(scene, "direct");
    });
}

#[test]
#[ignore = "slow: starts every real agent"]
fn an_editor_with_the_daemons_agent() {
    each("editor, lease", &[], |scene| {
        with_an_editor(scene, "lease");
    });
}
