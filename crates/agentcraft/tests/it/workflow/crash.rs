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

use super::{Project, providers::stub};

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

/// Agents, hooks of every kind and approvals, in a row, side by side and in a loop. What agents are told is the name of the file
/// that they write a line to. Nobody is there to approve, so what needs it is skipped.
const MIXED: &str = r#"
name: mixed
hooks:
  workflow_start: [{command: "echo s >> start.ran"}, {log: begun}]
  workflow_end: [{command: "echo e >> end.ran"}]
states:
  initial: talk
  talk:
    type: agent
    provider: claude
    prompt: talk
    idempotent: true
    hooks: {pre: [{command: "echo p >> before.ran"}], post: [{command: "echo q >> after.ran"}]}
    on_success: gate
  gate:
    type: command
    command: "echo g >> gate.ran"
    approval: {message: "Go on?", on_deny: skip}
    on_success: wide
  wide: {type: parallel, parallel: [left, middle, right], on_success: each}
  left: {type: agent, provider: claude, prompt: left, idempotent: true}
  middle: {type: command, idempotent: true, command: "echo m >> middle.ran; echo m"}
  right: {type: agent, provider: claude, prompt: right, approval: {message: "Right, too?", on_deny: skip}}
  each: {type: for_each, items: [x, y], body: [round], on_complete: gather}
  round:
    type: agent
    provider: claude
    prompt: "round-{{.loop.Index}}"
    idempotent: true
    hooks: {post: [{command: "echo r >> after-round.ran"}]}
  gather: {type: approval, message: "Enough?", on_deny: skip, on_success: last}
  last: {type: agent, provider: claude, prompt: last, idempotent: true, on_success: done}
  done:
    type: terminal
    message: "{{.states.talk.Output}} {{.states.gate.Status}} {{.states.left.Output}} {{.states.right.Status}} {{.states.round.Output}} {{.states.last.Output}}"
"#;

/// Writes to the file that its last argument names, and says its name.
const SPEAKER: &str = r#"for last; do :; done
echo a >> "$last.ran"
echo '{"type":"system","subtype":"init","session_id":"s"}'
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"said '$last'"}]},"parent_tool_use_id":null}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"s"}'"#;

/// A workflow whose runs are killed, and what is known of those that are not.
pub(super) struct Story {
    pub(super) name: &'static str,
    pub(super) outcome: &'static str,
    /// Every file that a step or a hook writes, and the last of them that a step does.
    files: &'static [&'static str],
    pub(super) last: &'static str,
    /// Runs that it takes, with those of workflows it calls.
    runs: usize,
}

pub(super) const TEN_STEPS: Story = Story {
    name: "ten",
    outcome: "1\nl\nr\nsz\ncalled by ten4\n",
    files: &[
        "one", "two", "left", "middle", "right", "first-0", "second-0", "first-1", "second-1",
        "first-2", "second-2", "three", "inner", "deeper", "four",
    ],
    last: "four",
    runs: 2,
};

pub(super) const MIXED_STEPS: Story = Story {
    name: "mixed",
    outcome: "said talk skipped said left skipped said round-1 said last\n",
    files: &[
        "start", "before", "talk", "after", "left", "middle", "round-0", "round-1", "last", "end",
    ],
    last: "end",
    runs: 1,
};

impl Story {
    pub(super) fn project(&self) -> Project {
        let mut project = Project::new();
        stub(&mut project, "claude", SPEAKER);
        project.workflow("ten", TEN);
        project.workflow("called", CALLED);
        project.workflow("mixed", MIXED);
        project
    }

