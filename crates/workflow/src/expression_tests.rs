//! Conditions hold as in the original language, and no text can bring the machine down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::machine::{Record, Setup, StepStatus};
use crate::scope::LoopView;
use crate::world::{EmptyWorld, World};

fn holds_here(text: &str) -> Result<bool, String> {
    let setup = Setup {
        inputs: json!({"n": "5", "flag": "true", "word": "main", "list": ["a"], "rate": "1.5", "yes": "True", "no": "FALSE"})
            .as_object()
            .cloned()
            .unwrap(),
        ..Setup::default()
    };
    let record = Record {
        output: "all tests passed\n".to_owned(),
        exit_code: 0,
        status: StepStatus::Succeeded,
        ..Record::default()
    };
    let records = BTreeMap::from([("test".to_owned(), record)]);
    let loops = [LoopView {
        item: json!("b"),
        index: 1,
        length: Some(2),
    }];
    let world: Arc<dyn World> = Arc::new(EmptyWorld);
    let scope = Scope {
        workflow: "demo",
        setup: &setup,
        records: &records,
        loops: &loops,
        failure: None,
        elapsed: Duration::ZERO,
        current: "",
        world: &world,
    };
    holds(text, &scope)
}

#[test]
fn conditions_hold_as_written() {
    let cases = [
        ("states.test.ExitCode == 0", true),
        ("states.test.ExitCode != 0", false),
        (r#"states.test.Output contains "passed""#, true),
        (
            r#"states.test.Output startsWith "all" and states.test.Output endsWith "\n""#,
            true,
        ),
        ("inputs.n > 3", true),
        ("inputs.rate > 1.2 and inputs.rate < 1.6", true),
        ("inputs.yes and not inputs.no", true),
        (r#"states.test?.Output contains "passed""#, true),
        (r#"states.later?.Output == """#, true),
        (r#"states.test.Output not contains "failed" and true"#, true),
        (
            r#"true and states.test.Output not contains "passed""#,
            false,
        ),
        (r#"inputs.word not in ["main", "dev"] or false"#, false),
        (r#"contains(states.test.Output, "tests")"#, true),
        (
            r#"has_prefix(inputs.word, "ma") && has_suffix(inputs.word, "in")"#,
            true,
        ),
        ("inputs.n >= 5 && inputs.n <= 5", true),
        ("inputs.flag", true),
        ("not inputs.flag or inputs.n < 2", false),
        (r#"inputs.word == "main""#, true),
        (r#"inputs.word in ["main", "dev"]"#, true),
        (r#"inputs.word matches "^m.*n$""#, true),
        ("loop.Index == 1 and loop.Last", true),
        (r#"loop.Item == "b""#, true),
        ("inputs.n + 1 == 6", true),
        ("len(inputs.list) == 1", true),
        (r#"states.never.Status == "completed""#, false),
        ("states.never.ExitCode == 0", true),
        (r#"states.test.Status == "completed" ? true : false"#, true),
    ];
    for (text, expected) in cases {
        assert_eq!(holds_here(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_no_condition_is_refused_in_words() {
    let cases = [
        "",
        "inputs.n",
        "1 +",
        "{{.inputs.n}} == 1",
        "{s:{a:1}} == 1",
        "unknown_name == 1",
        "now() != 0",
        "1..100000000 == 1",
        r#"repeat("x", 1000000000) == "x""#,
        "inputs.n.deeper.still == 1",
    ];
    for text in cases {
        let outcome = holds_here(text);
        assert!(outcome.is_err(), "{text}: {outcome:?}");
    }
}

#[test]
fn monsters_are_refused_before_they_reach_the_library() {
    let cases = [
        "(".repeat(10_000),
        format!("{}1{}", "(".repeat(200), ")".repeat(200)),
        vec!["1"; 3000].join("+"),
        vec!["true"; 1000].join(" and "),
        "a?".repeat(500),
        "a.".repeat(1000),
        "[".repeat(300),
    ];
    for text in cases {
        assert!(check(&text).is_err(), "{}", &text[..20]);
    }
    assert!(check("{s:{a:1}}").is_err());
    assert!(check("states.a.Output contains 'x' and (inputs.b == 1 or not inputs.c)").is_ok());
}

#[test]
fn arithmetic_gives_whole_numbers() {
    let cases = [
        ("3", Some(3)),
        ("2 * 5 + 1", Some(11)),
        ("7 / 2", Some(3)),
        ("1 / 0", None),
        ("true", None),
        ("x", None),
    ];
    for (text, expected) in cases {
        assert_eq!(whole_number(text).ok(), expected, "{text}");
    }
}

#[test]
fn references_and_functions_are_found() {
    let paths: Vec<String> = references(
        r#"states.a.ExitCode == 0 and inputs.b contains "states.not" or len(env.C) > 1"#,
    )
    .into_iter()
    .map(|reference| reference.path.join("."))
    .collect();
    assert_eq!(paths, ["states.a.ExitCode", "inputs.b", "env.C"]);
    assert_eq!(
        unknown_functions("lenght(inputs.a) > 1 and len(inputs.b) > 1"),
        ["lenght"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_text_brings_the_machine_down(text in r#"[a-z0-9.(){}\[\]:?"'=<>+*/ ,!&|#-]{0,60}"#) {
        let _ = check(&text);
        let _ = holds_here(&text);
    }
}
