//! The official clients of ACP in Python and TypeScript run workflows, and every frame fits the published schema.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Project, editor::project};
use crate::node;

const PROGRAM: &str = env!("CARGO_BIN_EXE_agentcraft");

/// Said by a test that has no client to run.
const NO_CLIENT: &str = "skipped: ./test sets AGENTCRAFT_TEST_PYTHON and AGENTCRAFT_TEST_EDITORS to where the clients are";

/// The folder of the packages from npm.
fn modules() -> Option<PathBuf> {
    env::var_os("AGENTCRAFT_TEST_EDITORS").map(PathBuf::from)
}

fn schema(modules: &Path) -> PathBuf {
    modules.join("@agentclientprotocol/sdk/schema/v1/schema.json")
}

/// Runs a client as the user of the project would, and wants it to succeed.
fn run(project: &Project, mut command: Command) {
    let environment: Vec<_> = project
        .command(&[])
        .get_envs()
        .map(|(key, value)| (key.to_owned(), value.unwrap().to_owned()))
        .collect();
    let output = command
        .envs(environment)
        .current_dir(&project.folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said:.4000}");
}

fn in_python(project: &Project, python: &Path, modules: &Path) {
    let script = project.home.scratch("editor.py");
    fs::write(&script, include_str!("editor.py")).unwrap();
    let mut command = Command::new(python);
    command
        .arg(script)
        .arg(PROGRAM)
        .arg(&project.folder)
        .arg(schema(modules));
    run(project, command);
}

#[test]
fn the_python_client_runs_workflows_and_every_frame_fits_the_schema() {
    let (Some(python), Some(modules)) = (env::var_os("AGENTCRAFT_TEST_PYTHON"), modules()) else {
        return println!("{NO_CLIENT}");
    };
    let project = project();
    in_python(&project, Path::new(&python), &modules);
    project.nothing_is_left();
}

#[test]
fn the_python_client_runs_workflows_of_the_daemon_and_takes_a_session_up() {
    let (Some(python), Some(modules)) = (env::var_os("AGENTCRAFT_TEST_PYTHON"), modules()) else {
        return println!("{NO_CLIENT}");
    };
    let Project { mut home, folder } = Project::of(node().stopped());
    home.start();
    let project = Project { home, folder };
    project.examples();
    in_python(&project, Path::new(&python), &modules);
}

fn in_typescript(project: &Project, modules: &Path) {
    let script = project.home.scratch("editor.mjs");
    fs::write(&script, include_str!("editor.mjs")).unwrap();
    let mut command = Command::new(modules.join(".bin/node"));
    command
        .arg(script)
        .arg(modules)
        .arg(PROGRAM)
        .arg(&project.folder);
    run(project, command);
}

#[test]
fn the_typescript_client_runs_workflows_cancels_and_takes_a_session_up() {
    let Some(modules) = modules() else {
        return println!("{NO_CLIENT}");
    };
    let project = project();
    in_typescript(&project, &modules);
    project.nothing_is_left();
}

#[test]
fn the_typescript_client_does_the_same_with_the_daemon() {
    let Some(modules) = modules() else {
        return println!("{NO_CLIENT}");
    };
    let Project { mut home, folder } = Project::of(node().stopped());
    home.start();
    let project = Project { home, folder };
    project.examples();
    in_typescript(&project, &modules);
}
