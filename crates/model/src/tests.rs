//! Claims about turns with a model, against a scripted server on a real port.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{Read, Write},
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::post};
use domain::turn::{Answer, AskKind, Event, EventKind, OptionKind, Stop, ToolStatus};
use engine::{
    AskRequest, Continuity, Driver, DriverError, DriverSurroundings, EndpointAgent, EventLog,
    OpenSession, Page, SessionSink, ToolSources, Turn, TurnOptions,
};
use platform::{Guardian, Owner, Tasks, owner};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const GUARDIAN_MARK: &str = "mark-of-the-guardian";

/// Does nothing in an ordinary run; a scene starts it with the mark.
#[test]
fn role_of_the_guardian() {
    if std::env::args().any(|arg| arg == GUARDIAN_MARK) {
        platform::guardian::run(std::io::stdin().lock());
    }
}

/// What the server answers, one after the other, and what it was asked.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<(StatusCode, String)>>>,
    asked: Arc<Mutex<Vec<Value>>>,
}

async fn complete(State(script): State<Script>, Json(body): Json<Value>) -> impl IntoResponse {
    script.asked.lock().unwrap().push(body);
    let next = script.answers.lock().unwrap().pop_front();
    match next {
        Some((status, body)) => {
            (status, [("content-type", "text/event-stream")], body).into_response()
        }
        None => std::future::pending().await,
    }
}

fn text(text: &str) -> (StatusCode, String) {
    let chunk = json!({"choices": [{"delta": {"content": text}}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}});
    let body = format!("data: {chunk}\n\ndata: {usage}\n\ndata: [DONE]\n\n");
    (StatusCode::OK, body)
}

fn tool(name: &str, arguments: &Value) -> (StatusCode, String) {
    let call = json!({"index": 0, "id": "c1", "function": {"name": name, "arguments": arguments.to_string()}});
    let chunk =
        json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    (StatusCode::OK, format!("data: {chunk}\n\ndata: [DONE]\n\n"))
}

struct Scene {
    folder: tempfile::TempDir,
    script: Script,
    driver: Arc<dyn Driver>,
    log: Arc<EventLog>,
    asks: mpsc::Receiver<AskRequest>,
    session: String,
}

impl Scene {
    async fn new(answers: impl IntoIterator<Item = (StatusCode, String)>) -> Self {
        let script = Script::default();
        script.answers.lock().unwrap().extend(answers);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/v1/chat/completions", post(complete))
            .with_state(script.clone());
        let tasks = Tasks::new();
        tasks.spawn(|_| async move { axum::serve(listener, router).await });
        Self::at(address, tasks, script).await
    }

