//! docs/contract.md says what the program does, no less and no more; and every error code can be had over the socket.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use testkit::{RemoteError, TestDaemon, eventually};
use wire::daemon::{ErrorCode, METHODS};

use crate::node;

/// Codes that the table of provocations leaves to the other tests. The last two cannot be had: one tells of a defect of
/// the daemon, the other is kept for proxies.
const ELSEWHERE: [&str; 7] = [
    "PARSE_ERROR",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "INVALID_PARAMS",
    "GENERIC_BUSINESS",
    "INTERNAL_ERROR",
    "PROXY_SESSION_CONFLICT",
];

/// The first words of methods; a code span that begins so must name one.
const FAMILIES: [&str; 10] = [
    "agent",
    "daemon",
    "delegation",
    "mcp",
    "prompt",
    "proxy",
    "session",
    "skill",
    "template",
    "workflow",
];

fn contract() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/contract.md");
    fs::read_to_string(path).expect("the contract is a page of the documents")
}

/// The texts between single backticks.
fn code_spans(text: &str) -> Vec<&str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

/// The cells of the table rows whose first cell begins with `start`.
fn rows<'a>(text: &'a str, start: &str) -> Vec<Vec<&'a str>> {
    text.lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .filter(|row| row.starts_with(start))
        .map(|row| row.split(" | ").map(str::trim).collect())
        .collect()
}

#[test]
fn the_contract_lists_every_method_with_its_errors_and_no_other() {
    let text = contract();
    let sections: BTreeMap<&str, &str> = text
        .split("\n### `")
        .skip(1)
        .filter_map(|section| section.split_once("`\n"))
        .collect();
    let documented: Vec<&str> = sections.keys().copied().collect();
    let mut known: Vec<&str> = METHODS.iter().map(|method| method.name).collect();
    known.sort_unstable();
    assert_eq!(documented, known);

    for method in METHODS {
        let section = sections[method.name];
        let head = format!("`{}` → `{}`", method.params, method.result);
        assert!(section.contains(&head), "{}: write {head}", method.name);
        let errors = section
            .lines()
            .find_map(|line| line.strip_prefix("Errors: "))
            .unwrap_or_default();
        let documented: BTreeSet<&str> = code_spans(errors).into_iter().collect();
        let known = method.errors.iter().map(|code| code.name()).collect();
        assert_eq!(documented, known, "errors of {}", method.name);
    }
    for span in code_spans(&text) {
        let is_method = span.split_once('.').is_some_and(|(family, act)| {
            FAMILIES.contains(&family) && act.chars().all(|letter| letter.is_ascii_alphabetic())
        });
        assert!(
            !is_method || known.contains(&span),
            "there is no method {span}"
        );
    }
}

#[test]
fn the_contract_lists_every_error_code_and_no_other() {
    let text = contract();
    let documented: BTreeSet<(&str, &str)> = rows(&text, "-32")
        .iter()
        .map(|cells| (cells[0], cells[1].trim_matches('`')))
        .collect();
    let numbers = ErrorCode::ALL.map(|code| code.number().to_string());
    let known = numbers
        .iter()
        .zip(ErrorCode::ALL)
        .map(|(number, code)| (number.as_str(), code.name()))
        .collect();
    assert_eq!(documented, known);
}

/// A command as its help tells it.
#[derive(Debug)]
struct Command {
    path: String,
    options: BTreeSet<String>,
    global_options: BTreeSet<String>,
    inner: Vec<String>,
    aliases: Vec<String>,
}

impl Command {
    fn of(daemon: &TestDaemon, path: &[String]) -> Self {
        let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let output = daemon.cli(&arguments);
        assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
        let mut command = Self {
            path: path.join(" "),
            options: BTreeSet::new(),
            global_options: BTreeSet::new(),
            inner: Vec::new(),
            aliases: Vec::new(),
        };
        let mut heading = "";
        for line in output.stdout.lines() {
            if !line.starts_with(' ') && line.ends_with(':') {
                heading = line;
            } else if let Some(option) = long_option(line) {
                match heading {
                    "Options:" => command.options.insert(option),
                    "Global options:" => command.global_options.insert(option),
                    _ => panic!("an option under {heading:?}: {line}"),
                };
            } else if heading == "Commands:"
                && let Some(inner) = line.strip_prefix("  ").filter(|it| !it.starts_with(' '))
            {
                let name = inner.split_whitespace().next().expect("a line with text");
                command
                    .inner
                    .extend((name != "help").then(|| name.to_owned()));
                let alias = inner
                    .split_once("[alias: ")
                    .and_then(|(_, it)| it.split_once(']'));
                command
                    .aliases
                    .extend(alias.map(|(alias, _)| alias.to_owned()));
            }
        }
        command
    }

