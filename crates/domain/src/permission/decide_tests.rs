//! Claims about what a policy decides, and how it settles.

use serde_json::{Value, json};

use super::*;
use crate::turn::{Answer, AskKind, AskOption, OptionKind, ToolCall, ToolKind, ToolStatus};

fn policy(value: Value) -> Policy {
    serde_json::from_value(value).unwrap()
}

fn tool(kind: ToolKind, title: &str, input: Value) -> ToolCall {
    ToolCall {
        id: "t".into(),
        title: title.into(),
        name: None,
        kind,
        status: ToolStatus::Pending,
        locations: Vec::new(),
        content: Vec::new(),
        input: Some(input.to_string()),
        output: None,
    }
}

fn on(kind: ToolKind, paths: &[&str]) -> Call {
    Call::of(&tool(kind, "tool", json!({ "paths": paths })), "/ws")
}

fn decision(written: Value, call: &Call) -> Decision {
    decide(&policy(written), call).decision
}

#[test]
fn the_first_rule_that_fits_decides_and_the_nodes_come_first() {
    let node = policy(
        json!({"rules": [{"kind": "edit", "path": "keys/**", "decision": "deny", "reason": "keys stay"}]}),
    );
    let template = policy(json!({"default": "deny", "rules": [
        {"kind": "read", "decision": "allow"},
        {"kind": "edit", "path": "src/gen/**", "decision": "ask"},
        {"kind": "edit", "path": "**", "decision": "allow"},
    ]}));
    let both = Policy::layered(&node, &template);
    let cases = [
        (
            on(ToolKind::Edit, &["keys/a"]),
            Decision::Deny,
            "rule 1 of the node denies edit of keys/**: keys stay",
        ),
        (
            on(ToolKind::Edit, &["src/a"]),
            Decision::Allow,
            "rule 3 of the template allows edit of **",
        ),
        (
            on(ToolKind::Edit, &["src/gen/a"]),
            Decision::Ask,
            "rule 2 of the template asks about edit of src/gen/**",
        ),
        (
            on(ToolKind::Read, &["/etc/passwd"]),
            Decision::Allow,
            "rule 1 of the template allows read",
        ),
        (
            on(ToolKind::Edit, &["/etc/passwd"]),
            Decision::Deny,
            "no rule fits, and the default is to deny",
        ),
    ];
    for (call, expected, why) in cases {
        let verdict = decide(&both, &call);
        assert_eq!((verdict.decision, verdict.why.as_str()), (expected, why));
    }
    let rule = decide(&both, &on(ToolKind::Read, &[])).rule.unwrap();
    assert_eq!(
        (rule.index, rule.place.origin, rule.place.number),
        (1, Origin::Template, 1)
    );
}

#[test]
fn the_default_is_the_nodes_then_the_templates_then_to_ask() {
    let (asks, denies, silent) = (
        json!({"default": "ask"}),
        json!({"default": "deny"}),
        json!({}),
    );
    let cases = [
        (&asks, &denies, Decision::Ask),
        (&silent, &denies, Decision::Deny),
        (&silent, &silent, Decision::Ask),
    ];
    for (node, template, expected) in cases {
        let both = Policy::layered(&policy(node.clone()), &policy(template.clone()));
        assert_eq!(decide(&both, &on(ToolKind::Read, &[])).decision, expected);
    }
}

#[test]
fn an_allow_needs_all_paths_and_a_deny_or_ask_any() {
    let rule = |decision: &str| json!({"rules": [{"path": "src/**", "decision": decision}]});
    let cases: [(&[&str], bool, bool); 5] = [
        (&["src/a"], true, true),
        (&["src/a", "src/b/c"], true, true),
        (&["src/a", "b"], false, true),
        (&["b"], false, false),
        (&[], false, false),
    ];
    for (paths, allow, other) in cases {
        let call = on(ToolKind::Edit, paths);
        let fits = |decision| decide(&policy(rule(decision)), &call).rule.is_some();
        assert_eq!(fits("allow"), allow, "{paths:?}");
        assert_eq!(fits("ask"), other, "{paths:?}");
        assert_eq!(fits("deny"), other, "{paths:?}");
    }
}

#[test]
fn case_counts() {
    let written = json!({"rules": [{"path": "src/**", "decision": "allow"}]});
    assert_eq!(
        decision(written, &on(ToolKind::Edit, &["SRC/a"])),
        Decision::Ask
    );
}

