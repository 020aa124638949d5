//! `agentcraft acp-serve` as an editor sees it.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use serde_json::{Map, Value, json};
use testkit::{PATIENCE, eventually};

use super::Project;
use crate::node;

/// An editor with one session.
pub(super) struct Editor {
    pub(super) child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    pub(super) session: String,
    /// What was told, in order.
    pub(super) told: Vec<Value>,
    /// What is chosen when a permission is asked for; nothing is answered if it is empty.
    pub(super) choice: &'static str,
    pub(super) asked: usize,
    capabilities: Value,
}

impl Editor {
    pub(super) fn open(project: &Project) -> Self {
        Self::with(project.command(&["acp-serve"]), project, json!({}))
    }

    pub(super) fn with(mut command: Command, project: &Project, capabilities: Value) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut editor = Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            next: 0,
            session: String::new(),
            told: Vec::new(),
            choice: "allow_once",
            asked: 0,
            capabilities,
        };
        let hello = editor.call(
            "initialize",
            json!({"protocolVersion": 1, "clientCapabilities": editor.capabilities}),
        );
        assert_eq!(hello["result"]["protocolVersion"], 1, "{hello}");
        assert_eq!(hello["result"]["authMethods"], json!([]));
        let servers = &hello["result"]["agentCapabilities"]["mcpCapabilities"];
        assert_eq!(*servers, json!({"http": true, "sse": true}), "{hello}");
        let opened = editor.call(
            "session/new",
            json!({"cwd": project.folder, "mcpServers": []}),
        );
        editor.session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
        editor
    }

    pub(super) fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(super) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let message =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.write(&message.to_string());
        self.next
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).unwrap() > 0, "it is gone");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub(super) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(&json!(id))
    }

    /// Waits for the answer; what is told meanwhile is kept, what is asked is answered.
    pub(super) fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.read();
            if message.get("method").is_none() && message["id"] == *id {
                return message;
            }
            self.take(message);
        }
    }

    fn take(&mut self, message: Value) {
        if message["method"] == "session/request_permission" {
            self.asked += 1;
            let options = message["params"]["options"].as_array().unwrap();
            let chosen = options.iter().find(|option| option["kind"] == self.choice);
            if let Some(chosen) = chosen {
                let outcome = json!({"outcome": "selected", "optionId": chosen["optionId"]});
                let answer =
                    json!({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}});
                self.write(&answer.to_string());
            }
        } else if message["method"] == "elicitation/create" {
            self.asked += 1;
            let schema = &message["params"]["requestedSchema"];
            let fields = schema["properties"].as_object().unwrap();
            let filled = |(name, field): (&String, &Value)| match field["type"].as_str() {
                Some("integer") => (name.clone(), json!(2)),
                Some("boolean") => (name.clone(), json!(true)),
                _ => (name.clone(), json!("Ann")),
            };
            let content: Map<String, Value> = fields.iter().map(filled).collect();
            let result = json!({"action": "accept", "content": content});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            self.write(&answer.to_string());
        }
        self.told.push(message);
    }

    pub(super) fn prompt(&mut self, text: &str) -> String {
        let blocks = json!([{"type": "text", "text": text}]);
        self.prompt_with(blocks)
    }

    pub(super) fn prompt_with(&mut self, blocks: Value) -> String {
        let params = json!({"sessionId": self.session, "prompt": blocks});
        let answer = self.call("session/prompt", params);
        match answer["result"]["stopReason"].as_str() {
            Some(reason) => reason.to_owned(),
            None => panic!("{answer}"),
        }
    }

    pub(super) fn begin(&mut self, text: &str) -> u64 {
        let blocks = json!([{"type": "text", "text": text}]);
        self.send(
            "session/prompt",
            json!({"sessionId": self.session, "prompt": blocks}),
        )
    }

    pub(super) fn updates(&self, kind: &str) -> Vec<&Value> {
        let updates = self.told.iter().map(|message| &message["params"]["update"]);
        updates
            .filter(|update| update["sessionUpdate"] == kind)
            .collect()
    }

    pub(super) fn words(&self) -> String {
        let chunks = self.updates("agent_message_chunk").into_iter();
        chunks
            .filter_map(|chunk| chunk["content"]["text"].as_str())
            .collect()
    }

    /// Reads on until it has been told.
    pub(super) fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < deadline, "did not happen: {what}");
            let message = self.read();
            self.take(message);
        }
    }

    pub(super) fn close(mut self) -> (i32, String) {
        self.stdin = None;
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest).unwrap();
        let mut errors = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), errors)
    }
}

