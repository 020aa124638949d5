//! Folders that an editor names: one rule for all of them, in both ways to an agent.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use serde_json::{Value, json};

use super::{Editor, RECORDER, with_script, workspace};
use crate::node;

#[test]
fn no_spelling_of_a_request_leads_a_folder_past_the_bridge() {
    let daemon = with_script(RECORDER);
    let own = workspace(&daemon, "a1");
    let lines = [
        r#"{"method":"session/fork","params":{"sessionId":"s","cwd":"/elsewhere"}}"#,
        r#"{"method":"session/prompt","method":"session/new","params":{"cwd":"/kept"}}"#,
        r#"[{"method":"session/new","params":{"cwd":"/elsewhere"}},{"params":{"cwd":"/elsewhere"},"method":"session/load"}]"#,
        "\u{feff}{\"method\":\"session/resume\",\"params\":{\"cwd\":\"/elsewhere\"}}",
        r#"{"method":"session/new","params":{"additionalDirectories":["/elsewhere"],"cwd":"/elsewhere","_meta":{"additionalRoots":["/elsewhere"],"x":1}}}"#,
    ];
    let (returned, _) =
        Editor::open(&daemon, &["a1"]).exchange(format!("{}\n", lines.join("\n")).as_bytes());
    let returned = String::from_utf8(returned).unwrap();
    assert!(!returned.contains("/elsewhere"), "{returned}");
    assert_eq!(
        returned.matches(own.to_str().unwrap()).count(),
        5,
        "{returned}"
    );
    let lines: Vec<&str> = returned.lines().collect();
    // Whichever of the two names a reader goes by, it begins no session in a folder that was passed on.
    let twice: Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!(
        (&twice["method"], &twice["params"]["cwd"]),
        (&Value::Null, &json!("/kept"))
    );
    let more: Value = serde_json::from_str(lines[4]).unwrap();
    assert_eq!(more["params"]["additionalDirectories"], json!([]));
    assert_eq!(
        more["params"]["_meta"],
        json!({"additionalRoots": [], "x": 1})
    );
}

/// The request with which the agent was asked for its last new session.
fn opened(daemon: &testkit::TestDaemon) -> Value {
    let got = daemon.got("own");
    let opened = got
        .iter()
        .rfind(|message| message["method"] == "session/new");
    opened.unwrap()["params"].clone()
}

#[test]
fn a_leased_agent_is_told_no_folder_of_the_editor_unless_its_template_allows_it() {
    let daemon = node().start();
    daemon.scripted_agent("own", json!({}), json!({"cwd": "client"}));
    let own = workspace(&daemon, "own");
    let folders = json!({"cwd": "/usr", "additionalDirectories": ["/usr/lib"], "mcpServers": [],
        "_meta": {"additionalRoots": ["/usr/lib"], "x": 1}});
    for (arguments, cwd, more) in [
        (vec!["own", "--lease"], own.to_str().unwrap(), json!([])),
        (
            vec!["own", "--lease", "--cwd", "client"],
            "/usr",
            json!(["/usr/lib"]),
        ),
    ] {
        let mut editor = Editor::open(&daemon, &arguments);
        editor.initialize();
        editor.call("session/new", folders.clone());
        let asked = opened(&daemon);
        assert_eq!(asked["cwd"], cwd);
        assert_eq!(asked["additionalDirectories"], more);
        assert_eq!(asked["_meta"], json!({"additionalRoots": more, "x": 1}));
        editor.close();
    }
}
