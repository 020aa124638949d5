//! The socket: private, robust against anything that comes in, and never taken from a daemon that lives.

use std::{fs, os::unix::fs::PermissionsExt, os::unix::net::UnixListener};

use serde_json::json;
use testkit::eventually;

use crate::node;

#[test]
fn everything_of_the_daemon_is_its_owners_alone() {
    let daemon = node().start();
    let mode = |path: &str| {
        fs::metadata(daemon.home().join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode("agentcraft.sock"), 0o600);
    assert_eq!(mode(""), 0o700);
    assert_eq!(mode("state"), 0o700);
    assert_eq!(mode("state/state.db"), 0o600);
    assert_eq!(mode("daemon.pid"), 0o600);
    let pid = fs::read_to_string(daemon.home().join("daemon.pid")).unwrap();
    assert_eq!(pid.trim(), daemon.pid().to_string());
}

#[test]
fn a_bad_line_is_answered_and_the_next_one_works() {
    let daemon = node().start();
    let mut client = daemon.client();
    let huge = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#,
        "x".repeat(10 * 1024 * 1024)
    );
    let lines: &[(&str, i64)] = &[
        ("{ bad json", -32700),
        ("\u{0}", -32700),
        ("[]", -32600),
        ("7", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"daemon.ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no.such"}"#, -32601),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"agent.status"}"#,
            -32602,
        ),
        (&huge, -32600),
    ];
    for (line, code) in lines {
        client.send_line(line);
        let shown: String = line.chars().take(60).collect();
        assert_eq!(client.receive()["error"]["code"], *code, "{shown}");
        client.send_line(r#"{"jsonrpc":"2.0","id":"string-id","method":"daemon.ping"}"#);
        let answer = client.receive();
        assert_eq!(answer["id"], "string-id");
        assert!(answer["result"]["version"].is_string(), "{answer}");
    }
}

#[test]
fn many_requests_in_one_write_are_all_answered() {
    let daemon = node().start();
    let mut client = daemon.client();
    let ping =
        |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "daemon.ping"}).to_string() + "\n";
    client.send_bytes((0..1000).map(ping).collect::<String>().as_bytes());
    let mut answered: Vec<u64> = (0..1000)
        .map(|_| client.receive()["id"].as_u64().unwrap())
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..1000).collect::<Vec<u64>>());
}

#[test]
fn clients_that_vanish_or_never_read_do_not_hurt_the_others() {
    let daemon = node().start();
    let mut silent = daemon.client();
    // Asks for far more than it will ever read.
    for id in 0..2000 {
        silent
            .send_line(&json!({"jsonrpc": "2.0", "id": id, "method": "template.list"}).to_string());
    }
    for _ in 0..50 {
        let mut vanishing = daemon.client();
        vanishing.send_bytes(br#"{"jsonrpc":"2.0","id":1,"method":"daemon"#);
    }
    let mut client = daemon.client();
    for _ in 0..100 {
        client.ok("daemon.ping", json!({}));
    }
}

#[test]
fn one_home_has_one_daemon_and_a_stale_socket_is_replaced() {
    let mut daemon = node().start();
    assert!(
        daemon.try_start().is_err(),
        "a second one in the foreground does not stay"
    );
    let elsewhere = daemon.scratch("other.sock");
    fs::create_dir_all(elsewhere.parent().unwrap()).unwrap();
    let other = daemon.cli(&["--socket", elsewhere.to_str().unwrap(), "daemon", "start"]);
    assert!(
        other.code != 0 && other.stderr.contains("already uses"),
        "{other:?}"
    );
    let second = daemon.cli(&["daemon", "start"]);
    assert_eq!(second.code, 0, "{second:?}");
    assert!(second.stdout.contains("already running"), "{second:?}");
    daemon.kill();
    assert!(daemon.socket().exists(), "kill -9 leaves the socket");
    daemon.start();
    daemon.client().ok("daemon.ping", json!({}));

    daemon.stop();
    assert!(!daemon.socket().exists() && !daemon.home().join("daemon.pid").exists());
    let somebody = UnixListener::bind(daemon.socket()).unwrap();
    let said = daemon.try_start().unwrap_err();
    assert!(said.contains("agentcraft.sock"), "{said}");
    drop(somebody);
    fs::remove_file(daemon.socket()).unwrap();
    fs::write(daemon.socket(), "not a socket").unwrap();
    let said = daemon.try_start().unwrap_err();
    assert!(said.contains("is not a socket"), "{said}");
}

#[test]
fn shutdown_drains_and_sigterm_does_too() {
    let mut daemon = node().start();
    daemon.script_template("sleeper", "exec sleep 1000");
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a1", "template": "sleeper"}));
    client.ok("agent.start", json!({"name": "a1"}));
    assert_eq!(
        client.ok("daemon.shutdown", json!({})),
        json!({"success": true})
    );
    daemon.wait_for_death();
    assert_eq!(daemon.agent_processes(), Vec::<u32>::new());
    let file = daemon.home().join("instances/a1/.agentcraft.json");
    assert!(
        fs::read_to_string(file)
            .unwrap()
            .contains("\"status\": \"stopped\"")
    );
    daemon.start();
    daemon.stop();
}

#[test]
fn a_daemon_in_the_background_starts_answers_and_stops() {
    let daemon = node().stopped();
    assert_eq!(daemon.cli(&["daemon", "status"]).code, 3);
    let started = daemon.cli(&["daemon", "start"]);
    assert_eq!(started.code, 0, "{started:?}");
    let status = daemon.cli(&["daemon", "status", "-f", "json"]);
    let ping: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(ping["agents"], 0);
    let pid = u32::try_from(ping["pid"].as_u64().unwrap()).unwrap();
    let stopped = daemon.cli(&["daemon", "stop"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    eventually("the process is gone", || testkit::zombie_or_gone(pid));
}

#[test]
fn a_daemon_whose_socket_is_gone_is_found_by_its_lock() {
    let daemon = node().stopped();
    assert_eq!(daemon.cli(&["daemon", "start"]).code, 0);
    fs::remove_file(daemon.socket()).unwrap();
    let status = daemon.cli(&["daemon", "status"]);
    assert_ne!(status.code, 0);
    assert!(status.stderr.contains("does not listen"), "{status:?}");
    let stopped = daemon.cli(&["daemon", "stop"]);
    assert!(
        stopped.code == 0 && stopped.stdout.contains("stopped"),
        "{stopped:?}"
    );
    let again = daemon.cli(&["daemon", "start"]);
    assert!(again.stdout.contains("started"), "{again:?}");
    assert_eq!(daemon.cli(&["daemon", "stop"]).code, 0);
}
