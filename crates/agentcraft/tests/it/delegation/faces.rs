//! Who may lend, what is refused before anything is made, and lending through other faces.

use std::{
    fs,
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};
use testkit::TestDaemon;

use super::{Pair, read};
use crate::{network::python, node};

/// Where each official SDK of A2A is installed, and how it invites.
const SDKS: [(&str, &str); 2] = [
    ("a2a", include_str!("invite_1_0.py")),
    ("a2a03", include_str!("invite_0_3.py")),
];

#[test]
fn a_peer_without_the_right_lends_nothing_and_is_told_what_it_lacks() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let made = pair
        .remote
        .cli(&["token", "create", "other", "--right", "a2a", "-f", "quiet"]);
    fs::write(&pair.token, made.stdout).unwrap();
    let refused = pair.delegate(&folder, "/pwd", &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("AUTH_FAILED"), "{refused:?}");
    fs::write(&pair.token, "act_nobodys\n").unwrap();
    let refused = pair.delegate(&folder, "/pwd", &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    pair.left_nothing();
}

#[test]
fn secrets_and_what_is_too_large_stay_at_home_and_nothing_is_made() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n"), (".env", "KEY=1\n")]);
    let refused = pair.delegate(&folder, "/pwd", &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains(".env"), "{refused:?}");
    assert_eq!(
        pair.host.cli(&["delegation", "list", "-f", "quiet"]).stdout,
        ""
    );
    let lent = pair.delegate(&folder, "/run cat .env", &["--lend-secrets"]);
    assert!(lent.code == 0 && lent.stdout.contains("KEY=1"), "{lent:?}");
    pair.left_nothing();
}

#[test]
fn a_node_that_takes_nothing_says_so() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let unwilling: TestDaemon = node().listening().start();
    let (url, token) = (unwilling.url(), pair.host.scratch("unwilling.token"));
    fs::write(&token, unwilling.token()).unwrap();
    let refused = pair.host.cli(&[
        "delegate",
        &url,
        "/pwd",
        "--dir",
        folder.to_str().unwrap(),
        "--token-file",
        token.to_str().unwrap(),
    ]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("DECLINED"), "{refused:?}");
}

#[test]
fn the_official_sdks_of_both_versions_invite_and_are_answered_with_accept() {
    let pair = Pair::new();
    for (list, script) in SDKS {
        let Some(python) = python(list) else {
            println!("skipped: ./test installs the packages of tests/python/{list}.txt");
            continue;
        };
        let invite = |id: &str, transport: &str| {
            let awcp = json!({
                "version": "1", "type": "INVITE", "delegation_id": id,
                "task": { "description": "d", "prompt": "/pwd" },
                "lease": { "ttl_seconds": 60, "access_mode": "rw" },
                "workspace": { "export_name": "app" }, "requirements": { "transport": transport },
            });
            let invited = Command::new(&python)
                .args(["-c", script, &pair.remote.url(), read(&pair.token).trim()])
                .arg(json!({ "awcp": awcp }).to_string())
                .output()
                .unwrap();
            let words = String::from_utf8_lossy(&invited.stderr);
            assert!(invited.status.success(), "{list}: {words}");
            let data: Value = serde_json::from_slice(&invited.stdout).unwrap();
            data["awcp"].clone()
        };
        let id = format!("dlg_{list}");
        let accept = invite(&id, "archive");
        assert_eq!(accept["type"], "ACCEPT", "{list}: {accept}");
        assert_eq!(accept["delegation_id"], id.as_str(), "{list}: {accept}");
        let point = pair.mount_point(&id);
        let told = &accept["remote_mount"]["mount_point"];
        assert_eq!(told, point.to_str().unwrap(), "{list}: {accept}");
        let seconds = &accept["remote_constraints"]["max_ttl_seconds"];
        assert_eq!(seconds.as_f64(), Some(60.0), "{list}: {accept}");
        // The same again is answered the same, and what cannot be is refused in words.
        assert_eq!(invite(&id, "archive"), accept, "{list}");
        let refused = invite(&format!("dlg_{list}_x"), "pigeon");
        assert_eq!(refused["code"], "DEP_MISSING", "{list}: {refused}");
        let cancelled = pair.remote.cli(&["delegation", "cancel", &id]);
        assert_eq!(cancelled.code, 0, "{list}: {cancelled:?}");
    }
    pair.left_nothing();
}

#[test]
fn a_round_follows_another_in_the_same_folder_and_closing_ends_it() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let first = pair.begin(&folder, "/run echo two >> a.txt", &[]);
    pair.ended(&first);
    let next = "/run echo three >> a.txt";
    let next = pair.host.cli(&["delegation", "continue", &first, next]);
    assert_eq!(next.code, 0, "{next:?}");
    assert!(next.stderr.contains("changed a.txt"), "{next:?}");
    let (_, lent) = next.stderr.split_once("lent as ").unwrap();
    let (next, _) = lent.split_once(';').unwrap();
    let end = pair.show(next);
    assert_eq!(end["continues"], first.as_str(), "{end}");
    assert_eq!(read(folder.join("a.txt")), "one\ntwo\nthree\n");
    let waiting = pair.begin(&folder, "/run sleep 1000", &[]);
    let early = ["delegation", "continue", &waiting, "/pwd"];
    let early = pair.host.cli(&early);
    assert!(
        early.code == 1 && early.stderr.contains("has not ended"),
        "{early:?}"
    );
    let closed = pair.host.cli(&["delegation", "close", &waiting]);
    assert_eq!(closed.code, 0, "{closed:?}");
    let closed = pair.show(&waiting);
    assert_eq!(closed["state"], "cancelled", "{closed}");
    let nobody = pair.host.cli(&["delegation", "close", "dlg_0"]);
    assert_eq!(nobody.code, 4, "{nobody:?}");
    pair.left_nothing();
}

