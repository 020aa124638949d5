//! Every face of a node: how somebody there makes an agent act, and what they see of it.

mod office;

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use super::Act;
use crate::{network::http::Http, proxy::editor::Editor, terminal::pty::Pty};

/// What came of an act.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) text: String,
    /// How many pieces the text came in.
    pub(super) pieces: usize,
    pub(super) end: End,
}

#[derive(Debug, Default, PartialEq)]
pub(super) enum End {
    #[default]
    Done,
    Cancelled,
    Failed(String),
}

impl Seen {
    fn piece(&mut self, text: &str) {
        self.text.push_str(text);
        // The last part of an answer may be an empty one that only says so.
        self.pieces += usize::from(!text.is_empty());
    }
}

/// A way to an agent.
pub(super) struct Face {
    pub(super) title: &'static str,
    /// Why an act makes no sense there.
    pub(super) cannot: fn(Act) -> Option<&'static str>,
    /// Opens the way on a node.
    pub(super) open: for<'a> fn(&'a TestDaemon) -> Way<'a>,
}

/// Makes the agent of this name do an act, with this prompt.
pub(super) type Way<'a> = Box<dyn Fn(&str, Act, &str) -> Seen + 'a>;

pub(super) const SOCKET: Face = Face {
    title: "the socket",
    cannot: |_| None,
    open: |daemon| Box::new(move |agent, act, prompt| socket(daemon, agent, act, prompt)),
};

pub(super) const COMMAND_LINE: Face = Face {
    title: "the command line",
    cannot: |_| None,
    open: |daemon| Box::new(move |agent, act, prompt| command_line(daemon, agent, act, prompt)),
};

pub(super) const EDITOR: Face = Face {
    title: "an editor",
    cannot: |_| None,
    open: |daemon| Box::new(move |agent, act, prompt| editor(daemon, agent, act, prompt)),
};

pub(super) const MCP: Face = Face {
    title: "MCP",
    cannot: |_| None,
    open: |daemon| Box::new(move |agent, act, prompt| mcp(daemon, agent, act, prompt)),
};

pub(super) const RUNS: Face = Face {
    title: "the runs API",
    cannot: |_| None,
    open: |daemon| Box::new(move |agent, act, prompt| runs(daemon, agent, act, prompt)),
};

pub(super) const A2A: Face = Face {
    title: "A2A",
    cannot: |_| None,
    open: |daemon| Box::new(move |agent, act, prompt| a2a(daemon, agent, act, prompt)),
};

pub(super) const OFFICE: Face = Face {
    title: "an office",
    cannot: |act| {
        (act == Act::Ask)
            .then_some("nobody in an office can be asked, so what is not allowed is denied")
    },
    open: office::open,
};

pub(super) const DASHBOARD: Face = Face {
    title: "the dashboard",
    cannot: |_| None,
    open: |daemon| Box::new(move |agent, act, prompt| dashboard(daemon, agent, act, prompt)),
};

pub(super) const FACES: [&Face; 8] = [
    &SOCKET,
    &COMMAND_LINE,
    &EDITOR,
    &MCP,
    &RUNS,
    &A2A,
    &OFFICE,
    &DASHBOARD,
];

fn socket(daemon: &TestDaemon, agent: &str, act: Act, prompt: &str) -> Seen {
    let mut client = daemon.client();
    let created = client.ok(
        "session.create",
        json!({"agentName": agent, "stream": true, "answers": true}),
    );
    let session = created["sessionId"].clone();
    let send = |client: &mut testkit::RawClient, id: &str, mut params: Value| {
        params["sessionId"] = session.clone();
        let method = format!("session.{id}");
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        client.send_line(&line.to_string());
    };
    send(&mut client, "prompt", json!({"text": prompt}));
    let mut seen = Seen::default();
    // The answer may overtake the last events.
    let (mut is_answered, mut is_over) = (false, false);
    while !(is_answered && is_over) {
        let message = client.receive();
        if message["id"] == "prompt" {
            is_answered = true;
            seen.end = match message["result"]["stopReason"].as_str() {
                Some("end_turn") => End::Done,
                Some("cancelled") => End::Cancelled,
                _ => End::Failed(message.to_string()),
            };
        }
        let event = &message["params"]["event"];
        match event["type"].as_str() {
            Some("text") => seen.piece(event["text"].as_str().unwrap()),
            Some("ask") => {
                let options = event["options"].as_array();
                let allow = options.and_then(|options| {
                    options.iter().find(|option| option["kind"] == "allow-once")
                });
                let mut answer = match allow {
                    Some(allow) => json!({"option": allow["id"]}),
                    None => json!({"text": "yes"}),
                };
                answer["ask"] = event["id"].clone();
                send(&mut client, "answer", answer);
            }
            Some("turn-started") if act == Act::Cancel => send(&mut client, "cancel", json!({})),
            Some("turn-ended") => is_over = true,
            _ => {}
        }
    }
    seen
}

