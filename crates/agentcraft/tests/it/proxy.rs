//! Both ways of an editor to an agent, against real processes. Here the Direct Bridge: what an agent gets and gives, and
//! that nothing is left however it ends.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

mod asked;
mod conformance;
pub(crate) mod editor;
mod ending;
mod folders;
mod lease;
mod legacy;
mod lines;
mod rust_client;
mod sdks;
mod shared;
mod taken_up;
mod words;

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use crate::node;
use editor::Editor;

/// An agent that writes all it gets into a file and gives it back.
const RECORDER: &str = "exec tee got";

/// An editor in front of the agent that the daemon runs.
const LEASE: [&str; 2] = ["a1", "--lease"];

/// A node whose agent `a1` runs.
fn warm() -> TestDaemon {
    let daemon = with_builtin();
    daemon.client().ok("agent.start", json!({"name": "a1"}));
    daemon
}

/// A node with an agent `a1` of the built-in backend.
fn with_builtin() -> TestDaemon {
    let daemon = node().start();
    daemon.template(
        "starter",
        json!({"backend": {"type": "builtin"}, "provider": {"type": "none"}}),
    );
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a1", "template": "starter"}));
    daemon
}

/// A node with an agent `a1` that runs a script.
fn with_script(script: &str) -> TestDaemon {
    let daemon = node().start();
    daemon.script_template("own", script);
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a1", "template": "own"}));
    daemon
}

fn status(daemon: &TestDaemon, name: &str) -> Value {
    daemon.client().ok("agent.status", json!({"name": name}))
}

fn names(daemon: &TestDaemon) -> Vec<String> {
    let agents = daemon.client().ok("agent.list", json!({}));
    let agents = agents.as_array().unwrap().iter();
    agents
        .map(|agent| agent["name"].as_str().unwrap().to_owned())
        .collect()
}

fn workspace(daemon: &TestDaemon, name: &str) -> PathBuf {
    status(daemon, name)["workspaceDir"]
        .as_str()
        .unwrap()
        .into()
}

#[test]
fn an_editor_talks_to_the_built_in_agent_as_if_it_had_started_it() {
    let daemon = with_builtin();
    let mut editor = Editor::open(&daemon, &["a1"]);
    let session = editor.begin("/home/me/project");
    let running = status(&daemon, "a1");
    assert_eq!(
        (&running["status"], &running["processOwnership"]),
        (&json!("running"), &json!("external"))
    );

    let (stopped, updates) = editor.prompt(&session, "hello bridge");
    assert_eq!(stopped["stopReason"], "end_turn");
    assert!(
        updates.to_string().contains("bridge"),
        "the answer repeats the prompt"
    );

    // The workspace, not the editor's folder.
    let own = workspace(&daemon, "a1");
    let (_, updates) = editor.prompt(&session, "/write note.txt from the editor");
    assert_eq!(editor.permissions, 1, "told: {updates:.500}");
    eventually("the file is written", || own.join("note.txt").exists());

    editor.send(json!({"id": 900, "method": "session/prompt",
        "params": {"sessionId": session, "prompt": [{"type": "text", "text": "/hang"}]}}));
    editor.send(json!({"method": "session/cancel", "params": {"sessionId": session}}));
    assert_eq!(editor.answer(900).0["stopReason"], "cancelled");

    let output = editor.close();
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(status(&daemon, "a1")["status"], "stopped");
    assert_eq!(daemon.agent_processes(), Vec::<u32>::new());
}

#[test]
fn a_session_is_loaded_in_the_next_connection() {
    let daemon = with_builtin();
    let mut editor = Editor::open(&daemon, &["a1"]);
    let session = editor.begin("/home/me");
    editor.prompt(&session, "remember me");
    editor.close();
    let mut editor = Editor::open(&daemon, &["a1"]);
    let updates = editor.load(&session);
    assert!(
        updates.to_string().contains("remember me"),
        "told: {updates:.500}"
    );
    editor.close();
}

