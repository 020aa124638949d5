//! A run is killed at every point where a crash would be interesting, and at other moments: what had ended is not done
//! again, the rest is, the outcome is the same, and nothing is left.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
};

use serde_json::Value;
use testkit::eventually;

use super::Project;

/// Ten steps and more: three branches, a loop of three rounds with two steps each, and steps around them. Each writes a
/// line when it has done its work.
const TEN: &str = r#"
name: ten
states:
  initial: one
  one: {type: command, idempotent: true, command: "echo 1 >> one.ran; echo 1", on_success: two}
  two: {type: command, idempotent: true, command: "echo 2 >> two.ran; echo 2", on_success: wide}
  wide:
    type: parallel
    parallel: [left, middle, right]
    on_success: each
  left: {type: command, idempotent: true, command: "echo l >> left.ran; echo l"}
  middle: {type: command, idempotent: true, command: "echo m >> middle.ran; echo m"}
  right: {type: command, idempotent: true, command: "echo r >> right.ran; echo r"}
  each:
    type: for_each
    items: [x, y, z]
    body: [first, second]
    on_complete: three
  first: {type: command, idempotent: true, command: "echo f >> first-{{.loop.Index}}.ran; echo f{{.loop.Item}}"}
  second: {type: command, idempotent: true, command: "echo s >> second-{{.loop.Index}}.ran; echo s{{.loop.Item}}"}
  three: {type: command, idempotent: true, command: "echo 3 >> three.ran; echo 3", on_success: called}
  called: {type: call_workflow, workflow: called, inputs: {by: ten}, on_success: four}
  four: {type: command, idempotent: true, command: "echo 4 >> four.ran; echo 4", on_success: done}
  done:
    type: terminal
    message: "{{.states.one.Output}}{{.states.left.Output}}{{.states.right.Output}}{{.states.second.Output}}{{.states.called.Output}}{{.states.four.Output}}"
"#;

/// What one of them calls, as a run of its own.
const CALLED: &str = r#"
name: called
inputs: [{name: by, required: true}]
states:
  initial: inner
  inner: {type: command, idempotent: true, command: "echo i >> inner.ran; echo i", on_success: deeper}
  deeper: {type: command, idempotent: true, command: "echo d >> deeper.ran; echo d", on_success: done}
  done: {type: terminal, message: "called by {{.inputs.by}}"}
"#;

const OUTCOME: &str = "1\nl\nr\nsz\ncalled by ten4\n";

/// Every file that a step writes.
const FILES: [&str; 15] = [
    "one", "two", "left", "middle", "right", "first-0", "second-0", "first-1", "second-1",
    "first-2", "second-2", "three", "inner", "deeper", "four",
];

pub(super) fn project() -> Project {
    let project = Project::new();
    project.workflow("ten", TEN);
    project.workflow("called", CALLED);
    project
}

pub(super) fn counts(project: &Project) -> BTreeMap<&'static str, usize> {
    let count = |name: &str| project.read(&format!("{name}.ran")).lines().count();
    FILES.iter().map(|name| (*name, count(name))).collect()
}

/// Steps that the record says have ended, by the names of their files; those of a loop only for rounds before the last.
fn recorded(project: &Project) -> Vec<&'static str> {
    let status = project.cli(&["workflow", "status", &project.newest(), "-f", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["state"], "interrupted", "{status}");
    let steps = status["steps"].as_array().unwrap();
    let ended = |name: &str| {
        let step = steps.iter().find(|step| step["name"] == name);
        step.map(|step| step["path"].as_str().unwrap().to_owned())
    };
    FILES
        .into_iter()
        .filter(|file| match file.split_once('-') {
            None if ["inner", "deeper"].contains(file) => ended("called").is_some(),
            None => ended(file).is_some(),
            Some((step, round)) => ended(step).is_some_and(|path| {
                let last = path
                    .trim_start_matches("each[")
                    .split(']')
                    .next()
                    .unwrap()
                    .to_owned();
                round.parse::<u32>().unwrap() <= last.parse::<u32>().unwrap()
            }),
        })
        .collect()
}