fn command_line(daemon: &TestDaemon, agent: &str, act: Act, prompt: &str) -> Seen {
    match act {
        Act::Prompt | Act::Streaming | Act::Failure => script(daemon, agent, prompt),
        Act::Ask | Act::Cancel => terminal(daemon, agent, act, prompt),
    }
}

/// Somebody sits there, who says yes to what is asked, or presses Ctrl-C once the turn runs. A key that comes before the command has
/// heard of its turn makes it leave; then it is tried again.
fn terminal(daemon: &TestDaemon, agent: &str, act: Act, prompt: &str) -> Seen {
    const TRIES: usize = 10;
    let mut seen = Seen::default();
    for _ in 0..TRIES {
        let before = sessions(daemon, agent, |_| true);
        let mut run = Pty::open(daemon, 80, &["agent", "run", agent, "--prompt", prompt]);
        if act == Act::Ask {
            run.see("choose 1-");
            run.say("1");
        } else {
            eventually("the turn runs", || {
                let busy = sessions(daemon, agent, |session| session["busy"] == true);
                busy.iter().any(|id| !before.contains(id))
            });
            run.press(b"\x03");
        }
        let code = run.end();
        let text = run.text().to_owned();
        let has_left = act == Act::Cancel && !text.contains("cancel");
        if !has_left && act == Act::Cancel {
            eventually("the turn is cancelled", || is_cancelled(daemon, agent));
        }
        seen.end = match code {
            0 => End::Done,
            _ if act == Act::Cancel && !has_left => End::Cancelled,
            _ => End::Failed(text.clone()),
        };
        (seen.text, seen.pieces) = (text, 1);
        if !has_left {
            break;
        }
    }
    seen
}

/// The ids of an agent's sessions that are such.
fn sessions(daemon: &TestDaemon, agent: &str, are: fn(&Value) -> bool) -> Vec<Value> {
    let all = daemon
        .client()
        .ok("session.list", json!({"agentName": agent}));
    let all = all.as_array().unwrap().iter();
    all.filter(|session| are(session))
        .map(|session| session["sessionId"].clone())
        .collect()
}

fn script(daemon: &TestDaemon, agent: &str, prompt: &str) -> Seen {
    let output = daemon.cli(&["agent", "run", agent, "--prompt", prompt, "-f", "json"]);
    let mut seen = Seen::default();
    for line in output.stdout.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["type"] == "text" {
            seen.piece(event["text"].as_str().unwrap());
        }
    }
    if output.code != 0 {
        seen.end = End::Failed(output.stdout);
    }
    seen
}

fn editor(daemon: &TestDaemon, agent: &str, act: Act, prompt: &str) -> Seen {
    const TURN: u64 = 900;
    let mut editor = Editor::open(daemon, &[agent, "--lease"]);
    let session = editor.begin("/tmp");
    let content = json!([{"type": "text", "text": prompt}]);
    let params = json!({"sessionId": session, "prompt": content});
    editor.send(json!({"id": TURN, "method": "session/prompt", "params": params}));
    if act == Act::Cancel {
        editor.send(json!({"method": "session/cancel", "params": {"sessionId": session}}));
    }
    let mut seen = Seen::default();
    loop {
        let message = editor.next();
        if message["method"] == "session/request_permission" {
            let options = message["params"]["options"].as_array().unwrap();
            let once = options.iter().find(|option| option["kind"] == "allow_once");
            let outcome = json!({"outcome": "selected", "optionId": once.unwrap()["optionId"]});
            editor.send(json!({"id": message["id"], "result": {"outcome": outcome}}));
        }
        let update = &message["params"]["update"];
        if update["sessionUpdate"] == "agent_message_chunk" {
            seen.piece(update["content"]["text"].as_str().unwrap());
        }
        if message.get("method").is_none() && message["id"] == json!(TURN) {
            seen.end = match message["result"]["stopReason"].as_str() {
                Some("end_turn") => End::Done,
                Some("cancelled") => End::Cancelled,
                // An editor shows what has failed as words of the turn.
                Some("refusal") => End::Failed(seen.text.clone()),
                _ => End::Failed(message.to_string()),
            };
            let output = editor.close();
            assert_eq!(output.code, 0, "{output:?}");
            return seen;
        }
    }
}

