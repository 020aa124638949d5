//! `agentcraft mcp serve`: the official clients through both handshakes, and line by line what no client shows.

mod typescript;

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    time::Instant,
};

use serde_json::{Value, json};
use testkit::{PATIENCE, TestDaemon, eventually, kill};

use crate::node;

const CLIENT: &str = include_str!("mcp/client.py");

fn templates(daemon: &TestDaemon) {
    daemon.template("echo", json!({"backend": {"type": "builtin"}}));
    daemon.template(
        "trusted",
        json!({"backend": {"type": "builtin"}, "permissions": {"allow": ["edit"]}}),
    );
}

/// Said by a test that has no client to run.
const NO_CLIENT: &str =
    "skipped: ./test sets AGENTCRAFT_TEST_PYTHON to a Python that has the MCP client";

/// Runs the official client in one of its modes and gives the protocol version that was spoken; nothing without a client.
fn official_client(mode: &str) -> Option<String> {
    let python = env::var_os("AGENTCRAFT_TEST_PYTHON")?;
    let daemon = node().start();
    templates(&daemon);
    let output = Command::new(python)
        .args(["-c", CLIENT, env!("CARGO_BIN_EXE_agentcraft"), mode])
        .env("AGENTCRAFT_HOME", daemon.home())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{mode}: {said}");
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn the_official_client_uses_every_tool_after_initialize() {
    match official_client("legacy") {
        Some(spoken) => assert_eq!(spoken, "2025-11-25"),
        None => println!("{NO_CLIENT}"),
    }
}

#[test]
fn the_official_client_uses_every_tool_without_initialize() {
    match official_client("auto") {
        Some(spoken) => assert_eq!(spoken, "2026-07-28"),
        None => println!("{NO_CLIENT}"),
    }
}

/// A server, spoken to line by line.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    next_id: u64,
    /// What every request carries in `_meta`.
    meta: Value,
}

impl Server {
    fn start(daemon: &TestDaemon) -> Self {
        let mut child = daemon
            .command(&["mcp", "serve"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
            next_id: 1,
            meta: json!({}),
        }
    }

    fn initialized(daemon: &TestDaemon) -> Self {
        let mut server = Self::start(daemon);
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = server.ok("initialize", params);
        assert_eq!(answer["protocolVersion"], "2025-06-18");
        server.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        server
    }

    fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn read(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn send(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let mut meta = self.meta.clone();
        if method == "tools/call" {
            meta["progressToken"] = json!(format!("token-{id}"));
        }
        if meta != json!({}) {
            params["_meta"] = meta;
        }
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(&line.to_string());
        id
    }

    /// The answer to a request; notifications before it are passed over.
    fn answer(&self, id: u64) -> Value {
        loop {
            let message = self.read();
            if message["id"] == json!(id) {
                return message;
            }
        }
    }

    fn ok(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id);
        assert!(answer["result"].is_null(), "{method}: {answer}");
        answer["error"].clone()
    }

    fn tool(&mut self, name: &str, arguments: Value) -> Value {
        self.ok("tools/call", json!({"name": name, "arguments": arguments}))
    }

    /// Begins a call and waits until the agent is at work.
    fn begin(&mut self, name: &str, arguments: Value) -> u64 {
        let id = self.send("tools/call", json!({"name": name, "arguments": arguments}));
        let token = json!(format!("token-{id}"));
        loop {
            let message = self.read();
            assert_ne!(message["id"], json!(id), "{message}");
            // Others that are under way tell of theirs too.
            let is_progress = message["method"] == "notifications/progress";
            if is_progress && message["params"]["progressToken"] == token {
                return id;
            }
        }
    }

    /// Waits for the end and gives the exit code.
    fn wait(mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "the server lives on");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended already.
        let _ = self.child.wait();
    }
}

