//! Every reading method: what it says, and at which path.

use serde_json::json;

use super::*;

/// Reads with one method and forgets the value; only the problems matter here.
type Read = fn(&Node<'_>);

fn problems_of(value: &Value, read: Read) -> Vec<String> {
    let problems = Problems::default();
    read(&Node::root(value, &problems));
    let checked = problems.finish(Some(()));
    checked.problems.iter().map(ToString::to_string).collect()
}

macro_rules! cases {
    ($($value:tt, $node:ident => $read:expr, $expected:expr;)*) => {{
        let cases: Vec<(Value, Read, &str)> = vec![$((json!($value), |$node| { let _ = $read; }, $expected)),*];
        cases
    }};
}

#[test]
fn each_reading_method_says_what_is_wrong_and_where() {
    let cases = cases![
        1, n => n.mapping(), "must be a mapping, but is a number";
        "x", n => n.list(), "must be a list, but is text";
        1.5, n => n.text(), "must be text, but is a number; put it in quotes";
        true, n => n.text(), "must be text, but is true or false; put it in quotes";
        null, n => n.text(), "must be text, but is empty";
        " \n", n => n.some_text(), "must not be empty";
        "a\0", n => n.program(), "must not hold a NUL character";
        0, n => n.integer(1, 9), "must be a whole number from 1 to 9, but is 0";
        1.5, n => n.integer(1, 9), "must be a whole number from 1 to 9, but is 1.5";
        "3", n => n.integer(1, 9), "must be a whole number, but is text";
        "../x", n => n.name(), "\"../x\" is not a name: a name begins with a letter or a digit, not with '.'";
        "/x", n => n.relative_path(), "\"/x\" is refused: a path must be relative to the workspace";
        "gren", n => n.choice(&[("red", 1), ("green", 2)]), "\"gren\" is not one of red, green; did you mean \"green\"?";
        ["a", 1], n => n.arguments(), "[1]: must be text, but is a number; put it in quotes";
        ["a", ""], n => n.texts(), "[1]: must not be empty";
        ["a", "a"], n => n.names(), "[1]: \"a\" is listed twice";
        {"A=B": "x"}, n => n.environment(), "[\"A=B\"]: \"A=B\" is not the name of a variable";
        {"A": 1}, n => n.environment(), "A: must be text, but is a number; put it in quotes";
        {"k": []}, n => n.text_map(), "k: must be text, but is a list";
        {"b": 1}, n => n.mapping().unwrap().required("a"), "a: is missing";
        {"a": null}, n => n.mapping().unwrap().required("a"), "a: is missing";
    ];
    for (value, read, expected) in cases {
        assert_eq!(problems_of(&value, read), [expected], "{value}");
    }
}

#[test]
fn unknown_keys_are_named_with_what_was_probably_meant() {
    let value = json!({"naem": 1, "zzz": 2, "name": 3});
    let lines = problems_of(&value, |node| {
        let mapping = node.mapping().unwrap();
        mapping.optional("name");
        mapping.report_unknown_keys();
    });
    assert_eq!(
        lines,
        [
            "naem: is not a known key and is ignored; did you mean \"name\"?",
            "zzz: is not a known key and is ignored",
        ]
    );
}
