//! The Session Lease: an editor in front of the daemon's own agent, together with whoever else uses it.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::fs;

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually, kill, zombie_or_gone};

use super::{Editor, LEASE, status, warm, with_builtin, workspace};
use crate::node;

/// A node whose running agent `a1` has these permissions.
fn warm_with(template: Value) -> TestDaemon {
    let daemon = node().start();
    daemon.template("own", template);
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a1", "template": "own"}));
    client.ok("agent.start", json!({"name": "a1"}));
    daemon
}

fn sessions(daemon: &TestDaemon) -> Vec<Value> {
    let list = daemon
        .client()
        .ok("session.list", json!({"agentName": "a1"}));
    list.as_array().unwrap().clone()
}

fn words(updates: &Value) -> String {
    let chunks = updates.as_array().unwrap().iter();
    chunks
        .filter(|update| update["params"]["update"]["sessionUpdate"] == "agent_message_chunk")
        .filter_map(|update| update["params"]["update"]["content"]["text"].as_str())
        .collect()
}

fn hang(editor: &mut Editor, session: &str, id: u64) {
    let prompt = json!([{"type": "text", "text": "/hang"}]);
    let params = json!({"sessionId": session, "prompt": prompt});
    editor.send(json!({"id": id, "method": "session/prompt", "params": params}));
}

#[test]
fn an_editor_uses_the_agent_that_runs_as_if_it_had_started_it() {
    let daemon = warm();
    let pid = status(&daemon, "a1")["pid"].clone();
    let mut editor = Editor::open(&daemon, &LEASE);
    let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
    let (leased, _) = editor.call("initialize", hello.clone());
    daemon
        .client()
        .ok("agent.create", json!({"name": "a2", "template": "starter"}));
    let mut bridge = Editor::open(&daemon, &["a2"]);
    let (direct, _) = bridge.call("initialize", hello);
    assert_eq!(leased, direct, "the real agent's own words");
    bridge.close();

    let (answer, _) = editor.call("session/new", json!({"cwd": "/home/me", "mcpServers": []}));
    assert!(answer["modes"]["availableModes"].is_array(), "{answer}");
    let session = answer["sessionId"].as_str().unwrap().to_owned();
    let (stopped, updates) = editor.prompt(&session, "hello lease");
    assert_eq!(stopped["stopReason"], "end_turn");
    assert!(words(&updates).contains("hello lease"), "{updates:.500}");
    assert!(updates.as_array().unwrap().len() > 5, "it streams");
    let own = updates
        .as_array()
        .unwrap()
        .iter()
        .all(|update| update["params"]["sessionId"] == json!(session));
    assert!(own, "{updates:.500}");

    editor.prompt(&session, "/write note.txt from the editor");
    assert_eq!(editor.permissions, 1);
    assert!(
        workspace(&daemon, "a1").join("note.txt").exists(),
        "the workspace, not the editor's folder"
    );
    editor.choice = "reject_once";
    let (stopped, _) = editor.prompt(&session, "/write other.txt no");
    assert_eq!(
        (stopped["stopReason"].as_str(), editor.permissions),
        (Some("end_turn"), 2)
    );
    assert!(!workspace(&daemon, "a1").join("other.txt").exists());

    hang(&mut editor, &session, 900);
    editor.send(json!({"method": "session/cancel", "params": {"sessionId": session}}));
    assert_eq!(editor.answer(900).0["stopReason"], "cancelled");
    let second = editor.begin("/home/me");
    assert_ne!(second, session);
    assert!(words(&editor.prompt(&second, "hello again").1).contains("hello again"));

    assert_eq!(editor.close().code, 0);
    eventually("its sessions are idle", || {
        sessions(&daemon).iter().all(|it| it["state"] == "idle")
    });
    assert_eq!(status(&daemon, "a1")["pid"], pid, "the agent stays warm");
}

