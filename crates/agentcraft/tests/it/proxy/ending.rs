//! Every way it can end: no process is left, no copy is left, and the status is true.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::{TestDaemon, eventually, kill, zombie_or_gone};

use super::{Editor, names, status, with_builtin, with_script};

/// An agent that ignores the end of its input and SIGTERM, and has a child that left its group.
const STUBBORN: &str = "trap '' TERM; setsid sleep 1000 & touch set; while :; do sleep 0.2; done";

/// Two connections to `a1`, the second one to a copy, both in the middle of a prompt.
fn two_at_work(daemon: &TestDaemon) -> [Editor; 2] {
    [0, 1].map(|_| {
        let mut editor = Editor::open(daemon, &["a1"]);
        let session = editor.begin("/home/me");
        let prompt = json!([{"type": "text", "text": "/hang"}]);
        editor.send(json!({"id": 99, "method": "session/prompt", "params": {"sessionId": session, "prompt": prompt}}));
        editor
    })
}

fn nothing_is_left(daemon: &TestDaemon, expected: &str) {
    eventually("no process is left", || daemon.agent_processes().is_empty());
    eventually("no copy is left", || names(daemon) == ["a1"]);
    eventually("the status is true", || {
        status(daemon, "a1")["status"] == expected
    });
    eventually("no folder of a copy is left", || {
        let instances = std::fs::read_dir(daemon.home().join("instances"));
        instances.unwrap().count() == 1
    });
}

#[test]
fn the_end_of_input_in_the_middle_of_a_prompt() {
    let daemon = with_builtin();
    for editor in two_at_work(&daemon) {
        assert_eq!(editor.close().code, 0);
    }
    nothing_is_left(&daemon, "stopped");
}

/// The states that the agent was said to be in, in their order.
fn told(daemon: &TestDaemon) -> Vec<String> {
    let rows = daemon.client().ok("journal.query", json!({"agent": "a1"}));
    let kinds = rows.as_array().unwrap().iter();
    let kinds = kinds.map(|row| row["kind"].as_str().unwrap().to_owned());
    kinds.filter(|kind| kind.starts_with("agent.")).collect()
}

#[test]
fn an_end_that_was_wanted_is_no_crash_in_the_journal_and_one_that_was_not_is() {
    let daemon = with_script("read line; exit $line");
    for wanted in [true, true, false] {
        let mut editor = Editor::open(&daemon, &["a1"]);
        editor.write(if wanted { b"0\n" } else { b"3\n" });
        let output = editor.wait();
        assert_eq!(output.code == 0, wanted, "{}", output.stderr);
        nothing_is_left(&daemon, if wanted { "stopped" } else { "crashed" });
        let crashes = told(&daemon);
        let crashes = crashes.iter().filter(|kind| *kind == "agent.crashed");
        assert_eq!(crashes.count(), usize::from(!wanted), "{:?}", told(&daemon));
    }
    // Whoever comes at once gets the agent itself and no copy of it.
    let mut editor = Editor::open(&daemon, &["a1"]);
    editor.write(b"3\n");
    editor.wait();
    let mut editor = Editor::open(&daemon, &["a1"]);
    editor.write(b"0\n");
    let output = editor.wait();
    assert!(!output.stderr.contains("is busy"), "{}", output.stderr);
    let closed = with_builtin();
    for editor in two_at_work(&closed) {
        editor.close();
    }
    nothing_is_left(&closed, "stopped");
    assert!(
        !told(&closed).contains(&"agent.crashed".to_owned()),
        "{:?}",
        told(&closed)
    );
}

#[test]
fn a_signal() {
    let daemon = with_builtin();
    for name in ["TERM", "INT", "HUP"] {
        for editor in two_at_work(&daemon) {
            kill(editor.child.id(), name);
            assert_eq!(editor.wait().code, 0, "{name}");
        }
        nothing_is_left(&daemon, "stopped");
    }
}

#[test]
fn the_proxy_is_killed() {
    let daemon = with_builtin();
    for editor in two_at_work(&daemon) {
        kill(editor.child.id(), "KILL");
        editor.wait();
    }
    nothing_is_left(&daemon, "crashed");
    // What is left of the agent can be used at once.
    let mut editor = Editor::open(&daemon, &["a1"]);
    editor.begin("/home/me");
    editor.close();
    nothing_is_left(&daemon, "stopped");
}

#[test]
fn the_agent_dies() {
    let daemon = with_builtin();
    let editors = two_at_work(&daemon);
    for pid in daemon.agent_processes() {
        kill(pid, "KILL");
    }
    for editor in editors {
        let output = editor.wait();
        assert_eq!(output.code, 1);
        assert!(
            output
                .stderr
                .contains("the agent ended by itself: signal 9"),
            "{}",
            output.stderr
        );
    }
    nothing_is_left(&daemon, "crashed");
}

#[test]
fn the_agent_ends_by_itself() {
    let daemon = with_script("read line; echo bye");
    let mut editor = Editor::open(&daemon, &["a1"]);
    editor.write(b"go\n");
    let output = editor.wait();
    assert_eq!((output.code, output.stdout.as_str()), (0, "bye\n"));
    nothing_is_left(&daemon, "stopped");
}