fn mcp(daemon: &TestDaemon, agent: &str, act: Act, prompt: &str) -> Seen {
    let http = Http::owner(daemon);
    let accept = ("accept", "application/json, text/event-stream");
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
        {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}}});
    let answer = http.call("POST", "/mcp", &[accept], Some(&hello));
    assert_eq!(answer.status, 200, "{answer:?}");
    let session = answer.header("mcp-session-id");
    let headers = [
        accept,
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-06-18"),
    ];
    let tell = |message: Value| {
        let answer = http.call("POST", "/mcp", &headers, Some(&message));
        assert_eq!(answer.status, 202, "{answer:?}");
    };
    tell(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let arguments = json!({"name": agent, "message": prompt});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params":
        {"name": "agentcraft_prompt_agent", "arguments": arguments, "_meta": {"progressToken": "p"}}});
    let mut seen = Seen::default();
    for message in http.stream("POST", "/mcp", &headers, Some(&call)) {
        if message["method"] == "notifications/progress" {
            seen.pieces += 1;
            if act == Act::Cancel {
                let params = json!({"requestId": 7, "reason": "enough"});
                tell(
                    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
                );
                eventually("the turn is cancelled", || is_cancelled(daemon, agent));
                seen.end = End::Cancelled;
                return seen;
            }
        }
        if message["method"] == "elicitation/create" {
            let options = &message["params"]["requestedSchema"]["properties"]["answer"]["enum"];
            let content = json!({"answer": options[0].as_str().unwrap_or("yes")});
            let result = json!({"action": "accept", "content": content});
            tell(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
            continue;
        }
        if message["id"] == 7 {
            let result = &message["result"];
            seen.text = result["structuredContent"]["response"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if result["isError"] == true {
                seen.end = End::Failed(result.to_string());
            }
            return seen;
        }
    }
    panic!("the stream ended without an answer");
}

/// The journal tells of it, since a caller that has cancelled is told nothing.
fn is_cancelled(daemon: &TestDaemon, agent: &str) -> bool {
    let lines = daemon.client().ok(
        "journal.query",
        json!({"agent": agent, "kind": "turn.ended"}),
    );
    let last = lines
        .as_array()
        .unwrap()
        .last()
        .cloned()
        .unwrap_or_default();
    last.to_string().contains("cancelled")
}

fn runs(daemon: &TestDaemon, agent: &str, act: Act, prompt: &str) -> Seen {
    let http = Http::owner(daemon);
    let body = json!({"agent_name": agent, "mode": "stream",
        "input": [{"role": "user", "parts": [{"content_type": "text/plain", "content": prompt}]}]});
    let mut seen = Seen::default();
    let mut events = http.stream("POST", "/runs", &[], Some(&body));
    while let Some(event) = events.next() {
        let id = event["run"]["run_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        match event["type"].as_str().unwrap() {
            "message.part" => seen.piece(event["part"]["content"].as_str().unwrap_or_default()),
            "run.in-progress" if act == Act::Cancel => {
                let answer = http.post(&format!("/runs/{id}/cancel"), &json!({}));
                assert!(answer.status < 300, "{answer:?}");
            }
            "run.awaiting" => {
                let message = json!({"role": "user", "parts": [{"content_type": "text/plain", "content": "yes"}]});
                let resume = json!({"run_id": id, "mode": "stream", "await_resume": {"type": "message", "message": message}});
                events = http.stream("POST", &format!("/runs/{id}"), &[], Some(&resume));
            }
            "run.completed" => return seen,
            "run.cancelled" => {
                seen.end = End::Cancelled;
                return seen;
            }
            "run.failed" => {
                seen.end = End::Failed(event["run"]["error"].to_string());
                return seen;
            }
            _ => {}
        }
    }
    panic!("the stream ended before the run: {seen:?}");
}

fn a2a(daemon: &TestDaemon, agent: &str, act: Act, prompt: &str) -> Seen {
    let http = Http::owner(daemon);
    let path = format!("/a2a/{agent}");
    let version = [("a2a-version", "1.0")];
    let rpc = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let say = |text: &str, task: &Value| {
        let mut message = json!({"messageId": format!("{text}-{task}"), "role": "ROLE_USER", "parts": [{"text": text}]});
        if task.is_string() {
            message["taskId"] = task.clone();
        }
        rpc("SendStreamingMessage", json!({"message": message}))
    };
    let mut seen = Seen::default();
    let mut task = Value::Null;
    let mut is_cancelled = false;
    let mut events = http.stream("POST", &path, &version, Some(&say(prompt, &task)));
    while let Some(event) = events.next() {
        let result = &event["result"];
        if result["task"].is_object() {
            task = result["task"]["id"].clone();
            // What was said before the task was read is in the task.
            pieces(&mut seen, &result["task"]["artifacts"]);
        }
        pieces(&mut seen, &json!([result["artifactUpdate"]["artifact"]]));
        let status = match &result["statusUpdate"]["status"] {
            Value::Null => &result["task"]["status"],
            status => status,
        };
        match status["state"].as_str().unwrap_or_default() {
            "TASK_STATE_WORKING" if act == Act::Cancel && !is_cancelled => {
                is_cancelled = true;
                let cancel = rpc("CancelTask", json!({"id": task}));
                http.call("POST", &path, &version, Some(&cancel)).ok();
            }
            "TASK_STATE_AUTH_REQUIRED" | "TASK_STATE_INPUT_REQUIRED" => {
                events = http.stream("POST", &path, &version, Some(&say("yes", &task)));
            }
            "TASK_STATE_COMPLETED" => return seen,
            "TASK_STATE_CANCELED" => {
                seen.end = End::Cancelled;
                return seen;
            }
            "TASK_STATE_FAILED" | "TASK_STATE_REJECTED" => {
                seen.end = End::Failed(status.to_string());
                return seen;
            }
            _ => {}
        }
    }
    panic!("the stream ended before the task: {seen:?}");
}

fn pieces(seen: &mut Seen, artifacts: &Value) {
    let artifacts = artifacts.as_array().cloned().unwrap_or_default();
    for part in artifacts
        .iter()
        .filter_map(|it| it["parts"].as_array())
        .flatten()
    {
        if let Some(text) = part["text"].as_str() {
            seen.piece(text);
        }
    }
}

/// What the page asks for, as the page does; the page itself is tried in a browser, in other tests.
fn dashboard(daemon: &TestDaemon, agent: &str, act: Act, prompt: &str) -> Seen {
    let http = Http::owner(daemon);
    let created = http.post("/api/sessions", &json!({"agent": agent})).ok();
    let session = created["sessionId"].as_str().unwrap();
    let path = format!("/api/sessions/{session}");
    let post = |path: String, body: Value| {
        let answer = http.post(&path, &body);
        assert!(answer.status < 300, "{answer:?}");
    };
    let stream = format!("/api/stream?session={session}&from=1");
    let mut events = http.stream("GET", &stream, &[], None);
    post(format!("{path}/prompt"), json!({"text": prompt}));
    let mut seen = Seen::default();
    loop {
        let event = events.next().expect("a stream goes on");
        match event["type"].as_str().unwrap_or_default() {
            "text" => seen.piece(event["text"].as_str().unwrap()),
            "turn-started" if act == Act::Cancel => post(format!("{path}/cancel"), json!({})),
            "ask" => {
                let options = event["options"].as_array();
                let allow = options.and_then(|options| {
                    options.iter().find(|option| option["kind"] == "allow-once")
                });
                let answer = match allow {
                    Some(allow) => json!({"answer": "option", "id": allow["id"]}),
                    None => json!({"answer": "text", "text": "yes"}),
                };
                let ask = event["id"].as_str().unwrap();
                post(format!("{path}/asks/{ask}"), answer);
            }
            "turn-ended" => {
                seen.end = match event["stop"]["reason"].as_str() {
                    Some("end-turn") => End::Done,
                    Some("cancelled") => End::Cancelled,
                    _ => End::Failed(event["stop"].to_string()),
                };
                return seen;
            }
            _ => {}
        }
    }
}
