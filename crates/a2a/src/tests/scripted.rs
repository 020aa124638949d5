//! An agent that does what it is told by the id of the message, or by its first word; and an engine around it.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use a2a::PASSED_ON;
use domain::{
    Name,
    chain::Ourselves,
    turn::{
        Answer, AskKind, AskOption, Dialect, EventKind, OptionKind, Raw, Stop, ToolCall, ToolKind,
        ToolStatus,
    },
};
use engine::{
    Continuity, Create, Driver, DriverError, DriverFuture, Drivers, EndpointAgent, EndpointDrivers,
    Engine, EngineConfig, LauncherMode, OpenSession, Opened, Overrides, SessionSink, Turn,
};
use platform::{Guardian, Owner, Tasks, owner};
use serde_json::{Value, json};
use wire::a2a::{Artifact, ArtifactUpdate, Content, Message, Part, StreamResponse};

/// Twice as long as the suites wait for a stream.
const LONG_TASK: Duration = Duration::from_secs(4);

/// What an agent is told, with the id of the message before it.
pub(crate) fn prompt_with_id(message: &Message) -> String {
    format!("[{}] {}", message.message_id, a2a::prompt(message))
}

/// Scripted agents, and others behind addresses.
pub(crate) fn drivers() -> Drivers {
    Drivers {
        acp: |_| unreachable!("no agent here is a process"),
        print: |_| None,
        endpoint: EndpointDrivers::new(|agent: EndpointAgent| {
            match agent.config.get("url").and_then(Value::as_str) {
                Some("script:") => Ok(Arc::new(Scripted::default()) as Arc<dyn Driver>),
                _ => {
                    let node = Ourselves {
                        id: "0b0f5c2e-0000-4000-8000-000000000001".to_owned(),
                        name: "tests".to_owned(),
                    };
                    a2a::driver(agent, engine::Calls::new(node))
                }
            }
        }),
    }
}

#[derive(Debug, Default)]
struct Scripted {
    sinks: Mutex<BTreeMap<String, SessionSink>>,
}

impl Driver for Scripted {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        let continuity = match &open.resume {
            Some(_) => Continuity::Resumed,
            None => Continuity::Fresh,
        };
        let id = open.resume.unwrap_or_else(owner::fresh_id);
        self.sinks.lock().unwrap().insert(id.clone(), open.sink);
        Box::pin(std::future::ready(Ok(Opened { id, continuity })))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        let sink = self.sinks.lock().unwrap()[&turn.session].clone();
        Box::pin(async move {
            let acting = act(&sink, &turn.prompt);
            Ok(tokio::select! { biased;
                () = turn.cancel.cancelled() => Stop::Cancelled,
                stop = acting => stop,
            })
        })
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        self.sinks.lock().unwrap().remove(session);
        Box::pin(std::future::ready(()))
    }
}

async fn act(sink: &SessionSink, prompt: &str) -> Stop {
    let (id, words) = match prompt
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    {
        Some((id, words)) => (id, words),
        None => ("", prompt),
    };
    let has = |prefix: &str| id.starts_with(prefix);
    let text = |text: &str| say(sink, text);
    if has("tck-input-required") {
        return ask_on(sink).await;
    } else if has("tck-reject-task") {
        return Stop::Refusal;
    } else if has("tck-artifact-file-url") {
        let mut part = Part::of(Content::Url("https://example.com/output.txt".to_owned()));
        part.filename = Some("output.txt".to_owned());
        part.media_type = Some("text/plain".to_owned());
        pass_on(sink, "file", part, false, true);
    } else if has("tck-artifact-file") || has("tck-stream-artifact-file") {
        let mut part = Part::of(Content::Raw("aGVsbG8=".to_owned()));
        part.filename = Some("output.txt".to_owned());
        part.media_type = Some("text/plain".to_owned());
        pass_on(sink, "file", part, false, true);
    } else if has("tck-artifact-data") {
        let part = Part::data(json!({ "key": "value", "count": 42 }));
        pass_on(sink, "data", part, false, true);
    } else if has("tck-artifact-text") {
        text("Generated text content");
    } else if has("tck-stream-artifact-text") {
        text("Streamed text content");
    } else if has("tck-stream-artifact-chunked") {
        pass_on(sink, "chunked", Part::text("chunk-1 "), false, false);
        pass_on(sink, "chunked", Part::text("chunk-2"), true, true);
    } else if has("tck-stream-ordering") {
        text("Ordered output");
    } else if has("tck-stream-001") || has("tck-stream-003") {
        text("Stream hello from TCK");
    } else if has("tck-stream-002") {
    } else if has("test-resubscribe-message-id") {
        tokio::time::sleep(LONG_TASK).await;
    } else {
        return do_words(sink, id, words).await;
    }
    Stop::EndTurn
}

