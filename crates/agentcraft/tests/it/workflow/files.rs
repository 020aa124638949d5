//! What the commands say of workflow files, and what a file cannot get around.

use std::fs;

use serde_json::Value;

use super::{Project, editor::step};
use crate::node;

#[test]
fn files_that_are_no_workflows_are_listed_with_their_problem() {
    let project = Project::new();
    project.workflow("fine", &step("true"));
    project.workflow("cut", "name: cut\nstates: {initial: a\n");
    project.workflow("text", "just words\n");
    let two = "name: two\nversoin: 1\nstates:\n  initial: gone\n  done: {type: terminal}\n";
    project.workflow("two", two);
    let listed = project.cli(&["workflow", "list", "-f", "json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let rows: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["cut", "fine", "text", "two"]);
    for row in rows.iter().filter(|row| row["name"] != "fine") {
        assert_eq!(row["valid"], false, "{row}");
        assert!(!row["problems"].as_array().unwrap().is_empty(), "{row}");
    }
    let words = rows[3]["description"].as_str().unwrap();
    assert!(words.contains("gone"), "a warning hides the error: {words}");
    let table = project.cli(&["workflow", "list"]);
    assert!(
        table.stdout.contains("cut") && table.stdout.contains("invalid"),
        "{}",
        table.stdout
    );
}

#[test]
fn what_is_usual_for_a_secret_input_is_not_shown() {
    let project = Project::new();
    let inputs = "inputs: [{name: api_token, type: string, default: hush-hush-1}, {name: n, type: integer, default: 7}]\n";
    project.workflow("usual", &format!("{inputs}{}", step("true")));
    for arguments in [
        &["show", "usual"][..],
        &["show", "usual", "-f", "json"],
        &["graph", "usual", "-f", "json"],
    ] {
        let output = project.cli(&[&["workflow"], arguments].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(
            !output.stdout.contains("hush"),
            "{arguments:?}: {}",
            output.stdout
        );
        assert!(
            output.stdout.contains('7'),
            "{arguments:?}: {}",
            output.stdout
        );
    }
}

#[test]
fn a_rule_that_allows_everything_gives_no_approval_of_a_workflow() {
    let rules = "[permissions]\ndefault = \"allow\"\n[[permissions.rules]]\nkind = \"other\"\ndecision = \"allow\"\ndestructive = true\n";
    let project = Project::of(node().file("config.toml", rules).stopped());
    for more in ["", ", destructive: true"] {
        let text = format!(
            "name: gate\nstates:\n  initial: a\n  a: {{type: command, command: touch done, approval: {{message: 'Go on?', on_deny: error{more}}}, on_success: done}}\n  \
             done: {{type: terminal}}\n"
        );
        project.workflow("gate", &text);
        let output = project.run(&["gate"], 3);
        assert!(!project.folder.join("done").exists(), "{output:?}");
    }
}

#[test]
fn a_role_or_a_skill_that_is_not_there_is_told_by_validate_with_its_place() {
    let project = Project::new();
    let text = "name: who\nstates:\n  initial: ask\n  ask:\n    type: agent\n    provider: claude\n    role: critic\n    \
                skills: [owls, '{{.inputs.x}}']\n    prompt: hi\n    on_success: done\n  done: {type: terminal}\ninputs: [{name: x}]\n";
    project.workflow("who", text);
    let told = || {
        let output = project.cli(&["workflow", "validate", "who", "-f", "json"]);
        assert_eq!(output.code, 0, "{output:?}");
        let told: Value = serde_json::from_str(&output.stdout).unwrap();
        let problems = told["problems"].as_array().unwrap().clone();
        let about = |it: &Value| {
            (
                it["code"].as_str().unwrap().to_owned(),
                it["line"].as_u64().unwrap(),
            )
        };
        problems.iter().map(about).collect::<Vec<_>>()
    };
    let (role, skill) = ("USER.INPUT.MISSING_ROLE", "USER.INPUT.MISSING_SKILL");
    assert_eq!(told(), [(role.to_owned(), 7), (skill.to_owned(), 8)]);
    for (file, name) in [("roles/critic", "AGENTS.md"), ("skills/owls", "SKILL.md")] {
        let folder = project.folder.join(".agents").join(file);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), "text").unwrap();
    }
    assert_eq!(told(), []);
}
