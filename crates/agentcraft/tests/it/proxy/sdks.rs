//! Clients that others wrote, through both ways to an agent: the official ones in Python and TypeScript, acpx, and Neovim.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::json;
use testkit::TestDaemon;

use super::with_builtin;

const PROGRAM: &str = env!("CARGO_BIN_EXE_agentcraft");

/// Said by a test that has no client to run.
const NO_CLIENT: &str = "skipped: ./test sets AGENTCRAFT_TEST_PYTHON and AGENTCRAFT_TEST_EDITORS to where the clients are";

/// The folder of the packages from npm.
fn modules() -> Option<PathBuf> {
    env::var_os("AGENTCRAFT_TEST_EDITORS").map(PathBuf::from)
}

/// A node whose agent `a1` runs if it is leased.
pub(super) fn agent(way: &str) -> TestDaemon {
    let daemon = with_builtin();
    if way == "lease" {
        daemon.client().ok("agent.start", json!({"name": "a1"}));
    }
    daemon
}

fn script(daemon: &TestDaemon, name: &str, text: &str) -> PathBuf {
    let path = daemon.home().join(name);
    fs::write(&path, text).unwrap();
    path
}

/// Runs a client in the daemon's home, and wants it to succeed.
fn run(daemon: &TestDaemon, mut command: Command) -> Output {
    let home = daemon.scratch("home-of-the-client");
    fs::create_dir_all(&home).unwrap();
    command
        .env("AGENTCRAFT_HOME", daemon.home())
        .env("HOME", &home)
        .current_dir(&home);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said:.4000}");
    output
}

pub(super) fn nothing_is_left(daemon: &TestDaemon, way: &str) {
    let expected = usize::from(way == "lease");
    testkit::eventually("only the daemon's own agent is left", || {
        daemon.agent_processes().len() == expected
    });
}

#[test]
fn the_python_client_speaks_to_the_agent_and_every_frame_fits_the_schema() {
    let (Some(python), Some(modules)) = (env::var_os("AGENTCRAFT_TEST_PYTHON"), modules()) else {
        return println!("{NO_CLIENT}");
    };
    for way in ["direct", "lease"] {
        let daemon = agent(way);
        let script = script(&daemon, "editor.py", include_str!("editor.py"));
        let schema = modules.join("@agentclientprotocol/sdk/schema/v1/schema.json");
        let mut command = Command::new(&python);
        command.arg(script).args([PROGRAM, "a1", way]).arg(schema);
        run(&daemon, command);
        nothing_is_left(&daemon, way);
    }
}

#[test]
fn the_typescript_client_speaks_to_the_agent() {
    let Some(modules) = modules() else {
        return println!("{NO_CLIENT}");
    };
    for way in ["direct", "lease"] {
        let daemon = agent(way);
        let script = script(&daemon, "editor.mjs", include_str!("editor.mjs"));
        let mut command = Command::new(modules.join(".bin/node"));
        command.arg(script).arg(&modules).args([PROGRAM, "a1", way]);
        run(&daemon, command);
        nothing_is_left(&daemon, way);
    }
}

#[test]
fn acpx_prompts_the_agent() {
    let Some(modules) = modules() else {
        return println!("{NO_CLIENT}");
    };
    for way in ["direct", "lease"] {
        let daemon = agent(way);
        let lease = if way == "lease" { " --lease" } else { "" };
        let proxy = format!("{PROGRAM} proxy a1{lease}");
        let acpx = |words: &[&str]| {
            let mut command = Command::new(modules.join(".bin/node"));
            command
                .arg(modules.join("acpx/dist/cli.js"))
                .args(["--agent", &proxy]);
            command
                .args([
                    "--approve-all",
                    "--format",
                    "quiet",
                    "--timeout",
                    "60",
                    "--ttl",
                    "1",
                ])
                .args(words);
            let output = run(&daemon, command);
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let answer = acpx(&["exec", "hello from acpx"]);
        assert!(answer.contains("hello from acpx"), "{way}: {answer}");
        acpx(&["exec", "/write acpx.txt yes"]);
        if way == "lease" {
            assert!(super::workspace(&daemon, "a1").join("acpx.txt").exists());
        }
        nothing_is_left(&daemon, way);
    }
}

#[test]
fn neovim_speaks_to_the_agent_with_the_settings_that_are_printed_for_it() {
    if Command::new("nvim").arg("--version").output().is_err() {
        return println!("skipped: ./test installs neovim");
    }
    for way in ["direct", "lease"] {
        let daemon = agent(way);
        let lease: &[&str] = if way == "lease" { &["--lease"] } else { &[] };
        let entry = daemon.cli(&[&["editor", "neovim", "a1"], lease].concat());
        assert_eq!(entry.code, 0, "{}", entry.stderr);
        let entry = script(&daemon, "entry.lua", &entry.stdout);
        let script = script(&daemon, "editor.lua", include_str!("editor.lua"));
        let mut command = Command::new("nvim");
        command
            .args(["--headless", "--clean", "-c"])
            .arg(format!("luafile {}", script.display()))
            .env("ENTRY", entry);
        run(&daemon, command);
        assert!(super::workspace(&daemon, "a1").join("neovim.txt").exists());
        nothing_is_left(&daemon, way);
    }
}
