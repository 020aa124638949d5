//! Claims about every policy and every call, tried on random ones.

use proptest::prelude::*;

use super::*;
use crate::turn::{Location, ToolCall, ToolKind, ToolStatus};

/// Text made of what globs, paths, shells and JSON find special.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        r#"[a-c12\x01 /.*?{},~'"`$()|&;<>#\\\n=\[:-]{0,24}"#,
        "(sudo|env|xargs|sh|find|echo|ssh|eval|function|\\$x|x=a| -c | -S|--a|-exec |&>|2>|\\$\\(|\\)|`|\\$'|'|\"|\\\\|;|\\||<<|\n| ){0,12}",
        "(\\.\\./|a/|/|\\*\\*/|\\*|b){0,8}",
        any::<String>(),
    ]
}

fn kind() -> impl Strategy<Value = ToolKind> {
    prop::sample::select(ToolKind::ALL.map(|(_, kind)| kind).to_vec())
}

fn decision() -> impl Strategy<Value = Decision> {
    prop::sample::select(Decision::ALL.map(|(_, decision)| decision).to_vec())
}

fn rule() -> impl Strategy<Value = Rule> {
    let maybe = || prop::option::of(text());
    (
        prop::collection::vec(kind(), 0..3),
        maybe(),
        maybe(),
        maybe(),
        decision(),
    )
        .prop_map(|(kinds, tool, path, command, decision)| Rule {
            kinds,
            tool: tool.and_then(|text| Pattern::parse(&text).ok()),
            path: path.and_then(|text| PathPattern::parse(&text).ok()),
            command: command.and_then(|text| CommandPattern::parse(&text).ok()),
            ..Rule::any(decision)
        })
}

fn call() -> impl Strategy<Value = Call> {
    let input = prop_oneof![
        text(),
        (text(), text()).prop_map(|(command, path)| {
            serde_json::json!({"command": command, "path": path}).to_string()
        }),
    ];
    let paths = prop::collection::vec(text(), 0..3);
    let name = prop::option::of(text());
    (kind(), text(), name, paths, prop::option::of(input), text()).prop_map(
        |(kind, title, name, paths, input, workspace)| {
            let locations = paths.into_iter().map(|path| Location { path, line: None });
            let tool = ToolCall {
                id: String::new(),
                title,
                name,
                kind,
                status: ToolStatus::Pending,
                locations: locations.collect(),
                content: Vec::new(),
                input,
                output: None,
            };
            Call::of(&tool, &workspace)
        },
    )
}

proptest! {
    #[test]
    fn deciding_never_panics_and_always_settles(rules in prop::collection::vec(rule(), 0..6), call in call()) {
        let policy = Policy { rules, default: None };
        let verdict = decide(&policy, &call);
        let outcome = settle(&verdict, is_destructive(&call), Audience::Nobody);
        prop_assert_ne!(outcome, Outcome::Ask);
        prop_assert!(!outcome.words(&verdict).is_empty());
    }

    #[test]
    fn a_rule_after_the_one_that_fits_changes_nothing(
        rules in prop::collection::vec(rule(), 1..6),
        later in rule(),
        call in call(),
    ) {
        let mut policy = Policy { rules, default: None };
        let before = decide(&policy, &call);
        policy.rules.push(later);
        if before.rule.is_some() {
            prop_assert_eq!(decide(&policy, &call), before);
        }
    }

    #[test]
    fn a_path_out_of_the_workspace_is_never_allowed_by_a_relative_rule(
        pattern in text(),
        path in "(\\./+|a/\\.\\./|b/\\./\\.\\.//){0,3}\\.\\./(\\.\\./|\\./|a/|b/|/){0,6}[ab]?",
    ) {
        let Ok(pattern) = PathPattern::parse(pattern.trim_start_matches('/')) else { return Ok(()) };
        let policy = Policy {
            rules: vec![Rule { path: Some(pattern), ..Rule::any(Decision::Allow) }],
            default: None,
        };
        // No segment of the workspace is among those of the paths, so what leaves it never comes back.
        for workspace in ["/x/y", ""] {
            let call = Call {
                kind: ToolKind::Edit,
                name: None,
                title: String::new(),
                paths: vec![CallPath::resolve(&path, workspace)],
                command: None,
                workspace: workspace.to_owned(),
                opaque: false,
            };
            prop_assert_eq!(decide(&policy, &call).decision, Decision::Ask);
        }
    }

    #[test]
    fn an_allowed_command_has_no_operator_that_its_pattern_has_not(command in text()) {
        let policy = Policy {
            rules: vec![Rule {
                command: Some(CommandPattern::parse("*").unwrap()),
                ..Rule::any(Decision::Allow)
            }],
            default: None,
        };
        let call = Call {
            kind: ToolKind::Execute,
            name: None,
            title: String::new(),
            paths: Vec::new(),
            command: Some(command.clone()),
            workspace: String::new(),
            opaque: false,
        };
        let allowed = decide(&policy, &call).decision == Decision::Allow;
        let quoted = command.contains(['\'', '"', '\\']);
        if allowed && !quoted {
            prop_assert!(!command.trim().contains([';', '|', '&', '<', '>', '`', '\n', '(', ')']));
        }
    }

    #[test]
    fn what_is_written_is_read_back(rules in prop::collection::vec(rule(), 0..6)) {
        let policy = Policy { rules, default: Some(Decision::Deny) };
        let written = serde_json::to_value(&policy).unwrap();
        let read: Policy = serde_json::from_value(written.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&read).unwrap(), written);
    }

    #[test]
    fn any_text_is_a_policy_or_an_error(text in text(), key in text()) {
        let value = serde_json::json!({"default": text, key: [text], "allow": [text, "read"], "rules": [{"kind": text}]});
        let _ = serde_json::from_value::<Policy>(value); // Either is right.
    }
}