#[test]
fn every_byte_arrives_and_comes_back_and_only_the_folder_changes() {
    let daemon = with_script(RECORDER);
    let own = workspace(&daemon, "a1");
    let editor = Editor::open(&daemon, &["a1"]);
    let before: Vec<&[u8]> = vec![
        b" { \"b\" : 1.50 ,\t\"a\":[ ] , \"_unknown\":{\"cwd\":\"/x\"} }\r\n",
        b"{\"method\":\"session/prompt\",\"params\":{\"cwd\":\"/stays\",\"text\":\"\xff\xfe\x00\xc3\"}}\n",
        b"\n\n not json at all {{{ \n",
    ];
    let huge = [
        b"{\"method\":\"x\",\"params\":\"",
        vec![b'y'; 11 * 1024 * 1024].as_slice(),
        b"\"}\n",
    ]
    .concat();
    let folder = |cwd: &str| {
        format!(
            "{{ \"params\": {{\"mcpServers\":[ ],\"cwd\" : {cwd} , \"_meta\":{{\"cwd\":\"/m\"}}}},\"method\" :\"session/new\",\"id\":\"é\"}}\n"
        )
    };
    let sent = [
        before.concat(),
        huge.clone(),
        folder("\"/home/me\"").into_bytes(),
        b"the end".to_vec(),
    ]
    .concat();
    let cwd = Value::String(own.to_str().unwrap().to_owned()).to_string();
    let expected = [
        before.concat(),
        huge,
        folder(&cwd).into_bytes(),
        b"the end".to_vec(),
    ]
    .concat();
    let (returned, output) = editor.exchange(&sent);
    assert!(
        returned == expected,
        "what came back is not what was sent: {} and {} bytes",
        returned.len(),
        expected.len()
    );
    assert!(fs::read(own.join("got")).unwrap() == expected);
    assert_eq!(output.code, 0, "{}", output.stderr);
}

#[test]
fn a_line_in_pieces_is_passed_on_as_it_comes() {
    let daemon = with_script(RECORDER);
    let own = workspace(&daemon, "a1");
    let mut editor = Editor::open(&daemon, &["a1"]);
    let mut expected = String::new();
    let cwd = Value::String(own.to_str().unwrap().to_owned()).to_string();
    let pieces = [
        "{\"method\":\"sess",
        "ion/load\",\"params\":{\"cw",
        "d\":\"/home",
        "/me\"",
        ",\"x\":1}}",
        "\n",
    ];
    let passed = [
        "{\"method\":\"sess",
        "ion/load\",\"params\":{\"cw",
        &format!("d\":{cwd}"),
        "",
        ",\"x\":1}}",
        "\n",
    ];
    for (piece, passed) in pieces.iter().zip(passed) {
        editor.write(piece.as_bytes());
        expected.push_str(passed);
        eventually("the piece has arrived", || {
            fs::read_to_string(own.join("got")).is_ok_and(|got| got == expected)
        });
    }
    editor.close();
}