pub(super) fn project() -> Project {
    let project = Project::new();
    project.examples();
    project
}

pub(super) fn step(command: &str) -> String {
    format!(
        "name: one\nstates:\n  initial: step\n  step:\n    type: command\n    command: |\n      {command}\n    \
         on_success: done\n  done: {{type: terminal, status: success}}\n"
    )
}

#[test]
fn commands_come_after_the_answer_with_their_hints_and_run() {
    let project = project();
    let mut editor = Editor::open(&project);
    assert!(
        editor.told.is_empty(),
        "something was told before the session was known"
    );
    editor.until("the commands are told", |editor| {
        !editor.updates("available_commands_update").is_empty()
    });
    let commands = editor.updates("available_commands_update")[0]["availableCommands"].clone();
    let commands = commands.as_array().unwrap();
    assert_eq!(commands.len(), 10, "{commands:?}");
    let greet = commands
        .iter()
        .find(|command| command["name"] == "01-greet")
        .unwrap();
    assert_eq!(greet["input"]["hint"], "who=… [times=…]");
    assert_eq!(
        editor.prompt("/01-greet --input=who=Ann --input times=2"),
        "end_turn"
    );
    assert!(editor.words().contains("greeted Ann"), "{}", editor.words());
    let (code, _) = editor.close();
    assert_eq!(code, 0);
    project.nothing_is_left();
}

#[test]
fn a_run_is_told_as_a_plan_and_a_tool_call_for_each_step() {
    let project = project();
    let mut editor = Editor::open(&project);
    assert_eq!(editor.prompt("/02-parallel-checks"), "end_turn");
    let plans = editor.updates("plan");
    assert!(plans.len() >= 3, "{plans:?}");
    let last = plans.last().unwrap()["entries"].as_array().unwrap();
    assert!(
        last.iter().all(|entry| entry["status"] == "completed"),
        "{last:?}"
    );
    let calls: Vec<&str> = editor
        .updates("tool_call")
        .iter()
        .map(|call| call["toolCallId"].as_str().unwrap())
        .collect();
    assert_eq!(
        calls.iter().filter(|id| id.contains(":checks/")).count(),
        3,
        "{calls:?}"
    );
    for id in &calls {
        let mut updates = editor.updates("tool_call_update").into_iter();
        let last = updates.rfind(|update| update["toolCallId"] == *id);
        assert_eq!(last.unwrap()["status"], "completed", "{id}");
    }
    editor.close();
}

#[test]
fn a_conversation_goes_over_several_turns_and_leaves_nothing() {
    let project = project();
    let mut editor = Editor::open(&project);
    assert_eq!(editor.prompt("/10-conversation"), "end_turn");
    assert!(editor.words().contains("What shall we talk about?"));
    for turn in ["one", "two", "three", "four"] {
        assert_eq!(editor.prompt(turn), "end_turn");
        assert!(
            editor.words().contains(&format!("You said: {turn}")),
            "{}",
            editor.words()
        );
    }
    assert_eq!(editor.prompt("exit"), "end_turn");
    assert!(project.read("said.txt").contains("four"));
    assert_eq!(
        editor
            .updates("tool_call")
            .iter()
            .filter(|call| call["toolCallId"].as_str().unwrap().ends_with(":talk"))
            .count(),
        1
    );
    editor.close();
    project.nothing_is_left();
}

