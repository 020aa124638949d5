//! A model server as the agent of a step: its answer is streamed, its tools are asked for, its secret stays here.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use super::{Project, editor::Editor};

/// A server that gives these answers one after the other, and keeps what it was asked.
pub(super) struct Scripted {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Scripted {
    fn new(answers: Vec<Vec<Value>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        std::thread::spawn(move || {
            for answer in answers {
                let (stream, _) = listener.accept().unwrap();
                let request = serve(stream, |_| answer);
                kept.lock().unwrap().push(request);
            }
        });
        Self { url, asked }
    }

    /// One that is asked as often as anybody likes: it looks around, and is done when it has seen something.
    pub(super) fn endless() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::default();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), |asked| {
                    let messages = asked["messages"].as_array().unwrap();
                    match messages.last().unwrap()["role"] == "tool" {
                        true => vec![says("I have "), says("looked."), used()],
                        false => vec![
                            says("Let me see. "),
                            wants("list", &json!({"path": "."})),
                            used(),
                        ],
                    }
                });
            }
        });
        Self { url, asked }
    }

    fn workflow(&self) -> String {
        format!(
            "name: ask\ninputs:\n  - {{name: what, type: string, default: hello}}\nstates:\n  initial: ask\n  ask:\n    \
             type: agent\n    provider: openai_compatible\n    system_prompt: Be brief.\n    prompt: '{{{{.inputs.what}}}}'\n    \
             options: {{base_url: '{}', model: small, temperature: 0.5}}\n    on_success: keep\n    on_failure: failed\n  \
             keep:\n    type: command\n    \
             command: printf '%s %s' {{{{escape .states.ask.Output}}}} {{{{.states.ask.TokensUsed}}}} > said.txt\n    \
             on_success: done\n  done: {{type: terminal}}\n  failed: {{type: terminal, status: failure}}\n",
            self.url
        )
    }
}

/// One request and its answer; gives the key that came with it and its body.
fn serve(stream: TcpStream, answer: impl FnOnce(&Value) -> Vec<Value>) -> (String, Value) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut length, mut key) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => key = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let mut stream = stream;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    for chunk in answer(&body) {
        let line = format!("data: {chunk}\n\n");
        stream.write_all(line.as_bytes()).unwrap();
        stream.flush().unwrap();
    }
    stream.write_all(b"data: [DONE]\n\n").unwrap();
    (key, body)
}

fn says(text: &str) -> Value {
    json!({"choices": [{"delta": {"content": text}}]})
}

fn used() -> Value {
    json!({"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 12}})
}

fn wants(tool: &str, arguments: &Value) -> Value {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    let call = json!({"index": 0, "id": "call-7", "function": function});
    json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})
}

#[test]
fn an_answer_comes_in_pieces_and_is_the_output_of_the_step() {
    let model = Scripted::new(vec![vec![says("It is "), says("fine."), used()]]);
    let mut project = Project::new();
    project
        .home
        .set_env("OPENAI_API_KEY", Some("sk-very-secret-key"));
    project.workflow("ask", &model.workflow());
    let output = project.run(&["ask", "-i", "what=how is it?", "-f", "json"], 0);
    let events: Vec<Value> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let pieces: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "text")
        .filter_map(|event| event["text"].as_str())
        .collect();
    assert_eq!(pieces, ["It is ", "fine."]);
    assert_eq!(project.read("said.txt"), "It is fine. 42");
    let asked = model.asked.lock().unwrap();
    let (key, body) = &asked[0];
    assert_eq!(key, "Bearer sk-very-secret-key");
    assert_eq!(body["model"], "small");
    assert_eq!(body["temperature"], 0.5);
    assert_eq!(body["stream"], true);
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(
        messages[0],
        json!({"role": "system", "content": "Be brief."})
    );
    assert_eq!(messages.last().unwrap()["content"], "how is it?");
    assert!(!output.stdout.contains("sk-very-secret-key"));
    project.nothing_is_left();
}

#[test]
fn a_tool_that_the_model_wants_is_asked_for_and_its_output_told_to_the_model() {
    let arguments = json!({"command": "echo from the tool > made.txt; cat made.txt"});
    let model = Scripted::new(vec![
        vec![wants("run", &arguments), used()],
        vec![says("done"), used()],
    ]);
    let project = Project::new();
    project.workflow("ask", &model.workflow());
    let mut editor = Editor::open(&project);
    let asked = editor.begin("/ask what='make it'");
    let answer = editor.answer(&json!(asked));
    // Both rounds count.
    let usage = json!({"totalTokens": 84, "inputTokens": 60, "outputTokens": 24});
    let wanted = json!({"stopReason": "end_turn", "usage": usage});
    assert_eq!(answer["result"], wanted, "{answer}");
    assert_eq!(editor.asked, 1, "{:?}", editor.told);
    assert_eq!(project.read("made.txt"), "from the tool\n");
    assert!(editor.words().contains("done"), "{}", editor.words());
    let calls = editor.updates("tool_call");
    let inner = calls.iter().find(|call| {
        call["toolCallId"]
            .as_str()
            .unwrap()
            .ends_with(":ask::call-7")
    });
    assert_eq!(inner.unwrap()["kind"], "execute", "{calls:?}");
    let id = &inner.unwrap()["toolCallId"];
    let mut updates = editor.updates("tool_call_update").into_iter();
    let last = updates.rfind(|update| update["toolCallId"] == *id);
    assert_eq!(last.unwrap()["status"], "completed");
    let asked = model.asked.lock().unwrap();
    let told = asked[1].1["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(told["role"], "tool");
    assert!(told["content"].as_str().unwrap().contains("from the tool"));
    drop(asked);
    editor.close();
    project.nothing_is_left();
}

#[test]
fn a_change_of_a_file_stays_with_its_call_and_says_where_it_is() {
    let arguments = json!({"path": "made.txt", "content": "new\n"});
    let model = Scripted::new(vec![
        vec![wants("write", &arguments)],
        vec![says("done"), used()],
    ]);
    let project = Project::new();
    project.workflow("ask", &model.workflow());
    let mut editor = Editor::open(&project);
    assert_eq!(editor.prompt("/ask"), "end_turn");
    let path = project.folder.join("made.txt").canonicalize().unwrap();
    let is_it = |update: &&&Value| update["toolCallId"].as_str().unwrap().ends_with("::call-7");
    let calls = editor.updates("tool_call");
    let call = calls.iter().find(is_it).unwrap();
    let place = call["locations"][0]["path"].as_str().unwrap();
    assert_eq!(std::path::Path::new(place).canonicalize().unwrap(), path);
    let updates = editor.updates("tool_call_update");
    let last = updates.iter().rev().find(is_it).unwrap();
    assert_eq!(last["status"], "completed", "{last}");
    assert_eq!(last["content"][0]["type"], "diff", "{last}");
    assert_eq!(last["content"][0]["newText"], "new\n");
    editor.close();
}

#[test]
fn a_tool_is_not_run_where_nobody_can_allow_it() {
    let arguments = json!({"command": "touch made.txt"});
    let model = Scripted::new(vec![
        vec![wants("run", &arguments)],
        vec![says("so be it"), used()],
    ]);
    let project = Project::new();
    project.workflow("ask", &model.workflow());
    project.run(&["ask"], 0);
    assert!(!project.folder.join("made.txt").exists());
    assert!(project.read("said.txt").starts_with("so be it"));
}
