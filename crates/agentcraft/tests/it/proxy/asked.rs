//! What an agent asks of an editor that leases it: each question for itself, to whoever is at work, in the agent's own words.

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually, kill};

use super::editor::Editor;
use crate::node;

const OWN: [&str; 2] = ["own", "--lease"];

fn own() -> TestDaemon {
    let daemon = node().start();
    daemon.scripted_agent("own", json!({}), json!({}));
    daemon
}

fn begin_turn(editor: &mut Editor, session: &str, program: &str) -> u64 {
    let prompt = json!([{"type": "text", "text": program}]);
    editor.ask(
        "session/prompt",
        json!({"sessionId": session, "prompt": prompt}),
    )
}

/// The next request of this method.
fn asked(editor: &mut Editor, method: &str) -> Value {
    loop {
        let message = editor.next();
        if message["method"] == method {
            return message;
        }
    }
}

fn choose(editor: &mut Editor, asked: &Value, option: &str) {
    let outcome = json!({"outcome": "selected", "optionId": option});
    editor.send(json!({"id": asked["id"], "result": {"outcome": outcome}}));
}

/// What the agent was answered to a request of its own.
fn answer_to(daemon: &TestDaemon, id: &Value) -> Option<Value> {
    let got = daemon.got("own").into_iter();
    let mut answers = got.filter(|message| message.get("method").is_none());
    answers.find(|message| message["id"] == *id)
}

#[test]
fn two_questions_about_acts_of_the_client_are_told_apart_here_and_in_the_history() {
    let daemon = own();
    let mut editor = Editor::open(&daemon, &OWN);
    let session = editor.begin("/home/me");
    let turn = begin_turn(
        &mut editor,
        &session,
        r#"
left = 2
def answered(line):
    global left
    left -= 1
    if left == 0: end()
for n in (1, 2):
    send(id=n, method="fs/write_text_file", params={"sessionId": session, "path": f"{n}.txt", "content": "x"})
"#,
    );
    let first = asked(&mut editor, "session/request_permission");
    let second = asked(&mut editor, "session/request_permission");
    let call = |asked: &Value| asked["params"]["toolCall"]["toolCallId"].clone();
    assert_ne!(call(&first), call(&second));
    choose(&mut editor, &second, "allow_once");
    choose(&mut editor, &first, "reject_once");
    assert_eq!(editor.answer(turn).0["stopReason"], "end_turn");
    let workspace = super::workspace(&daemon, "own");
    let is_there = |asked: &Value| {
        let title = asked["params"]["toolCall"]["title"].as_str().unwrap();
        let name = title.strip_prefix("write ").unwrap();
        workspace.join(name).exists()
    };
    assert!(is_there(&second) && !is_there(&first));
    let events = daemon.client().ok(
        "session.events",
        json!({"sessionId": session, "fromSeq": 1}),
    );
    let events = events.as_array().unwrap().iter();
    let kept: Vec<Value> = events
        .filter(|event| event["type"] == "ask")
        .map(|event| event["tool"]["id"].clone())
        .collect();
    assert_eq!(kept, [call(&first), call(&second)]);
    editor.close();
}

#[test]
fn what_lies_outside_the_workspace_is_refused_before_anybody_is_asked() {
    let daemon = own();
    let workspace = super::workspace(&daemon, "own");
    std::os::unix::fs::symlink("/usr", workspace.join("link")).unwrap();
    let cases = [
        (
            "fs/write_text_file",
            json!({"path": "/usr/elsewhere.txt", "content": "x"}),
        ),
        (
            "fs/write_text_file",
            json!({"path": "../elsewhere.txt", "content": "x"}),
        ),
        (
            "fs/write_text_file",
            json!({"path": "link/elsewhere.txt", "content": "x"}),
        ),
        ("terminal/create", json!({"command": "pwd", "cwd": "/usr"})),
        ("terminal/create", json!({"command": "pwd", "cwd": "link"})),
        ("fs/read_text_file", json!({"path": "/etc/hostname"})),
    ];
    // The one works elsewhere, so that the daemon acts; the other in the very workspace, and acts itself.
    for folder in ["/home/me", workspace.to_str().unwrap()] {
        let mut editor = Editor::open(&daemon, &OWN);
        editor.capabilities =
            json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true});
        let session = editor.begin(folder);
        for (method, params) in &cases {
            let program = format!(
                r#"send(id=5, method="{method}", params={{"sessionId": session, **json.loads('{params}')}})"#
            );
            let (_, updates) = editor.prompt(&session, &program);
            let heard = updates.to_string();
            assert!(
                heard.contains("outside the workspace"),
                "{folder} {method} {params}: {heard}"
            );
            assert_eq!(editor.permissions, 0, "{method} {params}");
        }
        editor.close();
    }
}

