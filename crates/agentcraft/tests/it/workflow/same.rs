//! A workflow does the same from the command line and from an editor: the same words, the same steps, the same tools.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpListener,
};

use serde_json::Value;

use super::{
    Project,
    editor::{Editor, project},
    model::Scripted,
    providers::{PROVIDERS, recorded, stub},
};

/// Those in which an agent speaks, and who it is there.
const WITH_AGENT: [&str; 2] = ["04-agent", "10-conversation"];
const AGENT: &str = "provider: \"acp: agentcraft builtin-agent\"";

/// An agent that speaks the protocol: it reads a file, tells what that took, and goes on with conversations.
const ACP_AGENT: &str = r#"
import json, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    params, result = message.get("params", {}), {}
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "authMethods": []}
    elif message["method"] == "session/new":
        result = {"sessionId": "own"}
    elif message["method"] == "session/prompt":
        def update(**update):
            send(method="session/update", params={"sessionId": params["sessionId"], "update": update})
        update(sessionUpdate="agent_thought_chunk", content={"type": "text", "text": "hm"})
        update(sessionUpdate="tool_call", toolCallId="r-1", title="Read notes", kind="read", status="in_progress",
               locations=[{"path": "/notes.txt", "line": 3}])
        update(sessionUpdate="tool_call_update", toolCallId="r-1", status="completed")
        for word in ("It ", "says ", "nothing."):
            update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": word})
        result = {"stopReason": "end_turn", "usage": {"totalTokens": 7, "inputTokens": 4, "outputTokens": 3}}
    send(id=message["id"], result=result)
"#;

/// Every example, the inputs it is given, and what is said in it.
const EXAMPLES: [(&str, &[&str], &[&str]); 10] = [
    ("01-greet", &["who=Ann", "times=2"], &[]),
    ("02-parallel-checks", &[], &[]),
    ("03-loops", &[], &[]),
    ("04-agent", &["topic=owls"], &[]),
    ("05-approval", &[], &[]),
    ("06-retry-and-timeout", &[], &[]),
    ("07-sub-workflow", &[], &[]),
    ("08-operation", &["url=URL"], &[]),
    ("09-decisions", &["number=7"], &[]),
    (
        "10-conversation",
        &[],
        &["first words", "last words", "exit"],
    ),
];

/// What a run looked like from outside.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    words: String,
    /// Each step and tool, with what it is and how it ended. Branches may come in any order.
    calls: BTreeMap<String, Call>,
    /// The calls one after the other, where nothing runs side by side.
    order: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    title: String,
    kind: String,
    place: String,
    status: String,
}

impl Seen {
    /// `calls` are the events or updates of steps and tools, with the key of their ids.
    fn of(project: &Project, words: &str, calls: &[&Value], key: &str) -> Self {
        // An agent says where it works, and each project has a folder of its own.
        let words = words.replace(&*project.folder.to_string_lossy(), "PROJECT");
        let own = |text: &str| text.replace(&*project.folder.to_string_lossy(), "PROJECT");
        let mut ended = BTreeMap::new();
        let mut order = Vec::new();
        let mut marks = Vec::new();
        for call in calls {
            // Each run has a mark of its own before its ids.
            let id = call[key].as_str().unwrap().split_once(':').unwrap().1;
            let id = &unmarked(id, &mut marks);
            if !ended.contains_key(id) && !id.contains('/') {
                order.push(id.to_owned());
            }
            let known: &mut Call = ended.entry(id.to_owned()).or_default();
            let place = &call["locations"][0];
            for (known, told) in [
                (&mut known.title, &call["title"]),
                (&mut known.kind, &call["kind"]),
                (&mut known.place, &place["path"]),
                (&mut known.status, &call["status"]),
            ] {
                if let Some(told) = told.as_str() {
                    *known = own(told).replace("in-progress", "in_progress");
                }
            }
            if place["line"].is_u64() {
                known.place = format!("{}:{}", known.place, place["line"]);
            }
        }
        Self {
            words,
            calls: ended,
            order,
        }
    }
}

/// An id in a conversation that was taken up, whose program counts anew each time, has a mark that chance has made: it is told by its
/// number instead.
fn unmarked(id: &str, marks: &mut Vec<String>) -> String {
    let is_mark = |mark: &str| mark.len() == 8 && mark.bytes().all(|it| it.is_ascii_hexdigit());
    match id.rsplit_once('-') {
        Some((own, mark)) if id.contains("::") && is_mark(mark) => {
            if !marks.iter().any(|known| known == mark) {
                marks.push(mark.to_owned());
            }
            let place = marks.iter().position(|known| known == mark).unwrap();
            format!("{own}-mark{place}")
        }
        _ => id.to_owned(),
    }
}

