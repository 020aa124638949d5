//! Agents start, stop, crash, come back and go, and never leave a process behind.

use serde_json::json;
use testkit::{eventually, kill, zombie_or_gone};

use crate::node;

/// A program that leaves its group: it forks, becomes a session of its own, forks again and sleeps.
const DOUBLE_FORK: &str = r#"python3 -c '
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
os.wait()
open("forked", "w").close()
time.sleep(1000)
'"#;

#[test]
fn an_agent_is_created_started_watched_stopped_and_destroyed() {
    let daemon = node().start();
    daemon.script_template("sleeper", "exec sleep 1000");
    let mut client = daemon.client();

    let created = client.ok("agent.create", json!({"name": "a1", "template": "sleeper"}));
    assert_eq!(created["status"], "created");
    assert_eq!(created["launchMode"], "direct");
    assert_eq!(created["workspacePolicy"], "persistent");
    assert_eq!(created["processOwnership"], "managed");
    assert_eq!(created["pid"], json!(null));

    let started = client.ok("agent.start", json!({"name": "a1"}));
    assert_eq!(started["status"], "running");
    let pid = u32::try_from(started["pid"].as_u64().unwrap()).unwrap();
    // While it executes its program, a process has no environment for a moment.
    eventually("one agent has one process", || {
        daemon.agent_processes() == [pid]
    });
    assert_eq!(client.ok("agent.status", json!({"name": "a1"})), started);
    assert_eq!(client.ok("agent.list", json!({})), json!([started]));

    let stopped = client.ok("agent.stop", json!({"name": "a1"}));
    assert_eq!(stopped["status"], "stopped");
    assert_eq!(
        (&stopped["pid"], &stopped["processOwnership"]),
        (&json!(null), &json!(null))
    );
    assert!(zombie_or_gone(pid));
    assert_eq!(
        client.ok("agent.stop", json!({"name": "a1"}))["status"],
        "stopped",
        "stopping twice is no error"
    );

    assert_eq!(
        client.ok("agent.destroy", json!({"name": "a1"})),
        json!({"success": true})
    );
    assert_eq!(client.ok("agent.list", json!({})), json!([]));
    assert!(!daemon.home().join("instances/a1").exists());
}

#[test]
fn the_process_works_in_its_workspace_with_few_variables() {
    let daemon = node()
        .env("SECRET_OF_THE_USER", "hunter2")
        .env("PASSED_ON", "yes")
        .start();
    daemon.template(
        "looker",
        json!({
            "backend": {"type": "custom", "config": {"executablePath": "/bin/sh", "args": ["-c", "pwd > where; env > variables; exec sleep 1000"]}},
            "passEnv": ["PASSED_ON"],
            "env": {"OWN": "value"},
        }),
    );
    let mut client = daemon.client();
    let agent = client.ok("agent.create", json!({"name": "a1", "template": "looker"}));
    client.ok("agent.start", json!({"name": "a1"}));
    let workspace = std::path::PathBuf::from(agent["workspaceDir"].as_str().unwrap());
    eventually("the script has looked", || {
        workspace.join("variables").exists()
    });
    eventually("the whole list is there", || {
        std::fs::read_to_string(workspace.join("variables"))
            .unwrap()
            .contains("PASSED_ON=yes")
    });
    let variables = std::fs::read_to_string(workspace.join("variables")).unwrap();
    assert!(variables.contains("OWN=value"), "{variables}");
    assert!(!variables.contains("hunter2"), "{variables}");
    let seen = std::fs::read_to_string(workspace.join("where")).unwrap();
    assert_eq!(seen.trim(), workspace.to_str().unwrap());
}