/// Asks about one act, and does two others of the same kinds once that is allowed for good.
const ALWAYS: &str = r#"
def answered(line):
    which = json.loads(line)["id"]
    say(line)
    if which == "asked":
        send(id="ran", method="terminal/create", params={"sessionId": session, "command": "rm", "args": ["-f", "victim"]})
    elif which == "ran":
        send(id="wrote", method="fs/write_text_file", params={"sessionId": session, "path": "secret.txt", "content": "x"})
    else:
        end()
send(id="asked", method="session/request_permission", params={"sessionId": session,
    "toolCall": {"toolCallId": "t", "title": "Act", "kind": "KIND", "rawInput": {"command": "ls"}}, "options": [
        {"optionId": "a", "name": "Always", "kind": "allow_always"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]})
"#;

#[test]
fn what_is_allowed_for_good_does_not_reach_beyond_the_rules() {
    let daemon = node().start();
    let rules = json!({"default": "ask", "deny": ["execute(rm *)", "edit(secret*)"]});
    daemon.scripted_agent("own", json!({}), json!({"permissions": rules}));
    let workspace = super::workspace(&daemon, "own");
    std::fs::write(workspace.join("victim"), "x").unwrap();
    let mut editor = Editor::open(&daemon, &OWN);
    editor.choice = "allow_always";
    let session = editor.begin("/home/me");
    for kind in ["execute", "edit"] {
        let (_, updates) = editor.prompt(&session, &ALWAYS.replace("KIND", kind));
        let told = updates.to_string();
        assert_eq!(told.matches("denied").count(), 4, "{kind}: {told}");
    }
    assert_eq!(editor.permissions, 2, "only what no rule denies is asked");
    assert!(workspace.join("victim").exists() && !workspace.join("secret.txt").exists());
    editor.close();
}

/// Asks with an option of a kind that only the agent knows.
const ODD: &str = r#"send(id=5, method="session/request_permission", params={"sessionId": session,
    "toolCall": {"toolCallId": "t", "title": "Act", "kind": "edit"}, "options": [
        {"optionId": "s", "name": "On Sundays", "kind": "allow_on_sundays", "_meta": {"k": 1}},
        {"optionId": "n", "name": "No", "kind": "reject_once"}]})"#;