#[test]
fn initialize_agrees_on_a_version_the_client_knows() {
    let daemon = node().start();
    for (wanted, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-11-25", "2025-11-25"),
        // These have no initialize, or do not exist: the newest that has one is offered.
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let mut server = Server::start(&daemon);
        let params = json!({"protocolVersion": wanted, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = server.ok("initialize", params);
        assert_eq!(answer["protocolVersion"], agreed, "{wanted}");
        assert_eq!(answer["serverInfo"]["name"], "agentcraft");
        assert!(answer["capabilities"]["tools"].is_object());
        assert!(answer["capabilities"]["resources"].is_object());
        let tools = server.ok("tools/list", json!({}));
        assert_eq!(tools["tools"].as_array().unwrap().len(), 13);
        assert!(tools["resultType"].is_null(), "{tools}");
    }
}

#[test]
fn without_initialize_every_request_says_who_asks() {
    let daemon = node().start();
    let mut server = Server::start(&daemon);
    let refused = server.refused("tools/list", json!({}));
    assert_eq!(refused["code"], -32602, "{refused}");
    server.meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = server.ok("server/discover", json!({}));
    assert!(
        found["supportedVersions"]
            .as_array()
            .unwrap()
            .contains(&json!("2026-07-28")),
        "{found}"
    );
    let tools = server.ok("tools/list", json!({}));
    assert_eq!(tools["resultType"], "complete");
    let agents = server.tool("agentcraft_list_agents", json!({}));
    assert_eq!(agents["structuredContent"], json!({"agents": []}));
    let missing = server.refused("resources/read", json!({"uri": "agentcraft://agent/x"}));
    assert_eq!(missing["code"], -32602, "{missing}");
}

#[test]
fn what_peers_can_do_is_a_tool_each_and_calling_one_asks_that_node() {
    let peer = node().listening().start();
    templates(&peer);
    let mut there = peer.client();
    there.ok("agent.create", json!({"name": "echo", "template": "echo"}));
    there.ok("agent.start", json!({"name": "echo"}));
    let here = node().listening().start();
    let mut server = Server::initialized(&here);
    let names = |server: &mut Server| -> Vec<String> {
        let listed = server.ok("tools/list", json!({}));
        let tools = listed["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(
        !names(&mut server)
            .iter()
            .any(|name| name.starts_with("peer_"))
    );
    let token = here.scratch("peer.token");
    std::fs::create_dir_all(here.scratch("")).unwrap();
    std::fs::write(&token, peer.token()).unwrap();
    let token = token.to_str().unwrap();
    let added = here.cli(&["peer", "add", &peer.url(), "--token-file", token]);
    assert_eq!(added.code, 0, "{added:?}");
    let tool = names(&mut server)
        .into_iter()
        .find(|name| name.starts_with("peer_"));
    let tool = tool.expect("the agent there is a skill of the peer");
    assert!(tool.ends_with("_echo"), "{tool}");
    let done = server.tool(&tool, json!({"text": "hello from a model"}));
    let said = done["structuredContent"]["text"]
        .as_str()
        .unwrap_or_default();
    assert!(said.contains("hello from a model"), "{done}");
    let wrong = server.tool("peer_nobody_nothing", json!({"text": "x"}));
    assert_eq!(wrong["isError"], true, "{wrong}");
}

#[test]
fn a_daemon_that_is_not_there_or_was_restarted_is_found_when_it_is_back() {
    let mut daemon = node().stopped();
    let mut server = Server::initialized(&daemon);
    let failed = server.tool("agentcraft_list_agents", json!({}));
    assert_eq!(failed["isError"], true);
    assert_eq!(
        failed["_meta"]["agentcraft/errorCode"],
        "DAEMON_NOT_RUNNING"
    );
    let words = failed["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("`agentcraft daemon start`"), "{words}");
    let refused = server.refused("resources/list", json!({}));
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("daemon start")
    );
    for _ in 0..2 {
        daemon.start();
        let agents = server.tool("agentcraft_list_agents", json!({}));
        assert_eq!(agents["structuredContent"], json!({"agents": []}));
        daemon.stop();
    }
    daemon.start();
    templates(&daemon);
    server.begin(
        "agentcraft_run_agent",
        json!({"template": "echo", "prompt": "/hang"}),
    );
    daemon.kill();
    let lost = server.answer(server.next_id - 1);
    assert_eq!(
        lost["result"]["_meta"]["agentcraft/errorCode"], "DAEMON_LOST",
        "{lost}"
    );
}

/// What became of the only turn of the only session.
fn last_stop(daemon: &TestDaemon) -> Value {
    let mut client = daemon.client();
    let sessions = client.ok("session.list", json!({}));
    let session = &sessions[0]["sessionId"];
    let events = client.ok("session.events", json!({"sessionId": session}));
    events.as_array().unwrap().last().unwrap()["stop"]["reason"].clone()
}

fn agents(daemon: &TestDaemon) -> usize {
    let agents = daemon.client().ok("agent.list", json!({}));
    agents.as_array().unwrap().len()
}

#[test]
fn a_client_that_vanishes_leaves_no_turn_and_no_agent() {
    let daemon = node().start();
    templates(&daemon);
    daemon
        .client()
        .ok("agent.create", json!({"name": "kept", "template": "echo"}));
    type End = fn(&mut Server);
    let ends: [(&str, End); 2] = [
        ("its input ends", |server| drop(server.input.take())),
        ("it is told to end", |server| {
            kill(server.child.id(), "TERM")
        }),
    ];
    for (how, end) in ends {
        let mut server = Server::initialized(&daemon);
        server.begin(
            "agentcraft_prompt_agent",
            json!({"name": "kept", "message": "/hang"}),
        );
        server.begin(
            "agentcraft_run_agent",
            json!({"template": "echo", "prompt": "/hang"}),
        );
        assert_eq!(agents(&daemon), 2);
        let began = Instant::now();
        end(&mut server);
        assert_eq!(server.wait(), Some(0), "{how}");
        assert!(
            began.elapsed().as_secs() < 5,
            "{how}: {:?}",
            began.elapsed()
        );
        assert_eq!(agents(&daemon), 1, "{how}");
        assert_eq!(last_stop(&daemon), "cancelled", "{how}");
        let mut client = daemon.client();
        for session in client.ok("session.list", json!({})).as_array().unwrap() {
            client
                .call("session.close", json!({"sessionId": session["sessionId"]}))
                .ok();
        }
    }
}

#[test]
fn what_a_killed_server_leaves_is_removed_by_the_next() {
    let daemon = node().start();
    templates(&daemon);
    let mut server = Server::initialized(&daemon);
    server.begin(
        "agentcraft_run_agent",
        json!({"template": "echo", "prompt": "/hang"}),
    );
    kill(server.child.id(), "KILL");
    server.wait();
    assert_eq!(agents(&daemon), 1);
    let _next = Server::initialized(&daemon);
    eventually("the agent of the killed server is gone", || {
        agents(&daemon) == 0
    });
}

#[test]
fn the_agent_of_a_run_does_not_outlive_the_daemon_though_its_server_does() {
    let mut daemon = node().start();
    templates(&daemon);
    let mut server = Server::initialized(&daemon);
    let run = server.begin(
        "agentcraft_run_agent",
        json!({"template": "echo", "prompt": "/hang"}),
    );
    assert_eq!(agents(&daemon), 1);
    daemon.kill();
    let lost = server.answer(run);
    assert_eq!(lost["result"]["isError"], true, "{lost}");
    daemon.start();
    eventually("the agent of the run is gone", || agents(&daemon) == 0);
}

#[test]
fn quick_calls_are_answered_even_if_the_input_has_ended() {
    let daemon = node().start();
    let mut server = Server::initialized(&daemon);
    let id = server.send("tools/list", json!({}));
    let agents = server.send(
        "tools/call",
        json!({"name": "agentcraft_list_agents", "arguments": {}}),
    );
    drop(server.input.take());
    assert_eq!(
        server.answer(id)["result"]["tools"]
            .as_array()
            .unwrap()
            .len(),
        13
    );
    assert_eq!(
        server.answer(agents)["result"]["structuredContent"],
        json!({"agents": []})
    );
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn lines_that_are_no_message_do_not_end_the_server() {
    let daemon = node().start();
    let mut server = Server::initialized(&daemon);
    for line in [
        "",
        "nonsense",
        "[]",
        "{}",
        r#"{"jsonrpc":"2.0","id":7}"#,
        "\u{1f600}",
    ] {
        server.write(line);
    }
    let refused = server.refused("no/such/method", json!({}));
    assert_eq!(refused["code"], -32601, "{refused}");
    let unknown = server.refused("tools/call", json!({"name": "rm", "arguments": {}}));
    assert_eq!(unknown["code"], -32602, "{unknown}");
    let shapeless = server.refused("tools/call", json!({"name": "rm", "arguments": "x"}));
    assert_eq!(shapeless["code"], -32602, "{shapeless}");
    let failed = server.tool("agentcraft_agent_status", json!({"nam": "x"}));
    assert_eq!(failed["_meta"]["agentcraft/errorCode"], "INVALID_PARAMS");
    let page = server.refused("resources/list", json!({"cursor": "x"}));
    assert_eq!(page["code"], -32602);
    let beyond = json!({"cursor": usize::MAX.to_string()});
    let page = server.ok("resources/list", beyond);
    assert_eq!(page, json!({"resources": []}), "{page}");
}

#[test]
fn a_request_that_cannot_be_read_is_answered_with_its_id() {
    let daemon = node().start();
    let mut server = Server::initialized(&daemon);
    let filler = "x".repeat(11 * 1024 * 1024);
    let (open, close) = ("[".repeat(200_000), "]".repeat(200_000));
    for (line, code) in [
        (
            format!(
                r#"{{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":{{"name":"x","arguments":{{"a":{open}{close}}}}}}}"#
            ),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":[]}"#.to_owned(),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":["rm"]}"#.to_owned(),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":7}"#.to_owned(),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"odd","method":7}"#.to_owned(),
            -32600,
        ),
        (
            format!(
                r#"{{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":{{"name":"{filler}"}}}}"#
            ),
            -32600,
        ),
        (
            format!(
                r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"name":"{filler}"}},"id":"odd"}}"#
            ),
            -32600,
        ),
    ] {
        server.write(&line);
        let answer = server.read();
        assert_eq!(answer["id"], "odd", "{line:.200}: {answer}");
        assert_eq!(answer["error"]["code"], code, "{line:.200}: {answer}");
        assert!(!server.ok("tools/list", json!({}))["tools"].is_null());
    }
}