#[test]
fn stop_ends_children_that_ignore_sigterm_and_children_that_left_the_group() {
    let daemon = node().start();
    daemon.template(
        "stubborn",
        json!({
            "backend": {"type": "custom", "config": {"executablePath": "/bin/sh", "args": ["-c", "trap '' TERM; sleep 1000 & touch trapped; while :; do sleep 1; done"]}},
            "stopGraceMs": 200,
        }),
    );
    daemon.script_template("forker", DOUBLE_FORK);
    let mut client = daemon.client();
    for (name, template, sign) in [("a1", "stubborn", "trapped"), ("a2", "forker", "forked")] {
        let agent = client.ok("agent.create", json!({"name": name, "template": template}));
        client.ok("agent.start", json!({"name": name}));
        let workspace = std::path::PathBuf::from(agent["workspaceDir"].as_str().unwrap());
        eventually("the program is set", || workspace.join(sign).exists());
    }
    assert!(daemon.agent_processes().len() >= 4);
    for name in ["a1", "a2"] {
        assert_eq!(
            client.ok("agent.stop", json!({"name": name}))["status"],
            "stopped"
        );
    }
    assert_eq!(daemon.agent_processes(), Vec::<u32>::new());
}

#[test]
fn an_exit_is_noticed_at_once_and_told_by_its_kind() {
    let daemon = node().start();
    daemon.script_template("clean", "read line < go; exit 0");
    daemon.script_template("dirty", "read line < go; exit 7");
    let mut client = daemon.client();
    for (name, template, status, reason) in [
        ("a1", "clean", "stopped", json!(null)),
        (
            "a2",
            "dirty",
            "crashed",
            json!("the process ended: exit code 7"),
        ),
    ] {
        let agent = client.ok("agent.create", json!({"name": name, "template": template}));
        let go = format!("{}/go", agent["workspaceDir"].as_str().unwrap());
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&go)
                .status()
                .unwrap()
                .success()
        );
        client.ok("agent.start", json!({"name": name}));
        std::fs::write(&go, "now\n").unwrap();
        eventually("the exit is noticed", || {
            client.ok("agent.status", json!({"name": name}))["status"] == status
        });
        assert_eq!(
            client.ok("agent.status", json!({"name": name}))["reason"],
            reason
        );
        assert_eq!(
            client.ok("agent.start", json!({"name": name}))["status"],
            "running",
            "it can be started again"
        );
        client.ok("agent.stop", json!({"name": name}));
    }
}

#[test]
fn a_service_is_started_again_after_a_crash_and_not_after_a_stop() {
    let daemon = node().start();
    daemon.script_template("server", "exec sleep 1000");
    let mut client = daemon.client();
    client.ok(
        "agent.create",
        json!({"name": "s1", "template": "server", "overrides": {"launchMode": "acp-service"}}),
    );
    let pid = client.ok("agent.start", json!({"name": "s1"}))["pid"].clone();
    kill(u32::try_from(pid.as_u64().unwrap()).unwrap(), "KILL");
    eventually("the crash is noticed", || {
        client.ok("agent.status", json!({"name": "s1"}))["pid"] != pid
    });
    let crashed = client.ok("agent.status", json!({"name": "s1"}));
    if crashed["status"] == "crashed" {
        assert!(crashed["restartAt"].is_string(), "{crashed}");
    }
    eventually("it runs again", || {
        client.ok("agent.status", json!({"name": "s1"}))["status"] == "running"
    });
    assert_eq!(
        client.ok("agent.stop", json!({"name": "s1"}))["status"],
        "stopped"
    );
}

#[test]
fn a_one_shot_agent_is_ephemeral_and_goes_by_itself_if_told_to() {
    let daemon = node().start();
    daemon.script_template("brief", "exit 0");
    let mut client = daemon.client();
    let overrides = json!({"launchMode": "one-shot", "metadata": {"autoDestroy": "true"}});
    let agent = client.ok(
        "agent.create",
        json!({"name": "o1", "template": "brief", "overrides": overrides}),
    );
    assert_eq!(agent["workspacePolicy"], "ephemeral");
    let _ = client.call("agent.start", json!({"name": "o1"})); // It may be gone before the answer.
    eventually("it is gone", || {
        client.ok("agent.list", json!({})) == json!([])
    });
    eventually("its workspace is gone", || {
        !daemon.home().join("instances/o1").exists()
    });
}

