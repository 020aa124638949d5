//! One client, one list of behaviours, three ways to the same agent: bare, through the bridge, and leased. What the client
//! sees is the same in all of them.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::TestDaemon;

use super::{Editor, with_builtin, workspace};

/// A client in a session that nothing has happened in.
struct Stage<'a> {
    editor: &'a mut Editor,
    session: String,
    folder: PathBuf,
}

/// What is done, and what the client sees of it.
type Behaviour = (&'static str, fn(&mut Stage<'_>) -> Value);

const BEHAVIOURS: [Behaviour; 30] = [
    ("the commands there are", |stage| {
        stage.until("available_commands_update")
    }),
    ("a plain prompt", |stage| stage.prompt("hello there")),
    ("words in many pieces", |stage| {
        stage.prompt("/burst 300 100")
    }),
    ("thoughts", |stage| stage.prompt("/think about it")),
    ("a plan", |stage| stage.prompt("/plan one; two")),
    ("a question as a form", |stage| {
        stage.prompt("/ask which colour")
    }),
    ("usage", |stage| stage.prompt("/usage")),
    ("a refusal", |stage| stage.prompt("/refuse")),
    ("the limit of tokens", |stage| stage.prompt("/limit")),
    ("a turn that fails", |stage| {
        stage.prompt("/fail on purpose")
    }),
    ("what nobody knows", |stage| stage.prompt("/unknown")),
    ("an update behind the answer", |stage| {
        let ended = stage.prompt("/late");
        let late = stage.until("session_info_update");
        json!([ended, late["title"]])
    }),
    ("a permission that is given", |stage| {
        let told = stage.prompt("/write given.txt yes");
        json!([told, stage.editor.permissions, stage.has("given.txt")])
    }),
    ("a permission that is refused", |stage| {
        stage.editor.choice = "reject_once";
        let told = stage.prompt("/write refused.txt no");
        json!([told, stage.editor.permissions, stage.has("refused.txt")])
    }),
    // Leased, the policy decides on these as well, so how often is asked is not compared.
    ("a file that the client reads", |stage| {
        stage.prompt("/fs read unsaved.txt")
    }),
    ("a file that the client writes", |stage| {
        let told = stage.prompt("/fs write made.txt text");
        json!([told, stage.has("made.txt")])
    }),
    ("a terminal of the client", |stage| {
        stage.prompt("/terminal echo hello")
    }),
    ("a cancel", |stage| {
        let id = stage.hang();
        let session = json!({"sessionId": stage.session});
        stage
            .editor
            .send(json!({"method": "session/cancel", "params": session}));
        let cancelled = stage.verdict(&json!(id));
        json!([cancelled["outcome"], stage.prompt("and on")])
    }),
    ("a request that is withdrawn", |stage| {
        let id = stage.hang();
        let withdrawn = json!({"requestId": id});
        stage
            .editor
            .send(json!({"method": "$/cancel_request", "params": withdrawn}));
        stage.verdict(&json!(id))["outcome"].clone()
    }),
    ("an id of letters", |stage| {
        let params = stage.said("hello");
        let id = json!("é-\"1\"");
        stage
            .editor
            .send(json!({"id": id, "method": "session/prompt", "params": params}));
        stage.verdict(&id)
    }),
    ("pictures and links in a prompt", |stage| {
        let blocks = json!([
            {"type": "text", "text": "look"},
            {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"},
        ]);
        let params = json!({"sessionId": stage.session, "prompt": blocks});
        stage.call("session/prompt", params)
    }),
    ("a mode", |stage| {
        let mode = json!({"sessionId": stage.session, "modeId": "plan"});
        // Whether the mode is told before or after the answer is the agent's to choose.
        let set = stage.call("session/set_mode", mode);
        let planned = stage.prompt("/write planned.txt no");
        let told = [&set["told"], &planned["told"]].map(|told| told.as_array().unwrap().clone());
        json!([set["outcome"], planned["outcome"], told.concat()])
    }),
    ("a mode that is not there", |stage| {
        let mode = json!({"sessionId": stage.session, "modeId": "nothing"});
        stage.call("session/set_mode", mode)
    }),
    ("a second session", |stage| {
        stage.prompt("the secret is heron");
        let new = json!({"cwd": stage.folder, "mcpServers": []});
        let id = stage.editor.ask("session/new", new);
        let (opened, _) = stage.editor.outcome(&json!(id));
        let second = opened.unwrap()["sessionId"].as_str().unwrap().to_owned();
        assert_ne!(second, stage.session);
        stage.session = second;
        stage.prompt("what is the secret")
    }),
    ("a session that is loaded", |stage| {
        stage.prompt("remember the heron");
        let load = json!({"sessionId": stage.session, "cwd": stage.folder, "mcpServers": []});
        let loaded = stage.call("session/load", load);
        json!([loaded, stage.prompt("and on")])
    }),
    ("a session that is resumed", |stage| {
        stage.prompt("remember the heron");
        let load = json!({"sessionId": stage.session, "cwd": stage.folder, "mcpServers": []});
        stage.call("session/resume", load)
    }),
    ("a session that is closed", |stage| {
        let session = json!({"sessionId": stage.session});
        let closed = stage.call("session/close", session);
        json!([closed, stage.prompt("anybody there?")])
    }),
    ("a session that nobody knows", |stage| {
        stage.session = "nobody".to_owned();
        stage.prompt("anybody there?")
    }),
    ("a method that nobody knows", |stage| {
        stage.call("_vendor/thing", json!({"sessionId": stage.session}))
    }),
    ("lines that are no message", |stage| {
        stage.editor.write(b"this is no JSON\n");
        stage.verdict(&Value::Null)
    }),
];

impl<'a> Stage<'a> {
    fn open(editor: &'a mut Editor, folder: &Path) -> Self {
        (editor.permissions, editor.choice) = (0, "allow_once");
        let session = editor.begin(folder.to_str().unwrap());
        Self {
            editor,
            session,
            folder: folder.to_owned(),
        }
    }

    fn said(&self, text: &str) -> Value {
        json!({"sessionId": self.session, "prompt": [{"type": "text", "text": text}]})
    }

    fn prompt(&mut self, text: &str) -> Value {
        self.call("session/prompt", self.said(text))
    }

    /// A turn that does not end, in the middle of it: how much is told before it is cancelled is chance.
    fn hang(&mut self) -> u64 {
        let id = self.editor.ask("session/prompt", self.said("/hang"));
        self.until("agent_message_chunk");
        id
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.editor.ask(method, params);
        self.verdict(&json!(id))
    }

    /// The next update of a kind in this session.
    fn until(&mut self, kind: &str) -> Value {
        loop {
            let told = self.editor.next();
            let update = &told["params"]["update"];
            if update["sessionUpdate"] == kind && told["params"]["sessionId"] == json!(self.session)
            {
                return update.clone();
            }
        }
    }

    /// What the client has seen of a request, in words that are the same for the same behaviour.
    fn verdict(&mut self, id: &Value) -> Value {
        let (outcome, told) = self.editor.outcome(id);
        // What comes late in the session before this one belongs to that one, and which commands there are may be told
        // at any time.
        let own = told.into_iter().filter(|it| {
            let session = it.pointer("/params/sessionId");
            session.is_none_or(|session| *session == json!(self.session)) && !announces(it)
        });
        let mut told: Vec<Value> = own.fold(Vec::new(), joined);
        for message in &mut told {
            message.as_object_mut().unwrap().remove("id"); // Ids are the sender's own business.
        }
        let outcome = match outcome {
            Ok(result) => json!({"result": result}),
            Err(error) => json!({"code": error["code"]}), // The words may be anybody's.
        };
        let seen = json!({"told": told, "outcome": outcome}).to_string();
        let folder = self.folder.to_str().unwrap();
        let seen = seen
            .replace(&self.session, "SESSION")
            .replace(folder, "FOLDER");
        serde_json::from_str(&without_ids(&seen)).unwrap()
    }

    fn has(&self, file: &str) -> bool {
        self.folder.join(file).exists()
    }
}

fn announces(message: &Value) -> bool {
    message["params"]["update"]["sessionUpdate"] == "available_commands_update"
}

/// Ids are made by chance; that two are the same is kept.
fn without_ids(seen: &str) -> String {
    let (mut plain, mut known) = (seen.to_owned(), 0);
    let mut at = 0;
    while at < plain.len() {
        match chance_at(&plain[at..]).map(str::to_owned) {
            Some(id) => {
                known += 1;
                plain = plain.replace(&id, &format!("ID-{known}"));
            }
            None => at += plain[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    plain
}

/// The id that the text begins with: 32 digits to the base of 16, with or without dashes.
fn chance_at(text: &str) -> Option<&str> {
    let end = text.find(|it: char| !it.is_ascii_hexdigit() && it != '-');
    let word = &text[..end.unwrap_or(text.len())];
    (word.chars().filter(|it| *it != '-').count() == 32).then_some(word)
}

/// Pieces of one text are one text: where it is cut is nobody's promise.
fn joined(mut told: Vec<Value>, message: Value) -> Vec<Value> {
    const UPDATE: &str = "/params/update";
    const TEXT: &str = "/params/update/content/text";
    let kind = |message: &Value| {
        message
            .pointer(UPDATE)
            .map(|it| it["sessionUpdate"].clone())
    };
    if let (Some(last), Some(piece)) = (told.last_mut(), message.pointer(TEXT))
        && kind(last) == kind(&message)
        && let Some(Value::String(text)) = last.pointer_mut(TEXT)
    {
        text.push_str(piece.as_str().unwrap());
        return told;
    }
    told.push(message);
    told
}

/// What the client does for the agent.
fn act(asked: &Value) -> Option<Value> {
    match asked["method"].as_str()? {
        "fs/read_text_file" => Some(json!({"content": "not saved yet"})),
        "fs/write_text_file" | "terminal/release" => Some(json!({})),
        "terminal/create" => Some(json!({"terminalId": "t-1"})),
        "terminal/wait_for_exit" => Some(json!({"exitCode": 7})),
        "terminal/output" => Some(json!({"output": "as the client saw it", "truncated": false})),
        "elicitation/create" => Some(json!({"action": "accept", "content": {"answer": "red"}})),
        "_agentcraft/probe" => Some(json!({"text": "from the client"})),
        _ => None,
    }
}

/// What the client sees of every behaviour, each in a session of its own.
fn verdicts(folder: &Path, mut editor: Editor) -> Vec<(&'static str, String)> {
    editor.capabilities = json!({
        "fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true, "elicitation": {"form": {}},
    });
    editor.act = act;
    let seen = BEHAVIOURS.iter().map(|(name, behave)| {
        let verdict = behave(&mut Stage::open(&mut editor, folder));
        (*name, format!("{verdict:#}"))
    });
    let seen = seen.collect();
    editor.close();
    seen
}

fn bare(daemon: &TestDaemon) -> Vec<(&'static str, String)> {
    let folder = daemon.scratch("bare");
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = daemon.command(&["builtin-agent"]);
    command.current_dir(&folder);
    verdicts(&folder, Editor::run(command))
}

#[test]
fn an_agent_behaves_the_same_bare_bridged_and_leased() {
    let daemon = with_builtin();
    let bare = bare(&daemon);
    let direct = verdicts(&workspace(&daemon, "a1"), Editor::open(&daemon, &["a1"]));
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a2", "template": "starter"}));
    client.ok("agent.start", json!({"name": "a2"}));
    let leased = verdicts(
        &workspace(&daemon, "a2"),
        Editor::open(&daemon, &["a2", "--lease"]),
    );
    let mut different = Vec::new();
    for (way, seen) in [("direct", &direct), ("leased", &leased)] {
        for ((name, expected), (_, seen)) in bare.iter().zip(seen) {
            if expected != seen {
                different.push(format!("{name}, {way}:\n{seen}\nbare:\n{expected}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}