    pub(super) fn counts(&self, project: &Project) -> BTreeMap<&'static str, usize> {
        let count = |name: &str| project.read(&format!("{name}.ran")).lines().count();
        self.files.iter().map(|name| (*name, count(name))).collect()
    }

    /// Steps that the record says have ended, by the names of their files; those of a loop only for rounds before the last.
    fn recorded(&self, project: &Project) -> Vec<&'static str> {
        let status = project.cli(&["workflow", "status", &project.newest(), "-f", "json"]);
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        assert_eq!(status["state"], "interrupted", "{status}");
        let steps = status["steps"].as_array().unwrap();
        let ended = |name: &str| {
            let step = steps.iter().find(|step| step["name"] == name);
            step.map(|step| step["path"].as_str().unwrap().to_owned())
        };
        let is_ended = |file: &&str| match file.split_once('-') {
            None if ["inner", "deeper"].contains(file) => ended("called").is_some(),
            None => ended(file).is_some(),
            Some((step, round)) => ended(step).is_some_and(|path| {
                let last = path.trim_start_matches("each[").split(']').next();
                round.parse::<u32>().unwrap() <= last.unwrap().parse::<u32>().unwrap()
            }),
        };
        self.files.iter().copied().filter(is_ended).collect()
    }

    /// After the death: nothing is left, what had ended is not done again, and the outcome is that of a run in one piece.
    pub(super) fn goes_on(&self, project: &Project, when: &str) {
        let when = format!("{} {when}", self.name);
        project.nothing_is_left();
        let ended = self.recorded(project);
        let before = self.counts(project);
        let output = project.cli(&["workflow", "resume", &project.newest()]);
        assert_eq!(output.code, 0, "{when}: {}", output.stderr);
        let outcome = self.outcome;
        assert!(
            output.stdout.ends_with(outcome),
            "{when}: {}",
            output.stdout
        );
        let after = self.counts(project);
        for (name, count) in &after {
            // What was in the middle of its work may be repeated once, as its step allows.
            assert!((1..=2).contains(count), "{when}: {name} ran {count} times");
        }
        for name in ended {
            assert_eq!(
                after[name], before[name],
                "{when}: {name} had ended and ran again"
            );
            assert_eq!(after[name], 1, "{when}: {name}");
        }
        assert!(
            !project.folder.join("gate.ran").exists(),
            "{when}: nobody approved"
        );
        project.nothing_is_left();
        let history = project.cli(&["workflow", "history", "-f", "json"]);
        let history: Value = serde_json::from_str(&history.stdout).unwrap();
        let runs = history["runs"].as_array().unwrap();
        assert_eq!(runs.len(), self.runs, "{when}: {history}");
        let has_succeeded = |run: &Value| run["state"] == "succeeded";
        assert!(runs.iter().all(has_succeeded), "{when}: {history}");
    }

    /// Runs it until it dies at the point, and goes on.
    fn dies_at(&self, when: &str) {
        let project = self.project();
        let mut command = project.command(&["workflow", "run", self.name]);
        let status = command
            .env("AGENTCRAFT_CRASH_AT", when)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), None, "{} {when}: it lived", self.name);
        self.goes_on(&project, when);
    }
}

#[test]
fn without_a_crash_every_step_runs_once() {
    for story in [TEN_STEPS, MIXED_STEPS] {
        let project = story.project();
        let output = project.run(&[story.name], 0);
        assert!(output.stdout.ends_with(story.outcome), "{}", output.stdout);
        let counts = story.counts(&project);
        assert!(counts.values().all(|count| *count == 1), "{counts:?}");
        assert!(!project.folder.join("gate.ran").exists(), "nobody approved");
    }
}

#[test]
fn a_run_that_dies_at_a_crash_point_is_taken_up() {
    for point in ["workflow.decided", "workflow.taken"] {
        for time in [1, 2, 4, 6, 8, 11, 13] {
            TEN_STEPS.dies_at(&format!("{point}:{time}"));
        }
    }
}

#[test]
fn a_run_whose_resumption_dies_before_it_does_anything_is_resumed_by_the_next() {
    let project = TEN_STEPS.project();
    let dies = |arguments: &[&str], point: &str| {
        let mut command = project.command(&[&["workflow"], arguments].concat());
        command.env("AGENTCRAFT_CRASH_AT", point);
        let status = quiet(command).wait().unwrap();
        assert_eq!(status.code(), None, "{point}: it lived");
        project.nothing_is_left();
    };
    dies(&["run", "ten"], "workflow.decided:6");
    let run = project.newest();
    for _ in 0..2 {
        dies(&["resume", &run], "workflow.resumed:1");
    }
    TEN_STEPS.goes_on(&project, "workflow.resumed:1");
}

#[test]
fn a_run_with_agents_hooks_and_approvals_that_dies_at_a_crash_point_is_taken_up() {
    for time in [1, 3, 5, 6, 9, 12] {
        MIXED_STEPS.dies_at(&format!("workflow.decided:{time}"));
    }
}

#[test]
fn a_run_with_agents_hooks_and_approvals_that_dies_before_it_writes_is_taken_up() {
    for time in [2, 4, 6, 8, 11, 14] {
        MIXED_STEPS.dies_at(&format!("workflow.taken:{time}"));
    }
}

#[test]
fn a_run_that_is_killed_while_steps_work_is_taken_up() {
    for (story, files) in [
        (
            TEN_STEPS,
            ["one", "left", "second-0", "first-2", "three"].as_slice(),
        ),
        (MIXED_STEPS, &["talk", "left"]),
    ] {
        for file in files {
            let project = story.project();
            let mut child = quiet(project.command(&["workflow", "run", story.name]));
            eventually("the step has done its work", || {
                project.folder.join(format!("{file}.ran")).exists()
            });
            child.kill().unwrap();
            child.wait().unwrap();
            if story.counts(&project)[story.last] == 0 {
                story.goes_on(&project, file);
            }
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
    let output = project.cli(&["workflow", "resume", &project.newest()]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert!(output.stderr.contains("--from a"), "{}", output.stderr);
    assert_eq!(
        project.read("a.ran"),
        "a\n",
        "nobody has said that it may be done again"
    );
}

#[test]
fn a_space_of_a_run_that_was_killed_is_removed_by_the_next() {
    let project = TEN_STEPS.project();
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
