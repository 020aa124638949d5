//! What the commands print and end with, what is asked of the machine, and that secrets stay here.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use serde_json::Value;
use testkit::{eventually, kill};

use super::Project;
use crate::node;

/// One command step with what follows it.
fn one(command: &str) -> String {
    format!(
        "name: one\nstates:\n  initial: step\n  step:\n    type: command\n    command: |\n      {command}\n    \
         on_success: done\n  done: {{type: terminal, status: success}}\n"
    )
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn start(project: &Project, arguments: &[&str]) -> Child {
    project
        .command(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn all_that_is_kept_of_an_output_is_printed_and_of_more_the_file_is_named() {
    let project = Project::new();
    project.workflow("big", &one("seq 1 60000"));
    let whole: String = (1..=60000).map(|number| format!("{number}\n")).collect();
    assert!(project.run(&["big"], 0).stdout == whole);
    project.workflow("huge", &one("seq 1 300000"));
    let output = project.run(&["huge"], 0);
    assert!(output.stdout.starts_with("1\n2\n3\n"));
    let named = output
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("step has printed more than is kept; it is in "));
    let file = fs::read_to_string(named.unwrap()).unwrap();
    assert!(file.ends_with("\n299999\n300000\n"));
}

/// A step that waits for a file, with what it does before and after.
fn held(before: &str, after: &str) -> String {
    one(&format!(
        "{before}; while [ ! -e go ]; do sleep 0.01; done; {after}"
    ))
}

#[test]
fn what_a_command_prints_reaches_a_pipe_line_by_line_as_it_comes() {
    let project = Project::new();
    project.workflow(
        "slow",
        &held("echo one; echo oh >&2; printf tw", "echo o; exit 3"),
    );
    let mut child = start(&project, &["workflow", "run", "slow"]);
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(output.next().unwrap().unwrap(), "one");
    assert!(told.by_ref().any(|line| line.unwrap() == "oh"));
    fs::write(project.folder.join("go"), "").unwrap();
    let rest: Vec<String> = output.map(Result::unwrap).collect();
    assert_eq!(rest, ["two"], "also of a step that fails");
    let told: Vec<String> = told.map(Result::unwrap).collect();
    assert!(
        told.iter().any(|line| line.starts_with("exit code 3")),
        "{told:?}"
    );
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn a_run_whose_reader_leaves_is_cancelled_at_once_and_says_so_in_its_exit_code() {
    let project = Project::new();
    let text = "name: unread\nhooks:\n  workflow_error: [{command: touch error-hook}]\n  workflow_cancel: [{command: touch cancel-hook}]\n\
                states:\n  initial: a\n  a: {type: command, command: echo first, on_success: b}\n  \
                b: {type: command, command: sleep 60, on_success: done, on_failure: rollback}\n  \
                rollback: {type: command, command: touch rollback, on_success: done}\n  done: {type: terminal}\n";
    project.workflow("unread", text);
    for format in ["text", "json"] {
        let mut child = start(&project, &["workflow", "run", "unread", "-f", format]);
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(output.by_ref().any(|line| line.unwrap().contains("first")));
        drop(output); // The step that is under way prints nothing.
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(141),
            "as shells tell a broken pipe"
        );
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(
            !told.contains("error") && !told.contains("panicked"),
            "{told}"
        );
        let listed = project.cli(&["workflow", "history", "-f", "json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        assert_eq!(listed["runs"][0]["state"], "cancelled");
        let is_there = |name: &str| project.folder.join(name).exists();
        assert!(is_there("cancel-hook"));
        assert!(!is_there("rollback") && !is_there("error-hook"));
        project.nothing_is_left();
    }
}

#[test]
fn a_dry_run_shows_what_would_be_done_and_leaves_no_trace() {
    let project = Project::new();
    project.examples();
    let output = project.run(&["01-greet", "-i", "who=Ann", "--dry-run"], 0);
    assert!(
        output.stdout.contains("input who = Ann"),
        "{}",
        output.stdout
    );
    assert!(output.stdout.contains("greeted Ann"), "{}", output.stdout);
    assert!(!project.home.home().exists(), "the home was made");
    let output = project.run(&["03-loops", "--dry-run", "-f", "json"], 0);
    let described: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(described["steps"][0]["name"], "each");
    assert!(!project.folder.join("loops.txt").exists());
}

#[test]
fn a_dry_run_masks_secret_inputs_and_keeps_its_own_words() {
    let mut project = Project::new();
    // One that is a word of the description itself, and one that is long.
    project.home.set_env("DB_PASSWORD", Some("steps"));
    project
        .home
        .set_env("API_KEY_FOO", Some("abcdefgh12345678"));
    let text = "name: deploy\ninputs:\n  - {name: password, type: string, required: true}\n  \
                - {name: token_limit, type: integer, default: 4000}\nstates:\n  initial: send\n  send:\n    \
                type: command\n    command: send {{.inputs.password | shell_quote}} $API_KEY_FOO {{.env.API_KEY_FOO}} {{.inputs.token_limit}}\n    \
                on_success: done\n  done: {type: terminal}\n";
    project.workflow("deploy", text);
    let dry = ["deploy", "-i", "password=opensesame", "--dry-run"];
    let output = project.run(&[&dry[..], &["-f", "json"]].concat(), 0);
    let described: Value = serde_json::from_str(&output.stdout).unwrap();
    let inputs = serde_json::json!([["password", "***"], ["token_limit", "4000"]]);
    assert_eq!(described["inputs"], inputs, "{described}");
    let step = &described["steps"][0];
    assert_eq!(step["name"], "send", "{described}");
    let does = step["does"].as_str().unwrap().replace('\'', "");
    assert_eq!(does, "send *** $API_KEY_FOO *** 4000");
    let output = project.run(&dry, 0);
    assert!(output.stdout.contains("input password = ***"), "{output:?}");
    assert!(!output.stdout.contains("opensesame"), "{output:?}");
    // A run shows as little.
    let printing = text.replace("command: send", "command: echo");
    project.workflow("deploy", &printing);
    let output = project.run(&["deploy", "-i", "password=opensesame"], 0);
    assert!(output.stdout.contains("***"), "{output:?}");
    let status = project.cli(&["workflow", "status", &project.newest(), "-f", "json"]);
    for shown in [&output.stdout, &output.stderr, &status.stdout] {
        assert!(!shown.contains("opensesame"), "{shown}");
    }
}

#[test]
fn every_problem_of_a_file_is_told_with_its_place_and_code() {
    let project = Project::new();
    let text = "name: bad\nstates:\n  initial: nowhere\n  a:\n    type: command\n    command: 'true'\n    \
                on_success: b\n    timeout: soon\n  done:\n    type: terminal\n";
    project.workflow("bad", text);
    let output = project.cli(&["workflow", "validate", "bad"]);
    assert_eq!(output.code, 2, "{}", output.stdout);
    for part in [
        "bad.yaml:3:",
        "bad.yaml:7:",
        "WORKFLOW.VALIDATION.MISSING_STATE",
        "bad.yaml:8:",
        "not a length of time",
    ] {
        assert!(output.stdout.contains(part), "{part}: {}", output.stdout);
    }
    project.workflow("torn", "name: [torn\n");
    let output = project.cli(&["workflow", "validate", "torn"]);
    assert_eq!(output.code, 1, "{}", output.stdout);
    let output = project.run(&["bad"], 2);
    assert!(output.stderr.contains("MISSING_STATE"), "{}", output.stderr);
    let output = project.cli(&["workflow", "validate", "bad", "-f", "json"]);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["valid"], false);
    assert!(
        result["problems"].as_array().unwrap().len() >= 3,
        "{result}"
    );
}

#[test]
fn a_step_that_fails_gives_exit_code_three_and_an_inline_end_its_own() {
    let project = Project::new();
    project.workflow("fails", &one("echo oh no >&2; exit 9"));
    let output = project.run(&["fails"], 3);
    assert!(output.stderr.contains("oh no"), "{}", output.stderr);
    let text = "name: own\nstates:\n  initial: a\n  a:\n    type: command\n    command: 'false'\n    on_success: z\n    \
                on_failure: {message: 'gone wrong', status: 42}\n  z: {type: terminal}\n";
    project.workflow("own", text);
    let output = project.run(&["own"], 42);
    assert!(output.stderr.contains("gone wrong"), "{}", output.stderr);
    let output = project.run(&["unknown"], 1);
    assert!(
        output
            .stderr
            .contains("there is no workflow called unknown")
    );
}

#[test]
fn json_lines_are_the_events_of_the_run_and_its_result() {
    let project = Project::new();
    project.workflow("one", &one("echo hello"));
    let output = project.run(&["one", "--format", "json"], 0);
    let lines = json_lines(&output.stdout);
    let kinds: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect();
    assert_eq!(kinds.first(), Some(&"run"));
    assert_eq!(kinds.last(), Some(&"result"));
    assert!(
        kinds.contains(&"plan") && kinds.contains(&"tool-call"),
        "{kinds:?}"
    );
    let result = lines.last().unwrap();
    assert_eq!(result["outcome"], "succeeded");
    assert_eq!(result["runId"], lines[0]["runId"]);
    let last = lines
        .iter()
        .rev()
        .find(|line| line["type"] == "tool-update")
        .unwrap();
    assert_eq!(last["status"], "completed");
    assert_eq!(last["content"][0]["text"], "hello\n");
}

#[test]
fn secrets_of_the_environment_reach_neither_screen_nor_status() {
    let mut project = Project::new();
    project
        .home
        .set_env("API_KEY_FOO", Some("abcdefgh12345678"));
    let command = "printf 'abcdefgh'; sleep 0.4; printf '12345678\\n'; echo \"$API_KEY_FOO\" >&2; \
                   sleep 0.4; echo \"mine: $API_KEY_FOO\"";
    project.workflow("leaks", &one(command));
    for format in ["text", "json"] {
        let output = project.run(&["leaks", "-f", format], 0);
        let all = format!("{}{}", output.stdout, output.stderr);
        assert!(all.contains("***"), "{all}");
        assert!(!all.contains("12345678"), "{all}");
        assert!(!all.contains("abcdefgh"), "{all}");
    }
    // Whoever looks at it later may not have the variable, and still does not see what it held.
    project.home.set_env("API_KEY_FOO", None);
    for arguments in [["workflow", "status"], ["workflow", "history"]] {
        let mut arguments = arguments.to_vec();
        let id = project.newest();
        if arguments[1] == "status" {
            arguments.push(&id);
        }
        arguments.extend(["-f", "json"]);
        let output = project.cli(&arguments);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(!output.stdout.contains("12345678"), "{}", output.stdout);
    }
}

#[test]
fn a_signal_cancels_the_run_and_ends_everything_it_started() {
    let project = Project::new();
    project.workflow(
        "long",
        &one("trap 'echo ended >> ended.txt; exit 0' TERM; touch started; sleep 60 & wait"),
    );
    let mut child = start(&project, &["workflow", "run", "long"]);
    eventually("the step has started", || {
        project.folder.join("started").exists()
    });
    kill(child.id(), "INT");
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(
        project.read("ended.txt"),
        "ended\n",
        "the command got its time to end"
    );
    project.nothing_is_left();
    let status = project.cli(&["workflow", "status", &project.newest(), "-f", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["state"], "cancelled");
}

#[test]
fn a_command_that_ignores_the_signal_is_killed_after_the_grace() {
    let project = Project::new();
    let command = "trap 'touch asked' TERM; touch started; \
                   while true; do sleep 0.05; test -e asked && echo goes on >> after.txt; done";
    project.workflow("deaf", &one(command));
    let mut child = start(&project, &["workflow", "run", "deaf"]);
    eventually("the step has started", || {
        project.folder.join("started").exists()
    });
    kill(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(project.folder.join("asked").exists(), "it was not asked");
    let after = project.read("after.txt").lines().count();
    assert!(after > 1, "it had no grace: {after}");
    project.nothing_is_left();
}

#[test]
fn a_run_can_be_cancelled_from_another_process() {
    let project = Project::new();
    project.workflow("long", &one("touch started; sleep 60"));
    let mut child = start(&project, &["workflow", "run", "long"]);
    eventually("the step has started", || {
        project.folder.join("started").exists()
    });
    let output = project.cli(&["workflow", "cancel", &project.newest()]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("cancelled"), "{}", output.stdout);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    project.nothing_is_left();
    let output = project.cli(&["workflow", "cancel", &project.newest()]);
    assert!(output.stderr.contains("over already"), "{}", output.stderr);
}

#[test]
fn a_conversation_that_waits_for_lines_hears_a_signal_and_a_cancel() {
    let project = Project::new();
    let text = "name: chat\nstates:\n  initial: talk\n  talk:\n    type: agent\n    provider: 'acp: agentcraft builtin-agent'\n    \
                mode: conversation\n    on_success: done\n  done: {type: terminal}\n";
    project.workflow("chat", text);
    for is_signal in [true, false] {
        let mut command = project.command(&["workflow", "run", "chat"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("it waits for words", || {
            let listed = project.cli(&["workflow", "history", "-f", "json", "--limit", "1"]);
            let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
            listed["runs"][0]["state"] == "waiting"
        });
        if is_signal {
            kill(child.id(), "TERM");
        } else {
            let output = project.cli(&["workflow", "cancel", &project.newest()]);
            assert_eq!(output.code, 0, "{}", output.stderr);
        }
        assert_eq!(child.wait().unwrap().code(), Some(130), "{is_signal}");
        project.nothing_is_left();
    }
}

#[test]
fn files_of_awf_are_found_in_the_project_the_pack_and_the_users_folders() {
    let mut project = Project::new();
    let home = project.home.scratch("user");
    let named = home.to_string_lossy().into_owned();
    project.home.set_env("HOME", Some(&named));
    for variable in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "AWF_CONFIG_HOME"] {
        project.home.set_env(variable, None);
    }
    let write = |path: std::path::PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let uses = "name: uses\nstates:\n  initial: a\n  a: {type: command, script_file: '{{.awf.scripts_dir}}/x.sh', on_success: b}\n  \
                b: {type: command, command: 'sh {{.awf.scripts_dir}}/x.sh; sh {{.awf.scripts_dir}}/global.sh', on_success: c}\n  \
                c: {type: command, command: 'echo {{readFile (printf \"%s/p.md\" .awf.prompts_dir) | trimSpace | shell_quote}}', on_success: done}\n  \
                done: {type: terminal}\n";
    let pack = project.folder.join(".awf/workflow-packs/mine");
    write(pack.join("workflows/uses.yaml"), uses);
    write(pack.join("scripts/x.sh"), "echo of the pack\n");
    write(pack.join("prompts/p.md"), "a prompt of the pack\n");
    write(home.join(".config/awf/scripts/global.sh"), "echo global\n");
    let output = project.run(&["mine/uses"], 0);
    let of_pack = "of the pack\nof the pack\nglobal\na prompt of the pack\n";
    assert_eq!(output.stdout, of_pack);
    let own = project.folder.join(".awf/scripts/mine/x.sh");
    write(own, "echo of the project\n");
    let output = project.run(&["mine/uses"], 0);
    assert!(
        output
            .stdout
            .starts_with("of the project\nof the project\nglobal\n")
    );

    write(
        home.join(".config/awf/workflows/global.yaml"),
        &one("echo for all"),
    );
    let others = home.join(".local/share/awf/workflow-packs/others");
    write(others.join("workflows/g.yaml"), &one("echo of others"));
    assert_eq!(project.run(&["global"], 0).stdout, "for all\n");
    assert_eq!(project.run(&["others/g"], 0).stdout, "of others\n");
    write(home.join("first/global.yaml"), &one("echo first"));
    let first = home.join("first").to_string_lossy().into_owned();
    project.home.set_env("AWF_WORKFLOWS_PATH", Some(&first));
    assert_eq!(project.run(&["global"], 0).stdout, "first\n");
}

#[test]
fn a_workflow_of_a_pack_is_run_again_with_its_scripts() {
    let project = Project::new();
    let pack = project.folder.join(".agentcraft/workflow-packs/tools");
    fs::create_dir_all(pack.join("workflows")).unwrap();
    fs::create_dir_all(pack.join("scripts")).unwrap();
    fs::write(pack.join("scripts/hi.sh"), "echo hi from the pack\n").unwrap();
    let text = "name: hi\nstates:\n  initial: a\n  a: {type: command, script_file: hi.sh, on_success: done}\n  done: {type: terminal}\n";
    fs::write(pack.join("workflows/hi.yaml"), text).unwrap();
    project.run(&["tools/hi"], 0);
    let output = project.cli(&["workflow", "rerun", &project.newest()]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(output.stdout, "hi from the pack\n");
}

/// A hundred branches that do nothing.
pub(super) fn hundred() -> String {
    let names: Vec<String> = (0..100).map(|index| format!("b{index}")).collect();
    let mut text = format!(
        "name: many\nstates:\n  initial: all\n  all:\n    type: parallel\n    parallel: [{}]\n    on_success: done\n  \
         done: {{type: terminal}}\n",
        names.join(", ")
    );
    for name in &names {
        text.push_str(&format!("  {name}: {{type: command, command: 'true'}}\n"));
    }
    text
}

pub(super) fn all_hundred_succeed(project: &Project) {
    let output = project.run(&["many", "-f", "json"], 0);
    let lines = json_lines(&output.stdout);
    let done = lines.iter().filter(|line| {
        line["status"] == "completed" && line["id"].as_str().is_some_and(|id| id.contains(":all/b"))
    });
    assert_eq!(done.count(), 100);
}

#[test]
fn a_hundred_branches_at_once_all_succeed() {
    let project = Project::new();
    project.workflow("many", &hundred());
    all_hundred_succeed(&project);
    project.nothing_is_left();
}

#[test]
fn an_output_beyond_the_limit_is_in_a_file_that_the_result_names() {
    let project = Project::new();
    let text = "name: long\nstates:\n  initial: print\n  print:\n    type: command\n    \
                command: i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done\n    \
                capture: {max_size: 1KB}\n    on_success: count\n  count:\n    type: command\n    \
                command: wc -l < {{.states.print.OutputPath | shell_quote}} > count.txt\n    on_success: done\n  \
                done: {type: terminal}\n";
    project.workflow("long", text);
    project.run(&["long"], 0);
    assert_eq!(project.read("count.txt").trim(), "3000");
    let id = project.newest();
    let status = project.cli(&["workflow", "status", &id, "-f", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let print = &status["steps"][0];
    assert_eq!(print["truncated"], true, "{print}");
    let file = std::path::PathBuf::from(print["output_path"].as_str().unwrap());
    assert!(file.starts_with(project.home.home().join("state/runs").join(&id)));
    let all = fs::read_to_string(&file).unwrap();
    assert!(all.starts_with("line 0\n") && all.ends_with("line 2999\n"));
    assert!(print["output"].as_str().unwrap().len() <= 1024);
    assert_eq!(print["stderr_path"], Value::Null);
}

#[test]
fn what_is_too_old_goes_with_the_files_of_its_run() {
    let project = Project::new();
    project.workflow("one", &one("echo hello"));
    project.run(&["one"], 0);
    let runs = project.home.home().join("state/runs");
    let (kept, gone) = (
        runs.join(project.newest()),
        runs.join("of-a-run-that-is-gone"),
    );
    for folder in [&kept, &gone] {
        fs::create_dir_all(folder).unwrap();
    }
    project.run(&["one"], 0);
    assert!(kept.exists() && !gone.exists());
}

#[test]
fn a_run_that_somebody_works_on_cannot_be_taken_up() {
    let project = Project::new();
    let text = one("touch started; while ! test -e go; do sleep 0.02; done; rm started").replace(
        "    type: command\n",
        "    type: command\n    idempotent: true\n",
    );
    project.workflow("long", &text);
    let mut child = start(&project, &["workflow", "run", "long"]);
    let started = || project.folder.join("started").exists();
    eventually("the step has started", started);
    let id = project.newest();
    let output = project.cli(&["workflow", "resume", &id]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    let words = format!("somebody else is at work on the run {id}");
    assert!(output.stderr.contains(&words), "{}", output.stderr);
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(project.folder.join("started")).unwrap();
    let mut first = start(&project, &["workflow", "resume", &id]);
    eventually("the first has taken it up", started);
    let second = project.cli(&["workflow", "resume", &id]);
    assert_eq!(second.code, 1, "{}", second.stderr);
    assert!(second.stderr.contains(&words), "{}", second.stderr);
    fs::write(project.folder.join("go"), "").unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(0));
    project.nothing_is_left();
}

#[test]
fn a_child_in_the_background_does_not_fail_the_step() {
    let project = Project::new();
    project.workflow("background", &one("sleep 60 & echo done"));
    let output = project.run(&["background"], 0);
    assert!(output.stdout.contains("done\n"), "{}", output.stdout);
    project.nothing_is_left();
}

#[test]
fn a_run_is_done_again_from_a_step_and_from_its_beginning() {
    let project = Project::new();
    let text = "name: steps\ninputs:\n  - {name: word, type: string, default: one}\nstates:\n  initial: a\n  a:\n    \
                type: command\n    command: echo a >> ran.txt\n    on_success: b\n  b:\n    type: command\n    \
                command: echo b-{{.inputs.word}} >> ran.txt\n    on_success: done\n  done: {type: terminal}\n";
    project.workflow("steps", text);
    project.run(&["steps"], 0);
    let id = project.newest();
    let output = project.cli(&[
        "workflow", "resume", &id, "--from", "b", "--input", "word=two",
    ]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(project.read("ran.txt"), "a\nb-one\nb-two\n");
    let output = project.cli(&["workflow", "rerun", &id]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(project.read("ran.txt"), "a\nb-one\nb-two\na\nb-two\n");
    let output = project.cli(&["workflow", "resume", &id, "--from", "nowhere"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    let status = project.cli(&["workflow", "status", &id, "-f", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(
        status["state"], "succeeded",
        "a refused resume changes nothing"
    );
    let output = project.cli(&["workflow", "resume", "zzzz"]);
    assert!(
        output.stderr.contains("there is no run zzzz"),
        "{}",
        output.stderr
    );
    for command in ["status", "cancel", "resume", "rerun"] {
        let output = project.cli(&["workflow", command, "zzzz"]);
        assert_eq!(output.code, 4, "{command}: {}", output.stderr);
        assert!(output.stderr.contains("there is no run zzzz"), "{command}");
    }
}

/// Each step adds a line of its own, and the last needs what the others said.
const CHAIN: &str = "\
name: chain
inputs:
  - {name: word, type: string, default: one}
hooks:
  workflow_start: [{command: echo start >> ran.txt}]
states:
  initial: a
  a: {type: command, command: 'echo a >> ran.txt; printf from-a', on_success: b, on_failure: bad}
  b: {type: command, command: 'echo b-{{.inputs.word}} >> ran.txt; printf %s-b {{.states.a.Output}}', on_success: c, on_failure: bad}
  c: {type: command, command: 'echo c >> ran.txt; echo {{.states.b.Output}}; test ! -e broken', on_success: done, on_failure: bad}
  done: {type: terminal}
  bad: {type: terminal, status: failure, message: it broke}
";

#[test]
fn one_step_of_a_run_is_run_again_alone_with_what_came_before_it() {
    let project = Project::new();
    project.workflow("chain", CHAIN);
    fs::write(project.folder.join("broken"), "").unwrap();
    project.run(&["chain"], 1);
    let id = project.newest();
    let before = project.cli(&["workflow", "status", &id, "-f", "json"]);
    fs::remove_file(project.folder.join("broken")).unwrap();
    fs::remove_file(project.folder.join("ran.txt")).unwrap();
    let output = project.cli(&["workflow", "rerun", &id, "--step", "b", "-i", "word=two"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(output.stdout, "from-a-b\n");
    assert_eq!(
        project.read("ran.txt"),
        "b-two\n",
        "that step and nothing else"
    );
    let again = project.newest();
    let status = project.cli(&["workflow", "status", &again, "-f", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["rerunOf"], id.as_str(), "{status}");
    assert_eq!(status["state"], "succeeded");
    let after = project.cli(&["workflow", "status", &id, "-f", "json"]);
    assert_eq!(before.stdout, after.stdout, "the earlier run is as it was");
    // It fails as its step does, and says where there is no such step.
    fs::write(project.folder.join("broken"), "").unwrap();
    let output = project.cli(&["workflow", "rerun", &id, "--step", "c"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let output = project.cli(&["workflow", "rerun", &id, "--step", "cc"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("there is no step cc"), "{output:?}");
    let output = project.cli(&["workflow", "rerun", &id, "--step", "a", "--from", "b"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
}

#[test]
fn a_new_run_goes_from_a_step_of_an_earlier_one_to_the_end_also_after_a_crash() {
    let project = Project::new();
    project.workflow("chain", CHAIN);
    project.run(&["chain"], 0);
    let id = project.newest();
    fs::remove_file(project.folder.join("ran.txt")).unwrap();
    // The file is taken as it is now.
    project.workflow("chain", &CHAIN.replace("echo c >>", "echo new-c >>"));
    let mut command = project.command(&["workflow", "rerun", &id, "--from", "b"]);
    let died = command
        .env("AGENTCRAFT_CRASH_AT", "workflow.taken:1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(died.code(), None, "it lived");
    let output = project.cli(&["workflow", "resume", &project.newest()]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(project.read("ran.txt"), "start\nb-one\nnew-c\n");
}

#[test]
fn a_new_workflow_runs_is_listed_shown_and_drawn() {
    let project = Project::new();
    let output = project.cli(&["workflow", "new", "first"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let output = project.cli(&["workflow", "new", "first"]);
    assert_eq!(output.code, 1, "an existing one is not overwritten");
    let output = project.run(&["first", "-i", "who=it's me"], 0);
    assert!(
        output.stdout.starts_with("hello it's me\n"),
        "{}",
        output.stdout
    );
    let output = project.cli(&["workflow", "list"]);
    assert!(output.stdout.contains("first"), "{}", output.stdout);
    let output = project.cli(&["workflow", "show", "first"]);
    assert!(output.stdout.contains("who (string"), "{}", output.stdout);
    let output = project.cli(&["workflow", "graph", "first", "--mermaid"]);
    assert!(output.stdout.contains("greet"), "{}", output.stdout);
    let output = project.cli(&["workflow", "show", "nothing"]);
    assert_ne!(output.code, 0);
}

#[test]
fn prompts_scripts_and_their_interpreters_are_found_beside_the_workflow() {
    let project = Project::new();
    let folder = project.folder.join(".agentcraft/scripts");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("plain.sh"), "echo plain {{.inputs.x}}\n").unwrap();
    fs::write(
        folder.join("own.py"),
        "#!/usr/bin/env python3\nprint('from python', {{.inputs.x}})\n",
    )
    .unwrap();
    let text = "name: scripts\ninputs:\n  - {name: x, type: integer, default: 5}\nstates:\n  initial: a\n  a:\n    \
                type: command\n    script_file: plain.sh\n    on_success: b\n  b:\n    type: command\n    \
                script_file: own.py\n    on_success: done\n  done: {type: terminal}\n";
    project.workflow("scripts", text);
    let output = project.run(&["scripts"], 0);
    assert_eq!(output.stdout, "plain 5\nfrom python 5\n");
}

/// Runs for as long as its input says, or leaves something behind, as the same step of the same workflow.
const SAME: &str = "\
name: same
inputs:
  - {name: who, type: string, required: true}
states:
  initial: work
  work:
    type: step
    command: |
      case {{.inputs.who | shell_quote}} in
      slow) touch DIR/began; while [ ! -e DIR/go ]; do sleep 0.02; done ;;
      *) setsid sleep 600 & ;;
      esac
      echo done {{.inputs.who | shell_quote}}
    on_success: done
    on_failure: failed
  done: {type: terminal, message: '{{.states.work.Output}}'}
  failed: {type: terminal, status: failure, message: '{{.states.work.ExitCode}}'}
";

#[test]
fn the_same_step_of_another_run_is_not_ended_with_what_a_step_leaves_behind() {
    let mut home = node().stopped();
    let folder = home.scratch("same");
    fs::create_dir_all(&folder).unwrap();
    let workflows = home.home().join("configs/workflows");
    fs::create_dir_all(&workflows).unwrap();
    let text = SAME.replace("DIR", &folder.display().to_string());
    fs::write(workflows.join("same.yaml"), text).unwrap();
    home.start();
    let run = |who| ["agent", "run", "workflow:same", "-p", who];
    let slow = home
        .command(&run("slow"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the slow one works", || folder.join("began").exists());
    let quick = home.cli(&run("quick"));
    assert!(quick.stdout.contains("done quick"), "{quick:?}");
    fs::write(folder.join("go"), "").unwrap();
    let slow = slow.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&slow.stdout);
    assert!(said.contains("done slow"), "{slow:?}");
}
