//! Every kind of agent: how a node gets one, and what makes it do each act.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use testkit::TestDaemon;

use super::{Act, model};
use crate::node;

/// A kind of agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// Its name, and that of the agent in the scene.
    pub(super) name: &'static str,
    /// What it is, for people.
    pub(super) title: &'static str,
    /// Whether it has a lasting process that is started first.
    started: bool,
    /// What makes it do each act.
    pub(super) prompt: fn(Act) -> &'static str,
    /// Why it cannot do an act.
    pub(super) cannot: fn(Act) -> Option<&'static str>,
}

pub(super) const KINDS: [Kind; 8] = [
    Kind {
        name: "acp-process",
        title: "a process that speaks ACP (the built-in agent)",
        started: true,
        prompt: builtin,
        cannot: |_| None,
    },
    Kind {
        name: "print-program",
        title: "a program in print mode (Claude's format)",
        started: false,
        prompt: printed,
        cannot: cannot_ask,
    },
    Kind {
        name: "command",
        title: "a program of the user's",
        started: false,
        prompt: printed,
        cannot: cannot_ask,
    },
    Kind {
        name: "openai-compatible",
        title: "a model behind the chat completions API",
        started: false,
        prompt: printed,
        cannot: |_| None,
    },
    Kind {
        name: "workflow",
        title: "a workflow",
        started: false,
        prompt: flowing,
        cannot: |_| None,
    },
    Kind {
        name: "peer",
        title: "an agent of another node, over the runs API",
        started: false,
        prompt: builtin,
        cannot: |_| None,
    },
    Kind {
        name: "a2a",
        title: "an agent of another node, over A2A",
        started: false,
        prompt: builtin,
        cannot: |_| None,
    },
    Kind {
        name: "delegation",
        title: "an agent of another node, to whom the workspace is lent",
        started: false,
        prompt: builtin,
        cannot: |act| match act {
            Act::Prompt | Act::Cancel | Act::Failure => None,
            Act::Streaming => Some("what a remote says comes home with its work, at the end"),
            Act::Ask => Some("the remote's own rules decide what its agent may do"),
        },
    },
];

fn cannot_ask(act: Act) -> Option<&'static str> {
    (act == Act::Ask).then_some("a program that prints its answer cannot ask")
}

fn builtin(act: Act) -> &'static str {
    match act {
        Act::Prompt => "hello matrix",
        Act::Streaming => "/slow 3 150",
        Act::Ask => "/write asked.txt yes",
        Act::Cancel => "/hang",
        Act::Failure => "/fail on purpose",
    }
}

/// The programs below and the model do what their prompt says.
fn printed(act: Act) -> &'static str {
    match act {
        Act::Prompt => "hello matrix",
        Act::Streaming => "stream",
        Act::Ask => "ask",
        Act::Cancel => "hang",
        Act::Failure => "fail",
    }
}

fn flowing(act: Act) -> &'static str {
    match act {
        Act::Prompt => "/say hello matrix",
        Act::Streaming => "/steps",
        Act::Ask => "/approve",
        Act::Cancel => "/wait",
        Act::Failure => "/break",
    }
}

/// A program that answers in Claude's streaming format.
const CLAUDE: &str = r#"#!/bin/sh
for prompt; do :; done
say() { printf '{"type":"assistant","message":{"id":"m%s","content":[{"type":"text","text":"%s"}]},"session_id":"stub"}\n' "$2" "$1"; }
echo '{"type":"system","subtype":"init","session_id":"stub"}'
case "$prompt" in
  *stream*) say one 1; sleep 0.15; say two 2 ;;
  *hang*) say waiting 1; sleep 1000 ;;
  *fail*) echo '{"type":"result","subtype":"error_during_execution","is_error":true,"result":"on purpose","session_id":"stub"}'; exit 1 ;;
  *) say "You said: $prompt" 1 ;;
esac
echo '{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"stub"}'
"#;

