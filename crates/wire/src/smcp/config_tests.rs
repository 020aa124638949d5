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
fn a_setting_of_another_type_is_a_problem_and_not_its_absence() {
    let server = |more: Value| {
        let mut server = json!({"type": "stdio", "command": "x"});
        let more = more.as_object().unwrap().clone();
        server.as_object_mut().unwrap().extend(more);
        ServerConfig::from_value("s", &server)
    };
    for (name, value) in [
        ("forbidden_tools", json!("delete")),
        ("forbidden_tools", json!(["delete", 1])),
        ("disabled", json!("true")),
        ("disabled", json!(1)),
        ("tool_meta", json!({"add": {"auto_apply": "false"}})),
        ("default_tool_meta", json!({"auto_apply": 0})),
        ("env", json!({"A": ["1"]})),
        ("env", json!("A=1")),
        ("args", json!("one")),
        ("bundle_id", json!(3)),
        ("server_parameters", json!([])),
    ] {
        let problem = server(json!({ name: value })).unwrap_err();
        assert_eq!(problem, ConfigProblem::BadField(name), "{value}");
        assert!(problem.to_string().contains(name), "{problem}");
    }
    let read = server(json!({
        "env": {"A": "1", "PORT": 8080, "ON": true}, "args": ["-p", 80], "disabled": null,
        "tool_meta": {"add": null},
    }));
    let read = read.unwrap().to_value(Profile::Shipped);
    let parameters = &read["server_parameters"];
    assert_eq!(
        parameters["env"],
        json!({"A": "1", "PORT": "8080", "ON": "true"})
    );
    assert_eq!(parameters["args"], json!(["-p", "80"]));
    assert_eq!(
        ServerConfig::from_value(
            "s",
            &json!({"type": "sse", "url": "http://h", "headers": []})
        ),
        Err(ConfigProblem::BadField("headers"))
    );
}

#[test]
fn an_input_that_cannot_be_read_leaves_the_others_alone() {
    let answer = json!({"servers": {}, "inputs": [
        {"id": "a", "type": "promptString"}, {"id": "b", "type": "pickString"},
        {"id": "c", "type": "command", "command": "pwd"},
    ]});
    let (read, problems) = ConfigAnswer::from_value(&answer);
    let ids: Vec<&str> = read.inputs.iter().map(Input::id).collect();
    assert_eq!(ids, ["a", "c"]);
    assert_eq!(problems["inputs[1]"], ConfigProblem::BadInput);
    let (_, problems) = ConfigAnswer::from_value(&json!({"inputs": {}, "servers": {}}));
    assert_eq!(problems["inputs"], ConfigProblem::BadField("inputs"));
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
