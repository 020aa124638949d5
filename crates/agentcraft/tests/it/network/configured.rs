//! Nodes that the settings or their owner name by address, and that made their certificate themselves.

use std::fs;

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use super::with_echo;
use crate::node;

/// A node with a certificate of its own making and an agent `echo`.
fn encrypted(settings: &str) -> TestDaemon {
    let settings = format!("[http]\nname = \"nova9\"\ntls = true\n{settings}");
    let daemon = node().listening().file("config.toml", settings).start();
    with_echo(&daemon);
    daemon
}

/// A node whose settings name another.
fn desk(peer: &TestDaemon) -> TestDaemon {
    let settings = format!("[lan]\npeers = [\"{}\"]\n", peer.url());
    node().listening().file("config.toml", settings).start()
}

fn peers(daemon: &TestDaemon) -> Vec<Value> {
    let listed = daemon.cli(&["peer", "list", "-f", "json"]);
    serde_json::from_str(&listed.stdout).unwrap_or_else(|error| panic!("{error}: {listed:?}"))
}

fn the_peer(daemon: &TestDaemon) -> Value {
    let mut known = peers(daemon);
    eventually("the peer of the settings is listed", || {
        known = peers(daemon);
        known.len() == 1
    });
    known.remove(0)
}

#[test]
fn a_configured_node_of_a_trusted_network_is_known_by_the_certificate_it_made() {
    let nova = encrypted("trust = \"open\"\n");
    let desk = desk(&nova);
    let peer = the_peer(&desk);
    assert_eq!(
        (&peer["alias"], &peer["status"]),
        (&json!("nova9"), &json!("online")),
        "{peer}"
    );
    let fingerprint = peer["fingerprint"].as_str().unwrap();
    assert!(fingerprint.starts_with("sha256:"), "{peer}");
    let ran = desk.cli(&["agent", "run", "peer:nova9/echo", "-p", "hello from afar"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("hello from afar"), "{ran:?}");
}

#[test]
fn a_configured_node_that_wants_to_be_paired_with_is_listed_with_what_to_do() {
    let nova = encrypted("");
    let desk = desk(&nova);
    let peer = the_peer(&desk);
    assert_eq!(peer["status"], "offline", "{peer}");
    let pair = format!("agentcraft peer pair {}", nova.url());
    assert!(peer["trouble"].as_str().unwrap().contains(&pair), "{peer}");
    let alias = peer["alias"].as_str().unwrap();
    let called = desk.cli(&["agent", "run", &format!("peer:{alias}/echo"), "-p", "hello"]);
    assert_ne!(called.code, 0);
    assert!(called.stderr.contains(&pair), "{called:?}");
    // Both owners agree, and it is there.
    let mut waiting = desk
        .command(&["peer", "pair", &nova.url()])
        .spawn()
        .unwrap();
    let mut code = String::new();
    eventually("the other side shows the code", || {
        let asked = nova.cli(&["peer", "pair", "-f", "quiet"]);
        code = asked.stdout.trim().to_owned();
        !code.is_empty()
    });
    let accepted = nova.cli(&["peer", "pair", "--accept", &code]);
    assert_eq!(accepted.code, 0, "{accepted:?}");
    assert!(waiting.wait().unwrap().success());
    let known = peers(&desk);
    assert_eq!(
        (known.len(), &known[0]["alias"]),
        (1, &json!("nova9")),
        "{known:?}"
    );
    let ran = desk.cli(&["agent", "run", "peer:nova9/echo", "-p", "hello from afar"]);
    assert!(ran.stdout.contains("hello from afar"), "{ran:?}");
}

#[test]
fn a_token_goes_to_no_certificate_that_nobody_vouches_for() {
    let nova = encrypted("");
    let desk = node().listening().start();
    let token = desk.scratch("nova.token");
    fs::create_dir_all(desk.scratch("")).unwrap();
    fs::write(&token, nova.token()).unwrap();
    let add = |more: &[&str]| {
        let (url, token) = (nova.url(), token.to_str().unwrap().to_owned());
        let mut words = vec!["peer", "add", &url, "--token-file", &token];
        words.extend(more);
        desk.cli(&words)
    };
    let refused = add(&[]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(
        refused.stderr.contains("--fingerprint sha256:"),
        "{refused:?}"
    );
    assert!(peers(&desk).is_empty());
    let shown = refused.stderr.split("--fingerprint ").nth(1).unwrap();
    let shown: String = shown.chars().take("sha256:".len() + 64).collect();
    let wrong = add(&["--fingerprint", &format!("sha256:{}", "0".repeat(64))]);
    assert!(
        wrong.code != 0 && wrong.stderr.contains("certificate"),
        "{wrong:?}"
    );
    let added = add(&["--fingerprint", &shown]);
    assert_eq!(added.code, 0, "{added:?}");
    let ran = desk.cli(&["agent", "run", "peer:nova9/echo", "-p", "hello from afar"]);
    assert!(ran.stdout.contains("hello from afar"), "{ran:?}");
}

#[test]
fn a_password_in_the_address_of_a_node_is_refused_everywhere_and_not_repeated() {
    let here = node().listening().start();
    let url = "http://bob:hunter2@127.0.0.1:9";
    let dir = here.scratch("app");
    fs::create_dir_all(&dir).unwrap();
    let dir = dir.to_str().unwrap();
    for words in [
        &["peer", "add", url][..],
        &["peer", "pair", url],
        &["run", url, "hello"],
        &["delegate", url, "tidy up", "--dir", dir],
    ] {
        let refused = here.cli(words);
        assert_ne!(refused.code, 0, "{words:?}: {refused:?}");
        assert!(
            refused.stderr.contains("a name or a password"),
            "{words:?}: {refused:?}"
        );
        assert!(
            !refused.stderr.contains("hunter2"),
            "{words:?}: {refused:?}"
        );
    }
    for setting in [
        format!("[http]\nurl = \"{url}\"\n"),
        format!("[lan]\npeers = [\"{url}\"]\n"),
    ] {
        let wrong = node().file("config.toml", &setting).stopped();
        let refused = wrong.cli(&["daemon", "start"]);
        assert_eq!(refused.code, 5, "{refused:?}");
        assert!(
            refused.stderr.contains("a name or a password"),
            "{refused:?}"
        );
        assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
    }
}
