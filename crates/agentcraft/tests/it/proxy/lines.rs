//! Lines that are too long, and params that are not what the protocol wants: each is answered, and the next one works.

use serde_json::{Value, json};
use testkit::TestDaemon;

use super::{Editor, LEASE, warm};
use crate::node;

/// More than a line may have.
const TOO_MUCH: usize = 10 * 1024 * 1024 + 1;

#[test]
fn an_editors_line_that_is_too_long_is_answered_with_its_id_and_the_next_one_works() {
    let daemon = warm();
    let mut editor = Editor::open(&daemon, &LEASE);
    let session = editor.begin("/home/me");
    let filler = "x".repeat(TOO_MUCH);
    let prompt =
        format!(r#"{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{filler}"}}]}}"#);
    for (line, id) in [
        (
            format!(r#"{{"jsonrpc":"2.0","id":71,"method":"session/prompt","params":{prompt}}}"#),
            json!(71),
        ),
        (
            format!(r#"{{"params":{prompt},"method":"session/prompt","id":"é","jsonrpc":"2.0"}}"#),
            json!("é"),
        ),
        (format!(r#"{{"params":{prompt}}}"#), Value::Null),
    ] {
        editor.write(format!("{line}\n").as_bytes());
        let (outcome, _) = editor.outcome(&id);
        let error = outcome.unwrap_err();
        assert_eq!(error["code"], -32600, "{error}");
        assert!(
            error["message"].as_str().unwrap().contains("longer than"),
            "{error}"
        );
        let (stopped, _) = editor.prompt(&session, "and this one?");
        assert_eq!(stopped["stopReason"], "end_turn");
    }
    editor.close();
}

/// How many notifications of a mebibyte each an editor sends at once.
const NOTES: u32 = 120;

/// How much memory a process has and has had at most, in MiB.
fn memory(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mib = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        let kib = line.split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap() / 1024
    };
    (mib("VmRSS:"), mib("VmHWM:"))
}

#[test]
fn an_editor_that_says_more_than_its_agent_reads_is_kept_waiting() {
    let daemon = node().start();
    daemon.scripted_agent("own", json!({}), json!({}));
    let mut editor = Editor::open(&daemon, &["own", "--lease"]);
    let session = editor.begin("/home/me");
    let counting = r#"
numbers = []
on["_note"] = lambda id, params: numbers.append(params["number"])
on["_over"] = lambda id, params: send(id=id, result={"numbers": numbers})
end()"#;
    editor.prompt(&session, counting);
    let (before, _) = memory(daemon.pid());
    let busy = json!([{"type": "text", "text": "time.sleep(4); end()"}]);
    let turn = editor.ask(
        "session/prompt",
        json!({"sessionId": session, "prompt": busy}),
    );
    let filler = "x".repeat(1024 * 1024);
    for number in 0..NOTES {
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"_note","params":{{"sessionId":"{session}","number":{number},"filler":"{filler}"}}}}"#
        );
        editor.write(format!("{line}\n").as_bytes());
    }
    editor.answer(turn);
    // It comes behind all of them.
    let (over, _) = editor.call("_over", json!({"sessionId": session}));
    let (_, peak) = memory(daemon.pid());
    assert!(peak - before < 90, "{before} MiB before, {peak} at most");
    assert_eq!(over["numbers"], json!((0..NOTES).collect::<Vec<u32>>()));
    editor.close();
}

#[test]
fn params_that_are_nested_too_deep_are_told_so() {
    let daemon = warm();
    let mut editor = Editor::open(&daemon, &LEASE);
    let session = editor.begin("/home/me");
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    for (id, method, params) in [
        (
            71,
            "session/new",
            format!(r#"{{"cwd":"/home/me","mcpServers":[],"_meta":{deep}}}"#),
        ),
        (
            72,
            "session/prompt",
            format!(r#"{{"sessionId":"{session}","prompt":[],"_meta":{deep}}}"#),
        ),
    ] {
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        editor.write(format!("{line}\n").as_bytes());
        let error = editor.outcome(&json!(id)).0.unwrap_err();
        let words = error["message"].as_str().unwrap();
        assert!(words.contains("nested too deep"), "{method}: {error}");
    }
    editor.close();
}

#[test]
fn what_names_no_session_does_not_wait_for_one_to_open() {
    let daemon = node().start();
    let hello = json!({"agentCapabilities": {"sessionCapabilities": {"list": {}}}});
    daemon.scripted_agent("own", hello, json!({}));
    let mut editor = Editor::open(&daemon, &["own", "--lease"]);
    let session = editor.begin("/home/me");
    let hold = r#"
held = []
def hold(id, params): held.append(id)
def let_go(id, params):
    for other in held: send(id=other, result={"sessionId": "own-9", "sessions": []})
    send(id=id, result={})
on.update({"session/new": hold, "session/list": hold, "_let_go": let_go})
end()"#;
    editor.prompt(&session, hold);
    let opening = editor.ask("session/new", json!({"cwd": "/home/me", "mcpServers": []}));
    let listing = editor.ask("session/list", json!({}));
    let has_both = || {
        let got = daemon.got("own");
        let held = |method: &str| got.iter().filter(|it| it["method"] == method).count();
        held("session/new") == 2 && held("session/list") == 1
    };
    testkit::eventually("the agent has both", has_both);
    editor.call("authenticate", json!({"methodId": "x"}));
    let mut due = vec![opening, listing, editor.ask("_let_go", json!({}))];
    while !due.is_empty() {
        let message = editor.next();
        due.retain(|id| message["id"] != *id);
    }
    editor.close();
}

#[test]
fn an_agents_line_that_is_too_long_leaves_nobody_waiting() {
    let daemon = node().start();
    daemon.scripted_agent("own", json!({}), json!({}));
    let mut editor = Editor::open(&daemon, &["own", "--lease"]);
    let session = editor.begin("/home/me");
    // The answer to the prompt itself.
    let answer = format!(
        r#"raw('{{"jsonrpc":"2.0","result":{{"stopReason":"end_turn","x":"' + 'x' * {TOO_MUCH} + '"}},"id":' + str(turn) + '}}')"#
    );
    let prompt =
        |text: &str| json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    let id = editor.ask("session/prompt", prompt(&answer));
    let error = editor.outcome(&json!(id)).0.unwrap_err();
    assert!(
        error["message"].as_str().unwrap().contains("longer than"),
        "{error}"
    );
    // The same, with more behind its id; and one that does not tell whose answer it is.
    let more = answer.replace("str(turn) + '}'", r#"str(turn) + ',"_meta":{"a":[1]}}'"#);
    assert_ne!(more, answer);
    let id = editor.ask("session/prompt", prompt(&more));
    let error = editor.outcome(&json!(id)).0.unwrap_err();
    assert!(
        error["message"].as_str().unwrap().contains("longer than"),
        "{error}"
    );
    let nobodys = answer.replace(
        "str(turn) + '}'",
        "str(turn) + ',\"x\":\"' + 'x' * 9999 + '\"}'",
    );
    assert_ne!(nobodys, answer);
    let id = editor.ask("session/prompt", prompt(&nobodys));
    while !editor.next().to_string().contains("cancel it") {}
    editor.send(json!({"method": "session/cancel", "params": {"sessionId": session}}));
    assert_eq!(editor.answer(id).0["stopReason"], "cancelled");
    // Something that it asks for.
    let request = format!(
        r#"raw('{{"jsonrpc":"2.0","id":"big","method":"fs/write_text_file","params":{{"sessionId":"own-1","path":"a","content":"' + 'x' * {TOO_MUCH} + '"}}}}')"#
    );
    let (stopped, updates) = editor.call("session/prompt", prompt(&request));
    assert_eq!(stopped["stopReason"], "end_turn");
    let heard = updates.to_string();
    assert!(
        heard.contains("longer than") && heard.contains("big"),
        "{heard:.500}"
    );
    assert_eq!(editor.prompt(&session, "end()").0["stopReason"], "end_turn");
    editor.close();
}

#[test]
fn what_is_missing_or_of_the_wrong_kind_is_refused_in_words() {
    let daemon = warm();
    let mut editor = Editor::open(&daemon, &LEASE);
    let session = editor.begin("/home/me");
    let cases = [
        ("session/new", json!({"cwd": "/x"}), "mcpServers"),
        (
            "session/new",
            json!({"cwd": "/x", "mcpServers": {}}),
            "mcpServers",
        ),
        (
            "session/new",
            json!({"cwd": "/x", "mcpServers": ["a"]}),
            "mcpServers",
        ),
        ("session/new", json!({"cwd": 7, "mcpServers": []}), "cwd"),
        ("session/new", json!({"mcpServers": []}), "cwd"),
        (
            "session/new",
            json!({"cwd": "/x", "mcpServers": [], "additionalDirectories": "/y"}),
            "additionalDirectories",
        ),
        (
            "session/load",
            json!({"sessionId": session, "cwd": "/x"}),
            "mcpServers",
        ),
        (
            "session/load",
            json!({"cwd": "/x", "mcpServers": []}),
            "sessionId",
        ),
        (
            "session/resume",
            json!({"cwd": "/x", "mcpServers": []}),
            "sessionId",
        ),
        ("session/prompt", json!({"prompt": []}), "sessionId"),
        (
            "session/prompt",
            json!({"sessionId": 7, "prompt": []}),
            "sessionId",
        ),
        ("session/close", json!({}), "sessionId"),
        ("session/delete", json!({}), "sessionId"),
    ];
    for (method, params, word) in cases {
        let (code, words) = editor.refusal(method, params.clone());
        assert_eq!(code, -32602, "{method} {params}: {words}");
        assert!(words.contains(word), "{method} {params}: {words}");
    }
    // These are what the schema lets through.
    editor.call("session/new", json!({"cwd": "/x", "mcpServers": null}));
    editor.call("session/resume", json!({"sessionId": session, "cwd": "/x"}));
    editor.close();
}

/// How many messages the agent sends: far more than wait in any queue that counts them.
const NEWS: usize = 3000;

fn news(daemon: &TestDaemon) -> Editor {
    daemon.scripted_agent("own", json!({}), json!({}));
    let mut editor = Editor::open(daemon, &["own", "--lease"]);
    let session = editor.begin("/home/me");
    let text = format!(
        r#"for n in range({NEWS}): send(method="_own/news", params={{"n": n, "text": "x" * 1000}})
open("told", "w").close()
end()"#
    );
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    editor.send(json!({"id": 900, "method": "session/prompt", "params": prompt}));
    editor
}

#[test]
fn an_editor_that_is_far_behind_still_hears_all_that_belongs_to_no_session() {
    let daemon = node().start();
    let mut editor = news(&daemon);
    let told = daemon.home().join("instances/own/told");
    testkit::eventually("the agent has said it all", || told.exists());
    let mut heard = Vec::new();
    while heard.len() < NEWS {
        let message = editor.next();
        assert_ne!(
            message["params"]["update"]["sessionUpdate"], "notice",
            "{message}"
        );
        if message["method"] == "_own/news" {
            heard.push(message["params"]["n"].as_u64().unwrap());
        }
    }
    assert!(heard.is_sorted(), "in their order");
    editor.close();
}
