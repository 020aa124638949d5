//! The released SDK's own tests, with our server where they start the SDK's. They are in its source package alone.

use std::{env, path::PathBuf, process::Command};

use crate::node;

const PLUGIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/office");

/// Runs some of its tests; those that look into the server's process, or that contradict our rules, are named in the plugin.
fn released_tests(files: &[&str]) {
    let (Some(suite), Some(python)) = (
        env::var_os("AGENTCRAFT_TEST_SMCP_SUITE").map(PathBuf::from),
        env::var_os("AGENTCRAFT_TEST_SMCP_SUITE_PYTHON"),
    ) else {
        return println!("skipped: ./test --all installs the released SDK's tests");
    };
    let home = node().stopped();
    let tokens = home.scratch("tokens");
    std::fs::create_dir_all(tokens.parent().unwrap()).unwrap();
    std::fs::write(&tokens, "token-of-the-released-suite any *\n").unwrap();
    let output = Command::new(python)
        .args([
            "-m",
            "pytest",
            "-p",
            "released_suite",
            "-p",
            "no:cacheprovider",
            "-q",
        ])
        .args(["--timeout=120", "-rf"])
        .args(files)
        .current_dir(&suite)
        .env("PYTHONPATH", PLUGIN)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("AGENTCRAFT_PROGRAM", env!("CARGO_BIN_EXE_agentcraft"))
        .env("AGENTCRAFT_TOKENS", &tokens)
        .env("AGENTCRAFT_HOME", home.home())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let end: Vec<&str> = said.lines().rev().take(60).collect();
    let end: Vec<&str> = end.into_iter().rev().collect();
    assert!(output.status.success(), "{}", end.join("\n"));
    println!("{}", end.last().unwrap_or(&""));
}

#[test]
#[ignore = "slow: agents and computers of the released SDK, with many pauses"]
fn the_released_suite_from_end_to_end_passes_at_our_server() {
    released_tests(&[
        "tests/e2e/server",
        "tests/e2e/agent",
        "tests/e2e/test_async_integration_e2e.py",
        "tests/e2e/test_async_integration_vrl_e2e.py",
        "tests/e2e/test_v02_full_flow.py",
        "tests/e2e/test_v02_marketplace_strict_e2e.py",
        "tests/e2e/test_v02_skill_blob_e2e.py",
        "tests/e2e/test_v02_tool_call_binary_e2e.py",
        "tests/e2e/test_v02_update_tool_list_e2e.py",
    ]);
}

#[test]
#[ignore = "slow: agents and computers of the released SDK, with many pauses"]
fn the_released_suite_of_parts_passes_at_our_server() {
    released_tests(&[
        "tests/integration_tests/server",
        "tests/integration_tests/agent",
        "tests/integration_tests/test_blob_transfer.py",
        "tests/integration_tests/test_get_config.py",
        "tests/integration_tests/test_get_resources.py",
        "tests/integration_tests/test_tool_call_binary_roundtrip.py",
        "tests/integration_tests/test_version_handshake_client.py",
        "tests/integration_tests/test_version_handshake_server.py",
        "tests/integration_tests/computer/socketio",
    ]);
}
