//! Where one agent is tried: a model, a daemon with a home of its own, and a template of the agent in it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use testkit::{Builder, TestDaemon, eventually};

use super::{agents::Agent, client::Client, model::Model};
use crate::node;

/// What the workspace of the agent is marked with, to be found again in what reaches the model.
pub(super) const SKILL_MARK: &str = "mark-in-the-skill-4711";
pub(super) const PROMPT_MARK: &str = "mark-in-the-prompt-4712";
/// A part of the tool's name: some agents tell the model only the names of tools until it asks for more.
pub(super) const TOOL_MARK: &str = "marked_tool_4713";

/// How long processes may take to go once their agent has ended: the grace they are given, and some more.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// An MCP server with one tool that does nothing. It leaves a file where it is told to when it is asked for its tools.
const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        answer = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "marked", "version": "1"}}
    elif message["method"] == "tools/list":
        open(sys.argv[1], "w").close()
        answer = {"tools": [{"name": "TOOL", "description": "Does nothing.", "inputSchema": {"type": "object", "properties": {}}}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"#;

/// An agent `a1`, not yet started, and everything around it.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) agent: Agent,
    pub(super) daemon: TestDaemon,
    pub(super) client: Client,
    pub(super) model: Model,
}

impl Scene {
    pub(super) fn new(agent: &Agent, programs: &Path, model: &Path) -> Self {
        let model = Model::start(model);
        let mut path = programs.as_os_str().to_owned();
        path.push(":");
        path.push(env::var_os("PATH").unwrap_or_default());
        let mut builder = builder().env("PATH", path.to_str().unwrap());
        builder = builder
            .file(
                "configs/skills/marked.json",
                json!({"name": "marked", "description": "A skill", "content": SKILL_MARK})
                    .to_string(),
            )
            .file(
                "configs/prompts/marked.json",
                json!({"name": "marked", "content": PROMPT_MARK}).to_string(),
            );
        let mut daemon = builder.stopped();
        // The home directory of the agents is the folder that holds the daemon's.
        let home = daemon.home().parent().unwrap().to_owned();
        for (path, content) in (agent.files)(&model.url()) {
            write(&home.join(path), &content);
        }
        write(
            &daemon.scratch("server.py"),
            &SERVER.replace("TOOL", TOOL_MARK),
        );
        daemon.start();
        let client = Client::connect(&daemon);
        Self {
            agent: *agent,
            daemon,
            client,
            model,
        }
    }

    /// Creates the agent `a1` with these rules.
    pub(super) fn create(&mut self, permissions: Value) {
        let mut template = self.agent.template(&self.model.url());
        template["permissions"] = permissions;
        template["startTimeoutMs"] = json!(110_000);
        let mark = self.daemon.mark();
        let (key, value) = mark.split_once('=').unwrap();
        template["domainContext"] = json!({
            "skills": ["marked"],
            "prompts": ["marked"],
            "mcpServers": [{
                "name": "marked",
                "command": "python3",
                "args": [self.daemon.scratch("server.py"), self.daemon.scratch("tools-were-listed")],
                "env": {key: value}, // Some agents pass nothing else on to it.
            }],
        });
        self.daemon.template("real", template);
        let params = json!({"name": "a1", "template": "real"});
        self.client.ok("agent.create", params);
    }

    pub(super) fn start(&mut self) {
        self.client.ok("agent.start", json!({"name": "a1"}));
    }

    /// Creates the agent and starts it.
    pub(super) fn started(&mut self, permissions: Value) {
        self.create(permissions);
        self.start();
    }

    /// A new session whose events this client is sent.
    pub(super) fn session(&mut self) -> String {
        self.create_session(json!({"agentName": "a1", "stream": true}))
    }

    /// A new session in which this client is the one to ask.
    pub(super) fn session_with_answers(&mut self) -> String {
        self.create_session(json!({"agentName": "a1", "stream": true, "answers": true}))
    }

    fn create_session(&mut self, params: Value) -> String {
        let created = self.client.ok("session.create", params);
        created["sessionId"].as_str().unwrap().to_owned()
    }

    pub(super) fn prompt(&mut self, session: &str, text: &str) -> Value {
        let params = json!({"sessionId": session, "text": text});
        self.client.ok("session.prompt", params)
    }

    /// Prompts without a process that was started for it.
    pub(super) fn run(&mut self, prompt: &str, options: Value) -> Result<Value, Value> {
        let params = json!({"name": "a1", "prompt": prompt, "options": options});
        self.client.call("agent.run", params)
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.daemon.home().join("instances/a1").join(name)
    }

    /// What the history of a session tells people beside the agent's words.
    pub(super) fn notices(&mut self, session: &str) -> Vec<Value> {
        let params = json!({"sessionId": session});
        let events = self.client.ok("session.events", params);
        let events = events.as_array().unwrap().iter();
        let notices = events.filter(|event| event["type"] == "notice");
        notices.map(|event| event["text"].clone()).collect()
    }

    pub(super) fn await_status(&mut self, status: &str) {
        eventually(status, || {
            self.client.ok("agent.status", json!({"name": "a1"}))["status"] == status
        });
    }

    /// SIGKILL to the daemon, and a new one in the same home.
    pub(super) fn kill_and_restart(&mut self) {
        self.daemon.kill();
        self.expect_no_process("the daemon was killed");
        self.daemon.start();
        self.client = Client::connect(&self.daemon);
    }

    pub(super) fn expect_no_process(&self, when: &str) {
        let deadline = Instant::now() + GONE_WITHIN;
        loop {
            let left = self.daemon.agent_processes();
            if left.is_empty() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "after {when} there is still {left:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The binary of this build, or the one that somebody wants to try.
fn builder() -> Builder {
    match env::var_os("AGENTCRAFT_BINARY") {
        Some(binary) => Builder::new(binary),
        None => node(),
    }
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}