fn from_the_command_line(project: &Project, name: &str, inputs: &[String], said: &[&str]) -> Seen {
    let mut arguments = vec!["workflow", "run", name, "-f", "json"];
    for input in inputs {
        arguments.extend(["-i", input]);
    }
    let lines: String = said.iter().map(|line| format!("{line}\n")).collect();
    let output = project.with_input(&arguments, &lines);
    assert_eq!(output.code, 0, "{name}: {}", output.stderr);
    let events: Vec<Value> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let text = |event: &Value, key: &str| event[key].as_str().map(str::to_owned);
    let words = events
        .iter()
        .filter(|event| event["type"] == "text")
        .filter_map(|event| text(event, "text"))
        .collect::<String>();
    let calls: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "tool-call" || event["type"] == "tool-update")
        .collect();
    Seen::of(project, &words, &calls, "id")
}

fn from_the_editor(project: &Project, name: &str, inputs: &[String], said: &[&str]) -> Seen {
    let mut editor = Editor::open(project);
    editor.choice = "reject_once";
    assert_eq!(
        editor.prompt(&format!("/{name} {}", inputs.join(" "))),
        "end_turn",
        "{name}: {}",
        editor.words()
    );
    for words in said {
        assert_eq!(editor.prompt(words), "end_turn", "{name}");
    }
    let calls: Vec<&Value> = editor
        .told
        .iter()
        .map(|message| &message["params"]["update"])
        .filter(|update| {
            update["sessionUpdate"] == "tool_call" || update["sessionUpdate"] == "tool_call_update"
        })
        .collect();
    let seen = Seen::of(project, &editor.words(), &calls, "toolCallId");
    editor.close();
    seen
}

/// Answers every request with the same word.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request);
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nthere";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn every_example_gives_the_same_words_and_the_same_steps_in_both() {
    let url = server();
    for (name, inputs, said) in EXAMPLES {
        let inputs: Vec<String> = inputs.iter().map(|it| it.replace("URL", &url)).collect();
        // Each in a folder of its own: some leave files that they find again.
        let here = from_the_command_line(&project(), name, &inputs, said);
        let there = from_the_editor(&project(), name, &inputs, said);
        assert_eq!(here, there, "{name}");
        assert!(!here.calls.is_empty(), "{name}");
    }
}

/// A project with every example, in which this provider speaks.
fn spoken_by(provider: &str, prepare: &dyn Fn(&mut Project)) -> Project {
    let mut project = project();
    for name in WITH_AGENT {
        let file = format!(".agentcraft/workflows/{name}.yaml");
        let text = project.read(&file);
        assert!(text.contains(AGENT), "{name} has no agent of that kind");
        project.workflow(name, &text.replace(AGENT, provider));
    }
    prepare(&mut project);
    project
}

type Prepare = Box<dyn Fn(&mut Project)>;

/// Programs that print what the real ones did.
fn replayed(programs: &[(&'static str, &'static str)]) {
    for (provider, program) in programs.iter().copied() {
        let prepare: Prepare = Box::new(move |project| {
            let recorded = recorded(program);
            stub(project, program, &format!("cat '{}'", recorded.display()));
        });
        same_in_both(&format!("provider: {provider}"), &prepare);
    }
}

#[test]
fn claude_codex_and_gemini_say_and_do_the_same_in_both() {
    replayed(&PROVIDERS[..3]);
}

#[test]
fn copilot_and_opencode_say_and_do_the_same_in_both() {
    replayed(&PROVIDERS[3..]);
}

#[test]
fn a_model_and_a_program_that_speaks_acp_say_and_do_the_same_in_both() {
    let model = Scripted::endless();
    let options = format!(
        "provider: openai_compatible\n    options: {{base_url: '{}', model: small}}",
        model.url
    );
    let others: [(String, Prepare); 2] = [
        (options, Box::new(|_| {})),
        (
            "provider: \"acp: python3 agent.py\"".to_owned(),
            Box::new(|project| std::fs::write(project.folder.join("agent.py"), ACP_AGENT).unwrap()),
        ),
    ];
    for (provider, prepare) in others {
        same_in_both(&provider, &prepare);
    }
}

/// Both examples with an agent, which is this one.
fn same_in_both(provider: &str, prepare: &dyn Fn(&mut Project)) {
    for name in WITH_AGENT {
        let example = EXAMPLES.iter().find(|(known, _, _)| *known == name);
        let (_, _, said) = example.unwrap();
        let here = from_the_command_line(&spoken_by(provider, prepare), name, &[], said);
        let there = from_the_editor(&spoken_by(provider, prepare), name, &[], said);
        assert_eq!(here, there, "{name}: {provider}");
        let is_inner = |id: &String| id.contains("::");
        assert!(here.calls.keys().any(is_inner), "{name}: {here:?}");
    }
}