#[test]
fn an_approval_is_asked_of_the_editor() {
    let project = project();
    let mut editor = Editor::open(&project);
    assert_eq!(editor.prompt("/05-approval"), "end_turn");
    assert_eq!(editor.asked, 1);
    assert!(project.folder.join("published.txt").exists());
    fs::remove_file(project.folder.join("published.txt")).unwrap();
    editor.choice = "reject_once";
    assert_eq!(editor.prompt("/05-approval"), "end_turn");
    assert!(
        editor.words().contains("publish: skipped"),
        "{}",
        editor.words()
    );
    assert!(!project.folder.join("published.txt").exists());
    editor.close();
}

#[test]
fn a_cancel_ends_the_turn_and_what_it_started() {
    let project = project();
    project.workflow(
        "deaf",
        &step("trap '' TERM; touch started; while true; do sleep 1; done"),
    );
    let mut editor = Editor::open(&project);
    let id = editor.begin("/deaf");
    editor.until("the step is told", |editor| {
        !editor.updates("tool_call").is_empty()
    });
    eventually("the step is at work", || {
        project.folder.join("started").exists()
    });
    let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": editor.session}});
    editor.write(&cancel.to_string());
    let answer = editor.answer(&json!(id));
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    let last = *editor.updates("tool_call_update").last().unwrap();
    assert_eq!(last["status"], "failed");
    assert!(last["content"].to_string().contains("cancelled"), "{last}");
    project.nothing_is_left_but(&editor.child);
    assert_eq!(
        editor.prompt("/01-greet who=Ann"),
        "end_turn",
        "the session can be used again"
    );
    editor.close();
}

#[test]
fn what_is_wrong_is_said_and_the_turn_does_not_end_well() {
    let project = project();
    let mut editor = Editor::open(&project);
    assert_eq!(editor.prompt("/01-greet"), "refusal");
    assert!(editor.words().contains("inputs.who"), "{}", editor.words());
    assert_eq!(editor.prompt("/nothing"), "refusal");
    assert!(
        editor
            .words()
            .contains("there is no workflow called nothing")
    );
    assert_eq!(editor.prompt("hello"), "refusal");
    for kind in ["image", "audio"] {
        let block = json!([{"type": kind, "data": "AA==", "mimeType": format!("{kind}/png")}]);
        assert_eq!(editor.prompt_with(block), "refusal");
    }
    let resource = json!({"uri": "file:///x", "text": "y"});
    let block = json!([{"type": "resource", "resource": resource}]);
    assert_eq!(editor.prompt_with(block), "refusal");
    assert!(
        editor.words().contains("USER.ACP.UNSUPPORTED_BLOCK"),
        "{}",
        editor.words()
    );
    let link = json!([
        {"type": "text", "text": "/01-greet who="},
        {"type": "resource_link", "name": "Ann", "uri": "Ann"},
    ]);
    assert_eq!(editor.prompt_with(link), "end_turn");
    assert!(editor.words().contains("greeted Ann"));
    editor.close();
}

#[test]
fn a_missing_input_is_asked_for_where_the_editor_has_forms() {
    let project = project();
    let capabilities = json!({"elicitation": {"form": {}}});
    let mut editor = Editor::with(project.command(&["acp-serve"]), &project, capabilities);
    assert_eq!(editor.prompt("/01-greet"), "end_turn");
    assert_eq!(editor.asked, 1);
    assert!(editor.words().contains("greeted Ann"), "{}", editor.words());
    let typed = "inputs: [{name: who, required: true}, {name: n, type: integer, required: true, validation: {max: 5}}]\n";
    project.workflow(
        "typed",
        &format!(
            "{typed}{}",
            step("echo {{escape .inputs.who}}-{{.inputs.n}} > typed.txt")
        ),
    );
    assert_eq!(editor.prompt("/typed"), "end_turn");
    assert_eq!(project.read("typed.txt"), "Ann-2\n");
    let mut asked = editor
        .told
        .iter()
        .filter(|message| message["method"] == "elicitation/create");
    let form = &asked.next_back().unwrap()["params"]["requestedSchema"];
    assert_eq!(
        form["properties"]["n"],
        json!({"type": "integer", "title": "n", "maximum": 5})
    );
    editor.close();
}