    async fn at(address: SocketAddr, tasks: Tasks, script: Script) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let owner = Owner::starting(&format!("test-{}", owner::fresh_id())).unwrap();
        let exe = std::env::current_exe().unwrap();
        let role = "tests::role_of_the_guardian";
        let guardian = Guardian::spawn(&exe, &["--exact", role, GUARDIAN_MARK], &owner).unwrap();
        let around = DriverSurroundings {
            tasks,
            guardian,
            owner,
            agent: "model".to_owned(),
            workspace: folder.path().to_owned(),
            environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            start_timeout: Duration::from_secs(10),
        };
        let config = json!({"baseUrl": format!("http://{address}/v1/"), "temperature": 0.5});
        let agent = EndpointAgent {
            backend: "openai-compatible".to_owned(),
            config: config.as_object().unwrap().clone(),
            model: Some("tiny".to_owned()),
            around,
        };
        let sources = ToolSources::new(|_, _, _| unreachable!("no servers in these tests"));
        let driver = crate::driver(agent, sources, crate::Memory::default()).unwrap();
        let log = Arc::new(EventLog::new(1));
        let (sender, asks) = mpsc::channel(4);
        let opened = driver
            .open(OpenSession {
                cwd: folder.path().to_owned(),
                mcp_servers: Vec::new(),
                resume: None,
                sink: SessionSink::new(log.clone(), sender),
            })
            .await
            .unwrap();
        assert_eq!(opened.continuity, Continuity::Fresh);
        Self {
            folder,
            script,
            driver,
            log,
            asks,
            session: opened.id,
        }
    }

    fn turn(&self, prompt: &str) -> Turn {
        Turn {
            session: self.session.clone(),
            prompt: prompt.to_owned(),
            options: TurnOptions::default(),
            cancel: CancellationToken::new(),
        }
    }

    /// Runs a turn, answering every ask with an option of this kind.
    async fn prompt(&mut self, prompt: &str, kind: OptionKind) -> Result<Stop, DriverError> {
        let turn = self.turn(prompt);
        let driver = self.driver.clone();
        let running = driver.turn(turn);
        tokio::pin!(running);
        loop {
            tokio::select! {
                stop = &mut running => return stop,
                Some(ask) = self.asks.recv() => {
                    let option = ask.kind.option(kind).unwrap().id.clone();
                    ask.answer.send(Answer::Option { id: option }).unwrap();
                }
            }
        }
    }

    fn events(&self) -> Vec<Arc<Event>> {
        match self.log.read(1, 1000) {
            Page::Events(events) => events,
            other => panic!("{other:?}"),
        }
    }

    fn text(&self) -> String {
        let events = self.events();
        let texts = events.iter().filter_map(|event| match &event.kind {
            EventKind::Text { text } => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    }

    fn last_status(&self) -> Option<ToolStatus> {
        let events = self.events();
        events.iter().rev().find_map(|event| match &event.kind {
            EventKind::ToolUpdate(update) => update.status,
            EventKind::ToolCall(call) => Some(call.status),
            _ => None,
        })
    }

    /// What the model was told in the last question.
    fn told(&self) -> String {
        let asked = self.script.asked.lock().unwrap();
        let messages = asked.last().unwrap()["messages"].as_array().unwrap();
        messages.last().unwrap()["content"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

#[tokio::test]
async fn an_answer_is_streamed_and_the_next_question_holds_what_was_said() {
    let mut scene = Scene::new([text("Hello."), text(" Again.")]).await;
    std::fs::write(scene.folder.path().join("AGENTS.md"), "Be brief.").unwrap();
    assert_eq!(
        scene.prompt("hi", OptionKind::AllowOnce).await,
        Ok(Stop::EndTurn)
    );
    assert_eq!(
        scene.prompt("go on", OptionKind::AllowOnce).await,
        Ok(Stop::EndTurn)
    );
    assert_eq!(scene.text(), "Hello. Again.");
    let asked = scene.script.asked.lock().unwrap();
    assert_eq!(asked[1]["model"], "tiny");
    assert_eq!(asked[1]["temperature"], 0.5);
    let said: Vec<&str> = asked[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["Be brief.", "hi", "Hello.", "go on"]);
}

#[tokio::test]
async fn a_file_is_written_when_that_is_allowed_and_only_then() {
    let write = json!({"path": "notes/a.txt", "content": "one"});
    for (kind, status, there) in [
        (OptionKind::AllowOnce, ToolStatus::Completed, true),
        (OptionKind::RejectOnce, ToolStatus::Failed, false),
    ] {
        let mut scene = Scene::new([tool("write", &write), text("done")]).await;
        assert_eq!(scene.prompt("write", kind).await, Ok(Stop::EndTurn));
        assert_eq!(scene.last_status(), Some(status));
        assert_eq!(scene.folder.path().join("notes/a.txt").exists(), there);
        assert_eq!(scene.told().starts_with("Denied"), !there);
    }
}

#[tokio::test]
async fn looking_needs_no_permission_and_does_not_leave_the_workspace() {
    for (name, arguments, expected) in [
        (
            "read",
            json!({"path": "a.txt", "offset": 2, "limit": 1}),
            "two\n… 1 lines more; read on with offset\n",
        ),
        ("list", json!({}), "a.txt\n"),
        (
            "search",
            json!({"pattern": "^t"}),
            "a.txt:2: two\na.txt:3: three\n",
        ),
        ("read", json!({"path": "../../etc/passwd"}), "Error: "),
        ("read", json!({"path": "/etc/passwd"}), "Error: "),
        ("read", json!({}), "Error: needs \"path\", a text"),
        ("fly", json!({}), "Error: there is no tool called \"fly\""),
    ] {
        let mut scene = Scene::new([tool(name, &arguments), text("ok")]).await;
        std::fs::write(scene.folder.path().join("a.txt"), "one\ntwo\nthree\n").unwrap();
        scene.asks.close();
        assert_eq!(
            scene.prompt("look", OptionKind::AllowOnce).await,
            Ok(Stop::EndTurn)
        );
        let told = scene.told();
        assert!(told.starts_with(expected), "{name} {arguments}: {told}");
        assert!(!told.contains("root:"), "{told}");
    }
}

#[tokio::test]
async fn a_command_runs_in_the_workspace_and_its_failure_is_told() {
    let command = json!({"command": "pwd; echo bad >&2; exit 3"});
    let mut scene = Scene::new([tool("run", &command), text("ok")]).await;
    assert_eq!(
        scene.prompt("run", OptionKind::AllowOnce).await,
        Ok(Stop::EndTurn)
    );
    let folder = scene.folder.path().display().to_string();
    assert_eq!(scene.told(), format!("Error: {folder}\nbad\n\nexit code 3"));
}

#[tokio::test]
async fn an_edit_shows_its_change_to_whoever_decides() {
    let edit = json!({"path": "a.txt", "old": "two", "new": "2"});
    let mut scene = Scene::new([tool("edit", &edit), text("ok")]).await;
    std::fs::write(scene.folder.path().join("a.txt"), "one two").unwrap();
    let driver = scene.driver.clone();
    let turn = scene.turn("edit");
    let (stop, ()) = tokio::join!(driver.turn(turn), async {
        let ask = scene.asks.recv().await.unwrap();
        let AskKind::Permission { tool, .. } = &ask.kind else {
            panic!("{ask:?}");
        };
        let shown = serde_json::to_value(&tool.content[0]).unwrap();
        assert_eq!(
            (&shown["old"], &shown["new"]),
            (&json!("one two"), &json!("one 2"))
        );
        let id = ask.kind.option(OptionKind::AllowOnce).unwrap().id.clone();
        ask.answer.send(Answer::Option { id }).unwrap();
    });
    assert_eq!(stop, Ok(Stop::EndTurn));
    let content = std::fs::read_to_string(scene.folder.path().join("a.txt")).unwrap();
    assert_eq!(content, "one 2");
}

#[tokio::test]
async fn a_busy_server_is_asked_again_and_a_refusal_is_told_in_its_words() {
    let busy = (StatusCode::SERVICE_UNAVAILABLE, "busy".to_owned());
    let mut scene = Scene::new([busy, text("here")]).await;
    assert_eq!(
        scene.prompt("hi", OptionKind::AllowOnce).await,
        Ok(Stop::EndTurn)
    );
    assert_eq!(scene.text(), "here");
    let refusal = json!({"error": {"message": "no such model"}}).to_string();
    let mut scene = Scene::new([(StatusCode::NOT_FOUND, refusal)]).await;
    let refused = scene.prompt("hi", OptionKind::AllowOnce).await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the agent answered with an error: no such model (404)"
    );
}

#[tokio::test]
async fn a_cancelled_turn_ends_at_once_and_the_next_one_works() {
    let mut scene = Scene::new([]).await;
    let turn = scene.turn("hang");
    let cancel = turn.cancel.clone();
    let script = scene.script.clone();
    let asked = async {
        while script.asked.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let driver = scene.driver.clone();
    let (stop, ()) = tokio::join!(driver.turn(turn), asked);
    assert_eq!(stop, Ok(Stop::Cancelled));
    scene.script.answers.lock().unwrap().push_back(text("back"));
    assert_eq!(
        scene.prompt("again", OptionKind::AllowOnce).await,
        Ok(Stop::EndTurn)
    );
    assert_eq!(scene.text(), "back");
}

#[tokio::test]
async fn a_model_that_goes_in_circles_is_stopped() {
    let answers = std::iter::repeat_with(|| tool("list", &json!({}))).take(25);
    let mut scene = Scene::new(answers).await;
    let stop = scene.prompt("loop", OptionKind::AllowOnce).await;
    assert_eq!(stop, Ok(Stop::MaxTurnRequests));
    assert_eq!(scene.script.asked.lock().unwrap().len(), 25);
}

/// A server that begins an answer so and then says the same for ever.
fn endless(head: &'static str, more: &'static str) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let _ = client.read(&mut [0; 16 * 1024]);
            let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n");
            let mut sent = client.write_all(head.as_bytes());
            let many = more.repeat(256);
            while sent.is_ok() {
                sent = client.write_all(many.as_bytes());
            }
        }
    });
    address
}