#[test]
fn an_option_of_an_unknown_kind_is_the_editors_to_choose_and_nobody_elses() {
    let daemon = own();
    let mut editor = Editor::open(&daemon, &OWN);
    let session = editor.begin("/home/me");
    let turn = begin_turn(&mut editor, &session, ODD);
    let asked = asked(&mut editor, "session/request_permission");
    assert_eq!(
        asked["params"]["options"][0],
        json!({"optionId": "s", "name": "On Sundays", "kind": "allow_on_sundays", "_meta": {"k": 1}})
    );
    choose(&mut editor, &asked, "s");
    editor.answer(turn);
    let heard = answer_to(&daemon, &json!(5)).unwrap();
    assert_eq!(heard["result"]["outcome"]["optionId"], "s");
    editor.close();
    // Nobody is there who could choose: the agent is told no, in the way that it offers.
    let mut client = daemon.client();
    let alone = client.ok("session.create", json!({"agentName": "own"}));
    let alone = client.ok(
        "session.prompt",
        json!({"sessionId": alone["sessionId"], "text": ODD}),
    );
    let heard = alone["response"].as_str().unwrap();
    assert!(heard.contains(r#""optionId":"n""#), "{heard}");
    let only = ODD.replace(
        r#"{"optionId": "n", "name": "No", "kind": "reject_once"}"#,
        "",
    );
    let alone = client.ok(
        "session.prompt",
        json!({"sessionId": alone["sessionId"], "text": only}),
    );
    let heard = alone["response"].as_str().unwrap();
    assert!(heard.contains(r#""outcome":"cancelled""#), "{heard}");
}

#[test]
fn an_address_is_asked_to_be_opened_of_an_editor_that_can() {
    let daemon = own();
    let address = r#"send(id=5, method="elicitation/create", params={"sessionId": session, "mode": "url",
        "elicitationId": "e1", "url": "https://example.test/sign-in", "message": "Sign in"})"#;
    let mut editor = Editor::open(&daemon, &OWN);
    editor.capabilities = json!({"elicitation": {"url": {}}});
    let session = editor.begin("/home/me");
    let turn = begin_turn(&mut editor, &session, address);
    let asked = asked(&mut editor, "elicitation/create");
    let params = &asked["params"];
    assert_eq!(
        (&params["mode"], &params["elicitationId"]),
        (&json!("url"), &json!("e1"))
    );
    assert_eq!(params["sessionId"], json!(session));
    editor.send(json!({"id": asked["id"], "result": {"action": "accept", "_meta": {"k": 1}}}));
    editor.answer(turn);
    let heard = answer_to(&daemon, &json!(5)).unwrap();
    assert_eq!(
        heard["result"],
        json!({"action": "accept", "_meta": {"k": 1}})
    );
    editor.close();

    let mut editor = Editor::open(&daemon, &OWN);
    editor.capabilities = json!({"elicitation": {"form": {}}});
    let session = editor.begin("/home/me");
    let (_, updates) = editor.prompt(&session, &address.replace("id=5", "id=6"));
    assert!(!updates.to_string().contains("elicitationId"), "{updates}");
    let heard = answer_to(&daemon, &json!(6)).unwrap();
    assert_eq!(heard["result"], json!({"action": "decline"}));
    editor.close();
}

#[test]
fn what_an_agent_asks_in_a_session_of_its_own_making_is_asked_where_it_works() {
    let daemon = own();
    let mut editor = Editor::open(&daemon, &OWN);
    let session = editor.begin("/home/me");
    let child = ODD
        .replace("\"sessionId\": session", "\"sessionId\": \"child-1\"")
        .replace("allow_on_sundays", "allow_once");
    let turn = begin_turn(&mut editor, &session, &child);
    let asked = asked(&mut editor, "session/request_permission");
    assert_eq!(asked["params"]["sessionId"], json!(session));
    choose(&mut editor, &asked, "s");
    let heard = editor.answer(turn).1.to_string();
    assert!(heard.contains("selected"), "{heard}");
    editor.close();
}

#[test]
fn a_request_that_names_no_session_goes_to_the_editor_at_work() {
    let daemon = own();
    let mut editors = [(), ()].map(|()| Editor::open(&daemon, &OWN));
    let sessions = editors.each_mut().map(|editor| editor.begin("/home/me"));
    for worker in [0, 1, 0] {
        let program = r#"send(id=5, method="_own/ask", params={"q": 1})"#;
        let turn = begin_turn(&mut editors[worker], &sessions[worker], program);
        let asked = asked(&mut editors[worker], "_own/ask");
        editors[worker].send(json!({"id": asked["id"], "result": {"by": worker}}));
        let heard = editors[worker].answer(turn).1.to_string();
        assert!(heard.contains("by"), "{heard}");
    }
    for mut editor in editors {
        // An answer to a request of its own comes next: nothing else was waiting for it.
        let id = editor.ask("_own/thing", json!({}));
        assert_eq!(editor.next()["id"], json!(id));
        editor.close();
    }
}

#[test]
fn when_the_last_client_leaves_the_agent_is_told_no_and_goes_on() {
    let daemon = own();
    let mut editor = Editor::open(&daemon, &OWN);
    let session = editor.begin("/home/me");
    let on = r#"
def answered(line):
    say("going on")
    open("went-on", "w").close()
    end()
"#;
    begin_turn(&mut editor, &session, &format!("{on}\n{ODD}"));
    asked(&mut editor, "session/request_permission");
    kill(editor.child.id(), "KILL");
    let went_on = super::workspace(&daemon, "own").join("went-on");
    eventually("the agent goes on", || went_on.exists());
    let heard = answer_to(&daemon, &json!(5)).unwrap();
    assert_eq!(
        heard["result"]["outcome"],
        json!({"outcome": "selected", "optionId": "n"})
    );
    let mut client = daemon.client();
    eventually("its turn ends by itself", || {
        client.ok("session.get", json!({"sessionId": session}))["busy"] == false
    });
    let got = daemon.got("own");
    assert!(
        got.iter()
            .all(|message| message["method"] != "session/cancel"),
        "{got:?}"
    );
    editor.wait();
}

#[test]
fn what_no_editor_in_a_session_can_answer_is_declined_once_all_have_said_so() {
    let daemon = own();
    let [mut first, mut second] = [(), ()].map(|()| Editor::open(&daemon, &OWN));
    let session = first.begin("/home/me");
    second.load(&session);
    // Neither shows forms.
    let form = r#"send(id=5, method="elicitation/create", params={"sessionId": session, "mode": "form",
        "message": "which?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}})"#;
    let (stopped, _) = first.prompt(&session, form);
    assert_eq!(stopped["stopReason"], "end_turn");
    let heard = answer_to(&daemon, &json!(5)).unwrap();
    assert_eq!(heard["result"], json!({"action": "decline"}));

    let broken =
        |asked: &Value| json!({"id": asked["id"], "error": {"code": -32603, "message": "broken"}});
    let no = json!({"outcome": "selected", "optionId": "n"});
    let turn = begin_turn(&mut first, &session, &ODD.replace("id=5", "id=6"));
    for editor in [&mut first, &mut second] {
        let asked = asked(editor, "session/request_permission");
        editor.send(broken(&asked));
    }
    first.answer(turn);
    let heard = answer_to(&daemon, &json!(6)).unwrap();
    assert_eq!(heard["result"]["outcome"], no);

    // One cannot answer, and the other leaves.
    let turn = begin_turn(&mut first, &session, &ODD.replace("id=5", "id=7"));
    let asked_of_first = asked(&mut first, "session/request_permission");
    asked(&mut second, "session/request_permission");
    first.send(broken(&asked_of_first));
    second.close();
    first.answer(turn);
    let heard = answer_to(&daemon, &json!(7)).unwrap();
    assert_eq!(heard["result"]["outcome"], no);
    first.close();
}

#[test]
fn rules_and_people_see_what_a_terminal_really_runs() {
    let daemon = node().start();
    let rules = json!({"permissions": {"allow": ["execute(true*)"], "deny": ["execute(touch *)"]}});
    daemon.scripted_agent("own", json!({}), rules);
    let mut editor = Editor::open(&daemon, &OWN);
    editor.choice = "reject_once";
    let session = editor.begin("/home/me");
    let run = |params: Value| {
        format!(
            r#"send(id=5, method="terminal/create", params={{"sessionId": session, **json.loads({:?})}})"#,
            params.to_string()
        )
    };
    let shell = json!({"command": "sh", "args": ["-c", "touch made"]});
    let (_, told) = editor.prompt(&session, &run(shell));
    let rule = "entry 1 of the template's deny list denies execute";
    assert!(told.to_string().contains(rule), "{told}");
    assert!(!super::workspace(&daemon, "own").join("made").exists());
    let plain = json!({"command": "true", "args": ["a b"]});
    editor.prompt(&session, &run(plain.clone()));
    assert_eq!(editor.permissions, 0, "a rule allows it");
    let mut preloaded = plain;
    preloaded["env"] =
        json!([{"name": "LD_PRELOAD", "value": "/x.so"}, {"name": "TOKEN", "value": "secret"}]);
    let turn = begin_turn(&mut editor, &session, &run(preloaded));
    let asked = asked(&mut editor, "session/request_permission");
    let title = &asked["params"]["toolCall"]["title"];
    assert_eq!(title, "LD_PRELOAD=/x.so true 'a b'");
    choose(&mut editor, &asked, "reject_once");
    editor.answer(turn);
    editor.close();
}