#[test]
fn odd_frames_are_answered_and_the_loop_goes_on() {
    let project = project();
    let mut editor = Editor::open(&project);
    editor.write("{not json");
    assert_eq!(editor.answer(&Value::Null)["error"]["code"], -32700);
    editor.write("[]");
    assert_eq!(editor.answer(&Value::Null)["error"]["code"], -32600);
    editor.write(r#"{"jsonrpc":"1.0","id":77,"method":"session/new"}"#);
    let refused = editor.answer(&json!(77));
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    // As long as a line may be it is read, and is no JSON; one byte more is not read at all.
    let longest = "x".repeat(10 * 1024 * 1024);
    editor.write(&longest);
    assert_eq!(editor.answer(&Value::Null)["error"]["code"], -32700);
    editor.write(&format!("{longest}x"));
    assert_eq!(editor.answer(&Value::Null)["error"]["code"], -32600);
    let answer = editor.call("session/nonsense", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    let answer = editor.call("session/prompt", json!({"sessionId": "zzz", "prompt": []}));
    assert!(answer["error"]["code"].is_i64(), "{answer}");
    assert_eq!(editor.prompt("/01-greet who=Ann"), "end_turn");
    editor.close();
}

#[test]
fn a_second_prompt_is_refused_while_one_is_carried_out() {
    let project = project();
    project.workflow(
        "slow",
        &step("touch started; while ! test -e go; do sleep 0.02; done"),
    );
    let mut editor = Editor::open(&project);
    let first = editor.begin("/slow");
    eventually("the step is at work", || {
        project.folder.join("started").exists()
    });
    let second = editor.begin("/01-greet who=Ann");
    let refused = editor.answer(&json!(second));
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    fs::write(project.folder.join("go"), "").unwrap();
    let answer = editor.answer(&json!(first));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    editor.close();
}

#[test]
fn refused_requests_have_their_codes_with_and_without_a_daemon() {
    for has_daemon in [false, true] {
        let Project { mut home, folder } = project();
        if has_daemon {
            home.start();
        }
        let project = Project { home, folder };
        project.workflow(
            "slow",
            &step("touch started; while ! test -e go; do sleep 0.02; done"),
        );
        let mut editor = Editor::open(&project);
        let code = |answer: &Value| answer["error"]["data"]["code"].clone();
        let later = json!({"protocolVersion": 2, "info": {"name": "next"}, "capabilities": {}});
        let refused = editor.call("initialize", later);
        assert_eq!(
            code(&refused),
            "USER.ACP.PROTOCOL_VERSION_UNSUPPORTED",
            "{has_daemon}: {refused}"
        );
        let text = json!([{"type": "text", "text": "/slow"}]);
        for (method, params) in [
            (
                "session/prompt",
                json!({"sessionId": "zzz", "prompt": text}),
            ),
            (
                "session/load",
                json!({"sessionId": "zzz", "cwd": project.folder, "mcpServers": []}),
            ),
            (
                "session/set_mode",
                json!({"sessionId": "zzz", "modeId": "x"}),
            ),
        ] {
            let refused = editor.call(method, params);
            assert_eq!(
                code(&refused),
                "USER.ACP.UNKNOWN_SESSION",
                "{has_daemon}: {method}: {refused}"
            );
        }
        let first = editor.begin("/slow");
        eventually("the step is at work", || {
            project.folder.join("started").exists()
        });
        let second = editor.begin("/slow");
        let refused = editor.answer(&json!(second));
        assert_eq!(
            code(&refused),
            "USER.ACP.PROMPT_IN_FLIGHT",
            "{has_daemon}: {refused}"
        );
        fs::write(project.folder.join("go"), "").unwrap();
        let answer = editor.answer(&json!(first));
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        editor.close();
    }
}

#[test]
fn secrets_do_not_reach_the_editor_even_in_two_pieces() {
    let mut project = project();
    project
        .home
        .set_env("SECRET_WORD", Some("swordfish-and-chips"));
    project.workflow(
        "leaks",
        &step("printf 'swordfish-'; sleep 0.4; echo and-chips; sleep 0.4; echo \"$SECRET_WORD\""),
    );
    let mut editor = Editor::open(&project);
    assert_eq!(editor.prompt("/leaks"), "end_turn");
    let told = Value::Array(editor.told.clone()).to_string();
    assert!(told.contains("***"), "{told}");
    assert!(
        !told.contains("swordfish") && !told.contains("and-chips"),
        "{told}"
    );
    editor.close();
}

#[test]
fn servers_of_the_editor_are_given_to_the_agents_of_the_run() {
    let project = project();
    let rules =
        "[permissions]\n[[permissions.rules]]\ncommand = \"/bin/true *\"\ndecision = \"allow\"\n";
    fs::create_dir_all(project.home.home()).unwrap();
    fs::write(project.home.home().join("config.toml"), rules).unwrap();
    let text = "name: servers\nstates:\n  initial: ask\n  ask:\n    type: agent\n    \
                provider: 'acp: agentcraft builtin-agent'\n    prompt: /mcp\n    on_success: done\n  \
                done: {type: terminal}\n";
    project.workflow("servers", text);
    let mut editor = Editor::open(&project);
    let server = |name: &str, command: &str| json!({"name": name, "command": command, "args": ["x"], "env": []});
    let servers = json!([
        server("mine", "/bin/true"),
        server("not-allowed", "/bin/false")
    ]);
    let opened = editor.call(
        "session/new",
        json!({"cwd": project.folder, "mcpServers": servers}),
    );
    editor.session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(editor.prompt("/servers"), "end_turn");
    assert!(editor.words().contains("mine"), "{}", editor.words());
    assert!(
        !editor.words().contains("- not-allowed"),
        "{}",
        editor.words()
    );
    editor.close();
    project.nothing_is_left();
}

/// What a program that plays Claude Code keeps of the file with its servers.
const CLAUDE: &str = r#"#!/bin/sh
for word in "$@"; do if [ -f "$word" ]; then cat "$word" > given.json; fi; done
echo '{"type":"result","subtype":"success","is_error":false,"result":"fine","session_id":"s1"}'
"#;

#[test]
fn servers_behind_an_address_are_given_to_agents_that_take_them_and_words_are_said_of_others() {
    let mut project = project();
    let rules = "[permissions]\n[[permissions.rules]]\nkind = \"fetch\"\ndecision = \"allow\"\n";
    fs::create_dir_all(project.home.home()).unwrap();
    fs::write(project.home.home().join("config.toml"), rules).unwrap();
    let bin = project.folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("claude"), CLAUDE).unwrap();
    fs::set_permissions(bin.join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
    let own = std::path::Path::new(env!("CARGO_BIN_EXE_agentcraft"));
    let path = format!(
        "{}:{}:{}",
        bin.display(),
        own.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    project.home.set_env("PATH", Some(&path));
    let ask = |provider: &str| {
        format!(
            "name: ask\nstates:\n  initial: ask\n  ask: {{type: agent, provider: '{provider}', prompt: /mcp, on_success: done}}\n  \
             done: {{type: terminal}}\n"
        )
    };
    project.workflow("print", &ask("claude"));
    project.workflow("speak", &ask("acp: agentcraft builtin-agent"));
    let mut editor = Editor::open(&project);
    let servers = json!([
        {"type": "http", "name": "far", "url": "https://far.test/mcp", "headers": [{"name": "X-Key", "value": "abc"}]},
        {"type": "sse", "name": "old", "url": "https://old.test/sse", "headers": []},
    ]);
    let opened = editor.call(
        "session/new",
        json!({"cwd": project.folder, "mcpServers": servers}),
    );
    editor.session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(editor.prompt("/print"), "end_turn", "{:?}", editor.told);
    let given: Value = serde_json::from_str(&project.read("given.json")).unwrap();
    let expected = json!({"mcpServers": {
        "far": {"type": "http", "url": "https://far.test/mcp", "headers": {"X-Key": "abc"}},
        "old": {"type": "sse", "url": "https://old.test/sse"},
    }});
    assert_eq!(given, expected);
    assert_eq!(editor.prompt("/speak"), "end_turn");
    let told = format!("{:?}", editor.told);
    for words in [
        "does not get the MCP server far: it takes none over http",
        "does not get the MCP server old: it takes none over sse",
    ] {
        assert!(told.contains(words), "{told}");
    }
    editor.close();
    project.nothing_is_left();
}

#[test]
fn a_server_that_is_killed_leaves_nothing_and_its_run_can_be_resumed() {
    let project = project();
    let text = "echo x >> ran; while ! test -e go; do sleep 0.02; done";
    let text = step(text).replace("on_success", "idempotent: true\n    on_success");
    project.workflow("long", &text);
    let mut editor = Editor::open(&project);
    editor.begin("/long");
    eventually("the step is at work", || {
        project.folder.join("ran").exists()
    });
    editor.child.kill().unwrap();
    editor.child.wait().unwrap();
    project.nothing_is_left();
    fs::write(project.folder.join("go"), "").unwrap();
    let output = project.cli(&["workflow", "resume", &project.newest()]);
    assert_eq!(output.code, 0, "{}", output.stderr);
}

#[test]
fn closing_the_input_ends_the_run_and_leaves_nothing() {
    let project = project();
    project.workflow("long", &step("touch started; sleep 60"));
    let mut editor = Editor::open(&project);
    editor.begin("/long");
    eventually("the step is at work", || {
        project.folder.join("started").exists()
    });
    let (code, _) = editor.close();
    assert_eq!(code, 0);
    project.nothing_is_left();
    let listed = project.cli(&["workflow", "history", "-f", "json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["runs"][0]["state"], "cancelled", "{listed}");
    let spaces = fs::read_dir(project.home.home().join("spaces"));
    assert_eq!(spaces.map_or(0, Iterator::count), 0);
}

#[test]
fn settings_name_the_folder_and_mistakes_in_them_have_codes() {
    let project = project();
    let flows = project.folder.join("flows");
    fs::create_dir_all(&flows).unwrap();
    fs::write(flows.join("mine.yaml"), step("echo mine")).unwrap();
    fs::write(project.folder.join("acp.yaml"), "workflows_dir: flows\n").unwrap();
    let command = project.command(&["acp-serve", "--config", "acp.yaml"]);
    let mut editor = Editor::with(command, &project, json!({}));
    assert_eq!(editor.prompt("/mine"), "end_turn");
    editor.close();
    for (arguments, code) in [
        (["--config", "missing.yaml"], "USER.ACP.CONFIG_MISSING"),
        (
            ["--config", "flows/mine.yaml.not"],
            "USER.ACP.CONFIG_MISSING",
        ),
        (["--workflows", "missing"], "USER.ACP.WORKFLOWS_DIR_MISSING"),
    ] {
        let output = project.cli(&[&["acp-serve"], &arguments[..]].concat());
        assert_eq!(output.code, 1, "{}", output.stderr);
        assert!(output.stderr.contains(code), "{}", output.stderr);
        assert_eq!(output.stdout, "");
    }
    for bad in [
        "workflows_dir: [1\n",
        "workflows_dir: 3.5e\ndefault_workflow: [a]\n",
        "default_workflow: a\ndefault_agent: claude\n",
        "default_agent: 'acp:'\n",
    ] {
        fs::write(project.folder.join("bad.yaml"), bad).unwrap();
        let output = project.cli(&["acp-serve", "--config", "bad.yaml"]);
        assert_eq!(output.code, 1, "{bad}: {}", output.stderr);
        assert!(
            output.stderr.contains("USER.ACP.CONFIG_INVALID"),
            "{bad}: {}",
            output.stderr
        );
        assert_eq!(output.stdout, "", "{bad}");
    }
}

#[test]
fn each_mistake_in_a_prompt_has_its_code() {
    let project = project();
    let inputs = "inputs: [{name: a, required: true}, {name: b, required: true}]\n";
    project.workflow("two", &format!("{inputs}{}", step("true")));
    let mut editor = Editor::open(&project);
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let image = json!([{"type": "image", "data": "AA==", "mimeType": "image/png"}]);
    let resource = json!({"uri": "file:///x", "text": "y"});
    let odd = json!([{"type": "resource", "resource": resource}]);
    for (blocks, code) in [
        (image, "USER.ACP.UNSUPPORTED_BLOCK"),
        (odd, "USER.ACP.UNSUPPORTED_BLOCK"),
        (text("hello"), "USER.ACP.INVALID_PROMPT"),
        (
            text("/nosuch"),
            "USER.ACP.INVALID_PROMPT: there is no workflow called nosuch. There are /01-greet",
        ),
        (text("/two a='1"), "USER.ACP.INVALID_PROMPT"),
        (text("/two a=1 a=2"), "USER.ACP.INVALID_PROMPT"),
        (text("/01-greet"), "USER.INPUT.VALIDATION_FAILED"),
    ] {
        let before = editor.words().len();
        assert_eq!(editor.prompt_with(blocks), "refusal");
        let said = editor.words().split_off(before);
        assert!(said.contains(code), "{code}: {said}");
    }
    assert_eq!(editor.prompt("/01-greet who=Ann"), "end_turn");
    editor.close();
}

#[test]
fn the_command_is_not_in_the_help_and_answers_to_the_name_awf() {
    let project = project();
    let output = project.cli(&["--help"]);
    assert!(!output.stdout.contains("acp-serve"), "{}", output.stdout);
    let awf = project.folder.join("awf");
    symlink(env!("CARGO_BIN_EXE_agentcraft"), &awf).unwrap();
    let mut command = project.command(&["acp-serve"]);
    command.arg0(&awf);
    let mut editor = Editor::with(command, &project, json!({}));
    assert_eq!(editor.prompt("/01-greet who=Ann"), "end_turn");
    editor.close();
}

#[test]
fn where_a_daemon_runs_its_sessions_are_used() {
    let project = Project::of(node().stopped());
    project.examples();
    let Project { mut home, folder } = project;
    home.start();
    let project = Project { home, folder };
    let mut editor = Editor::open(&project);
    editor.until("the commands are told", |editor| {
        !editor.updates("available_commands_update").is_empty()
    });
    assert_eq!(editor.prompt("/01-greet who=Ann"), "end_turn");
    assert!(editor.words().contains("greeted Ann"), "{}", editor.words());
    let sessions = project.home.client().ok("session.list", json!({}));
    assert_eq!(sessions[0]["agentName"], "workflows", "{sessions}");
    project.workflow(
        "slow",
        &step("touch started; while ! test -e go; do sleep 0.02; done"),
    );
    let first = editor.begin("/slow");
    eventually("the step is at work", || {
        project.folder.join("started").exists()
    });
    let second = editor.begin("/01-greet who=Ann");
    let refused = editor.answer(&json!(second));
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    fs::write(project.folder.join("go"), "").unwrap();
    editor.answer(&json!(first));
    editor.close();
    assert!(
        !project.home.home().join("spaces").exists(),
        "a space of its own was made"
    );
}