/// Without a known id, the first word tells.
async fn do_words(sink: &SessionSink, id: &str, words: &str) -> Stop {
    let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
    match verb {
        "say" => {
            for word in rest.split_inclusive(' ') {
                say(sink, word);
            }
        }
        "flood" => {
            for number in 0..rest.parse().unwrap_or(1000) {
                sink.room().await;
                say(sink, &format!("{number} {}\n", "x".repeat(1000)));
            }
        }
        "steps" => steps(sink, rest).await,
        "halt" => {
            say(sink, rest);
            std::future::pending().await
        }
        "ask" => {
            let question = AskKind::Question {
                text: rest.to_owned(),
                schema: None,
            };
            match sink.ask(question, None).await {
                Answer::Text { text } => say(sink, &format!("you said {text}")),
                answer => say(sink, &format!("no answer: {answer:?}")),
            }
        }
        "permission" => match sink.ask(permission(rest), None).await {
            Answer::Option { id } => say(sink, &format!("chosen: {id}")),
            answer => say(sink, &format!("no answer: {answer:?}")),
        },
        // It was interrupted, and tries again.
        "You" if let Some(asked) = words.strip_prefix("You asked for permission: ") => {
            let title = asked.lines().next().unwrap_or_default();
            match sink.ask(permission(title), None).await {
                Answer::Option { id } => say(sink, &format!("chosen at last: {id}")),
                answer => say(sink, &format!("no answer: {answer:?}")),
            }
        }
        "wait" => std::future::pending().await,
        "fail" => {
            return Stop::Failed {
                message: rest.to_owned(),
            };
        }
        "data" => pass_on(
            sink,
            "data",
            Part::data(json!({ "said": rest })),
            false,
            true,
        ),
        // The suite of 0.3 goes on with its tasks, so they ask for more; that of 1.0 says which.
        _ if !id.is_empty() && !id.starts_with("tck-") => return ask_on(sink).await,
        _ => say(sink, "Hello from TCK"),
    }
    Stop::EndTurn
}

/// Counts in as many steps as it is told, each of as many words, and asks between them.
async fn steps(sink: &SessionSink, told: &str) {
    let mut numbers = told.split(' ').map(|it| it.parse::<u32>().unwrap());
    let (steps, words) = (numbers.next().unwrap(), numbers.next().unwrap());
    for step in 0..steps {
        if step > 0 {
            let text = "On?".to_owned();
            sink.ask(AskKind::Question { text, schema: None }, None)
                .await;
        }
        for word in step * words..(step + 1) * words {
            sink.room().await;
            say(sink, &format!("{word} "));
        }
    }
}

/// Asks until an answer says to complete, as the suite's conversations do.
async fn ask_on(sink: &SessionSink) -> Stop {
    loop {
        let question = AskKind::Question {
            text: "What else?".to_owned(),
            schema: None,
        };
        match sink.ask(question, None).await {
            Answer::Text { text }
                if text.starts_with("[tck-input-required") || !text.starts_with("[tck-") => {}
            Answer::Text { .. } => {
                say(sink, "Hello from TCK");
                return Stop::EndTurn;
            }
            Answer::Option { .. } | Answer::Declined => return Stop::Cancelled,
        }
    }
}

fn say(sink: &SessionSink, text: &str) {
    let text = text.to_owned();
    sink.emit(EventKind::Text { text }, None);
}

fn pass_on(sink: &SessionSink, id: &str, part: Part, append: bool, last_chunk: bool) {
    let update = StreamResponse::ArtifactUpdate(ArtifactUpdate {
        task_id: String::new(),
        context_id: String::new(),
        artifact: Artifact::new(id, vec![part]),
        append,
        last_chunk,
        metadata: None,
    });
    let raw = Raw {
        dialect: Dialect::Print,
        frame: serde_json::to_string(&update).unwrap().into(),
    };
    let name = PASSED_ON.to_owned();
    sink.emit(EventKind::Other { name }, Some(raw));
}

fn permission(title: &str) -> AskKind {
    let option = |id: &str, kind| AskOption {
        id: id.to_owned(),
        name: id.to_owned(),
        kind,
    };
    AskKind::Permission {
        tool: ToolCall {
            id: "tool".to_owned(),
            title: title.to_owned(),
            name: None,
            kind: ToolKind::Execute,
            status: ToolStatus::Pending,
            locations: Vec::new(),
            content: Vec::new(),
            input: Some(json!({ "command": title }).to_string()),
            output: None,
        },
        options: vec![
            option("allow", OptionKind::AllowOnce),
            option("reject", OptionKind::RejectOnce),
        ],
        destructive: false,
    }
}

/// An engine in `home` whose guardian is this program, run with `guardian_args`.
pub(crate) async fn engine(home: &Path, tasks: &Tasks, guardian_args: &[&str]) -> Engine {
    let owner = Owner::starting(&format!("test-{}", owner::fresh_id())).unwrap();
    let executable = std::env::current_exe().unwrap();
    let guardian = Guardian::spawn(&executable, guardian_args, &owner).unwrap();
    let store = store::Store::open(&home.join("state.db"), store::Durability::default()).unwrap();
    let folder = |name: &str| {
        let path = home.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let config = EngineConfig {
        configs_dir: folder("configs"),
        instances_dir: folder("instances"),
        agent_logs_dir: folder("logs"),
        executable,
        environment: BTreeMap::new(),
        launcher: LauncherMode::Mock,
        stop_grace: Duration::from_secs(1),
        durability: platform::files::Durability::default(),
        journal_age: Duration::from_secs(3600),
        journal_lines: 100_000,
        policy: domain::permission::Policy::default(),
    };
    Engine::open(config, store, guardian, owner, tasks.child(), drivers())
        .await
        .unwrap()
}

/// Makes an agent that is reached at `url`.
pub(crate) async fn add_agent(engine: &Engine, home: &Path, name: &str, config: Value) {
    let template = json!({
        "schemaVersion": "1",
        "name": name,
        "version": "1.0.0",
        "description": "an agent of a test",
        "domainContext": {},
        "backend": { "type": "a2a", "config": config },
    });
    let path = home.join(format!("{name}.json"));
    std::fs::write(&path, template.to_string()).unwrap();
    engine.load_template(path).await.unwrap();
    let create = Create {
        name: Name::parse(name).unwrap(),
        template: name.to_owned(),
        overrides: Overrides::default(),
    };
    engine.create(create).await.unwrap();
}