/// An MCP client on the standard streams of `agentcraft mcp serve`.
struct Agent {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    asked: u64,
}

impl Agent {
    fn start(daemon: &TestDaemon) -> Self {
        let mut child = daemon
            .command(&["mcp", "serve"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut agent = Self {
            child,
            lines,
            asked: 0,
        };
        let client = json!({"name": "test", "version": "1"});
        agent.ask(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
        );
        agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    fn send(&mut self, message: &Value) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let line = self.lines.next().unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    /// What a tool gives back, and whether it is an error.
    fn tool(&mut self, name: &str, arguments: &Value) -> (Value, bool) {
        let result = self.ask("tools/call", &json!({"name": name, "arguments": arguments}));
        (
            result["structuredContent"].clone(),
            result["isError"] == true,
        )
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait(); // Its input has ended, and so does it.
    }
}

#[test]
fn agents_lend_folders_through_mcp_and_hear_how_it_went() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let token = read(&pair.token);
    let mut agent = Agent::start(&pair.host);
    let lend = |prompt: &str, more: Value| {
        let mut arguments = json!({
            "peerUrl": pair.remote.url(), "dir": folder, "prompt": prompt, "token": token.trim(),
        });
        for (key, value) in more.as_object().unwrap() {
            arguments[key] = value.clone();
        }
        arguments
    };
    let (done, failed) = agent.tool("delegate", &lend("/run echo two >> a.txt", json!({})));
    assert!(!failed, "{done}");
    assert_eq!(done["changes"], json!(["changed a.txt"]), "{done}");
    let id = |standing: &Value| json!({"delegationId": standing["delegationId"]});
    let next = json!({"delegationId": done["delegationId"], "prompt": "/run echo three >> a.txt"});
    let (next, failed) = agent.tool("delegate_continue", &next);
    assert!(!failed && next["state"] == "completed", "{next}");
    assert_eq!(read(folder.join("a.txt")), "one\ntwo\nthree\n");
    let staged = json!({"keeping": "staged"});
    let (staged, _) = agent.tool("delegate", &lend("/run echo four >> a.txt", staged));
    assert_eq!(staged["snapshot"], "pending", "{staged}");
    let (kept, _) = agent.tool("delegate_snapshots", &id(&staged));
    assert_eq!(kept["snapshots"][0]["status"], "pending", "{kept}");
    let (applied, failed) = agent.tool("delegate_apply_snapshot", &id(&staged));
    assert!(!failed && applied["snapshot"] == "applied", "{applied}");
    assert_eq!(read(folder.join("a.txt")), "one\ntwo\nthree\nfour\n");
    let (_, failed) = agent.tool("delegate_discard_snapshot", &id(&staged));
    assert!(failed, "what was applied is not discarded");
    let background = json!({"background": true});
    let (running, _) = agent.tool("delegate", &lend("/run sleep 1000", background.clone()));
    let (cancelled, _) = agent.tool("delegate_cancel", &id(&running));
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    let (told, failed) = agent.tool("delegate_output", &id(&running));
    assert!(
        failed && !told["log"].as_array().unwrap().is_empty(),
        "{told}"
    );
    let (running, _) = agent.tool("delegate", &lend("/run sleep 1000", background));
    let (closed, _) = agent.tool("delegate_close", &id(&running));
    assert_eq!(closed["state"], "cancelled", "{closed}");
    drop(agent);
    pair.left_nothing();
}

#[test]
fn whoever_only_waits_for_a_delegation_takes_nothing_back_by_leaving() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let id = pair.begin(&folder, "/run sleep 1000", &[]);
    let mut agent = Agent::start(&pair.host);
    let arguments = json!({"delegationId": id, "wait": true});
    agent.send(
        &json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "delegate_output", "arguments": arguments, "_meta": {"progressToken": "p"}}}),
    );
    let told = agent.lines.next().unwrap().unwrap();
    assert!(told.contains("notifications/progress"), "{told}");
    drop(agent); // It is gone only when what it had begun is ended.
    assert_eq!(pair.show(&id)["ending"], Value::Null, "{}", pair.show(&id));
    let cancelled = pair.host.cli(&["delegation", "cancel", &id]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    pair.left_nothing();
}

#[test]
fn a_folder_is_lent_to_a_node_by_what_it_is_called() {
    let mut pair = Pair::new();
    let token = pair.host.scratch("peer.token");
    fs::write(&token, pair.remote.token()).unwrap();
    let (url, token) = (pair.remote.url(), token.to_str().unwrap());
    let add = ["peer", "add", &url, "--token-file", token, "-f", "quiet"];
    let alias = pair.host.cli(&add).stdout.trim().to_owned();
    assert!(!alias.contains("://") && !alias.is_empty(), "{alias}");
    pair.url = Some(alias);
    let folder = pair.folder(&[("a.txt", "one")]);
    let lent = pair.delegate(&folder, "hello there", &[]);
    assert_eq!(lent.code, 0, "{lent:?}");
    let id = pair.host.cli(&["delegation", "list", "-f", "quiet"]).stdout;
    let shown = pair.host.cli(&["delegation", "show", id.trim()]);
    assert!(shown.stdout.contains("completed"), "{shown:?}");
    assert!(!shown.stdout.contains('{'), "{shown:?}");
}
