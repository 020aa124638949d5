//! Values that a computer asks for at a terminal.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;

use super::Scene;
use crate::terminal::pty::Pty;

/// Columns that fit every question into one line.
const WIDE: u16 = 240;

/// A computer on a terminal.
fn join(scene: &Scene, more: &[&str]) -> Pty {
    let (token, servers) = (scene.path("computer.token"), scene.path("servers.json"));
    let mut arguments = vec!["computer", "join", &scene.url, "studio", "--name", "nova"];
    arguments.extend(["--token-file", &token, "--config", &servers, "--yes"]);
    arguments.extend(more);
    Pty::open(&scene.home, WIDE, &arguments)
}

fn variable(scene: &Scene, name: &str) -> String {
    let arguments = json!({ "name": name }).to_string();
    let called = scene.json("call", &["nova", "scripted__variable", &arguments]);
    called["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn inputs_are_typed_once_and_kept_where_nobody_else_reads() {
    let Some(scene) = Scene::start() else { return };
    let mut servers = scene.servers();
    servers["inputs"] = json!([
        {"id": "word", "type": "promptString", "description": "the pass phrase", "password": true},
        {"id": "stage", "type": "pickString", "options": [{"label": "Test", "value": "t"}, {"label": "Live", "value": "l"}]},
        {"id": "made", "type": "command", "command": "printf %s made-by-a-command; echo noise >&2"},
        {"id": "unused", "type": "promptString"},
    ]);
    servers["servers"]["scripted"]["env"]["STAGE"] = json!("${input:stage}");
    servers["servers"]["scripted"]["env"]["MADE"] = json!("${input:made}");
    scene.write("servers.json", &servers.to_string());

    let mut first = join(&scene, &[]);
    first.see("word, the pass phrase:");
    first.say("open-sesame-27");
    first.see("stage (1 = Test, 2 = Live):");
    first.say("7");
    first.see("stage (1 = Test, 2 = Live):");
    first.say("2");
    first.see("lending 3");
    for (name, value) in [
        ("WORD", "open-sesame-27"),
        ("STAGE", "l"),
        ("MADE", "made-by-a-command"),
    ] {
        assert_eq!(variable(&scene, name), value, "{name}");
    }
    let told = scene.json("config", &["nova"]).to_string();
    assert!(
        !told.contains("sesame") && told.contains("${input:word}"),
        "{told}"
    );
    first.press(b"\x03");
    assert_eq!(first.end(), 0);
    assert!(!first.text().contains("sesame"), "{}", first.text());

    let kept = scene.home.home().join("computer-inputs.json");
    assert_eq!(
        fs::metadata(&kept).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(
        fs::read_to_string(&kept)
            .unwrap()
            .contains("open-sesame-27")
    );

    let mut second = join(&scene, &[]);
    second.see("lending 3");
    assert_eq!(variable(&scene, "WORD"), "open-sesame-27");
    second.press(b"\x03");
    assert_eq!(second.end(), 0);
    assert!(!second.text().contains("pass phrase"), "{}", second.text());

    let mut third = join(&scene, &["--ask"]);
    third.see("word, the pass phrase [as before]:");
    third.say("");
    third.see("stage [l] (1 = Test, 2 = Live):");
    third.say("Test");
    third.see("lending 3");
    assert_eq!(
        (
            variable(&scene, "WORD").as_str(),
            variable(&scene, "STAGE").as_str()
        ),
        ("open-sesame-27", "t")
    );
    third.press(b"\x03");
    assert_eq!(third.end(), 0);
}

#[test]
fn a_question_that_nobody_answers_can_be_interrupted() {
    let Some(scene) = Scene::start() else { return };
    let mut servers = scene.servers();
    servers["inputs"] = json!([{"id": "word", "type": "promptString", "password": true}]);
    scene.write("servers.json", &servers.to_string());
    let mut computer = join(&scene, &[]);
    computer.see("word:");
    computer.press(b"\x03");
    assert_eq!(computer.end(), 0);
    assert!(!scene.home.home().join("computer-inputs.json").exists());
}