#[test]
fn a_path_out_of_the_workspace_is_seen_by_absolute_rules_only() {
    for path in ["../a", "/etc/passwd", "src/../../a", "~/a", "file:///etc/a"] {
        let call = on(ToolKind::Edit, &[path]);
        let relative = json!({"default": "ask", "allow": ["edit(**)", "edit(*)", "edit(*/**)"]});
        assert_eq!(decision(relative, &call), Decision::Ask, "{path}");
        assert_eq!(
            decision(json!({"deny": ["edit(/**)"]}), &call),
            Decision::Deny,
            "{path}"
        );
    }
    let allowed = json!({"allow": ["edit(/etc/**)"]});
    assert_eq!(
        decision(allowed, &on(ToolKind::Edit, &["../etc/a"])),
        Decision::Allow
    );
}

#[test]
fn deleting_a_folder_is_deleting_what_is_in_it() {
    let written = json!({"default": "allow", "deny": ["delete(a/keys/**)"]});
    for (path, expected) in [
        ("a", Decision::Deny),
        ("a/keys", Decision::Deny),
        ("/", Decision::Deny),
        ("b", Decision::Allow),
    ] {
        assert_eq!(
            decision(written.clone(), &on(ToolKind::Delete, &[path])),
            expected,
            "{path}"
        );
    }
}

#[test]
fn what_runs_a_command_is_of_kind_execute_whatever_the_agent_says() {
    let call = Call::of(
        &tool(
            ToolKind::Read,
            "Read a",
            json!({"command": ["cat", "a"], "path": "a"}),
        ),
        "/ws",
    );
    assert_eq!(decision(json!({"allow": ["read"]}), &call), Decision::Ask);
    assert_eq!(
        decision(json!({"allow": ["read(**)"]}), &call),
        Decision::Ask
    );
    assert_eq!(
        decision(json!({"deny": ["execute"]}), &call),
        Decision::Deny
    );
    let path_only = json!({"rules": [{"path": "**", "decision": "allow"}]});
    assert_eq!(decision(path_only, &call), Decision::Ask);
    let both = json!({"rules": [{"path": "**", "command": "cat *", "decision": "allow"}]});
    assert_eq!(decision(both, &call), Decision::Allow);
}

#[test]
fn a_title_is_a_name_only_if_it_can_be_nothing_else() {
    let allow = json!({"allow": ["mcp__files__*"]});
    let deny = json!({"deny": ["mcp__files__*"]});
    let titled = |title: &str| Call::of(&tool(ToolKind::Other, title, json!({})), "/ws");
    let honest = titled("mcp__files__read");
    let sly = titled("mcp__files__read; rm -rf /");
    assert_eq!(decision(allow.clone(), &honest), Decision::Allow);
    assert_eq!(decision(allow.clone(), &sly), Decision::Ask);
    assert_eq!(decision(deny.clone(), &sly), Decision::Deny);
    let called = |call: &Call, name: &str| Call {
        name: Some(name.to_owned()),
        ..call.clone()
    };
    let named = called(&sly, "mcp__files__read");
    assert_eq!(decision(allow.clone(), &named), Decision::Allow);
    assert_eq!(decision(allow, &called(&honest, "shell")), Decision::Ask);
    assert_eq!(decision(deny, &named), Decision::Deny);
}

#[test]
fn what_cannot_be_read_is_not_allowed_and_does_not_slip_through() {
    let mut call = on(ToolKind::Edit, &["src/a"]);
    call.opaque = true;
    assert_eq!(
        decision(json!({"allow": ["edit(src/**)"]}), &call),
        Decision::Ask
    );
    assert_eq!(
        decision(json!({"deny": ["edit(keys/**)"]}), &call),
        Decision::Deny
    );
    assert_eq!(decision(json!({"allow": ["edit"]}), &call), Decision::Allow);
}

#[test]
fn the_home_is_known_once_told() {
    let written = policy(json!({"allow": ["read(~/notes/**)"]}));
    let call = on(ToolKind::Read, &["/home/me/notes/a"]);
    assert_eq!(decide(&written, &call).decision, Decision::Ask);
    assert_eq!(
        decide(&written.at_home("/home/me"), &call).decision,
        Decision::Allow
    );
}

