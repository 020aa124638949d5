//! Every kind of update, and what is missing, unknown or of a wrong type in it.

use domain::permission::{FINAL_GATE, GATE};
use serde_json::json;

use super::*;

#[test]
fn chunks_are_words_wherever_words_can_be_found() {
    let text = |text: &str| {
        Meaning::Plain(EventKind::Text {
            text: text.to_owned(),
        })
    };
    let cases = [
        (
            json!({ "type": "text", "text": "a", "annotations": {}, "new": 1 }),
            text("a"),
        ),
        (json!("bare"), text("bare")),
        (
            json!({ "type": "resource_link", "uri": "file:///x", "name": "x" }),
            text("[x](file:///x)"),
        ),
        (
            json!({ "type": "resource", "resource": { "uri": "u", "text": "inside" } }),
            text("inside"),
        ),
        (
            json!({ "type": "image", "data": "", "mimeType": "image/png" }),
            other("agent_message_chunk"),
        ),
        (json!({ "type": "hologram" }), other("agent_message_chunk")),
        (json!(null), other("agent_message_chunk")),
        (json!([1]), other("agent_message_chunk")),
    ];
    for (content, expected) in cases {
        let value = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
        assert_eq!(update(&value), expected, "{value}");
    }
    let thought = json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": "t" } });
    let expected = EventKind::Thought {
        text: "t".to_owned(),
    };
    assert_eq!(update(&thought), Meaning::Plain(expected));
}

#[test]
fn what_has_no_meaning_here_keeps_its_name() {
    for name in [
        "user_message_chunk",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "notice",
        "compaction_update",
        "of_next_year",
    ] {
        assert_eq!(
            update(&json!({ "sessionUpdate": name, "x": 1 })),
            other(name)
        );
    }
    for nothing in [
        json!(null),
        json!([]),
        json!("x"),
        json!({ "sessionUpdate": 7 }),
    ] {
        assert_eq!(update(&nothing), other("session/update"));
    }
}

#[test]
fn a_tool_call_is_read_field_by_field() {
    let value = json!({
        "sessionUpdate": "tool_call",
        "toolCallId": "t1",
        "title": "Edit a.rs",
        "kind": "edit",
        "status": "in_progress",
        "locations": [{ "path": "/w/a.rs", "line": 3, "column": 9 }, { "nothing": 1 }, 5],
        "content": [
            { "type": "content", "content": { "type": "text", "text": "words" } },
            { "type": "diff", "path": "/w/a.rs", "oldText": null, "newText": "new" },
            { "type": "terminal", "terminalId": "terminal-1" },
            { "type": "of_next_year" },
        ],
        "rawInput": { "path": "a.rs" },
        "rawOutput": null,
        "_meta": { "x": 1 },
    });
    let expected = ToolUpdate {
        id: "t1".to_owned(),
        title: Some("Edit a.rs".to_owned()),
        name: None,
        kind: Some(ToolKind::Edit),
        status: Some(ToolStatus::InProgress),
        locations: Some(vec![Location {
            path: "/w/a.rs".to_owned(),
            line: Some(3),
        }]),
        content: Some(vec![
            ToolContent::Text {
                text: "words".to_owned(),
            },
            ToolContent::Diff {
                path: "/w/a.rs".to_owned(),
                old: None,
                new: "new".to_owned(),
            },
            ToolContent::Terminal {
                id: "terminal-1".to_owned(),
            },
        ]),
        input: Some(r#"{"path":"a.rs"}"#.to_owned()),
        output: None,
    };
    assert_eq!(update(&value), Meaning::Tool(expected));
}

#[test]
fn unknown_words_in_a_tool_call_do_not_lose_it() {
    let value = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": 7, "title": null, "name": "bash",
        "kind": "switch_mode", "status": "sleeping", "content": null, "locations": {},
    });
    let expected = ToolUpdate {
        id: "7".to_owned(),
        name: Some("bash".to_owned()),
        kind: Some(ToolKind::Other),
        ..ToolUpdate::default()
    };
    assert_eq!(update(&value), Meaning::Tool(expected));
    let nameless = json!({ "sessionUpdate": "tool_call", "title": "x" });
    assert_eq!(update(&nameless), other("tool_call"));
}