#[test]
fn a_clients_process_is_watched_and_never_touched() {
    let daemon = node().start();
    daemon.script_template("own", "exec sleep 1000");
    let mut client = daemon.client();
    let resolved = client.ok("agent.resolve", json!({"name": "x1", "template": "own"}));
    assert_eq!(resolved["created"], true);
    assert_eq!(resolved["command"], "/bin/sh");
    assert_eq!(resolved["args"], json!(["-c", "exec sleep 1000"]));
    assert!(resolved["env"].is_object());
    assert_eq!(
        client.ok("agent.resolve", json!({"name": "x1"}))["created"],
        false
    );

    let mut child = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let attached = client.ok(
        "agent.attach",
        json!({"name": "x1", "pid": child.id(), "metadata": {"by": "test"}}),
    );
    assert_eq!(attached["status"], "running");
    assert_eq!(attached["processOwnership"], "external");
    assert_eq!(attached["pid"], child.id());
    assert_eq!(attached["metadata"]["by"], "test");
    assert_eq!(
        client
            .call("agent.stop", json!({"name": "x1"}))
            .unwrap_err()
            .code,
        -32009
    );
    let detached = client.ok("agent.detach", json!({"name": "x1"}));
    assert_eq!(detached, json!({"ok": true, "workspaceCleaned": false}));
    let after = client.ok("agent.status", json!({"name": "x1"}));
    assert_eq!(
        (&after["status"], &after["pid"], &after["processOwnership"]),
        (&json!("stopped"), &json!(null), &json!(null))
    );
    assert!(
        child.try_wait().unwrap().is_none(),
        "a client's process is the client's"
    );

    client.ok("agent.attach", json!({"name": "x1", "pid": child.id()}));
    child.kill().unwrap();
    eventually("the death is noticed", || {
        client.ok("agent.status", json!({"name": "x1"}))["status"] == "crashed"
    });
    child.wait().unwrap();
    client.ok("agent.detach", json!({"name": "x1"}));
}

#[test]
fn whoever_detaches_a_process_takes_nobody_elses_away() {
    let daemon = node().start();
    daemon.script_template("own", "exec sleep 1000");
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "x1", "template": "own"}));
    let mut children = [(), ()].map(|()| {
        let mut sleep = std::process::Command::new("sleep");
        sleep.arg("1000").spawn().unwrap()
    });
    let [first, second] = [children[0].id(), children[1].id()];
    client.ok("agent.attach", json!({"name": "x1", "pid": first}));
    children[0].kill().unwrap();
    children[0].wait().unwrap();
    eventually("the first is known to be gone", || {
        client.ok("agent.resolve", json!({"name": "x1"}));
        client.ok("agent.status", json!({"name": "x1"}))["status"] == "crashed"
    });
    client.ok("agent.attach", json!({"name": "x1", "pid": second}));
    let late = |client: &mut testkit::RawClient| {
        let params = json!({"name": "x1", "pid": first});
        client.call("agent.detach", params).unwrap_err().code
    };
    assert_eq!(late(&mut client), -32010);
    let status = client.ok("agent.status", json!({"name": "x1"}));
    assert_eq!(
        (&status["status"], &status["pid"]),
        (&json!("running"), &json!(second))
    );
    children[1].kill().unwrap();
    children[1].wait().unwrap();
    eventually("the second is known to be gone", || {
        client.ok("agent.status", json!({"name": "x1"}))["status"] == "crashed"
    });
    assert_eq!(late(&mut client), -32010, "it was another that crashed");
    client.ok("agent.detach", json!({"name": "x1", "pid": second}));
    assert_eq!(
        client.ok("agent.status", json!({"name": "x1"}))["status"],
        "stopped"
    );
}

#[test]
fn detach_with_cleanup_removes_an_ephemeral_agent() {
    let daemon = node().start();
    daemon.script_template("own", "exec sleep 1000");
    let mut client = daemon.client();
    let overrides = json!({"workspacePolicy": "ephemeral"});
    let resolved = client.ok(
        "agent.resolve",
        json!({"name": "e1", "template": "own", "overrides": overrides}),
    );
    client.ok(
        "agent.attach",
        json!({"name": "e1", "pid": std::process::id()}),
    );
    let detached = client.ok("agent.detach", json!({"name": "e1", "cleanup": true}));
    assert_eq!(detached, json!({"ok": true, "workspaceCleaned": true}));
    assert!(!std::path::Path::new(resolved["workspaceDir"].as_str().unwrap()).exists());
    assert_eq!(
        client
            .call("agent.status", json!({"name": "e1"}))
            .unwrap_err()
            .code,
        -32003
    );
}

