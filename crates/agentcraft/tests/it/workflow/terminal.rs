//! A run on a real terminal: what is missing is asked for, approvals are given, conversations are led, Ctrl-C cancels.

use testkit::eventually;

use super::Project;
use crate::terminal::pty::Pty;

const COLUMNS: u16 = 80;

fn run(project: &Project, name: &str) -> Pty {
    let file = project
        .folder
        .join(".agentcraft/workflows")
        .join(format!("{name}.yaml"));
    let (file, folder) = (file.to_string_lossy(), project.folder.to_string_lossy());
    let arguments = ["workflow", "run", &file, "--cwd", &folder];
    Pty::open(&project.home, COLUMNS, &arguments)
}

fn project() -> Project {
    let project = Project::new();
    project.examples();
    project
}

#[test]
fn a_missing_input_is_asked_for() {
    let project = project();
    let mut terminal = run(&project, "01-greet");
    terminal.see("who (Whom to greet):");
    terminal.say("Ann");
    terminal.see("greeted Ann");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_dry_run_asks_nothing() {
    let project = project();
    let file = project.folder.join(".agentcraft/workflows/01-greet.yaml");
    let file = file.to_string_lossy();
    let mut terminal = Pty::open(
        &project.home,
        COLUMNS,
        &["workflow", "run", &file, "--dry-run"],
    );
    assert_eq!(terminal.end(), 1, "{}", terminal.text());
    let shown = terminal.text();
    assert!(shown.contains("USER.INPUT"), "{shown}");
    assert!(!shown.contains("Whom to greet):"), "{shown}");
}

#[test]
fn what_steps_print_is_shown_with_retries_and_what_failed() {
    let project = project();
    let text = "name: shown\nstates:\n  initial: many\n  many: {type: command, command: 'echo first words; seq 1 20000', on_success: flaky}\n  \
                flaky: {type: command, command: 'test -e tried || { touch tried; exit 7; }', \
                retry: {max_attempts: 2, initial_delay: 1ms}, on_success: bad}\n  \
                bad: {type: command, command: 'echo some; exit 3', continue_on_error: true, on_success: sub}\n  \
                sub: {type: call_workflow, workflow: inner, on_success: done}\n  done: {type: terminal, message: all over}\n";
    project.workflow("shown", text);
    project.workflow("inner", &text_of_inner());
    let mut terminal = run(&project, "shown");
    terminal.see("all over");
    assert_eq!(terminal.end(), 0, "{}", terminal.text());
    let shown = terminal.text().replace('\r', "");
    assert!(shown.contains("execute many\nfirst words\n1\n2\n"));
    assert!(shown.contains("\n19999\n20000\n"));
    for part in [
        "flaky: attempt 1 failed: exit code 7; trying again",
        "] bad (failed)\n",
        "execute bad\nsome\nexit code 3\n",
        "execute sub/deep\nfrom below\n",
    ] {
        let around = &shown[shown.rfind("20000").unwrap()..];
        assert!(around.contains(part), "{part}: {around}");
    }
}

fn text_of_inner() -> String {
    "name: inner\nstates:\n  initial: deep\n  deep: {type: command, command: echo from below, on_success: done}\n  \
     done: {type: terminal}\n"
        .to_owned()
}

#[test]
fn an_approval_is_given_or_refused_by_the_person() {
    for (answer, exists) in [("y", true), ("n", false)] {
        let project = project();
        let mut terminal = run(&project, "05-approval");
        terminal.see("Publish artifact.txt?");
        terminal.see("choose");
        terminal.say(answer);
        terminal.see("publish: ");
        assert_eq!(terminal.end(), 0);
        assert_eq!(
            project.folder.join("published.txt").exists(),
            exists,
            "{answer}"
        );
    }
}

#[test]
fn a_conversation_is_led_line_by_line() {
    let project = project();
    let mut terminal = run(&project, "10-conversation");
    terminal.see("What shall we talk about?");
    terminal.see("you>");
    terminal.say("about owls");
    terminal.see("You said: about owls");
    terminal.see("you>");
    terminal.say("");
    terminal.see("written down");
    assert_eq!(terminal.end(), 0);
    project.nothing_is_left();
}

#[test]
fn ctrl_c_cancels_the_run() {
    let project = project();
    let text = "name: long\nstates:\n  initial: a\n  a:\n    type: command\n    command: touch started; sleep 60\n    \
                on_success: done\n  done: {type: terminal}\n";
    project.workflow("long", text);
    let mut terminal = run(&project, "long");
    eventually("the step is at work", || {
        project.folder.join("started").exists()
    });
    terminal.press(b"\x03");
    terminal.see("cancelling");
    assert_eq!(terminal.end(), 130);
    project.nothing_is_left();
}

/// An approval that is waited for at most so long.
fn gate(timeout: &str) -> String {
    format!(
        "name: gate\nstates:\n  initial: ask\n  ask: {{type: command, command: echo went, \
         approval: {{message: 'Go on?', timeout: {timeout}, on_deny: error}}, on_success: done, on_failure: late}}\n  done: {{type: terminal}}\n  \
         late: {{type: command, command: 'echo it was too late', on_success: done}}\n"
    )
}

#[test]
fn an_approval_leaves_the_terminal_when_its_time_is_over() {
    let project = project();
    project.workflow("gate", &gate("400ms"));
    let mut terminal = run(&project, "gate");
    terminal.see("choose 1-2");
    terminal.press(b"half an answ");
    terminal.see("nobody approved in time");
    assert_eq!(terminal.end(), 0, "{}", terminal.text());
    assert!(terminal.is_as_usual());
    project.nothing_is_left();
}

#[test]
fn a_signal_and_a_cancel_are_heard_while_a_question_is_read() {
    let talking = "What shall we talk about?";
    for (name, until, is_signal) in [
        ("gate", "choose 1-2", true),
        ("gate", "choose 1-2", false),
        ("10-conversation", talking, true),
        ("10-conversation", talking, false),
    ] {
        let project = project();
        project.workflow("gate", &gate("1h"));
        let mut terminal = run(&project, name);
        terminal.see(until);
        if name != "gate" {
            terminal.see("you>");
        }
        if is_signal {
            testkit::kill(terminal.pid(), "TERM");
        } else {
            let output = project.cli(&["workflow", "cancel", &project.newest()]);
            assert_eq!(output.code, 0, "{}", output.stderr);
        }
        assert_eq!(
            terminal.end(),
            130,
            "{name} {is_signal}: {}",
            terminal.text()
        );
        assert!(terminal.is_as_usual(), "{name} {is_signal}");
        project.nothing_is_left();
    }
}

#[test]
fn two_approvals_at_once_are_asked_one_after_the_other() {
    let project = project();
    let text = "name: two\nstates:\n  initial: both\n  both: {type: parallel, parallel: [left, right], on_success: done}\n  \
                left: {type: command, command: 'echo left went', approval: {message: 'Shall left go?'}}\n  \
                right: {type: command, command: 'echo right went', approval: {message: 'Shall right go?'}}\n  \
                done: {type: terminal, message: both went}\n";
    project.workflow("two", text);
    let mut terminal = run(&project, "two");
    for _ in 0..2 {
        terminal.see("choose 1-2");
        terminal.say("1");
    }
    terminal.see("both went");
    assert_eq!(terminal.end(), 0, "{}", terminal.text());
}