#[test]
fn the_name_of_a_tool_is_found_where_each_agent_says_it() {
    let name = |mut call: Value| {
        call["sessionUpdate"] = "tool_call".into();
        match update(&call) {
            Meaning::Tool(tool) => tool.name,
            other => panic!("{other:?}"),
        }
    };
    let cases = [
        (
            json!({ "toolCallId": "a", "name": "exec_command" }),
            "exec_command",
        ),
        (
            json!({ "toolCallId": "a", "_meta": { "claudeCode": { "toolName": "mcp__files__read" } } }),
            "mcp__files__read",
        ),
        (
            json!({ "toolCallId": "a", "_meta": { "toolName": "write_file" } }),
            "write_file",
        ),
        (
            json!({ "toolCallId": "run_shell_command-1763260267000-1" }),
            "run_shell_command",
        ),
        (json!({ "toolCallId": "a-b-1763260267000-12" }), "a-b"),
        (json!({ "toolCallId": "a", "name": GATE }), FINAL_GATE),
        (
            json!({ "toolCallId": "a", "_meta": { "toolName": GATE } }),
            FINAL_GATE,
        ),
        (
            json!({ "toolCallId": format!("{GATE}-1763260267000-1") }),
            FINAL_GATE,
        ),
    ];
    for (call, wanted) in cases {
        assert_eq!(name(call.clone()).as_deref(), Some(wanted), "{call}");
    }
    let ids = [
        "call_1",
        "a-1-1",
        "-1763260267000-1",
        "a-1763260267000-",
        "4255dbc2-5139-4715",
    ];
    for id in ids {
        assert_eq!(name(json!({ "toolCallId": id, "name": " " })), None, "{id}");
    }
}

#[test]
fn a_plan_is_its_readable_lines() {
    let value = json!({ "sessionUpdate": "plan", "entries": [
        { "content": "one", "priority": "high", "status": "completed" },
        { "content": "two", "status": "in_progress" },
        { "content": "three", "status": "postponed" },
        { "text": "no content" },
    ] });
    let entry = |text: &str, status| PlanEntry {
        text: text.to_owned(),
        status,
    };
    let entries = vec![
        entry("one", PlanStatus::Completed),
        entry("two", PlanStatus::InProgress),
        entry("three", PlanStatus::Pending),
    ];
    assert_eq!(update(&value), Meaning::Plain(EventKind::Plan { entries }));
    assert_eq!(update(&json!({ "sessionUpdate": "plan" })), other("plan"));
}

#[test]
fn only_costs_in_dollars_are_costs() {
    let with = |cost: Value| json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost });
    let cost = with(json!({ "amount": 0.5, "currency": "USD" }));
    assert_eq!(update(&cost), Meaning::SessionCost(0.5));
    for cost in [json!({ "amount": 1, "currency": "credits" }), json!(null)] {
        assert_eq!(update(&with(cost)), other("usage_update"));
    }
}

#[test]
fn an_option_of_an_unknown_kind_is_neither_a_yes_nor_a_no() {
    let value = json!([
        { "optionId": "a", "name": "Allow", "kind": "allow_once" },
        { "optionId": "b", "kind": "reject_always" },
        { "optionId": "c", "name": "Maybe", "kind": "allow_on_sundays" },
        { "name": "no id", "kind": "allow_once" },
        null,
    ]);
    let option = |id: &str, name: &str, kind| AskOption {
        id: id.to_owned(),
        name: name.to_owned(),
        kind,
    };
    let expected = [
        option("a", "Allow", OptionKind::AllowOnce),
        option("b", "b", OptionKind::RejectAlways),
        option("c", "Maybe", OptionKind::Other),
    ];
    assert_eq!(options(&value), expected);
    assert_eq!(options(&json!({})), []);
}

#[test]
fn every_answer_to_a_prompt_is_a_stop() {
    let cases = [
        (json!({ "stopReason": "end_turn" }), Stop::EndTurn),
        (json!({ "stopReason": "max_tokens" }), Stop::MaxTokens),
        (
            json!({ "stopReason": "max_turn_requests" }),
            Stop::MaxTurnRequests,
        ),
        (json!({ "stopReason": "refusal" }), Stop::Refusal),
        (json!({ "stopReason": "cancelled" }), Stop::Cancelled),
        (json!({ "stopReason": "of_next_year" }), Stop::EndTurn),
        (json!({}), Stop::EndTurn),
        (json!(null), Stop::EndTurn),
    ];
    for (answer, expected) in cases {
        assert_eq!(stop(&answer), expected, "{answer}");
    }
}

#[test]
fn usage_is_what_the_answer_says() {
    let answer = json!({ "usage": { "inputTokens": 10, "outputTokens": 2, "totalTokens": 12 } });
    let expected = Usage {
        input_tokens: Some(10),
        output_tokens: Some(2),
        cost_usd: None,
    };
    assert_eq!(usage(&answer), Some(expected));
    for nothing in [
        json!({}),
        json!({ "usage": null }),
        json!({ "usage": { "inputTokens": "x" } }),
    ] {
        assert_eq!(usage(&nothing), None);
    }
}

#[test]
fn servers_are_written_as_the_protocol_has_them() {
    let server = McpServer {
        name: domain::Name::parse("files").unwrap(),
        description: None,
        command: "/bin/files".to_owned(),
        args: vec!["-v".to_owned()],
        env: [("A".to_owned(), "b".to_owned())].into(),
    };
    let written = serde_json::to_value(mcp_servers(vec![server])).unwrap();
    let expected = json!([
        { "name": "files", "command": "/bin/files", "args": ["-v"], "env": [{ "name": "A", "value": "b" }] }
    ]);
    assert_eq!(written, expected);
}
