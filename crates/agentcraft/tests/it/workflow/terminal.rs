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
