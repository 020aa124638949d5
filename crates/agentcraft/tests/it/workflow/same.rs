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
};

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
    /// Each step and tool, with how it ended. Branches may come in any order.
    calls: BTreeMap<String, String>,
    /// The calls one after the other, where nothing runs side by side.
    order: Vec<String>,
}

impl Seen {
    fn of(project: &Project, words: &str, calls: &[(String, Option<String>)]) -> Self {
        // An agent says where it works, and each project has a folder of its own.
        let words = words.replace(&*project.folder.to_string_lossy(), "PROJECT");
        let mut ended = BTreeMap::new();
        let mut order = Vec::new();
        for (id, status) in calls {
            // Each run has a mark of its own before its ids.
            let id = id.split_once(':').unwrap().1;
            if !ended.contains_key(id) && !id.contains('/') {
                order.push(id.to_owned());
            }
            let known: &mut String = ended.entry(id.to_owned()).or_default();
            if let Some(status) = status {
                status.clone_into(known);
            }
        }
        Self {
            words,
            calls: ended,
            order,
        }
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
    let calls: Vec<(String, Option<String>)> = events
        .iter()
        .filter(|event| event["type"] == "tool-call" || event["type"] == "tool-update")
        .map(|event| (text(event, "id").unwrap(), text(event, "status")))
        .map(|(id, status)| (id, status.map(|status| status.replace('-', "_"))))
        .collect();
    Seen::of(project, &words, &calls)
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
    let calls: Vec<(String, Option<String>)> = editor
        .told
        .iter()
        .map(|message| &message["params"]["update"])
        .filter(|update| {
            update["sessionUpdate"] == "tool_call" || update["sessionUpdate"] == "tool_call_update"
        })
        .map(|update| {
            let text = |key: &str| update[key].as_str().map(str::to_owned);
            (text("toolCallId").unwrap(), text("status"))
        })
        .collect();
    let seen = Seen::of(project, &editor.words(), &calls);
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