#[test]
fn what_cannot_be_undone_reaches_a_human_unless_a_rule_says_so() {
    use Audience::{Nobody, Somebody};
    let verdict = |decision, destructive| Verdict {
        decision,
        rule: None,
        why: "so".into(),
        destructive,
    };
    let cases = [
        (
            Decision::Allow,
            false,
            false,
            Outcome::AllowOnce,
            Outcome::AllowOnce,
        ),
        (
            Decision::Allow,
            false,
            true,
            Outcome::Ask,
            Outcome::DenyNobody,
        ),
        (
            Decision::Allow,
            true,
            true,
            Outcome::AllowOnce,
            Outcome::AllowOnce,
        ),
        (
            Decision::Ask,
            false,
            false,
            Outcome::Ask,
            Outcome::DenyNobody,
        ),
        (
            Decision::Ask,
            false,
            true,
            Outcome::Ask,
            Outcome::DenyNobody,
        ),
        (Decision::Deny, false, false, Outcome::Deny, Outcome::Deny),
        (Decision::Deny, false, true, Outcome::Deny, Outcome::Deny),
    ];
    for (decision, allowed, destructive, with, without) in cases {
        let verdict = verdict(decision, allowed);
        assert_eq!(settle(&verdict, destructive, Somebody), with);
        assert_eq!(settle(&verdict, destructive, Nobody), without);
    }
    let written = policy(json!({"rules": [
        {"kind": "delete", "path": "tmp/**", "decision": "allow", "destructive": true},
        {"kind": "delete", "decision": "allow"},
    ]}));
    for (path, expected) in [("tmp/a", Outcome::AllowOnce), ("a", Outcome::Ask)] {
        let call = on(ToolKind::Delete, &[path]);
        let outcome = settle(&decide(&written, &call), is_destructive(&call), Somebody);
        assert_eq!(outcome, expected, "{path}");
    }
}

#[test]
fn every_outcome_has_its_words() {
    let verdict = |decision| Verdict {
        decision,
        rule: None,
        why: "a rule says so".into(),
        destructive: false,
    };
    let cases = [
        (
            Outcome::AllowOnce,
            Decision::Allow,
            "allowed once: a rule says so",
        ),
        (Outcome::Deny, Decision::Deny, "denied: a rule says so"),
        (Outcome::Ask, Decision::Ask, "asked: a rule says so"),
        (
            Outcome::Ask,
            Decision::Allow,
            "asked, since it cannot be undone, though a rule says so",
        ),
        (
            Outcome::DenyNobody,
            Decision::Ask,
            "denied: nobody is there to ask, and a rule says so",
        ),
        (
            Outcome::DenyNobody,
            Decision::Allow,
            "denied: it cannot be undone and nobody is there to ask, though a rule says so",
        ),
    ];
    for (outcome, decision, expected) in cases {
        assert_eq!(outcome.words(&verdict(decision)), expected);
    }
}

#[test]
fn once_never_becomes_always() {
    let ask = |kinds: &[OptionKind]| AskKind::Permission {
        tool: tool(ToolKind::Edit, "write", json!({})),
        options: kinds
            .iter()
            .map(|kind| AskOption {
                id: format!("{kind:?}"),
                name: String::new(),
                kind: *kind,
            })
            .collect(),
        destructive: false,
    };
    let chosen = |id: &str| Some(Answer::Option { id: id.into() });
    let all = ask(&[
        OptionKind::AllowAlways,
        OptionKind::AllowOnce,
        OptionKind::RejectAlways,
        OptionKind::RejectOnce,
    ]);
    assert_eq!(Outcome::AllowOnce.answer(&all), chosen("AllowOnce"));
    assert_eq!(Outcome::Deny.answer(&all), chosen("RejectOnce"));
    assert_eq!(Outcome::DenyNobody.answer(&all), chosen("RejectOnce"));
    assert_eq!(Outcome::Ask.answer(&all), None);
    let lasting = ask(&[OptionKind::AllowAlways]);
    assert_eq!(Outcome::AllowOnce.answer(&lasting), None);
    assert_eq!(Outcome::Deny.answer(&lasting), Some(Answer::Declined));
}

#[test]
fn no_rule_gives_an_approval_that_a_workflow_wants_of_a_person() {
    for name in [GATE, FINAL_GATE] {
        let gate = ToolCall {
            name: Some(name.to_owned()),
            ..tool(ToolKind::Other, "Publish?", json!({}))
        };
        let call = Call::of(&gate, "/ws");
        for (rule, expected) in [
            (
                json!({"kind": "other", "decision": "allow", "destructive": true}),
                Decision::Ask,
            ),
            (json!({"kind": "other", "decision": "deny"}), Decision::Deny),
        ] {
            let verdict = decide(&policy(json!({ "rules": [rule] })), &call);
            assert_eq!(verdict.decision, expected, "{name}: {}", verdict.why);
            let nobody = settle(&verdict, true, Audience::Nobody);
            assert_ne!(nobody, Outcome::AllowOnce, "{name}");
        }
    }
}

#[test]
fn an_approval_that_another_program_names_is_one_of_what_cannot_be_undone() {
    assert_eq!(outside_name(GATE), FINAL_GATE);
    for name in [FINAL_GATE, "bash", "Workflow approval", ""] {
        assert_eq!(outside_name(name), name);
    }
}
