//! Configurations in both profiles, and those that cannot be used.

use super::*;

fn shipped() -> Value {
    json!({
        "name": "Time", "bundle_id": "time", "disabled": false, "forbidden_tools": ["rm"],
        "tool_meta": {"now": {"alias": "clock", "auto_apply": true}},
        "default_tool_meta": null, "vrl": null, "type": "stdio",
        "server_parameters": {
            "command": "uvx", "args": ["time"], "env": {"KEY": "${input:key}"}, "cwd": null,
            "encoding": "utf-8", "encoding_error_handler": "strict"
        }
    })
}

#[test]
fn a_released_configuration_survives_the_round_trip() {
    let read = ServerConfig::from_value("time", &shipped()).unwrap();
    assert_eq!(read.to_value(Profile::Shipped), shipped());
}

#[test]
fn the_specifications_shape_has_its_place_at_the_top() {
    let read = ServerConfig::from_value("time", &shipped()).unwrap();
    assert_eq!(
        read.to_value(Profile::Seed),
        json!({
            "type": "stdio", "command": "uvx", "args": ["time"], "disabled": false,
            "tool_meta": {"now": {"alias": "clock", "auto_apply": true}}, "forbidden_tools": ["rm"]
        })
    );
    let http = json!({"type": "http", "url": "https://h/mcp", "disabled": true, "tool_meta": {}});
    let read = ServerConfig::from_value("web", &http).unwrap();
    assert_eq!(read.to_value(Profile::Seed), http);
    assert_eq!(read.to_value(Profile::Shipped)["type"], "streamable");
    assert_eq!(
        read.to_value(Profile::Shipped)["server_parameters"]["timeout"],
        "PT30S"
    );
}

#[test]
fn what_cannot_be_used_is_said_in_words() {
    for (value, problem) in [
        (json!([]), ConfigProblem::NotAnObject),
        (json!({"type": "stdio"}), ConfigProblem::NoCommand),
        (
            json!({"type": "stdio", "command": " "}),
            ConfigProblem::NoCommand,
        ),
        (json!({"type": "http"}), ConfigProblem::NoUrl),
        (json!({"type": "sse", "url": ""}), ConfigProblem::NoUrl),
        (
            json!({"type": "http", "url": "ftp://h"}),
            ConfigProblem::BadUrl,
        ),
        (
            json!({"type": "http", "url": "http://"}),
            ConfigProblem::BadUrl,
        ),
        (
            json!({"type": "http", "url": "http:// h"}),
            ConfigProblem::BadUrl,
        ),
        (
            json!({"type": "pipe"}),
            ConfigProblem::UnknownType("pipe".to_owned()),
        ),
        (json!({}), ConfigProblem::UnknownType(String::new())),
        (
            json!({"type": "stdio", "command": "x", "bundle_id": "a__b"}),
            ConfigProblem::BadBundleId,
        ),
    ] {
        assert_eq!(
            ServerConfig::from_value("s", &value),
            Err(problem),
            "{value}"
        );
    }
}

#[test]
fn an_answer_names_its_broken_servers_and_keeps_the_others() {
    let answer = json!({"servers": {"time": shipped(), "web": {"type": "http"}}, "inputs": [
        {"id": "key", "description": "", "type": "promptString", "default": null, "password": true},
        {"id": "place", "description": "where", "type": "pickString",
         "options": [{"label": "Here", "value": "h"}], "default": null},
    ]});
    let (read, problems) = ConfigAnswer::from_value(&answer);
    assert_eq!(read.servers.keys().collect::<Vec<_>>(), ["time"]);
    assert_eq!(problems["web"], ConfigProblem::NoUrl);
    assert_eq!(
        read.inputs.iter().map(Input::id).collect::<Vec<_>>(),
        ["key", "place"]
    );
    assert_eq!(read.to_value(Profile::Shipped)["inputs"], answer["inputs"]);
    let translated = config_in(Profile::Seed, &answer);
    assert_eq!(translated["servers"]["time"]["command"], "uvx");
    assert_eq!(translated["servers"]["web"], json!({"type": "http"}));
}

#[test]
fn placeholders_are_recognised() {
    for text in ["${input:key}", "Bearer ${env:TOKEN}"] {
        assert!(has_placeholder(text), "{text}");
    }
    for text in ["", "$HOME", "${input:", "input:key}", "${other:x}"] {
        assert!(!has_placeholder(text), "{text}");
    }
}