    /// This command and every one below it.
    fn walk(daemon: &TestDaemon, path: &[String], found: &mut Vec<Self>) {
        let command = Self::of(daemon, path);
        let inner: Vec<_> = command
            .inner
            .iter()
            .map(|name| [path, std::slice::from_ref(name)].concat())
            .collect();
        found.push(command);
        for path in inner {
            Self::walk(daemon, &path, found);
        }
    }
}

/// Options stand at the second or the sixth column; explanations that wrap stand further right.
fn long_option(line: &str) -> Option<String> {
    let text = line.trim_start();
    let long = match (line.len() - text.len(), text.split_once(", ")) {
        (6, _) => text.strip_prefix("--")?,
        (2, Some((short, long))) if short.starts_with('-') => long.strip_prefix("--")?,
        _ => return None,
    };
    let name: String = long
        .chars()
        .take_while(|letter| letter.is_ascii_lowercase() || *letter == '-')
        .collect();
    Some(format!("--{name}"))
}

/// The long options a text names, each once.
fn named_options(text: &str) -> BTreeSet<String> {
    let options = code_spans(text)
        .into_iter()
        .filter(|span| span.starts_with("--"));
    options
        .map(|span| span.split(' ').next().unwrap_or(span).to_owned())
        .collect()
}

#[test]
fn the_contract_lists_every_command_with_its_options_and_no_other() {
    let text = contract();
    let daemon = node().stopped();
    let mut commands = Vec::new();
    Command::walk(&daemon, &[], &mut commands);
    assert!(
        commands.len() > 20,
        "the help was not understood: {commands:?}"
    );

    let documented: BTreeMap<String, BTreeSet<String>> = rows(&text, "`agentcraft ")
        .iter()
        .map(|cells| {
            let words = cells[0].trim_matches('`').split(' ').skip(1);
            let is_literal = |word: &&str| {
                word.chars()
                    .all(|letter| letter.is_ascii_lowercase() || letter == '-')
            };
            let path: Vec<&str> = words.take_while(is_literal).collect();
            (path.join(" "), named_options(cells[1]))
        })
        .collect();
    let known: BTreeMap<String, BTreeSet<String>> = commands
        .iter()
        .filter(|command| command.inner.is_empty())
        .map(|command| {
            let options = command.options.iter().filter(|option| *option != "--help");
            (command.path.clone(), options.cloned().collect())
        })
        .collect();
    assert_eq!(documented, known);

    let top = &commands[0];
    let global: BTreeSet<String> = rows(&text, "`--")
        .iter()
        .flat_map(|cells| named_options(cells[0]))
        .collect();
    assert_eq!(global, &top.global_options | &top.options);
    for alias in commands.iter().flat_map(|command| &command.aliases) {
        assert!(
            code_spans(&text).contains(&alias.as_str()),
            "the alias {alias}"
        );
    }
}

/// The error in an answer, which has the shape every error has.
fn error_in(answer: &Value) -> RemoteError {
    let error = &answer["error"];
    assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
    assert!(
        error["message"].as_str().is_some_and(|it| !it.is_empty()),
        "{answer}"
    );
    assert!(error["data"]["context"].is_object(), "{answer}");
    RemoteError {
        code: error["code"].as_i64().expect("a number"),
        message: error["message"].as_str().expect("a text").to_owned(),
        data: error["data"].clone(),
    }
}

#[track_caller]
fn assert_is(error: &RemoteError, constant: &str) {
    let code = ErrorCode::ALL
        .into_iter()
        .find(|code| code.name() == constant)
        .expect("a constant of the contract");
    let found = (error.code, error.data["errorCode"].as_str());
    assert_eq!(found, (code.number(), Some(constant)), "{error:?}");
    assert!(error.data["context"].is_object(), "{error:?}");
}

/// The lines of a table written as text.
fn table<const CELLS: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; CELLS]> {
    text.trim().lines().map(|line| {
        let cells: Vec<&str> = line.trim().split(" | ").collect();
        cells
            .try_into()
            .unwrap_or_else(|cells| panic!("not {CELLS} cells: {cells:?}"))
    })
}