#[test]
fn an_agent_that_ignores_everything_is_ended_with_its_children() {
    let daemon = with_script(STUBBORN);
    let workspace = super::workspace(&daemon, "a1");
    let editor = Editor::open(&daemon, &["a1"]);
    eventually("the agent is set", || workspace.join("set").exists());
    let begun = Instant::now();
    assert_eq!(editor.close().code, 0);
    let took = begun.elapsed();
    assert!(
        took > Duration::from_secs(5) && took < Duration::from_secs(12),
        "{took:?}"
    );
    nothing_is_left(&daemon, "stopped");
}

#[test]
fn a_client_leaves_an_agent_that_never_read_what_it_wrote() {
    let daemon = with_script("exec sleep 1000");
    let mut editor = Editor::open(&daemon, &["a1"]);
    editor.write(&[b'x'; 100 * 1024]);
    assert_eq!(editor.close().code, 0);
    nothing_is_left(&daemon, "stopped");
}

#[test]
fn the_daemon_goes_and_comes_back_while_an_editor_works() {
    let mut daemon = with_builtin();
    let mut editor = Editor::open(&daemon, &["a1"]);
    let session = editor.begin("/home/me");
    daemon.kill();
    assert_eq!(
        editor.prompt(&session, "nobody noticed").0["stopReason"],
        "end_turn"
    );
    daemon.start();
    assert_eq!(status(&daemon, "a1")["status"], "running");
    assert_eq!(
        editor.prompt(&session, "still here").0["stopReason"],
        "end_turn"
    );
    assert_eq!(editor.close().code, 0);
    nothing_is_left(&daemon, "stopped");
}

#[test]
fn the_editors_leave_while_there_is_no_daemon() {
    let mut daemon = with_builtin();
    let editors = two_at_work(&daemon);
    daemon.stop();
    for editor in editors {
        let output = editor.close();
        assert_eq!(output.code, 0);
        assert!(
            output.stderr.contains("could not detach"),
            "{}",
            output.stderr
        );
    }
    assert_eq!(daemon.agent_processes(), Vec::<u32>::new());
    daemon.start();
    nothing_is_left(&daemon, "crashed");
}

#[test]
fn a_copy_whose_proxy_died_before_it_was_attached_goes_with_the_next_copy() {
    let daemon = with_builtin();
    let metadata = json!({"autoDestroy": "true", "proxy": "1:1"});
    let overrides =
        json!({"launchMode": "one-shot", "workspacePolicy": "ephemeral", "metadata": metadata});
    daemon.client().ok(
        "agent.resolve",
        json!({"name": "a1-0rphan", "template": "starter", "overrides": overrides}),
    );
    for editor in two_at_work(&daemon) {
        editor.close();
    }
    nothing_is_left(&daemon, "stopped");
}

#[test]
fn the_guardian_goes_with_its_proxy() {
    let daemon = with_script("exec cat");
    let editor = Editor::open(&daemon, &["a1"]);
    eventually("the agent runs", || {
        status(&daemon, "a1")["status"] == "running"
    });
    let children = format!("/proc/{0}/task/{0}/children", editor.child.id());
    let children: Vec<u32> = std::fs::read_to_string(children)
        .unwrap()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!(children.len(), 2, "an agent and a guardian");
    editor.close();
    assert!(children.into_iter().all(zombie_or_gone));
}

#[test]
fn a_proxy_that_ends_late_leaves_the_next_editors_agent_alone() {
    // What it leaves behind takes its proxy a while to end.
    let daemon = with_script("(trap '' TERM HUP; sleep 1000) & while read line; do :; done");
    let pid = |daemon: &TestDaemon| status(daemon, "a1")["pid"].as_u64();
    let mut first = Editor::open(&daemon, &["a1"]);
    eventually("the first is attached", || pid(&daemon).is_some());
    let own = pid(&daemon).unwrap();
    first.hang_up();
    eventually("its agent has ended", || {
        zombie_or_gone(u32::try_from(own).unwrap())
    });
    let second = Editor::open(&daemon, &["a1"]);
    // A copy, if the daemon has not heard of the end yet.
    eventually("the second has an agent", || {
        let agents = daemon.client().ok("agent.list", json!({}));
        let agents = agents.as_array().unwrap();
        let works = |agent: &serde_json::Value| {
            agent["status"] == "running" && agent["pid"].as_u64() != Some(own)
        };
        agents.iter().any(works)
    });
    let before = (status(&daemon, "a1"), names(&daemon).len());
    let output = first.wait();
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    if before.1 == 1 {
        let after = status(&daemon, "a1");
        assert_eq!(after["status"], "running");
        assert_eq!(after["pid"], before.0["pid"]);
    }
    assert_eq!(second.close().code, 0);
    nothing_is_left(&daemon, "stopped");
}

#[test]
fn a_copy_works_and_goes_also_where_nobody_reads_what_is_said_of_it() {
    let daemon = with_builtin();
    let mut first = Editor::open(&daemon, &["a1"]);
    first.begin("/home/me");
    let mut second = Editor::open(&daemon, &["a1"]);
    second.child.stderr = None;
    let session = second.begin("/home/me");
    assert_eq!(second.prompt(&session, "hello").0["stopReason"], "end_turn");
    assert_eq!(names(&daemon).len(), 2);
    assert_eq!(second.close().code, 0);
    first.close();
    nothing_is_left(&daemon, "stopped");
}
