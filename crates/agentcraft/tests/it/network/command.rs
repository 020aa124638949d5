//! `agentcraft run`: one node's agent from another machine's command line.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    thread,
};

use serde_json::Value;
use testkit::{Output, TestDaemon};

use super::{listening, workspace_file};
use crate::{node, terminal::pty::Pty};

/// The caller: another home, in which nothing runs, with a file that holds the node's token.
fn caller(peer: &TestDaemon) -> (TestDaemon, PathBuf) {
    let caller = node().stopped();
    let token = caller.scratch("token");
    fs::create_dir_all(token.parent().unwrap()).unwrap();
    fs::write(&token, format!("{}\n", peer.token())).unwrap();
    (caller, token)
}

fn run(peer: &TestDaemon, arguments: &[&str]) -> Output {
    let (caller, token) = caller(peer);
    let token = token.to_str().unwrap();
    let url = peer.url();
    let fixed = ["run", &url, "--token-file", token];
    caller.cli(&[&fixed, arguments].concat())
}

#[test]
fn a_run_elsewhere_prints_its_answer_and_needs_no_daemon_here() {
    let peer = listening();
    let answered = run(&peer, &["hello from afar", "--agent", "echo"]);
    assert_eq!(answered.code, 0, "{answered:?}");
    assert!(answered.stdout.contains("hello from afar"), "{answered:?}");
    assert!(answered.stdout.ends_with('\n'), "{answered:?}");
}

#[test]
fn a_run_elsewhere_streams_its_events_as_lines_of_json() {
    let peer = listening();
    let told = run(&peer, &["/slow 3 50", "--agent", "echo", "-f", "json"]);
    assert_eq!(told.code, 0, "{told:?}");
    let events: Vec<Value> = told
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let parts = events
        .iter()
        .filter(|event| event["type"] == "message.part");
    assert!(parts.count() >= 3, "{told:?}");
    assert_eq!(events.last().unwrap()["type"], "run.completed");
}

#[test]
fn the_exit_code_tells_how_a_run_elsewhere_ended() {
    let peer = listening();
    let failed = run(&peer, &["/fail on purpose", "--agent", "echo"]);
    assert!(
        failed.code == 1 && failed.stderr.contains("on purpose"),
        "{failed:?}"
    );
    let told = run(
        &peer,
        &["/fail on purpose", "--agent", "echo", "-f", "json"],
    );
    assert!(
        told.code == 1 && told.stdout.contains("run.failed"),
        "{told:?}"
    );
    let unknown = run(&peer, &["hello", "--agent", "nobody"]);
    assert!(
        unknown.code == 4 && unknown.stderr.contains("nobody"),
        "{unknown:?}"
    );

    let nowhere = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let caller = node().stopped();
    let away = caller.cli(&["run", &format!("http://{nowhere}"), "hello"]);
    assert!(
        away.code == 3 && away.stderr.contains("cannot be reached"),
        "{away:?}"
    );
    let stranger = caller.cli(&["run", &peer.url(), "hello", "--agent", "echo"]);
    assert!(
        stranger.code == 1 && stranger.stderr.contains("--token-file"),
        "{stranger:?}"
    );
    let nonsense = caller.cli(&["run", "nova9", "hello"]);
    assert!(
        nonsense.code == 2 && nonsense.stderr.contains("http://"),
        "{nonsense:?}"
    );
}

#[test]
fn what_a_run_elsewhere_awaits_is_denied_where_nobody_can_be_asked() {
    let peer = listening();
    let answered = run(&peer, &["/write asked.txt yes", "--agent", "echo"]);
    assert_eq!(answered.code, 0, "{answered:?}");
    assert!(answered.stderr.contains("nobody is here"), "{answered:?}");
    assert!(!workspace_file(&peer, "echo", "asked.txt").exists());
}

#[test]
fn what_a_run_elsewhere_awaits_is_asked_on_the_terminal() {
    let peer = listening();
    let (caller, token) = caller(&peer);
    let (url, token) = (peer.url(), token.to_str().unwrap().to_owned());
    let arguments = [
        "run",
        &url,
        "/write asked.txt yes",
        "--agent",
        "echo",
        "--token-file",
        &token,
    ];
    let mut terminal = Pty::open(&caller, 100, &arguments);
    terminal.see("choose 1-");
    terminal.say("y");
    assert_eq!(terminal.end(), 0);
    assert!(workspace_file(&peer, "echo", "asked.txt").exists());
}

#[test]
fn ctrl_c_cancels_a_run_elsewhere() {
    let peer = listening();
    let (caller, token) = caller(&peer);
    let (url, token) = (peer.url(), token.to_str().unwrap().to_owned());
    let arguments = [
        "run",
        &url,
        "/slow 1000 20",
        "--agent",
        "echo",
        "--token-file",
        &token,
    ];
    let mut terminal = Pty::open(&caller, 100, &arguments);
    terminal.see("chunk 3 of 1000");
    terminal.press(b"\x03");
    terminal.see("cancelled");
    assert_eq!(terminal.end(), 1);
}

/// A way to the node that breaks off: the first connection that has heard `word` is cut, later ones are not.
fn cut_after(node: &str, word: &'static str) -> String {
    let node = node.trim_start_matches("http://").to_owned();
    let gate = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", gate.local_addr().unwrap());
    thread::spawn(move || {
        let mut is_cut = false;
        for client in gate.incoming() {
            let (mut client, mut node) = (client.unwrap(), TcpStream::connect(&node).unwrap());
            let (mut asking, mut asked) = (client.try_clone().unwrap(), node.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut asking, &mut asked));
            if is_cut {
                thread::spawn(move || std::io::copy(&mut node, &mut client));
                continue;
            }
            let (mut heard, mut piece) = (String::new(), [0; 4096]);
            while let Ok(length @ 1..) = node.read(&mut piece) {
                client.write_all(&piece[..length]).unwrap();
                heard.push_str(&String::from_utf8_lossy(&piece[..length]));
                is_cut = heard.contains(word);
                if is_cut {
                    break;
                }
            }
            for end in [&client, &node] {
                let _ = end.shutdown(std::net::Shutdown::Both); // It may be over already.
            }
        }
    });
    url
}

#[test]
fn a_run_elsewhere_goes_on_after_its_connection_broke() {
    let peer = listening();
    let (caller, token) = caller(&peer);
    let url = cut_after(&peer.url(), "chunk 2 of 6");
    let token = token.to_str().unwrap();
    let arguments = [
        "run",
        &url,
        "--token-file",
        token,
        "/slow 6 100",
        "--agent",
        "echo",
    ];
    let told = caller.cli(&arguments);
    assert_eq!(told.code, 0, "{told:?}");
    for chunk in 1..=6 {
        let times = told.stdout.matches(&format!("chunk {chunk} of 6")).count();
        assert_eq!(times, 1, "{told:?}");
    }
}
