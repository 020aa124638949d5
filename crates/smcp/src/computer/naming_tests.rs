//! Names of servers and tools, held against what other implementations make of the same configuration.

use serde_json::{Value, json};

use super::*;

fn server(name: &str, config: &Value) -> ServerConfig {
    let mut config = config.clone();
    config["name"] = json!(name);
    ServerConfig::from_value(name, &config).unwrap()
}

#[expect(clippy::too_many_lines, reason = "It is a table.")]
#[test]
fn identities_are_those_that_others_make() {
    let stdio = |command: &str, args: Value, env: Value| json!({"type": "stdio", "command": command, "args": args, "env": env});
    let web = |kind: &str, url: &str, headers: Value| json!({"type": kind, "url": url, "headers": headers});
    let plain = stdio("x", json!([]), json!({}));
    let api = "https://api.example.com/mcp";
    for (name, config, expected) in [
        ("everything", plain.clone(), "everything"),
        ("My Server!", plain.clone(), "My_Server"),
        ("a__b", plain.clone(), "a_b"),
        ("a.b.c", plain.clone(), "a_b_c"),
        ("a-b--c", plain.clone(), "a-b--c"),
        ("__lead_trail__", plain.clone(), "lead_trail"),
        ("MyServer", plain, "MyServer"),
        (
            "whatever",
            json!({"type": "stdio", "command": "x", "bundle_id": "custom_id"}),
            "custom_id",
        ),
        (
            "你好世界",
            stdio("npx", json!(["-y", "everything"]), json!({})),
            "bundle_8d2a9232fa76e8a5",
        ),
        (
            "!!!@@@",
            stdio("uvx", json!(["mcp-server-git"]), json!({})),
            "bundle_62515edd7632e701",
        ),
        (
            "服务器",
            stdio("node", json!(["a.js"]), json!({"TOKEN": "x", "DEBUG": "1"})),
            "bundle_05020ad7c2cc048d",
        ),
        (
            "",
            web("streamable", api, json!({})),
            "bundle_b413b61fe2e77b15",
        ),
        (
            "",
            web("streamable", api, json!({"Authorization": "Bearer z"})),
            "bundle_0706e7b45613df7a",
        ),
        (
            "",
            web("sse", "https://api.example.com/sse", json!({})),
            "bundle_e1d7b1216a270815",
        ),
        (
            "",
            stdio(
                "node",
                json!(["server.js"]),
                json!({"API_KEY": "${input:api_key}"}),
            ),
            "bundle_68ae00fea9122c01",
        ),
        (
            "",
            web(
                "streamable",
                api,
                json!({"Authorization": "Bearer ${input:token}"}),
            ),
            "bundle_6366b4fd89f56f6a",
        ),
    ] {
        assert_eq!(
            bundle_id(&server(name, &config)),
            expected,
            "{name:?} {config}"
        );
    }
}

fn tool(server: &str, name: &str) -> ServerTool {
    ServerTool {
        server: server.to_owned(),
        name: name.to_owned(),
        tags: vec!["own".to_owned()],
        ..ServerTool::default()
    }
}

fn shown() -> Shown {
    let servers = [
        (
            "time",
            json!({"type": "stdio", "command": "x", "forbidden_tools": ["set"],
                   "default_tool_meta": {"auto_apply": true, "tags": ["all"]},
                   "tool_meta": {"now": {"alias": "clock"}, "zone": {"auto_apply": false, "tags": []}}}),
        ),
        (
            "off",
            json!({"type": "stdio", "command": "x", "disabled": true}),
        ),
    ];
    let servers = servers
        .iter()
        .map(|(key, config)| ((*key).to_owned(), server(key, config)))
        .collect();
    let tools = ["now", "set", "zone", "clock"].map(|name| tool("time", name));
    Shown::merge(&servers, &[&tools[..], &[tool("off", "any")]].concat())
}

#[test]
fn tools_are_merged_under_clear_names() {
    let shown = shown();
    let names: Vec<&str> = shown.tools().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["time__clock", "time__zone"]);
    let Found::Tool(target) = shown.find("time__clock") else {
        panic!("the alias leads to its tool")
    };
    assert_eq!(
        (target.server.as_str(), target.tool.as_str()),
        ("time", "now")
    );
    assert_eq!(target.meta.auto_apply, Some(true));
    assert_eq!(target.meta.tags.unwrap(), ["all", "own"]);
    let Found::Tool(zone) = shown.find("time__zone") else {
        panic!("a tool without an alias keeps its name")
    };
    assert_eq!(zone.meta.auto_apply, Some(false));
}

#[test]
fn what_may_not_be_called_is_known_as_such() {
    let shown = shown();
    assert_eq!(shown.find("time__set"), Found::Forbidden);
    assert_eq!(shown.find("off__any"), Found::Disabled);
    assert_eq!(shown.find("time__now"), Found::Nothing);
    assert_eq!(shown.find("now"), Found::Nothing);
}

#[test]
fn a_tool_carries_its_notes_as_text() {
    let shown = shown();
    let zone = shown
        .tools()
        .find(|tool| tool.name == "time__zone")
        .unwrap();
    let notes = zone.meta.as_ref().unwrap()["a2c_tool_meta"]
        .as_str()
        .unwrap();
    let read: Value = serde_json::from_str(notes).unwrap();
    assert_eq!(read, json!({"auto_apply": false, "tags": ["own"]}));
}
