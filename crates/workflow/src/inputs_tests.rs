//! Inputs are checked all at once, in the words that users of the format know.

use serde_json::json;

use super::*;
use crate::world::{FileKind, World};

#[derive(Debug)]
struct Desk;

impl World for Desk {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "HOME").then(String::new)
    }

    fn read(&self, _kind: FileKind, path: &str) -> Result<String, String> {
        Err(path.to_owned())
    }

    fn exists(&self, path: &str) -> bool {
        path == "there.md"
    }
}

fn plan(inputs: &str) -> Plan {
    let text = format!(
        "name: demo\nenv: [HOME]\ninputs:\n{inputs}\nstates:\n  initial: done\n  done: {{type: terminal}}\n"
    );
    let loaded = crate::load(&text, &|_| Err("none".to_owned()));
    loaded
        .plan
        .unwrap_or_else(|| panic!("{:?}", loaded.problems))
}

fn checked(inputs: &str, given: Value) -> Result<Value, Vec<String>> {
    check_inputs(&plan(inputs), given.as_object().unwrap(), &Desk)
        .map(Value::Object)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

#[test]
fn values_are_taken_for_what_the_workflow_asks_for() {
    let inputs =
        "  - {name: s}\n  - {name: n, type: integer, default: 4}\n  - {name: b, type: boolean}\n";
    let cases = [
        (json!({}), json!({"s": "", "n": 4, "b": null})),
        (
            json!({"s": 1, "n": "7", "b": "yes"}),
            json!({"s": "1", "n": 7, "b": true}),
        ),
        (
            json!({"s": "x", "n": 7, "b": false}),
            json!({"s": "x", "n": 7, "b": false}),
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(checked(inputs, given.clone()), Ok(expected), "{given}");
    }
}

#[test]
fn every_violation_is_told_with_its_code() {
    let inputs = "  - {name: n, type: integer, validation: {min: 1, max: 5}}\n  - {name: env, validation: {enum: [dev, prod]}}\n  - {name: id, required: true, validation: {pattern: '^[a-z]+$'}}\n  - {name: file, validation: {file_exists: true, file_extension: [.md]}}\n";
    let cases = [
        (
            json!({"id": "a", "n": 9}),
            "USER.INPUT.VALIDATION_FAILED: inputs.n: value 9 exceeds maximum 5",
        ),
        (
            json!({"id": "a", "n": 0}),
            "USER.INPUT.VALIDATION_FAILED: inputs.n: value 0 is below minimum 1",
        ),
        (
            json!({"id": "a", "n": "x"}),
            "USER.INPUT.VALIDATION_FAILED: inputs.n: value \"x\" is not of type integer",
        ),
        (
            json!({"id": "a", "env": "test"}),
            "USER.INPUT.VALIDATION_FAILED: inputs.env: value \"test\" is not one of dev, prod",
        ),
        (
            json!({"id": "A1"}),
            "USER.INPUT.VALIDATION_FAILED: inputs.id: value \"A1\" does not match pattern \"^[a-z]+$\"",
        ),
        (
            json!({}),
            "USER.INPUT.VALIDATION_FAILED: inputs.id: required, and not given",
        ),
        (
            json!({"id": "a", "file": "gone.md"}),
            "USER.INPUT.MISSING_FILE: inputs.file: the file \"gone.md\" is not there",
        ),
        (
            json!({"id": "a", "file": "there.txt"}),
            "USER.INPUT.VALIDATION_FAILED: inputs.file: \"there.txt\" does not end in .md",
        ),
        (
            json!({"id": "a", "evn": "dev"}),
            "USER.INPUT.INVALID_FORMAT: inputs.evn: the workflow has no such input (did you mean env?)",
        ),
    ];
    for (given, expected) in cases {
        let words = checked(inputs, given.clone()).unwrap_err();
        assert!(
            words.iter().any(|word| word == expected),
            "{given}: {words:?}"
        );
    }
    let all = checked(inputs, json!({"n": 9, "env": "x"})).unwrap_err();
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(
        checked(
            inputs,
            json!({"id": "a", "file": "there.md", "n": 5, "env": "dev"})
        )
        .is_ok()
    );
}

#[test]
fn a_variable_that_is_needed_must_be_set() {
    let mut plan = plan("  - {name: s}\n");
    plan.environment.push("NOT_SET".to_owned());
    let problems = check_inputs(&plan, &Map::new(), &Desk).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].message.contains("NOT_SET"));
}
