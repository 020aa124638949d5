//! An agent of a test's own that speaks ACP: it does in Python what a prompt says, and writes down all it gets.

use std::fs;

use serde_json::{Value, json};

use crate::TestDaemon;

/// A prompt is carried out as it is, with `send`, `raw`, `say` and `end` at hand; `answered` is called with each answer to what it
/// asked, and says it and ends the turn unless the prompt has another. Requests that it does not know are given back. From then on
/// `on` may say what becomes of a request of some method.
const PROGRAM: &str = r#"
import json, os, sys, time
hello = json.loads(sys.argv[1])
got = open("got", "a")
count, turn, session, on = 0, None, None, {}
def raw(text):
    print(text, flush=True)
def send(**message):
    raw(json.dumps({"jsonrpc": "2.0", **message}))
def say(text):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": session, "update": update})
def end(reason="end_turn"):
    send(id=turn, result={"stopReason": reason})
def say_and_end(line):
    say(line)
    end()
for line in sys.stdin:
    line = line.strip()
    got.write(line + "\n")
    got.flush()
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params")
    if method in on:
        on[method](id, params)
    elif method == "initialize":
        send(id=id, result={"protocolVersion": 1, "agentCapabilities": {}, **hello})
    elif method == "session/new":
        count += 1
        send(id=id, result={"sessionId": f"own-{count}"})
    elif method in ("session/load", "session/resume", "session/close", "session/delete"):
        send(id=id, result={})
    elif method == "session/prompt":
        turn, session, answered = id, params["sessionId"], say_and_end
        exec(params["prompt"][0]["text"])
    elif method == "session/cancel":
        end("cancelled")
    elif method is None:
        answered(line)
    elif id is not None:
        send(id=id, result={"given": line})
"#;

impl TestDaemon {
    /// An agent of that kind that runs. `hello` is added to its answer to `initialize`, and `more` to its template.
    pub fn scripted_agent(&self, name: &str, hello: Value, more: Value) {
        let args = json!(["-c", PROGRAM, hello.to_string()]);
        let program = json!({"executablePath": "python3", "args": args, "protocol": "acp"});
        let mut template = json!({"backend": {"type": "custom", "config": program}});
        if let (Some(template), Some(more)) = (template.as_object_mut(), more.as_object()) {
            template.extend(more.clone());
        }
        self.template(name, template);
        let mut client = self.client();
        client.ok("agent.create", json!({"name": name, "template": name}));
        client.ok("agent.start", json!({"name": name}));
    }

    /// What that agent has got so far.
    pub fn got(&self, name: &str) -> Vec<Value> {
        let path = self.home().join("instances").join(name).join("got");
        let text = fs::read_to_string(path).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    }
}