/// A program of the user's.
const COMMAND: &str = r#"#!/bin/sh
case "$1" in
  *stream*) echo one; sleep 0.15; echo two ;;
  *hang*) echo waiting; sleep 1000 ;;
  *fail*) echo "on purpose" >&2; exit 3 ;;
  *) echo "You said: $1" ;;
esac
"#;

const WORKFLOWS: [(&str, &str); 5] = [
    (
        "say",
        "name: say\ninputs:\n  - {name: text, type: string, required: true}\nstates:\n  initial: done\n  \
         done: {type: terminal, message: 'You said: {{.inputs.text}}'}\n",
    ),
    (
        "steps",
        "name: steps\nstates:\n  initial: talk\n  \
         talk: {type: agent, provider: 'agent:acp-process', prompt: /slow 3 150, on_success: done}\n  \
         done: {type: terminal}\n",
    ),
    (
        "approve",
        "name: approve\nstates:\n  initial: write\n  \
         write: {type: command, command: echo yes > asked.txt, approval: {message: May it write?}, on_success: done}\n  \
         done: {type: terminal, message: written}\n",
    ),
    (
        "wait",
        "name: wait\nstates:\n  initial: sleep\n  \
         sleep: {type: command, command: sleep 1000, on_success: done}\n  \
         done: {type: terminal}\n",
    ),
    (
        "break",
        "name: break\nstates:\n  initial: done\n  done: {type: terminal, status: failure, message: on purpose}\n",
    ),
];

/// A node with one agent of each kind, and the node that two of them are on.
pub(super) struct Scene {
    pub(super) daemon: TestDaemon,
    other: TestDaemon,
}

impl Scene {
    pub(super) fn new() -> Self {
        let other = node()
            .listening()
            .file("config.toml", "[lending]\nexecutor = \"echo\"\n")
            .start();
        create(&other, "echo", json!({"backend": {"type": "builtin"}}));
        other.client().ok("agent.start", json!({"name": "echo"}));
        let daemon = node().listening().start();
        program(&daemon.scratch("claude"), CLAUDE);
        program(&daemon.scratch("mine"), COMMAND);
        for (name, text) in WORKFLOWS {
            let file = daemon.home().join(format!("configs/workflows/{name}.yaml"));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        for kind in &KINDS {
            create(&daemon, kind.name, template(kind, &daemon, &other));
            if kind.started {
                daemon
                    .client()
                    .ok("agent.start", json!({"name": kind.name}));
            }
        }
        Self { daemon, other }
    }

    /// The file that an agent writes once it may.
    pub(super) fn asked_file(&self, kind: &Kind) -> PathBuf {
        let (daemon, agent) = match kind.name {
            "peer" | "a2a" => (&self.other, "echo"),
            own => (&self.daemon, own),
        };
        daemon
            .home()
            .join("instances")
            .join(agent)
            .join("asked.txt")
    }
}

fn template(kind: &Kind, daemon: &TestDaemon, other: &TestDaemon) -> Value {
    match kind.name {
        "acp-process" => json!({"backend": {"type": "builtin"}}),
        "print-program" => {
            json!({"backend": {"type": "claude-code", "config": {"executablePath": daemon.scratch("claude")}}})
        }
        "command" => {
            json!({"backend": {"type": "command", "config": {"executablePath": daemon.scratch("mine")}}})
        }
        "openai-compatible" => {
            json!({"backend": {"type": "openai-compatible", "config": {"baseUrl": model::serve()}}})
        }
        "workflow" => json!({"backend": {"type": "workflow", "config": {"workflow": "*"}}}),
        far => json!({
            "backend": {"type": far, "config": {"url": other.url(), "agent": "echo", "tokenEnv": "OTHER_TOKEN"}},
            "env": {"OTHER_TOKEN": other.token()},
        }),
    }
}

fn create(daemon: &TestDaemon, name: &str, template: Value) {
    daemon.template(name, template);
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": name, "template": name}));
}

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