#[test]
fn the_editors_folder_goes_through_only_where_the_template_allows_it() {
    let daemon = with_script(RECORDER);
    let refused = daemon.cli(&["proxy", "a1", "--cwd", "client"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(refused.stderr.contains("cwd: client"), "{}", refused.stderr);
    let busy = Editor::open(&daemon, &["a1"]);
    eventually("it is busy", || {
        status(&daemon, "a1")["status"] == "running"
    });
    let refused = daemon.cli(&["proxy", "a1", "--cwd", "client"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(
        refused.stderr.contains("the template of a1 "),
        "{}",
        refused.stderr
    );
    let told = daemon.cli(&["journal", "-f", "json"]).stdout;
    assert!(!told.contains("a1-"), "no copy was made: {told}");
    busy.close();

    daemon.template(
        "open",
        json!({"backend": {"type": "custom", "config": {"executablePath": "/bin/sh", "args": ["-c", "pwd >&2; exec cat"]}}, "cwd": "client"}),
    );
    let line = b"{\"method\":\"session/new\",\"params\":{\"cwd\":\"/home/me\"}}\n";
    let (returned, output) =
        Editor::open(&daemon, &["a2", "-t", "open", "--cwd", "client"]).exchange(line);
    assert_eq!(returned, line);
    let own = workspace(&daemon, "a2");
    assert!(
        output.stderr.contains(own.to_str().unwrap()),
        "{}",
        output.stderr
    );
    let (returned, _) = Editor::open(&daemon, &["a2"]).exchange(line);
    assert!(
        String::from_utf8(returned)
            .unwrap()
            .contains(own.to_str().unwrap())
    );
}

#[test]
fn the_agent_has_the_variables_it_needs_of_the_editors_environment() {
    let daemon = node().start();
    daemon.template(
        "looker",
        json!({"backend": {"type": "custom", "config": {"executablePath": "/bin/sh", "args": ["-c", "env; exec cat"]}},
               "passEnv": ["KEY_*"], "env": {"OWN": "set"}}),
    );
    let mut command = daemon.command(&["proxy", "a1", "-t", "looker"]);
    command
        .env("KEY_A", "from the editor")
        .env("SECRET", "hunter2");
    let (seen, _) = Editor::run(command).exchange(b"");
    let seen = String::from_utf8(seen).unwrap();
    assert!(
        seen.contains("KEY_A=from the editor\n") && seen.contains("OWN=set\n"),
        "{seen}"
    );
    assert!(!seen.contains("hunter2"), "{seen}");
}

#[test]
fn what_cannot_be_is_said_on_stderr_alone() {
    let daemon = with_script(RECORDER);
    daemon.template(
        "printer",
        json!({"backend": {"type": "command", "config": {"executablePath": "/bin/true"}}}),
    );
    daemon.template(
        "missing",
        json!({"backend": {"type": "custom", "config": {"executablePath": "/nonexistent/agent"}}}),
    );
    let cases: [(&[&str], i32, &str); 5] = [
        (&["proxy", "nobody"], 4, "nobody"),
        (&["proxy", "nobody", "-t", "nothing"], 4, "nothing"),
        (&["proxy", "a1", "--env-passthrough"], 1, "passEnv"),
        (&["proxy", "p1", "-t", "printer"], 1, "does not speak ACP"),
        (&["proxy", "m1", "-t", "missing"], 1, "/nonexistent/agent"),
    ];
    for (arguments, code, words) in cases {
        let output = daemon.cli(arguments);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (code, ""),
            "{arguments:?} {}",
            output.stderr
        );
        assert!(
            output.stderr.contains(words),
            "{arguments:?}: {}",
            output.stderr
        );
    }
    let nowhere = node().stopped();
    let output = nowhere.cli(&["proxy", "a1"]);
    assert_eq!((output.code, output.stdout.as_str()), (3, ""));
    assert!(
        output.stderr.contains("the daemon is not running"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_busy_agent_is_copied_and_the_copy_finds_its_sessions_and_goes() {
    let daemon = with_builtin();
    let mut first = Editor::open(&daemon, &["a1"]);
    let session = first.begin("/home/me");
    first.prompt(&session, "said to the first");

    let mut second = Editor::open(&daemon, &["a1"]);
    let updates = second.load(&session);
    assert!(
        updates.to_string().contains("said to the first"),
        "{updates}"
    );
    let own = second.begin("/home/me");
    second.prompt(&own, "/write copy.txt only in the copy");
    let both = names(&daemon);
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both[1].starts_with("a1-"), "{both:?}");
    let copy = workspace(&daemon, &both[1]);
    assert!(copy.join("copy.txt").exists());
    assert!(!workspace(&daemon, "a1").join("copy.txt").exists());

    let output = second.close();
    assert_eq!(output.code, 0);
    assert!(output.stderr.contains("a1 is busy"), "{}", output.stderr);
    assert_eq!(names(&daemon), ["a1"]);
    assert!(!copy.exists());
    assert_eq!(
        first.prompt(&session, "still there").0["stopReason"],
        "end_turn"
    );
    first.close();
}

#[test]
fn the_copy_of_an_agent_that_keeps_sessions_elsewhere_loads_them_where_they_were_begun() {
    let daemon = with_script("exec cat");
    let original = workspace(&daemon, "a1");
    daemon.client().ok("agent.start", json!({"name": "a1"}));
    let lines = b"{\"method\":\"session/new\",\"params\":{\"cwd\":\"/me\"}}\n{\"method\":\"session/load\",\"params\":{\"cwd\":\"/me\"}}\n";
    let (returned, _) = Editor::open(&daemon, &["a1"]).exchange(lines);
    let folders: Vec<PathBuf> = String::from_utf8(returned)
        .unwrap()
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["params"]["cwd"]
                .as_str()
                .unwrap()
                .into()
        })
        .collect();
    assert!(
        folders[0]
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("a1-"),
        "{folders:?}"
    );
    assert_eq!(folders[1], original);
    assert_eq!(status(&daemon, "a1")["status"], "running");
    assert_eq!(names(&daemon), ["a1"]);
}

#[test]
fn many_editors_that_come_at_once_each_get_a_process_of_their_own() {
    let daemon = with_script(RECORDER);
    let editors: Vec<Editor> = (0..6).map(|_| Editor::open(&daemon, &["a1"])).collect();
    eventually("all are attached", || {
        let agents = daemon.client().ok("agent.list", json!({}));
        let agents = agents.as_array().unwrap();
        agents.len() == 6 && agents.iter().all(|agent| agent["status"] == "running")
    });
    assert_eq!(daemon.agent_processes().len(), 6);
    for (number, editor) in editors.into_iter().enumerate() {
        let line = format!("editor {number}\n");
        assert_eq!(editor.exchange(line.as_bytes()).0, line.as_bytes());
    }
    assert_eq!(names(&daemon), ["a1"]);
    assert_eq!(daemon.agent_processes(), Vec::<u32>::new());
}