#[tokio::test]
async fn a_server_that_never_comes_to_an_end_is_left_in_the_middle() {
    let arguments = concat!(
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":""#,
        "many letters and then some more of them, so that it does not take for ever",
        "\"}}]}}]}\n\n"
    );
    let stream = "200 OK\r\ncontent-type: text/event-stream";
    let thoughts = "data: {\"choices\":[{\"delta\":{\"reasoning\":\"so many thoughts, one after the other, without an end in sight\"}}]}\n\n";
    for (head, more, words) in [
        (
            "200 OK",
            "an answer in one piece ",
            "its answer is larger than",
        ),
        (stream, arguments, "its answer is larger than"),
        (stream, thoughts, "its answer is larger than"),
        ("400 Bad Request", "no and ", "no and no and"),
    ] {
        let tasks = Tasks::new();
        let scene = Scene::at(endless(head, more), tasks, Script::default()).await;
        let taking = scene.driver.turn(scene.turn("hello"));
        let drained = async {
            // Whoever keeps the history takes what was said, or there is no room for more.
            let mut next = 1;
            loop {
                scene.log.newer_than(next - 1).await;
                if let Page::Events(events) = scene.log.read(next, 1000)
                    && let Some(last) = events.last()
                {
                    next = last.seq + 1;
                    scene.log.stored(last.seq);
                }
            }
        };
        let error = tokio::select! {
            stop = taking => stop.unwrap_err(),
            () = drained => unreachable!("it has no end"),
        };
        let told = engine::chain(&error);
        assert!(told.contains(words) && told.len() < 3000, "{told}");
    }
}