/// After the death: nothing is left, what had ended is not done again, and the outcome is that of a run in one piece.
pub(super) fn goes_on(project: &Project, when: &str) {
    project.nothing_is_left();
    let ended = recorded(project);
    let before = counts(project);
    let output = project.cli(&["workflow", "resume", &project.newest()]);
    assert_eq!(output.code, 0, "{when}: {}", output.stderr);
    assert!(
        output.stdout.ends_with(OUTCOME),
        "{when}: {}",
        output.stdout
    );
    let after = counts(project);
    for name in FILES {
        assert!(after[name] >= 1, "{when}: {name} was left out");
        // What was in the middle of its work may be repeated once, as its step allows.
        assert!(after[name] <= 2, "{when}: {name} ran {} times", after[name]);
    }
    for name in ended {
        assert_eq!(
            after[name], before[name],
            "{when}: {name} had ended and ran again"
        );
        assert_eq!(after[name], 1, "{when}: {name}");
    }
    project.nothing_is_left();
    let history = project.cli(&["workflow", "history", "-f", "json"]);
    let history: Value = serde_json::from_str(&history.stdout).unwrap();
    let runs = history["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{when}: {history}");
    let has_succeeded = |run: &Value| run["state"] == "succeeded";
    assert!(runs.iter().all(has_succeeded), "{when}: {history}");
}

#[test]
fn without_a_crash_every_step_runs_once() {
    let project = project();
    let output = project.run(&["ten"], 0);
    assert!(output.stdout.ends_with(OUTCOME), "{}", output.stdout);
    assert!(counts(&project).values().all(|count| *count == 1));
}

#[test]
fn a_run_that_dies_at_a_crash_point_is_taken_up() {
    for point in ["workflow.decided", "workflow.taken"] {
        for time in [1, 2, 4, 6, 8, 11, 13] {
            let project = project();
            let when = format!("{point}:{time}");
            let mut command = project.command(&["workflow", "run", "ten"]);
            let status = command
                .env("AGENTCRAFT_CRASH_AT", &when)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap();
            assert_eq!(status.code(), None, "{when}: it lived");
            goes_on(&project, &when);
        }
    }
}

#[test]
fn a_run_that_is_killed_while_steps_work_is_taken_up() {
    for file in ["one", "left", "second-0", "first-2", "three"] {
        let project = project();
        let mut child = quiet(project.command(&["workflow", "run", "ten"]));
        eventually("the step has done its work", || {
            project.folder.join(format!("{file}.ran")).exists()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        if counts(&project)["four"] == 0 {
            goes_on(&project, file);
        }
    }
}

#[test]
fn a_step_that_may_not_be_repeated_is_asked_about_and_fails_where_nobody_answers() {
    let project = Project::new();
    let text = "name: once\nstates:\n  initial: a\n  a:\n    type: command\n    command: echo a >> a.ran; sleep 60\n    \
                on_success: done\n  done: {type: terminal}\n";
    project.workflow("once", text);
    let mut child = quiet(project.command(&["workflow", "run", "once"]));
    eventually("the step is at work", || {
        project.folder.join("a.ran").exists()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    project.nothing_is_left();
    let output = project.cli(&["workflow", "resume", &project.newest()]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(
        project.read("a.ran"),
        "a\n",
        "it was not done a second time"
    );
}

#[test]
fn a_space_of_a_run_that_was_killed_is_removed_by_the_next() {
    let project = project();
    let mut command = project.command(&["workflow", "run", "ten"]);
    command.env("AGENTCRAFT_CRASH_AT", "workflow.decided:2");
    quiet(command).wait().unwrap();
    let spaces = project.home.home().join("spaces");
    assert_eq!(fs::read_dir(&spaces).unwrap().count(), 1);
    project.run(&["ten"], 0);
    assert_eq!(fs::read_dir(&spaces).unwrap().count(), 0);
}

fn quiet(mut command: Command) -> std::process::Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
