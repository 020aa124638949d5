//! Commands of the node's port: how they end, what they say to people, and what to programs.

use std::fs;

use serde_json::Value;
use testkit::{Output, TestDaemon};

use super::listening;
use crate::node;

/// What a command says in JSON.
fn told(output: &Output) -> Value {
    assert_eq!(output.code, 0, "{output:?}");
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Checks that something was not found, in these words, and that the hint leads somewhere.
fn assert_not_found(output: &Output, words: &str, hint: &str) {
    assert_eq!(output.code, 4, "{output:?}");
    assert!(output.stderr.contains(words), "{words}: {output:?}");
    assert!(output.stderr.contains(hint), "{hint}: {output:?}");
}

#[test]
fn without_a_daemon_commands_of_the_port_say_so_and_end_with_their_code() {
    let mut daemon = node().listening().stopped();
    let check = |daemon: &TestDaemon| {
        for command in [
            &["token", "list"][..],
            &["token", "revoke", "t-1"],
            &["peer", "list"],
            &["peer", "show", "nova9"],
            &["delegation", "list"],
            &["delegate", "nova9", "work"],
            &["intent", "play music"],
            &["dashboard"],
        ] {
            let output = daemon.cli(command);
            assert_eq!(output.code, 3, "{command:?}: {output:?}");
            assert!(
                output.stderr.contains("agentcraft daemon start"),
                "{output:?}"
            );
        }
    };
    check(&daemon);
    daemon.start();
    // What is left behind still says where the node was.
    daemon.kill();
    check(&daemon);
}

#[test]
fn what_is_not_there_is_named_and_so_is_the_command_that_shows_what_is() {
    let daemon = listening();
    for (command, words, hint) in [
        (
            &["token", "revoke", "nope"][..],
            "no token nope",
            "agentcraft token list",
        ),
        (
            &["peer", "show", "nova 9/小"],
            "no peer nova 9/小",
            "agentcraft peer list",
        ),
        (
            &["peer", "ping", "nope"],
            "no peer nope",
            "agentcraft peer list",
        ),
        (
            &["peer", "remove", "nope"],
            "no peer nope",
            "agentcraft peer list",
        ),
        (
            &["peer", "unpair", "nope"],
            "no peer nope",
            "agentcraft peer list",
        ),
        (&["peer", "pair", "nope"], "no peer nope", "by its address"),
        (
            &["delegate", "nope", "work"],
            "no peer nope",
            "by its address",
        ),
        (
            &["delegation", "show", "d-1"],
            "no delegation d-1",
            "agentcraft delegation list",
        ),
        (
            &["delegation", "cancel", "d-1"],
            "no delegation d-1",
            "agentcraft delegation list",
        ),
    ] {
        assert_not_found(&daemon.cli(command), words, hint);
        let told = daemon.cli(&[command, &["-f", "json"]].concat());
        let error: Value = serde_json::from_str(&told.stderr).unwrap();
        assert_eq!(error["error"]["exitCode"], 4, "{told:?}");
    }
    let refused = daemon.cli(&["token", "create", "bot", "--right", "nonsense"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        !refused.stderr.contains("hint"),
        "no hint is better than an idle one: {refused:?}"
    );
}

#[test]
fn empty_lists_say_what_to_do_and_are_empty_for_programs() {
    let daemon = node().listening().start();
    for (command, words) in [
        (&["token", "list"][..], "agentcraft token create"),
        (&["peer", "list"], "agentcraft peer add"),
        (&["peer", "pair"], "agentcraft peer pair NODE"),
        (&["delegation", "list"], "agentcraft delegate"),
    ] {
        let shown = daemon.cli(command);
        assert_eq!((shown.code, shown.stdout.as_str()), (0, ""), "{shown:?}");
        assert!(shown.stderr.contains(words), "{shown:?}");
        let listed = daemon.cli(&[command, &["-f", "json"]].concat());
        assert_eq!(told(&listed), serde_json::json!([]));
    }
}

#[test]
fn a_list_of_tokens_says_when_each_ends() {
    let daemon = listening();
    for words in [&["brief", "--lifetime", "7200"][..], &["lasting"]] {
        let made = daemon.cli(&[&["token", "create"], words].concat());
        assert_eq!(made.code, 0, "{made:?}");
    }
    let listed = daemon.cli(&["token", "list"]).stdout;
    let lines: Vec<&str> = listed.lines().skip(1).collect();
    assert!(
        lines
            .iter()
            .any(|line| line.contains("in 1 h 59 min") || line.contains("in 2 h")),
        "{listed}"
    );
    assert!(lines.iter().any(|line| line.contains("never")), "{listed}");
    assert!(
        lines.iter().all(|line| line.contains("(everything)")),
        "{listed}"
    );
}

#[test]
fn a_peer_is_shown_in_words_to_people_and_as_json_to_programs() {
    let (here, there) = (node().listening().start(), listening());
    let token = here.scratch("peer.token");
    fs::create_dir_all(here.scratch("")).unwrap();
    fs::write(&token, there.token()).unwrap();
    let (url, token) = (there.url(), token.to_str().unwrap());
    let add = ["peer", "add", &url, "--token-file", token];
    let added = told(&here.cli(&[&add[..], &["-f", "json"]].concat()));
    let alias = added["alias"].as_str().unwrap();
    for command in [&add[..], &["peer", "show", alias], &["peer", "ping", alias]] {
        let shown = here.cli(command);
        assert_eq!(shown.code, 0, "{shown:?}");
        assert!(shown.stdout.contains(&url), "{shown:?}");
        assert!(!shown.stdout.contains('{'), "{shown:?}");
        assert!(told(&here.cli(&[command, &["-f", "json"]].concat())).is_object());
    }
    for word in ["unpair", "remove"] {
        let done = here.cli(&["peer", word, alias, "-f", "json"]);
        assert!(told(&done).is_object(), "{done:?}");
    }
}

#[test]
fn whatever_a_command_has_done_it_tells_programs_too() {
    let mut daemon = listening();
    let made = told(&daemon.cli(&["token", "create", "bot", "-f", "json"]));
    let id = made["id"].as_str().unwrap();
    assert_eq!(
        told(&daemon.cli(&["token", "revoke", id, "-f", "json"]))["ok"],
        true
    );
    assert_eq!(
        told(&daemon.cli(&["delegation", "prune", "-f", "json"]))["removed"],
        0
    );
    let prompted = daemon.cli(&["agent", "run", "echo", "-p", "hello", "-f", "json"]);
    let last = prompted.stdout.lines().last().unwrap();
    let result: Value = serde_json::from_str(last).unwrap();
    let session = result["sessionId"].as_str().unwrap();
    for word in ["cancel", "close"] {
        let done = daemon.cli(&["session", word, session, "-f", "json"]);
        assert_eq!(told(&done)["ok"], true, "{done:?}");
    }
    let new = told(&daemon.cli(&["workflow", "new", "release", "-f", "json"]));
    assert!(
        new["path"].as_str().unwrap().ends_with("release.yaml"),
        "{new}"
    );
    let graph = told(&daemon.cli(&["workflow", "graph", "release", "-f", "json"]));
    assert_eq!(graph["name"], "release", "{graph}");
    assert!(!graph["steps"].as_array().unwrap().is_empty(), "{graph}");
    let bundle = daemon.scratch("bundle.md");
    fs::create_dir_all(daemon.scratch("")).unwrap();
    let bundle = bundle.to_str().unwrap();
    let written = told(&daemon.cli(&["debug", "bundle", "--output", bundle, "-f", "json"]));
    assert_eq!(written["path"], bundle);
    let unit = told(&daemon.cli(&["service", "show", "-f", "json"]));
    assert!(
        unit["unit"].as_str().unwrap().contains("ExecStart="),
        "{unit}"
    );
    let running = told(&daemon.cli(&["daemon", "start", "-f", "json"]));
    assert_eq!(
        (&running["started"], &running["pid"]),
        (&false.into(), &daemon.pid().into())
    );
    assert_eq!(
        told(&daemon.cli(&["daemon", "stop", "-f", "json"]))["stopped"],
        true
    );
    daemon.wait_for_death();
    assert_eq!(
        told(&daemon.cli(&["daemon", "stop", "-f", "json"]))["stopped"],
        false
    );
}