#[test]
fn an_agent_that_is_not_started_says_how_to_start_it() {
    let daemon = with_builtin();
    let refused = daemon.cli(&["proxy", "a1", "--lease"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(
        refused.stderr.contains("agentcraft agent start a1"),
        "{}",
        refused.stderr
    );
    let missing = daemon.cli(&["proxy", "nobody", "--lease"]);
    assert_eq!((missing.code, missing.stdout.as_str()), (4, ""));
}

#[test]
fn a_session_is_found_again_with_all_that_was_said_and_goes_on() {
    let daemon = warm();
    let mut editor = Editor::open(&daemon, &LEASE);
    let session = editor.begin("/home/me");
    editor.prompt(&session, "remember the heron");
    editor.close();

    let mut editor = Editor::open(&daemon, &LEASE);
    editor.initialize();
    let (list, _) = editor.call("session/list", json!({}));
    assert_eq!(list["sessions"][0]["sessionId"], json!(session));
    assert_eq!(list["sessions"][0]["title"], "remember the heron");
    let params = json!({"sessionId": session, "cwd": "/home/me", "mcpServers": []});
    let (answer, updates) = editor.call("session/load", params);
    assert!(answer["modes"].is_object(), "{answer}");
    let kinds: Vec<&str> = updates
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["params"]["update"]["sessionUpdate"].as_str())
        .collect();
    assert!(kinds.contains(&"user_message_chunk"), "{kinds:?}");
    assert!(
        words(&updates).contains("remember the heron"),
        "{updates:.500}"
    );
    assert_eq!(
        editor.prompt(&session, "and on").0["stopReason"],
        "end_turn"
    );
    assert_eq!(sessions(&daemon).len(), 1, "it is the same session");

    let (code, said) = editor.refusal(
        "session/load",
        json!({"sessionId": "nobody", "cwd": "/", "mcpServers": []}),
    );
    assert!(code == -32002, "{code} {said}");
    let (code, _) = editor.refusal(
        "session/prompt",
        json!({"sessionId": "nobody", "prompt": []}),
    );
    assert_eq!(code, -32002);
    editor.call("session/close", json!({"sessionId": session}));
    assert_eq!(sessions(&daemon).len(), 0);
    editor.close();
}

#[test]
fn every_session_is_in_a_page_of_the_list_and_in_the_list_of_its_folder() {
    let daemon = node().start();
    daemon.scripted_agent("own", json!({}), json!({"cwd": "client"}));
    let mut editor = Editor::open(&daemon, &["own", "--lease", "--cwd", "client"]);
    let first = editor.begin("/usr/lib");
    let mut all: Vec<String> = (0..101).map(|_| editor.begin("/usr")).collect();
    all.push(first.clone());
    let listed = |editor: &mut Editor, params: Value| {
        let (page, _) = editor.call("session/list", params);
        let sessions = page["sessions"].as_array().unwrap().iter();
        let ids = sessions.map(|session| session["sessionId"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), page["nextCursor"].clone())
    };
    let (mut seen, next) = listed(&mut editor, json!({}));
    assert_eq!(seen.len(), 100);
    let (rest, over) = listed(&mut editor, json!({"cursor": next}));
    assert_eq!(over, Value::Null);
    seen.extend(rest);
    seen.sort();
    all.sort();
    assert_eq!(seen, all);
    assert_eq!(listed(&mut editor, json!({"cwd": "/usr/lib"})).0, [first]);
    let (code, words) = editor.refusal("session/list", json!({"cursor": "agentcraft:x"}));
    assert!(code == -32602 && words.contains("cursor"), "{code} {words}");
    editor.close();
}

#[test]
fn a_session_that_only_the_agent_knows_is_loaded_with_its_history() {
    let daemon = with_builtin();
    let mut bridge = Editor::open(&daemon, &["a1"]);
    let session = bridge.begin("/home/me");
    bridge.prompt(&session, "said before the daemon knew");
    bridge.close();
    daemon.client().ok("agent.start", json!({"name": "a1"}));
    let mut editor = Editor::open(&daemon, &LEASE);
    let updates = editor.load(&session);
    assert!(
        words(&updates).contains("said before the daemon knew"),
        "{updates:.500}"
    );
    assert_eq!(
        editor.prompt(&session, "and now").0["stopReason"],
        "end_turn"
    );
    editor.close();
}

#[test]
fn two_editors_have_their_own_sessions_streams_and_cancels() {
    let daemon = warm();
    let [mut first, mut second] = [(), ()].map(|()| Editor::open(&daemon, &LEASE));
    let (one, two) = (first.begin("/one"), second.begin("/two"));
    first.prompt(&one, "the secret is heron");
    let (_, updates) = second.prompt(&two, "what is the secret");
    assert!(!updates.to_string().contains("heron"), "{updates:.500}");
    assert!(!updates.to_string().contains(&one), "another's stream");

    hang(&mut first, &one, 900);
    hang(&mut second, &two, 900);
    let works = |session: &str| {
        let list = sessions(&daemon);
        let own = list.iter().find(|it| it["sessionId"] == json!(session));
        own.is_some_and(|it| it["busy"] == true)
    };
    eventually("both work", || works(&one) && works(&two));
    first.send(json!({"method": "session/cancel", "params": {"sessionId": one}}));
    // Somebody else's session is not one's own to cancel.
    first.send(json!({"method": "session/cancel", "params": {"sessionId": two}}));
    assert_eq!(first.answer(900).0["stopReason"], "cancelled");
    assert!(works(&two));

    kill(first.child.id(), "KILL");
    first.wait();
    second.send(json!({"method": "session/cancel", "params": {"sessionId": two}}));
    assert_eq!(second.answer(900).0["stopReason"], "cancelled");
    assert_eq!(
        second.prompt(&two, "still here").0["stopReason"],
        "end_turn"
    );
    second.close();
}

#[test]
fn two_editors_on_one_session_see_the_same_and_one_answer_is_enough() {
    let daemon = warm();
    let [mut first, mut second] = [(), ()].map(|()| Editor::open(&daemon, &LEASE));
    let session = first.begin("/home/me");
    second.load(&session);
    let prompt = json!([{"type": "text", "text": "/write shared.txt both"}]);
    first.send(json!({"id": 900, "method": "session/prompt", "params": {"sessionId": session, "prompt": prompt}}));
    let asked = loop {
        let told = second.next();
        if told["method"] == "session/request_permission" {
            break told;
        }
    };
    // The first one, who is always allowed, answers; the second one learns that nothing is left to answer.
    assert_eq!(first.answer(900).0["stopReason"], "end_turn");
    let mut seen = Vec::new();
    loop {
        let told = second.next();
        seen.push(told.clone());
        if told["method"] == "$/cancel_request" {
            assert_eq!(told["params"]["requestId"], asked["id"], "{told}");
            break;
        }
    }
    let (_, rest) = second.call("session/list", json!({}));
    let all = format!("{seen:?}{rest}");
    assert!(all.contains("completed"), "{all:.900}");
    first.close();
    second.close();
}

#[test]
fn what_nobody_here_understands_passes_both_ways() {
    let daemon = warm();
    let mut editor = Editor::open(&daemon, &LEASE);
    editor.act = |asked| {
        (asked["method"] == "_agentcraft/probe")
            .then(|| json!({"text": "from the editor", "n": 1.5}))
    };
    let session = editor.begin("/home/me");
    let (_, updates) = editor.prompt(&session, "/unknown");
    let updates = updates.as_array().unwrap();
    let strange = updates
        .iter()
        .find(|it| it["params"]["extraBesideUpdate"] == true);
    assert_eq!(
        strange.unwrap()["params"]["update"]["extra"]["list"],
        json!([1, 2.5, null])
    );
    let probe = updates
        .iter()
        .find(|it| it["method"] == "_agentcraft/probe")
        .unwrap();
    assert_eq!(probe["params"]["sessionId"], json!(session));
    assert!(
        words(&json!(updates)).contains("from the editor"),
        "{updates:?}"
    );

    let (code, said) = editor.refusal("_vendor/thing", json!({"sessionId": session}));
    assert_eq!(
        (code, said.as_str()),
        (-32601, "method not found: _vendor/thing"),
        "the agent's own words"
    );
    editor.call(
        "session/set_mode",
        json!({"sessionId": session, "modeId": "plan"}),
    );
    editor.close();
    let mut editor = Editor::open(&daemon, &LEASE);
    editor.initialize();
    let params = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
    let (answer, updates) = editor.call("session/resume", params);
    assert_eq!(answer["modes"]["currentModeId"], "plan");
    assert!(
        !updates.to_string().contains("user_message_chunk"),
        "nothing is repeated: {updates:.300}"
    );
    editor.close();
}

#[test]
fn files_and_terminals_are_the_editors_only_where_it_works_in_the_same_folder() {
    let daemon = warm();
    let own = workspace(&daemon, "a1");
    fs::write(own.join("note.txt"), "on disk").unwrap();
    let act = |asked: &Value| match asked["method"].as_str() {
        Some("fs/read_text_file") => Some(json!({"content": "not saved yet"})),
        Some("fs/write_text_file") => Some(json!({})),
        _ => None,
    };
    let capabilities = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    for (folder, expected) in [
        ("/home/me", "on disk"),
        (own.to_str().unwrap(), "not saved yet"),
    ] {
        let mut editor = Editor::open(&daemon, &LEASE);
        editor.act = act;
        editor.capabilities = capabilities.clone();
        let session = editor.begin(folder);
        let (_, updates) = editor.prompt(&session, "/fs read note.txt");
        assert!(
            words(&updates).contains(expected),
            "{folder}: {}",
            words(&updates)
        );
        editor.prompt(&session, "/fs write made.txt text");
        assert_eq!(
            editor.permissions, 1,
            "what is written is decided on wherever it is done"
        );
        assert_eq!(own.join("made.txt").exists(), folder == "/home/me");
        let _ = fs::remove_file(own.join("made.txt"));
        editor.close();
    }
}

#[test]
fn servers_that_an_editor_brings_are_commands_that_the_policy_decides_on() {
    let builtin =
        |permissions: Value| json!({"backend": {"type": "builtin"}, "permissions": permissions});
    let serve = json!({"args": ["serve"], "env": []});
    let any = json!({"allow": ["execute(/bin/true*)"]});
    for (permissions, more, admitted) in [
        (json!({"allow": []}), serve.clone(), false),
        (json!({"deny": ["execute"]}), serve.clone(), false),
        (
            json!({"allow": ["execute(/bin/true serve)"]}),
            serve.clone(),
            true,
        ),
        (any.clone(), serve, true),
        (
            any.clone(),
            json!({"args": [], "env": {"LD_PRELOAD": "/x.so"}}),
            false,
        ),
        (any, json!({"args": {"0": "serve"}, "env": []}), false),
    ] {
        let mut server = json!([{"name": "files", "command": "/bin/true"}]);
        for (key, value) in more.as_object().unwrap() {
            server[0][key] = value.clone();
        }
        let daemon = warm_with(builtin(permissions.clone()));
        let mut editor = Editor::open(&daemon, &LEASE);
        editor.initialize();
        let (answer, _) = editor.call(
            "session/new",
            json!({"cwd": "/home/me", "mcpServers": server}),
        );
        let session = answer["sessionId"].as_str().unwrap();
        let (_, updates) = editor.prompt(session, "/mcp");
        assert_eq!(
            words(&updates).contains("files"),
            admitted,
            "{permissions}: {}",
            words(&updates)
        );
        let told = updates.to_string();
        assert_eq!(
            told.contains("the MCP server files of the editor is left out: denied"),
            !admitted,
            "{told:.900}"
        );
        editor.close();
    }
}

#[test]
fn the_next_version_of_the_protocol_is_refused_in_words() {
    let daemon = warm();
    let mut editor = Editor::open(&daemon, &LEASE);
    let next =
        json!({"protocolVersion": 2, "info": {"name": "x", "version": "1"}, "capabilities": {}});
    let (code, said) = editor.refusal("initialize", next);
    assert!(
        code == -32602 && said.contains("only version 1"),
        "{code} {said}"
    );
    let both = json!({"protocolVersion": 2, "clientCapabilities": {}});
    assert_eq!(editor.call("initialize", both).0["protocolVersion"], 1);
    editor.close();
}

#[test]
fn the_editors_folder_is_worked_in_where_the_template_allows_it() {
    let daemon = warm();
    let refused = daemon.cli(&["proxy", "a1", "--lease", "--cwd", "client"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(refused.stderr.contains("cwd: client"), "{}", refused.stderr);
    let daemon = warm_with(json!({"backend": {"type": "builtin"}, "cwd": "client"}));
    let folder = daemon.scratch("project");
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    let mut editor = Editor::open(&daemon, &["a1", "--lease", "--cwd", "client"]);
    let session = editor.begin(folder);
    let (_, updates) = editor.prompt(&session, "/pwd");
    assert!(words(&updates).contains(folder), "{}", words(&updates));
    editor.close();
}

#[test]
fn however_an_editor_leaves_nothing_of_it_is_left_and_the_agent_works_on() {
    let daemon = warm();
    let pid = status(&daemon, "a1")["pid"].clone();
    for ending in ["end of input", "TERM", "INT", "HUP", "KILL"] {
        let mut editor = Editor::open(&daemon, &LEASE);
        let session = editor.begin("/home/me");
        hang(&mut editor, &session, 900);
        eventually("the turn runs", || {
            sessions(&daemon)
                .iter()
                .any(|it| it["sessionId"] == json!(session) && it["busy"] == true)
        });
        let proxy = editor.child.id();
        let children = fs::read_to_string(format!("/proc/{proxy}/task/{proxy}/children")).unwrap();
        assert_eq!(children, "", "a proxy of a lease starts nothing");
        match ending {
            "end of input" => assert_eq!(editor.close().code, 0),
            "KILL" => {
                kill(proxy, "KILL");
                editor.wait();
            }
            signal => {
                kill(proxy, signal);
                assert_eq!(editor.wait().code, 0, "{signal}");
            }
        }
        assert!(zombie_or_gone(proxy));
        eventually("nobody is attached", || {
            sessions(&daemon).iter().all(|it| it["clients"] == 0)
        });
        daemon
            .client()
            .ok("session.cancel", json!({"sessionId": session}));
        eventually("the session is idle", || {
            sessions(&daemon)
                .iter()
                .any(|it| it["sessionId"] == json!(session) && it["state"] == "idle")
        });
        assert_eq!(status(&daemon, "a1")["pid"], pid, "{ending}");
    }
}

#[test]
fn a_daemon_that_goes_is_said_and_the_session_is_there_in_the_next_one() {
    let mut daemon = warm();
    let mut editor = Editor::open(&daemon, &LEASE);
    let session = editor.begin("/home/me");
    editor.prompt(&session, "remember the heron");
    daemon.kill();
    let output = editor.wait();
    assert_eq!(output.code, 1);
    assert!(
        output
            .stderr
            .contains("the daemon has ended the connection"),
        "{}",
        output.stderr
    );
    daemon.start();
    let _ = daemon.client().call("agent.start", json!({"name": "a1"})); // Its mode may have started it.
    let mut editor = Editor::open(&daemon, &LEASE);
    let updates = editor.load(&session);
    assert!(
        words(&updates).contains("remember the heron"),
        "{updates:.500}"
    );
    editor.close();
}

#[test]
fn a_daemon_that_goes_in_the_middle_of_a_turn_leaves_no_editor_waiting() {
    type End = fn(&mut TestDaemon);
    let ends: [(&str, End); 2] = [("killed", TestDaemon::kill), ("stopped", TestDaemon::stop)];
    for (how, end) in ends {
        let mut daemon = warm();
        let mut editor = Editor::open(&daemon, &LEASE);
        let session = editor.begin("/home/me");
        hang(&mut editor, &session, 900);
        eventually("the turn runs", || {
            sessions(&daemon).iter().any(|it| it["busy"] == true)
        });
        end(&mut daemon);
        let output = editor.wait();
        assert_eq!(output.code, 1, "{how}: {}", output.stderr);
        assert!(
            output
                .stderr
                .contains("the daemon has ended the connection"),
            "{how}: {}",
            output.stderr
        );
    }
}

#[test]
fn a_terminal_of_the_editor_runs_what_the_agent_asks_for_where_they_share_a_folder() {
    let daemon = warm();
    let own = workspace(&daemon, "a1");
    let mut editor = Editor::open(&daemon, &LEASE);
    editor.capabilities = json!({"terminal": true});
    editor.act = |asked| match asked["method"].as_str()? {
        "terminal/create" => Some(json!({"terminalId": "editor-1"})),
        "terminal/wait_for_exit" => Some(json!({"exitCode": 7})),
        "terminal/output" => Some(json!({"output": "seen in the editor", "truncated": false})),
        "terminal/release" => Some(json!({})),
        _ => None,
    };
    let session = editor.begin(own.to_str().unwrap());
    let (_, told) = editor.prompt(&session, "/terminal touch made-by-the-daemon");
    assert!(
        words(&told).contains("seen in the editor\nThe client's terminal: exit code 7."),
        "{}",
        words(&told)
    );
    let told = told.as_array().unwrap();
    let asked: Vec<&str> = told
        .iter()
        .filter_map(|it| it["method"].as_str())
        .filter(|method| method.starts_with("terminal/"))
        .collect();
    assert_eq!(
        asked,
        [
            "terminal/create",
            "terminal/wait_for_exit",
            "terminal/output",
            "terminal/release"
        ]
    );
    let shown = told.iter().any(|it| {
        it["params"]["update"]["content"][0]
            == json!({"type": "terminal", "terminalId": "editor-1"})
    });
    assert!(shown, "the editor shows its own terminal: {told:?}");
    assert_eq!(editor.permissions, 1, "the policy decides on it");
    assert!(!own.join("made-by-the-daemon").exists());
    editor.close();
}

#[test]
fn an_agent_that_speaks_no_acp_is_put_into_its_words() {
    let daemon = node().start();
    daemon.template(
        "printer",
        json!({"backend": {"type": "command", "config": {"executablePath": "/bin/echo", "args": ["said: {{prompt}}"]}}}),
    );
    daemon
        .client()
        .ok("agent.create", json!({"name": "a1", "template": "printer"}));
    let mut editor = Editor::open(&daemon, &LEASE);
    let session = editor.begin("/home/me");
    let (stopped, updates) = editor.prompt(&session, "hello printer");
    assert_eq!(stopped["stopReason"], "end_turn");
    assert!(
        words(&updates).contains("said: hello printer"),
        "{updates:.500}"
    );
    editor.close();
}

#[test]
fn the_entry_for_an_editor_works_as_it_is_printed() {
    let daemon = warm();
    let output = daemon.cli(&["editor", "zed", "a1", "--lease"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(
        output.stderr.contains("agent start a1"),
        "{}",
        output.stderr
    );
    let entry: Value = serde_json::from_str(&output.stdout).unwrap();
    let server = &entry["agent_servers"]["a1"];
    let mut command = std::process::Command::new(server["command"].as_str().unwrap());
    let words = server["args"].as_array().unwrap().iter();
    command
        .args(words.map(|word| word.as_str().unwrap()))
        .env_clear();
    let mut editor = Editor::run(command);
    let session = editor.begin("/home/me");
    assert_eq!(editor.prompt(&session, "hello").0["stopReason"], "end_turn");
    editor.close();
}