/// A line, the id of its answer, and the code.
const BAD_LINES: &str = r#"
    { not json | null | PARSE_ERROR
    {"jsonrpc":"2.0","id":1,"method" | null | PARSE_ERROR
    {"jsonrpc":"1.0","id":7,"method":"daemon.ping"} | 7 | INVALID_REQUEST
    {"id":"a","method":"daemon.ping"} | "a" | INVALID_REQUEST
    {"jsonrpc":"2.0","id":8} | 8 | INVALID_REQUEST
    {"jsonrpc":"2.0","id":[],"method":"daemon.ping"} | null | INVALID_REQUEST
    {"jsonrpc":"2.0","id":9,"method":"daemon.ping","params":7} | 9 | INVALID_REQUEST
    [] | null | INVALID_REQUEST
    [{"jsonrpc":"2.0","id":1,"method":"daemon.ping"}] | null | INVALID_REQUEST
    7 | null | INVALID_REQUEST
    {"jsonrpc":"2.0","id":10,"method":"no.such"} | 10 | METHOD_NOT_FOUND
"#;

#[test]
fn a_bad_line_is_answered_with_its_code_and_never_ends_the_connection() {
    let daemon = node().start();
    let mut client = daemon.client();
    let long = vec![b'x'; 10 * 1024 * 1024 + 1];
    let unwritable: [(&[u8], &str, &str); 2] = [
        (b"\xff\xfe", "null", "PARSE_ERROR"),
        (&long, "null", "INVALID_REQUEST"),
    ];
    let written = table(BAD_LINES).map(|[line, id, code]| (line.as_bytes(), id, code));
    for (line, id, code) in written.chain(unwritable) {
        client.send_bytes(&[line, b"\n".as_slice()].concat());
        let answer = client.receive();
        assert_eq!(answer["id"].to_string(), id, "{answer}");
        assert_is(&error_in(&answer), code);
        assert!(client.ok("daemon.ping", json!({}))["version"].is_string());
    }
}

/// Every path below a folder but the store's own files, which come and go by themselves.
fn tree(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("a folder that can be read")
            .flatten()
        {
            if entry.file_type().expect("a kind of file").is_dir() && entry.file_name() != "state" {
                folders.push(entry.path());
            }
            found.insert(entry.path());
        }
    }
    found
}

/// Parameters of `agent.create`, and the field at fault.
const WRONG_PARAMETERS: &str = r#"
    {"template":"own"} | name
    {"name":"a1"} | template
    {"name":7,"template":"own"} | name
    {"name":"a1","template":["own"]} | template
    {"name":"a1","template":"own","overrides":{"launchMode":"zzz"}} | overrides.launchMode
    {"name":"a1","template":"own","overrides":{"workspacePolicy":"zzz"}} | overrides.workspacePolicy
    {"name":"a1","template":"own","overrides":{"workDir":"relative/folder"}} | overrides.workDir
    {"name":"a1","template":"own","overrides":{"workDir":"/tmp/../etc"}} | overrides.workDir
    {"name":"a1","template":"own","overrides":{"workDirConflict":"zzz"}} | overrides.workDirConflict
    {"name":"a1","template":"own","overrides":{"metadata":{"k":1}}} | overrides.metadata.k
"#;

#[test]
fn wrong_parameters_are_refused_and_leave_nothing_on_disk() {
    let daemon = node().start();
    daemon.script_template("own", "exec sleep 1000");
    let mut client = daemon.client();
    let root = daemon.home().parent().unwrap().to_owned();
    let before = tree(&root);

    let bad_names = [
        "../evil",
        "",
        &"n".repeat(300),
        "a\nb",
        "a\u{0}b",
        "a/b",
        "..",
        ".hidden",
        "/evil",
        "-rf",
        "é",
    ];
    for name in bad_names {
        let cases = [
            ("agent.create", json!({"name": name, "template": "own"})),
            (
                "agent.create",
                json!({"name": name, "template": "own", "overrides": {"workDir": daemon.scratch("w")}}),
            ),
            ("agent.resolve", json!({"name": name, "template": "own"})),
            ("agent.start", json!({"name": name})),
            ("agent.stop", json!({"name": name})),
            ("agent.status", json!({"name": name})),
            ("agent.destroy", json!({"name": name, "force": true})),
            (
                "agent.attach",
                json!({"name": name, "pid": std::process::id()}),
            ),
            ("agent.detach", json!({"name": name})),
        ];
        for (method, params) in cases {
            let error = client.call(method, params).unwrap_err();
            assert_is(&error, "INVALID_PARAMS");
            assert_eq!(
                error.data["context"]["field"], "name",
                "{method} {name:?}: {error:?}"
            );
        }
    }
    for [params, field] in table(WRONG_PARAMETERS) {
        let params = serde_json::from_str(params).unwrap();
        let error = client.call("agent.create", params).unwrap_err();
        assert_is(&error, "INVALID_PARAMS");
        assert_eq!(error.data["context"]["field"], field, "{error:?}");
    }
    assert_eq!(client.ok("agent.list", json!({})), json!([]));
    assert_eq!(tree(&root), before);
}

/// A method, its parameters, the code, and a key of its context.
const PROVOCATIONS: &str = r#"
    template.load | {"filePath":"none.json"} | CONFIG_NOT_FOUND | filePath
    skill.get | {"name":"none"} | CONFIG_NOT_FOUND | kind
    template.get | {"name":"none"} | TEMPLATE_NOT_FOUND | name
    agent.create | {"name":"a","template":"none"} | TEMPLATE_NOT_FOUND | name
    template.load | {"filePath":"bad.json"} | CONFIG_VALIDATION | errors
    agent.status | {"name":"none"} | AGENT_NOT_FOUND | name
    agent.destroy | {"name":"none"} | AGENT_NOT_FOUND | name
    agent.start | {"name":"running"} | AGENT_ALREADY_RUNNING | name
    agent.attach | {"name":"running","pid":OURS} | AGENT_ALREADY_RUNNING | name
    agent.create | {"name":"fresh","template":"own"} | WORKSPACE_INIT | name
    agent.create | {"name":"a","template":"lacking"} | COMPONENT_REFERENCE | missing
    agent.start | {"name":"damaged"} | INSTANCE_CORRUPTED | workspaceDir
    agent.start | {"name":"lost"} | AGENT_LAUNCH | reason
    agent.attach | {"name":"held","pid":OURS} | AGENT_ALREADY_ATTACHED | name
    agent.stop | {"name":"held"} | AGENT_ALREADY_ATTACHED | name
    agent.destroy | {"name":"held"} | AGENT_ALREADY_ATTACHED | name
    agent.detach | {"name":"fresh"} | AGENT_NOT_ATTACHED | name
"#;

/// A daemon with an agent in each of the states that lead to a refusal.
fn provoked() -> TestDaemon {
    let daemon = node()
        .file("configs/bad.json", r#"{"name": "bad"}"#)
        .start();
    let missing = json!({"type": "custom", "config": {"executablePath": "/no/such/program"}});
    let context = json!({"skills": ["none"]});
    daemon.script_template("own", "exec sleep 1000");
    daemon.template("nowhere", json!({"backend": missing}));
    daemon.template(
        "lacking",
        json!({"backend": {"type": "builtin"}, "domainContext": context}),
    );
    let mut client = daemon.client();
    for name in ["running", "fresh", "damaged", "held"] {
        client.ok("agent.create", json!({"name": name, "template": "own"}));
    }
    client.ok(
        "agent.create",
        json!({"name": "lost", "template": "nowhere"}),
    );
    client.ok("agent.start", json!({"name": "running"}));
    client.ok(
        "agent.attach",
        json!({"name": "held", "pid": std::process::id()}),
    );
    fs::remove_file(daemon.home().join("instances/damaged/.agentcraft.json"))
        .expect("the file was there");
    daemon
}

#[test]
fn every_business_error_comes_with_its_code_and_context_from_a_method_that_lists_it() {
    let daemon = provoked();
    let mut client = daemon.client();
    let mut seen = BTreeSet::new();
    for [method, params, code, key] in table(PROVOCATIONS) {
        let params = params.replace("OURS", &std::process::id().to_string());
        let params = serde_json::from_str(&params).unwrap();
        let error = client.call(method, params).unwrap_err();
        assert_is(&error, code);
        assert!(!error.data["context"][key].is_null(), "{method}: {error:?}");
        let listed = METHODS.iter().find(|it| it.name == method).unwrap().errors;
        assert!(
            listed.iter().any(|it| it.name() == code),
            "{method} does not list {code}"
        );
        seen.insert(code);
    }
    let known = ErrorCode::ALL.iter().map(|code| code.name());
    let expected: BTreeSet<&str> = known.filter(|code| !ELSEWHERE.contains(code)).collect();
    assert_eq!(seen, expected, "each code has its provocation");
}

#[test]
fn a_template_of_any_file_is_checked_loaded_kept_over_a_restart_and_unloaded() {
    let mut daemon = node().start();
    let mut client = daemon.client();
    let file = daemon.scratch("mine.yaml");
    let path = json!({"filePath": file});
    let missing = client.ok("template.validate", path.clone());
    assert_eq!(
        (&missing["valid"], &missing["errors"][0]["path"]),
        (&json!(false), &json!(""))
    );

    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(
        &file,
        "name: mine\nversion: one\nbackend: {type: builtin}\n",
    )
    .unwrap();
    let invalid = client.ok("template.validate", path.clone());
    let wrong: Vec<_> = invalid["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["path"])
        .collect();
    assert_eq!(wrong, ["version", "domainContext"], "{invalid}");

    fs::write(
        &file,
        "name: mine\nversion: 1.0.0\nbackend: {type: builtin}\ndomainContext: {}\n",
    )
    .unwrap();
    assert_eq!(client.ok("template.validate", path.clone())["valid"], true);
    assert_eq!(
        client.ok("template.list", json!({})),
        json!([]),
        "validating loads nothing"
    );
    let loaded = client.ok("template.load", path);
    let context = json!({"skills": [], "prompts": [], "mcpServers": [], "subAgents": []});
    assert_eq!(loaded["domainContext"], context, "defaults are written out");

    daemon.stop();
    daemon.start();
    let mut client = daemon.client();
    assert_eq!(client.ok("template.get", json!({"name": "mine"})), loaded);
    assert_eq!(client.ok("template.list", json!({})), json!([loaded]));
    for there_was_one in [true, false] {
        let unloaded = client.ok("template.unload", json!({"name": "mine"}));
        assert_eq!(unloaded, json!({"success": there_was_one}));
    }
    assert_is(
        &client
            .call("template.get", json!({"name": "mine"}))
            .unwrap_err(),
        "TEMPLATE_NOT_FOUND",
    );
}

#[test]
fn components_of_every_kind_are_listed_and_got_and_bad_ones_are_named() {
    let components = [
        (
            "skill",
            "skills",
            json!({"name": "one", "content": "text", "tags": ["a"]}),
        ),
        (
            "prompt",
            "prompts",
            json!({"name": "one", "content": "Hello {{who}}"}),
        ),
        (
            "mcp",
            "mcp",
            json!({"name": "one", "command": "server", "env": {"A": "b"}}),
        ),
        (
            "workflow",
            "workflows",
            json!({"name": "one", "description": "d", "content": "text"}),
        ),
    ];
    let mut builder = node();
    for (_, folder, component) in &components {
        builder = builder
            .file(&format!("configs/{folder}/one.json"), component.to_string())
            .file(&format!("configs/{folder}/bad.yaml"), "name: [");
    }
    let daemon = builder.start();
    let mut client = daemon.client();
    for (kind, _, component) in &components {
        assert_eq!(
            client.ok(&format!("{kind}.list"), json!({})),
            json!([component])
        );
        assert_eq!(
            client.ok(&format!("{kind}.get"), json!({"name": "one"})),
            *component
        );
        let error = client
            .call(&format!("{kind}.get"), json!({"name": "bad"}))
            .unwrap_err();
        assert_is(&error, "CONFIG_NOT_FOUND");
    }
    let problems = client.ok("template.problems", json!({}));
    assert_eq!(
        problems.as_array().unwrap().len(),
        components.len(),
        "{problems}"
    );
}

#[test]
fn a_request_too_many_is_refused_and_the_others_are_answered() {
    const AT_ONCE: usize = 256;
    let daemon = node().start();
    let script = "trap '' TERM; touch set; while :; do sleep 0.1; done";
    let backend =
        json!({"type": "custom", "config": {"executablePath": "/bin/sh", "args": ["-c", script]}});
    daemon.template("slow", json!({"backend": backend, "stopGraceMs": 2000}));
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a1", "template": "slow"}));
    client.ok("agent.start", json!({"name": "a1"}));
    let set = daemon.home().join("instances/a1/set");
    eventually("the trap is set", || set.exists());
    for id in 0..=AT_ONCE {
        client.send_line(&json!({"jsonrpc": "2.0", "id": format!("s{id}"), "method": "agent.stop", "params": {"name": "a1"}}).to_string());
    }
    let refused = client.receive();
    assert_eq!(refused["id"], format!("s{AT_ONCE}"));
    assert_is(&error_in(&refused), "GENERIC_BUSINESS");
    for _ in 0..AT_ONCE {
        assert_eq!(client.receive()["result"]["status"], "stopped");
    }
}