#[test]
fn a_run_is_answered_at_its_limit_however_long_its_agent_takes() {
    let daemon = node().start();
    // It never says that it is there, and does not go when it is told to.
    daemon.template(
        "mute",
        json!({"backend": {"type": "custom", "config": {"executablePath": "/bin/sh",
            "args": ["-c", "trap '' TERM; while :; do sleep 0.1; done"], "protocol": "acp"}}, "startTimeoutMs": 600_000}),
    );
    let mut server = Server::initialized(&daemon);
    let arguments = json!({"template": "mute", "prompt": "hi", "timeoutMs": 300});
    let late = server.tool("agentcraft_run_agent", arguments);
    assert_eq!(late["isError"], true, "{late}");
    let words = late["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("300 ms"), "{words}");
    eventually("its agent is removed", || agents(&daemon) == 0);
}

#[test]
fn a_session_of_another_agent_is_refused_and_a_busy_one_is_not_disturbed() {
    let daemon = node().start();
    templates(&daemon);
    let mut client = daemon.client();
    for name in ["one", "two"] {
        client.ok("agent.create", json!({"name": name, "template": "echo"}));
    }
    let mut server = Server::initialized(&daemon);
    let said = server.tool(
        "agentcraft_prompt_agent",
        json!({"name": "one", "message": "hi"}),
    );
    let session = said["structuredContent"]["sessionId"].clone();
    let wrong = server.tool(
        "agentcraft_prompt_agent",
        json!({"name": "two", "message": "hi", "sessionId": session}),
    );
    assert_eq!(wrong["_meta"]["agentcraft/errorCode"], "INVALID_PARAMS");
    let hanging = server.begin(
        "agentcraft_prompt_agent",
        json!({"name": "one", "message": "/hang", "sessionId": session}),
    );
    let busy = server.tool(
        "agentcraft_prompt_agent",
        json!({"name": "one", "message": "hi", "sessionId": session}),
    );
    assert_eq!(busy["isError"], true);
    let view = client.ok("session.get", json!({"sessionId": session}));
    assert_eq!(view["busy"], true, "the turn of the first call goes on");
    server.write(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": hanging}})
            .to_string(),
    );
    eventually("the turn is cancelled", || {
        daemon
            .client()
            .ok("session.get", json!({"sessionId": session}))["busy"]
            == false
    });
    assert_eq!(last_stop(&daemon), "cancelled");
}

#[test]
fn prompts_that_come_at_once_start_an_agent_once_and_all_are_answered() {
    let daemon = node().start();
    templates(&daemon);
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "cold", "template": "echo"}));
    let mut server = Server::initialized(&daemon);
    for _ in 0..2 {
        let arguments = json!({"name": "cold", "message": "hello"});
        let call = json!({"name": "agentcraft_prompt_agent", "arguments": arguments});
        let mut waiting: Vec<u64> = (0..4)
            .map(|_| server.send("tools/call", call.clone()))
            .collect();
        while !waiting.is_empty() {
            let message = server.read();
            let Some(id) = message["id"].as_u64() else {
                continue;
            };
            assert_ne!(message["result"]["isError"], true, "{message}");
            waiting.retain(|waiting| *waiting != id);
        }
        client.ok("agent.stop", json!({"name": "cold"}));
    }
}

#[test]
fn a_run_is_answered_in_its_time_however_long_its_agent_takes_to_go() {
    let daemon = node().start();
    daemon.scripted_agent("slow", json!({}), json!({"stopGraceMs": 600_000}));
    let mut server = Server::initialized(&daemon);
    let stays =
        "import signal; signal.signal(15, signal.SIG_IGN); say('done'); end(); time.sleep(1000)";
    let arguments = json!({"template": "slow", "prompt": stays, "timeoutMs": 8000});
    let answer = server.tool("agentcraft_run_agent", arguments);
    if answer["isError"] == true {
        println!("skipped: this machine was too busy to have a turn in time: {answer}");
        return;
    }
    let mut client = daemon.client();
    let agents = client.ok("agent.list", json!({}));
    let runs = agents.as_array().unwrap().iter();
    let mut runs = runs.filter(|agent| agent["name"].as_str().unwrap().starts_with("run-"));
    assert!(runs.next().is_some(), "it is still going: {agents}");
    for pid in daemon.agent_processes() {
        testkit::kill(pid, "KILL");
    }
    testkit::eventually("it is gone", || {
        let agents = client.ok("agent.list", json!({}));
        agents.as_array().unwrap().len() == 1
    });
}
