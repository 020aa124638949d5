//! Every example of the documentation does what it says.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
};

use super::Project;

fn project() -> Project {
    let project = Project::new();
    project.examples();
    project
}

#[test]
fn every_example_is_valid_and_there_are_ten() {
    let project = project();
    let listed = project.cli(&["workflow", "list", "-f", "quiet"]);
    let names: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!(names.len(), 10, "{names:?}");
    for name in names {
        let output = project.cli(&["workflow", "validate", name]);
        assert_eq!(output.code, 0, "{}", output.stdout);
        assert!(output.stdout.ends_with("valid\n"), "{}", output.stdout);
    }
}

#[test]
fn greet_greets_and_refuses_what_its_input_does_not_allow() {
    let project = project();
    let output = project.run(&["01-greet", "--input", "who=Ann Lee", "-i", "times=2"], 0);
    assert_eq!(
        output.stdout,
        "hello Ann Lee\nhello Ann Lee\ngreeted Ann Lee\n"
    );
    let output = project.run(&["01-greet"], 1);
    assert!(output.stderr.contains("inputs.who"), "{}", output.stderr);
    let output = project.run(&["01-greet", "-i", "who=$(id)", "-i", "times=9"], 1);
    assert!(output.stderr.contains("inputs.who"), "{}", output.stderr);
    assert!(output.stderr.contains("inputs.times"), "{}", output.stderr);
}

#[test]
fn parallel_checks_run_all_and_report() {
    let output = project().run(&["02-parallel-checks"], 0);
    for line in [
        "format is fine",
        "lint is fine",
        "spelling is fine",
        "all checks passed",
    ] {
        assert!(output.stdout.contains(line), "{}", output.stdout);
    }
}

#[test]
fn loops_go_round_as_often_as_they_should() {
    let project = project();
    project.run(&["03-loops"], 0);
    // What an earlier run has left is in nobody's way.
    let output = project.run(&["03-loops"], 0);
    assert!(
        output
            .stdout
            .contains("1 of 3 is red\n2 of 3 is green\n3 of 3 is blue\n")
    );
    assert!(
        output.stdout.ends_with("counted to 3\n"),
        "{}",
        output.stdout
    );
    assert_eq!(project.read("loops.txt").lines().count(), 3);
}

#[test]
fn an_agent_answers_and_its_words_go_on() {
    let project = project();
    let output = project.run(&["04-agent", "-i", "topic=owls"], 0);
    assert!(
        output.stdout.contains("Say something about owls."),
        "{}",
        output.stdout
    );
    assert!(
        project
            .read("answer.txt")
            .contains("Say something about owls.")
    );
    project.nothing_is_left();
}

#[test]
fn an_approval_that_nobody_can_give_skips_the_step() {
    let project = project();
    let output = project.run(&["05-approval"], 0);
    assert!(
        output.stdout.contains("publish: skipped"),
        "{}",
        output.stdout
    );
    assert!(!project.folder.join("published.txt").exists());
}

#[test]
fn retries_come_to_success_and_a_timeout_ends_what_takes_too_long() {
    let project = project();
    let output = project.run(&["06-retry-and-timeout"], 0);
    assert!(
        output.stdout.contains("slow timed_out"),
        "{}",
        output.stdout
    );
    assert_eq!(project.read("attempts.txt").lines().count(), 3);
    project.nothing_is_left();
}

#[test]
fn a_sub_workflow_is_a_run_of_its_own() {
    let project = project();
    let output = project.run(&["07-sub-workflow"], 0);
    assert!(
        output
            .stdout
            .contains("the inner run said greeted from above"),
        "{}",
        output.stdout
    );
    let listed = project.cli(&["workflow", "history", "-f", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let runs = listed["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    let outer = runs
        .iter()
        .find(|run| run["workflow"] == "07-sub-workflow")
        .unwrap();
    let inner = runs
        .iter()
        .find(|run| run["workflow"] == "01-greet")
        .unwrap();
    assert_eq!(inner["parent"], outer["id"]);
    assert_eq!(listed["statistics"]["succeeded"], 2);
}

#[test]
fn an_operation_fetches_over_http() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request);
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nthere";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let output = project().run(&["08-operation", "-i", &format!("url={url}")], 0);
    assert!(
        output.stdout.contains("the answer was there"),
        "{}",
        output.stdout
    );
    assert!(
        output.stderr.contains("fetched: there"),
        "{}",
        output.stderr
    );
}

#[test]
fn decisions_go_by_conditions_and_hooks_are_done() {
    let project = project();
    let output = project.run(&["09-decisions", "-i", "number=7"], 0);
    assert!(
        output.stdout.contains("a small number"),
        "{}",
        output.stdout
    );
    assert!(
        output.stderr.contains("deciding about 7"),
        "{}",
        output.stderr
    );
    assert_eq!(project.read("hooks.txt"), "before\nafter\nended\n");
    let output = project.run(&["09-decisions", "-i", "number=101"], 0);
    assert!(
        output.stdout.contains("a large number"),
        "{}",
        output.stdout
    );
    let output = project.run(&["09-decisions", "-i", "number=-1"], 1);
    assert!(
        output.stderr.contains("numbers below zero"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_conversation_goes_on_until_an_empty_line() {
    let project = project();
    let output = project.with_input(
        &["workflow", "run", "10-conversation"],
        "first words\nlast words\n\n",
    );
    assert_eq!(output.code, 0, "{}", output.stderr);
    for words in [
        "What shall we talk about?",
        "first words",
        "last words",
        "written down",
    ] {
        assert!(output.stdout.contains(words), "{words}: {}", output.stdout);
    }
    assert!(project.read("said.txt").contains("last words"));
    project.nothing_is_left();
}

#[test]
fn an_agent_can_be_made_of_a_template_for_the_step() {
    let project = Project::new();
    let templates = project.home.home().join("configs/templates");
    fs::create_dir_all(&templates).unwrap();
    let template = r#"{"name": "starter", "version": "1.0.0", "backend": {"type": "builtin"},
        "provider": {"type": "none"}, "domainContext": {}}"#;
    fs::write(templates.join("starter.json"), template).unwrap();
    project.workflow(
        "made",
        "name: made\nstates:\n  initial: ask\n  ask:\n    type: agent\n    provider: template:starter\n    \
         prompt: tell me\n    on_success: done\n    on_failure: failed\n  done: {type: terminal, status: success}\n  \
         failed: {type: terminal, status: failure}\n",
    );
    let output = project.run(&["made"], 0);
    assert!(output.stdout.contains("tell me"), "{}", output.stdout);
    project.nothing_is_left();
}