#[test]
fn mock_agents_start_and_stop_in_name_only() {
    let daemon = node().env("AGENTCRAFT_LAUNCHER_MODE", "mock").start();
    daemon.template(
        "ghost",
        json!({"backend": {"type": "claude-code"}, "provider": {"type": "anthropic"}}),
    );
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "g1", "template": "ghost"}));
    let running = client.ok("agent.start", json!({"name": "g1"}));
    assert_eq!(running["status"], "running");
    assert!(
        running["pid"].as_u64().unwrap() > 4_194_304,
        "no real process can have it: {running}"
    );
    assert_eq!(daemon.agent_processes(), Vec::<u32>::new());
    assert_eq!(
        client.ok("agent.stop", json!({"name": "g1"}))["status"],
        "stopped"
    );
}

#[test]
fn a_stop_interrupts_nothing_but_its_own_agent_and_a_ping_overtakes_it() {
    let daemon = node().start();
    daemon.template(
        "slow",
        json!({
            "backend": {"type": "custom", "config": {"executablePath": "/bin/sh", "args": ["-c", "trap '' TERM; touch set; while :; do sleep 0.1; done"]}},
            "stopGraceMs": 700,
        }),
    );
    let mut client = daemon.client();
    let agent = client.ok("agent.create", json!({"name": "a1", "template": "slow"}));
    client.ok("agent.start", json!({"name": "a1"}));
    let set = std::path::PathBuf::from(agent["workspaceDir"].as_str().unwrap()).join("set");
    eventually("the trap is set", || set.exists());
    client
        .send_line(r#"{"jsonrpc":"2.0","id":"stop","method":"agent.stop","params":{"name":"a1"}}"#);
    client.send_line(r#"{"jsonrpc":"2.0","id":"ping","method":"daemon.ping"}"#);
    let first = client.receive();
    assert_eq!(first["id"], "ping");
    assert_eq!(first["result"]["working"], 1);
    let second = client.receive();
    assert_eq!(
        (&second["id"], &second["result"]["status"]),
        (&json!("stop"), &json!("stopped"))
    );
}

#[test]
fn a_log_that_nobody_reads_hurts_nobody() {
    let mut daemon = node().stopped();
    daemon.start_with_closed_log();
    daemon.script_template("sleeper", "exec sleep 1000");
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a1", "template": "sleeper"}));
    assert_eq!(
        client.ok("agent.start", json!({"name": "a1"}))["status"],
        "running"
    );
    assert_eq!(
        client.ok("agent.stop", json!({"name": "a1"}))["status"],
        "stopped"
    );
}

#[test]
fn a_workspace_that_cannot_be_removed_is_said_to_be_there() {
    let daemon = node().start();
    daemon.script_template("sleeper", "exec sleep 1000");
    let mut client = daemon.client();
    let agent = client.ok("agent.create", json!({"name": "a1", "template": "sleeper"}));
    let busy = std::path::PathBuf::from(agent["workspaceDir"].as_str().unwrap()).join("busy");
    std::fs::create_dir(&busy).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "none"])
        .arg(&busy)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return; // Only the superuser can make a folder that cannot be removed.
    }
    client.ok("agent.start", json!({"name": "a1"}));
    let error = client
        .call("agent.destroy", json!({"name": "a1", "force": true}))
        .unwrap_err();
    let status = client.ok("agent.status", json!({"name": "a1"}));
    let unmounted = std::process::Command::new("umount").arg(&busy).status();
    assert!(unmounted.unwrap().success());
    assert!(
        error.message.contains("could not remove"),
        "{}",
        error.message
    );
    assert_eq!(status["status"], "error", "{status}");
    // What was removed before the failure is missed now, so only force goes on.
    client.ok("agent.destroy", json!({"name": "a1", "force": true}));
    assert_eq!(client.ok("agent.list", json!({})), json!([]));
}
