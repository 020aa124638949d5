//! Components: what is read, what is refused, and that both formats agree.

use serde_json::json;

use super::*;

fn lines<T>(checked: &Checked<T>) -> Vec<String> {
    checked.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn every_kind_survives_the_round_trip_and_leaves_out_what_is_absent() {
    fn check<T: Serialize + PartialEq + std::fmt::Debug>(
        parse: impl Fn(&str, Format) -> Checked<T>,
        value: Value,
    ) {
        let text = value.to_string();
        let from_json = parse(&text, Format::Json);
        assert_eq!(lines(&from_json), Vec::<String>::new());
        assert_eq!(from_json, parse(&text, Format::Yaml));
        assert_eq!(
            serde_json::to_value(from_json.value.unwrap()).unwrap(),
            value
        );
    }
    check(parse_skill, json!({"name": "s", "content": "c"}));
    check(
        parse_skill,
        json!({"name": "s", "description": "d", "content": "c", "tags": ["t"]}),
    );
    check(
        parse_prompt,
        json!({"name": "p", "content": "{{x}}", "variables": ["x"]}),
    );
    check(parse_mcp_server, json!({"name": "m", "command": "npx"}));
    check(
        parse_mcp_server,
        json!({"name": "m", "command": "npx", "args": ["-y"], "env": {"A": "b"}}),
    );
    check(
        |text, format| parse_workflow(text, format, "f"),
        json!({"name": "w", "content": "# W"}),
    );
}

#[test]
fn all_problems_of_a_component_come_at_once() {
    let skill = parse_skill("nmae: x\ncontent: ''\ntags: [1]\n", Format::Yaml);
    assert_eq!(skill.value, None);
    assert_eq!(
        lines(&skill),
        [
            "name: is missing",
            "content: must not be empty",
            "tags[0]: must be text, but is a number; put it in quotes",
            "nmae: is not a known key and is ignored; did you mean \"name\"?",
        ]
    );
    let server = parse_mcp_server(
        r#"{"name": "a/b", "args": "x", "env": {"A B": "c"}}"#,
        Format::Json,
    );
    assert_eq!(
        lines(&server),
        [
            "name: \"a/b\" is not a name: a name holds letters, digits, `_` and `-` only, not '/'",
            "command: is missing",
            "args: must be a list, but is text",
            "env[\"A B\"]: \"A B\" is not the name of a variable",
        ]
    );
    let prompt = parse_prompt(
        "{name: p, content: 'hi {{who}}', variables: [whom]}",
        Format::Yaml,
    );
    assert_eq!(
        lines(&prompt),
        ["variables: \"whom\" is not in the content"]
    );
    assert!(prompt.is_valid());
    assert_eq!(lines(&parse_skill("", Format::Yaml)).len(), 1);
}

#[test]
fn a_file_of_states_is_a_workflow_taken_whole() {
    let text = "name: deploy\ndescription: Ship it\nstates:\n  initial: a\n";
    let expected = Workflow {
        name: Name::parse("deploy").unwrap(),
        description: Some("Ship it".to_owned()),
        content: text.to_owned(),
    };
    let checked = parse_workflow(text, Format::Yaml, "other");
    assert_eq!((checked.value, checked.problems), (Some(expected), vec![]));

    let cases = [
        ("states: {}\n", "from-file", Some("from-file"), vec![]),
        (
            "name: My flow\nstates: {}\n",
            "flow",
            Some("flow"),
            vec!["name: is not a name of ours; the file's name \"flow\" is used"],
        ),
        (
            "states: {}\n",
            "my flow",
            None,
            vec![
                "name: is missing, and the file's name does not serve: a name holds letters, digits, `_` and `-` only, not ' '",
            ],
        ),
    ];
    for (text, stem, name, problems) in cases {
        let checked = parse_workflow(text, Format::Yaml, stem);
        assert_eq!(lines(&checked), problems, "{text}");
        assert_eq!(
            checked
                .value
                .as_ref()
                .map(|workflow| workflow.name.as_str()),
            name
        );
    }
}

#[test]
fn deserialising_checks_like_reading_a_file() {
    let error =
        serde_json::from_value::<Skill>(json!({"name": "../x", "content": ""})).unwrap_err();
    assert!(error.to_string().contains("is not a name"), "{error}");
    assert!(error.to_string().contains("(and 1 more)"), "{error}");
}

#[test]
fn ten_thousand_unknown_keys_give_a_bounded_answer() {
    let mut value = json!({"name": "s", "content": "c"});
    for index in 0..10_000 {
        value[format!("key{index}")] = json!(1);
    }
    let checked = parse_skill(&value.to_string(), Format::Json);
    assert!(checked.is_valid());
    assert_eq!(checked.problems.len(), crate::PROBLEMS_MAX + 1);
    assert_eq!(
        checked.problems[crate::PROBLEMS_MAX].message,
        "… and 9900 more"
    );
}
