//! Templates: what is read, exactly what is returned, and every problem a file can have.

use serde_json::json;

use super::*;
use crate::{Checked, Format};

fn minimal() -> Value {
    json!({
        "name": "t",
        "version": "1.2.3",
        "backend": {"type": "claude-code"},
        "provider": {"type": "anthropic"},
        "domainContext": {},
    })
}

fn full() -> Value {
    json!({
        "name": "full",
        "version": "0.10.0",
        "description": "Everything",
        "backend": {"type": "custom", "config": {"executablePath": "/opt/x", "args": ["a"], "protocol": "acp", "model": "m"}},
        "provider": {"type": "openai", "config": {"temperature": 1}},
        "domainContext": {
            "skills": ["s1", "s2"],
            "prompts": ["p1"],
            "mcpServers": [{"name": "fs", "command": "npx", "args": ["-y"], "env": {"A": "b"}}, "shared"],
            "workflow": "w",
            "subAgents": ["helper"],
        },
        "initializer": {"steps": [
            {"type": "mkdir", "config": {"path": "src"}},
            {"type": "write-file", "config": {"path": "src/a.txt", "content": ""}},
            {"type": "file-copy", "config": {"from": "files/b", "to": "b"}},
            {"type": "exec", "config": {"command": "git", "args": ["init"], "timeoutMs": 5000}},
        ]},
        "metadata": {"team": "core"},
        "launchMode": "acp-service",
        "workspacePolicy": "ephemeral",
        "permissions": {"anything": [1, 2]},
        "env": {"MODE": "x"},
        "passEnv": ["HTTPS_PROXY", "MY_*"],
        "cwd": "client",
        "startTimeoutMs": 60000,
        "stopGraceMs": 0,
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut template = full();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = template.pointer_mut(parent).unwrap();
    match parent {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        other => other[key] = value,
    }
    template
}

fn lines(checked: &Checked<Template>) -> Vec<String> {
    checked.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn defaults_of_the_domain_context_are_written_out_and_nothing_else() {
    let checked = parse_template(&minimal().to_string(), Format::Json);
    assert_eq!(lines(&checked), Vec::<String>::new());
    let mut expected = minimal();
    expected["domainContext"] =
        json!({"skills": [], "prompts": [], "mcpServers": [], "subAgents": []});
    assert_eq!(
        serde_json::to_value(checked.value.unwrap()).unwrap(),
        expected
    );
}

#[test]
fn a_full_template_comes_back_as_written_from_both_formats() {
    let from_json = parse_template(&full().to_string(), Format::Json);
    let yaml = serde_saphyr::to_string(&full()).unwrap();
    assert_eq!(lines(&from_json), Vec::<String>::new());
    assert_eq!(from_json, parse_template(&yaml, Format::Yaml), "{yaml}");
    let template = from_json.value.unwrap();
    assert_eq!(serde_json::to_value(&template).unwrap(), full());
    assert_eq!(
        serde_json::from_value::<Template>(full()).unwrap(),
        template
    );
    assert_eq!(template.backend.model(), Some("m"));
}

#[test]
fn inline_servers_get_their_defaults_and_steps_theirs() {
    let mut template = minimal();
    template["domainContext"]["mcpServers"] = json!([{"name": "a", "command": "b"}]);
    template["initializer"] = json!({"steps": [{"type": "exec", "config": {"command": "true"}}]});
    let value = serde_json::to_value(check_template(&template).value.unwrap()).unwrap();
    assert_eq!(
        value["domainContext"]["mcpServers"],
        json!([{"name": "a", "command": "b", "args": [], "env": {}}])
    );
    assert_eq!(
        value["initializer"]["steps"],
        json!([{"type": "exec", "config": {"command": "true", "args": []}}])
    );
}

#[test]
fn only_the_builtin_backend_may_leave_out_its_provider() {
    let mut template = minimal();
    template.as_object_mut().unwrap().remove("provider");
    assert_eq!(lines(&check_template(&template)), ["provider: is missing"]);
    template["backend"]["type"] = json!("builtin");
    let value = check_template(&template).value.unwrap();
    assert_eq!(
        serde_json::to_value(value).unwrap()["provider"],
        json!({"type": "none"})
    );
}

#[test]
fn an_empty_mapping_misses_every_required_key_at_once() {
    assert_eq!(
        lines(&parse_template("{}", Format::Json)),
        [
            "name: is missing",
            "version: is missing",
            "backend: is missing",
            "provider: is missing",
            "domainContext: is missing",
        ]
    );
}

#[test]
fn every_wrong_value_is_an_error_at_its_path() {
    let types = "cursor, claude-code, custom, builtin, codex, gemini, qwen, opencode, copilot, cursor-agent, command, openai-compatible, workflow, peer, a2a, delegation";
    let cases = [
        ("/name", json!("a b"), "name: \"a b\" is not a name: a name holds letters, digits, `_` and `-` only, not ' ' (templates are called 1 to 63 letters, digits, `_` or `-`)".to_owned()),
        ("/version", json!("1.2"), "version: must be three numbers like 1.2.3, but is \"1.2\"".to_owned()),
        ("/version", json!(1.2), "version: must be text, but is a number; put it in quotes".to_owned()),
        ("/backend", json!("custom"), "backend: must be a mapping, but is text".to_owned()),
        ("/backend/type", json!("claude"), format!("backend.type: \"claude\" is not one of {types}; did you mean \"claude-code\"?")),
        ("/backend/type", json!("zzz"), format!("backend.type: \"zzz\" is not one of {types}")),
        ("/backend/config", json!([]), "backend.config: must be a mapping, but is a list".to_owned()),
        ("/backend/config/executablePath", json!(""), "backend.config.executablePath: must not be empty".to_owned()),
        ("/backend/config/args", json!(["a", 1]), "backend.config.args[1]: must be text, but is a number; put it in quotes".to_owned()),
        ("/backend/config/protocol", json!("acpp"), "backend.config.protocol: \"acpp\" is not one of acp, none; did you mean \"acp\"?".to_owned()),
        ("/backend", json!({"type": "command"}), "backend: needs config.executablePath: the program to run".to_owned()),
        ("/provider/type", json!("open-ai"), "provider.type: \"open-ai\" is not one of anthropic, openai, custom, none; did you mean \"openai\"?".to_owned()),
        ("/domainContext/skills", json!(["../x"]), "domainContext.skills[0]: \"../x\" is not a name: a name begins with a letter or a digit, not with '.'".to_owned()),
        ("/domainContext/workflow", json!(["w"]), "domainContext.workflow: must be text, but is a list".to_owned()),
        ("/domainContext/mcpServers/1", json!({"name": "fs", "command": "x"}), "domainContext.mcpServers[1]: a second MCP server is called \"fs\"".to_owned()),
        ("/domainContext/mcpServers/1", json!({"name": "b"}), "domainContext.mcpServers[1].command: is missing".to_owned()),
        ("/initializer/steps", json!([]), "initializer.steps: must have at least one step".to_owned()),
        ("/initializer/steps/0/type", json!("writefile"), "initializer.steps[0].type: \"writefile\" is not one of mkdir, write-file, file-copy, exec; did you mean \"write-file\"?".to_owned()),
        ("/initializer/steps/0/config/path", json!("../up"), "initializer.steps[0].config.path: \"../up\" is refused: a path must not climb with `..`".to_owned()),
        ("/initializer/steps/1/config/path", json!("/etc/x"), "initializer.steps[1].config.path: \"/etc/x\" is refused: a path must be relative to the workspace".to_owned()),
        ("/initializer/steps/1/config/path", json!(".agentcraft.json"), "initializer.steps[1].config.path: \".agentcraft.json\" is refused: `.agentcraft.json` is written by AgentCraft itself".to_owned()),
        ("/initializer/steps/2/config/from", json!(7), "initializer.steps[2].config.from: must be text, but is a number; put it in quotes".to_owned()),
        ("/initializer/steps/3/config/command", json!("../../sh"), "initializer.steps[3].config.command: must not climb with `..`".to_owned()),
        ("/initializer/steps/3/config/args", json!([{}]), "initializer.steps[3].config.args[0]: must be text, but is a mapping".to_owned()),
        ("/initializer/steps/3/config/timeoutMs", json!(0), "initializer.steps[3].config.timeoutMs: must be a whole number from 1 to 3600000, but is 0".to_owned()),
        ("/metadata/team", json!(1), "metadata.team: must be text, but is a number; put it in quotes".to_owned()),
        ("/launchMode", json!("oneshot"), "launchMode: \"oneshot\" is not one of direct, acp-background, acp-service, one-shot; did you mean \"one-shot\"?".to_owned()),
        ("/workspacePolicy", json!("x"), "workspacePolicy: \"x\" is not one of persistent, ephemeral".to_owned()),
        ("/permissions", json!(true), "permissions: must be a mapping, but is true or false".to_owned()),
        ("/env", json!({"A=B": "c"}), "env[\"A=B\"]: \"A=B\" is not the name of a variable".to_owned()),
        ("/passEnv", json!(["*"]), "passEnv[0]: \"*\" is neither a variable NAME nor PREFIX_*".to_owned()),
        ("/cwd", json!("home"), "cwd: \"home\" is not one of workspace, client".to_owned()),
        ("/startTimeoutMs", json!(600_001), "startTimeoutMs: must be a whole number from 1 to 600000, but is 600001".to_owned()),
        ("/stopGraceMs", json!("5"), "stopGraceMs: must be a whole number, but is text".to_owned()),
    ];
    for (pointer, value, expected) in cases {
        let checked = check_template(&with(pointer, value));
        assert_eq!(lines(&checked), [expected], "{pointer}");
        assert_eq!(checked.value, None, "{pointer}");
    }
}

#[test]
fn odd_but_harmless_things_are_warnings() {
    let cases = [
        (
            "/skils",
            json!([]),
            "skils: is not a known key and is ignored",
        ),
        (
            "/launch_mode",
            json!("direct"),
            "launch_mode: is not a known key and is ignored; did you mean \"launchMode\"?",
        ),
        (
            "/domainContext/mcp",
            json!([]),
            "domainContext.mcp: is not a known key and is ignored; did you mean \"mcpServers\"?",
        ),
        (
            "/domainContext/skills",
            json!(["a", "a"]),
            "domainContext.skills[1]: \"a\" is listed twice",
        ),
        (
            "/backend",
            json!({"type": "custom"}),
            "backend: has no config.executablePath and cannot start",
        ),
        (
            "/backend",
            json!({"type": "codex", "config": {"args": ["x"]}}),
            "backend.config.args: is read for custom and command only; use extraArgs",
        ),
        (
            "/backend/config/extraArgs",
            json!(["x"]),
            "backend.config.extraArgs: is not read for custom and command; use args",
        ),
        (
            "/initializer/steps/0/path",
            json!("x"),
            "initializer.steps[0].path: is not a known key and is ignored",
        ),
    ];
    for (pointer, value, expected) in cases {
        let checked = check_template(&with(pointer, value));
        assert_eq!(lines(&checked), [expected], "{pointer}");
        assert!(checked.is_valid(), "{pointer}");
    }
    let quiet = [
        ("/$schema", json!("https://x")),
        ("/description", json!(null)),
    ];
    for (pointer, value) in quiet {
        assert_eq!(
            lines(&check_template(&with(pointer, value))),
            Vec::<String>::new()
        );
    }
}

#[test]
fn a_flood_of_problems_is_cut_and_counted() {
    let skills: Vec<String> = (0..10_000)
        .map(|index| format!("bad name {index}"))
        .collect();
    let checked = check_template(&with("/domainContext/skills", json!(skills)));
    assert_eq!(checked.problems.len(), crate::PROBLEMS_MAX + 1);
    assert_eq!(
        checked.problems[crate::PROBLEMS_MAX].message,
        "… and 9900 more"
    );
    assert_eq!(checked.value, None);
}
