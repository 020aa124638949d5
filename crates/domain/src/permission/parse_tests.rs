//! Claims about the written form of policies.

use serde_json::{Value, json};

use super::*;
use crate::turn::ToolKind;

fn parse(value: Value) -> Result<Policy, Vec<String>> {
    let object = value.as_object().unwrap();
    Policy::from_object(object)
        .map_err(|error| error.problems.iter().map(Problem::to_string).collect())
}

#[test]
fn the_full_form_is_read_and_written() {
    let written = json!({"default": "deny", "rules": [
        {"kind": ["read"], "decision": "allow"},
        {"kind": ["edit", "delete"], "path": "src/**", "decision": "allow", "reason": "ours", "destructive": true},
        {"command": "git status*", "decision": "allow"},
        {"tool": "mcp__files__*", "decision": "ask"},
    ]});
    let policy = parse(written.clone()).unwrap();
    assert_eq!(policy.default, Some(Decision::Deny));
    assert_eq!(policy.rules[1].kinds, [ToolKind::Edit, ToolKind::Delete]);
    assert_eq!(policy.rules[3].place.to_string(), "rule 4 of the policy");
    assert_eq!(serde_json::to_value(&policy).unwrap(), written);
    let again: Policy = serde_json::from_value(written).unwrap();
    assert_eq!(again, policy);
}

#[test]
fn the_same_is_read_from_toml() {
    let written = "default = \"deny\"\n[[rules]]\nkind = [\"edit\"]\npath = \"src/**\"\ndecision = \"allow\"\n";
    let policy: Policy = toml::from_str(written).unwrap();
    assert_eq!(policy.rules[0].to_string(), "edit of src/**");
    let error = toml::from_str::<Policy>("[[rules]]\nkidn = \"edit\"").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("rules[0]: \"kidn\" is not a known key; did you mean \"kind\"?")
    );
}

#[test]
fn one_kind_needs_no_list_and_nothing_is_needed_at_all() {
    let policy = parse(json!({"rules": [{"kind": "read", "decision": "allow"}]})).unwrap();
    assert_eq!(policy.rules[0].kinds, [ToolKind::Read]);
    let empty = parse(json!({})).unwrap();
    assert_eq!(empty, Policy::default());
    assert_eq!(empty.fallback(), Decision::Ask);
}

#[test]
fn the_short_form_is_looked_at_from_deny_to_allow() {
    let policy = parse(json!({
        "allow": ["read", "execute(git status*)", "edit(src/**)", "mcp__files__*"],
        "ask": ["fetch"],
        "deny": ["execute(rm *)"],
    }))
    .unwrap();
    let words: Vec<String> = policy
        .rules
        .iter()
        .map(|rule| format!("{}: {} {rule}", rule.place, rule.decision.as_str()))
        .collect();
    assert_eq!(
        words,
        [
            "entry 1 of the policy's deny list: deny execute of `rm *`",
            "entry 1 of the policy's ask list: ask fetch",
            "entry 1 of the policy's allow list: allow read",
            "entry 2 of the policy's allow list: allow execute of `git status*`",
            "entry 3 of the policy's allow list: allow edit of src/**",
            "entry 4 of the policy's allow list: allow the tool mcp__files__*",
        ]
    );
}

fn errors(cases: &[(Value, &str)]) {
    for (written, expected) in cases {
        let expected = Err(vec![(*expected).to_owned()]);
        assert_eq!(parse(written.clone()), expected, "{written}");
    }
}

#[test]
fn what_is_wrong_with_a_policy_is_told_with_its_place_and_the_nearest_right_word() {
    errors(&[
        (
            json!({"rule": []}),
            r#""rule" is not a known key; did you mean "rules"?"#,
        ),
        (
            json!({"defualt": "ask"}),
            r#""defualt" is not a known key; did you mean "default"?"#,
        ),
        (
            json!({"default": "alow"}),
            r#"default: "alow" is not one of allow, ask, deny; did you mean "allow"?"#,
        ),
        (json!({"rules": {}}), "rules: must be a list, not an object"),
        (
            json!({"rules": ["read"]}),
            "rules[0]: must be an object, not text",
        ),
        (
            json!({"rules": [{"kind": "read"}]}),
            "rules[0]: needs a `decision`: allow, ask or deny",
        ),
        (
            json!({"rules": [], "deny": []}),
            "deny: a policy has either `rules` or the lists `allow`, `ask` and `deny`",
        ),
        (
            json!({"allow": ["fetch(x)"]}),
            "allow[0]: `fetch` takes no pattern",
        ),
        (
            json!({"allow": ["Read"]}),
            r#"allow[0]: "Read" is not a kind, and tools with patterns are written in `rules`; did you mean "read"?"#,
        ),
        (
            json!({"allow": ["edit()"]}),
            "allow[0]: a pattern must not be empty",
        ),
        (
            json!({"allow": [{"kind": "read"}]}),
            "allow[0]: must be text, not an object",
        ),
    ]);
}

#[test]
fn what_is_wrong_with_a_rule_is_told_with_its_place_and_the_nearest_right_word() {
    errors(&[
        (
            json!({"rules": [{"decision": "ask"}, {"kinds": "read", "decision": "ask"}]}),
            r#"rules[1]: "kinds" is not a known key; did you mean "kind"?"#,
        ),
        (
            json!({"rules": [{"kind": ["read", "wriite"], "decision": "ask"}]}),
            r#"rules[0].kind[1]: "wriite" is not one of read, edit, delete, move, search, execute, think, fetch, other"#,
        ),
        (
            json!({"rules": [{"kind": [], "decision": "ask"}]}),
            "rules[0].kind: must name a kind; leave it out to mean every kind",
        ),
        (
            json!({"rules": [{"path": 7, "decision": "ask"}]}),
            "rules[0].path: must be text, not a number",
        ),
        (
            json!({"rules": [{"path": "../a", "decision": "ask"}]}),
            "rules[0].path: a path pattern has no `..`; write the absolute path of what is outside the workspace",
        ),
        (
            json!({"rules": [{"destructive": true, "decision": "ask"}]}),
            "rules[0].destructive: is only for rules that allow",
        ),
    ]);
}

#[test]
fn all_problems_are_told_at_once_but_not_without_end() {
    let problems = parse(json!({"default": 1, "rules": [{"kind": "a"}]})).unwrap_err();
    assert_eq!(problems.len(), 3);
    let rules: Vec<Value> = (0..2000).map(|_| json!({"kidn": "read"})).collect();
    assert_eq!(parse(json!({ "rules": rules })).unwrap_err().len(), 32);
    let many: Vec<Value> = (0..=RULES_MAX)
        .map(|_| json!({"decision": "ask"}))
        .collect();
    assert_eq!(
        parse(json!({ "rules": many })).unwrap_err(),
        [format!("a policy has at most {RULES_MAX} rules")]
    );
}
