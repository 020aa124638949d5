//! A client that records everything, checks every update against the schema, and answers as it is told.

use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_client_protocol_schema::v1::SessionNotification;
use builtin::{Options, ServeError, serve};
use jsonrpc::{CallError, Connection, ErrorObject, Limits, Peer, Received, Responder};
use serde_json::{Value, json};
use tokio::{sync::Notify, task::JoinHandle};

/// Nothing in these tests takes this long.
const PATIENCE: Duration = Duration::from_secs(10);

/// How the client treats the agent's next request.
#[derive(Debug)]
pub(crate) enum Answer {
    Result(Value),
    Error(i64, &'static str),
    /// Never answered.
    Hold,
}

#[derive(Default)]
struct Seen {
    updates: Mutex<Vec<Value>>,
    requests: Mutex<Vec<(String, Value)>>,
    cancelled: Mutex<Vec<Value>>,
    strays: Mutex<Vec<i64>>,
    answers: Mutex<VecDeque<Answer>>,
    held: Mutex<Vec<Responder>>,
    changed: Notify,
}

pub(crate) struct Client {
    pub(crate) peer: Peer,
    seen: Arc<Seen>,
    pub(crate) server: JoinHandle<Result<(), ServeError>>,
    reading: JoinHandle<()>,
    pub(crate) cwd: String,
}

impl Client {
    pub(crate) async fn start(workspace: &Path) -> Client {
        Client::start_with(workspace, json!({})).await
    }

    pub(crate) async fn start_with(workspace: &Path, capabilities: Value) -> Client {
        let client = Client::connect(workspace);
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        client.call("initialize", params).await.unwrap();
        client
    }

    /// Without `initialize`.
    pub(crate) fn connect(workspace: &Path) -> Client {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(theirs);
        let environment = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("GREETING", "hello"),
            ("API_KEY", "geheim"),
        ];
        let options = Options {
            workspace: workspace.to_owned(),
            environment: environment
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
        };
        let server = tokio::spawn(serve(reader, writer, options));
        let (reader, writer) = tokio::io::split(ours);
        let (peer, mut incoming) = Connection::new(reader, writer, Limits::default());
        let seen = Arc::new(Seen::default());
        let recorder = Arc::clone(&seen);
        let reading = tokio::spawn(async move {
            while let Some(received) = incoming.recv().await {
                recorder.take(received).await;
            }
        });
        let cwd = workspace.to_str().unwrap().to_owned();
        Client {
            peer,
            seen,
            server,
            reading,
            cwd,
        }
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Result<Value, ErrorObject> {
        match patiently(self.peer.call(method, &params)).await {
            Ok(result) => Ok(serde_json::from_str(result.get()).unwrap()),
            Err(CallError::Remote(error)) => Err(error),
            Err(error) => panic!("{method}: {error}"),
        }
    }

    pub(crate) async fn new_session(&self) -> String {
        let params = json!({ "cwd": self.cwd, "mcpServers": [] });
        let answer = self.call("session/new", params).await.unwrap();
        answer["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn try_prompt(&self, session: &str, text: &str) -> Result<Value, ErrorObject> {
        self.call("session/prompt", prompt(session, text)).await
    }

    /// The stop reason and everything the agent said in this turn.
    pub(crate) async fn prompt(&self, session: &str, text: &str) -> (String, String) {
        let before = self.updates().len();
        let answer = self.try_prompt(session, text).await.unwrap();
        let reason = answer["stopReason"].as_str().unwrap().to_owned();
        (
            reason,
            spoken(&self.updates()[before..], session, "agent_message_chunk"),
        )
    }

    /// What the agent says; the turn must end well.
    pub(crate) async fn ask(&self, session: &str, text: &str) -> String {
        let (reason, said) = self.prompt(session, text).await;
        assert_eq!(reason, "end_turn", "{text}");
        said
    }

    /// A prompt whose answer is awaited later.
    pub(crate) fn start_prompt(
        &self,
        session: &str,
        text: &str,
    ) -> JoinHandle<Result<Value, CallError>> {
        let call = self.peer.call("session/prompt", &prompt(session, text));
        tokio::spawn(async move {
            let answer = call.await?;
            Ok(serde_json::from_str(answer.get()).unwrap())
        })
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.peer.notify(method, &params).await.unwrap();
    }

    pub(crate) async fn cancel(&self, session: &str) {
        self.notify("session/cancel", json!({ "sessionId": session }))
            .await;
    }

    /// Sets the answers to the agent's next requests; without one they are unknown methods.
    pub(crate) fn will_answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.seen.answers.lock().unwrap().extend(answers);
    }

    pub(crate) fn updates(&self) -> Vec<Value> {
        self.seen.updates.lock().unwrap().clone()
    }

    /// The requests of the agent so far.
    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// Ids of the agent's requests that it withdrew.
    pub(crate) fn withdrawn(&self) -> usize {
        self.seen.cancelled.lock().unwrap().len()
    }

    /// Codes of the answers to requests that were sent as raw lines.
    pub(crate) fn stray_errors(&self) -> Vec<i64> {
        self.seen.strays.lock().unwrap().clone()
    }

    /// Waits until the condition holds for what was seen.
    pub(crate) async fn until(&self, holds: impl Fn(&Client) -> bool) {
        patiently(async {
            loop {
                let changed = self.seen.changed.notified();
                if holds(self) {
                    return;
                }
                changed.await;
            }
        })
        .await;
    }

    pub(crate) async fn until_update(&self, holds: impl Fn(&Value) -> bool) {
        self.until(|client| client.updates().iter().any(&holds))
            .await;
    }

    /// Leaves, and waits until the agent has ended.
    pub(crate) async fn leave(self) -> Result<(), ServeError> {
        self.reading.abort();
        patiently(self.server).await.unwrap()
    }
}

impl Seen {
    async fn take(&self, received: Received) {
        match received {
            Received::Notification { method, params, .. } => {
                let params: Value = serde_json::from_str(params.unwrap().get()).unwrap();
                match method.as_str() {
                    "session/update" => {
                        if params["update"]["sessionUpdate"] != "agentcraft_unknown" {
                            let checked =
                                serde_json::from_value::<SessionNotification>(params.clone());
                            checked.unwrap_or_else(|error| panic!("{error}: {params}"));
                        }
                        self.updates.lock().unwrap().push(params);
                    }
                    "$/cancel_request" => self.cancelled.lock().unwrap().push(params),
                    method => panic!("unexpected notification {method}"),
                }
            }
            Received::Request(request) => {
                let params: Value = serde_json::from_str(request.params.unwrap().get()).unwrap();
                self.requests
                    .lock()
                    .unwrap()
                    .push((request.method.clone(), params));
                let answer = self.answers.lock().unwrap().pop_front();
                match answer {
                    Some(Answer::Result(result)) => request.responder.reply(&result).await.unwrap(),
                    Some(Answer::Error(code, message)) => {
                        request
                            .responder
                            .fail(ErrorObject::new(code, message))
                            .await
                            .unwrap();
                    }
                    Some(Answer::Hold) => self.held.lock().unwrap().push(request.responder),
                    None => {
                        let error = ErrorObject::method_not_found(&request.method);
                        request.responder.fail(error).await.unwrap();
                    }
                }
            }
            Received::Response { outcome, .. } => {
                let code = outcome.err().map_or(0, |error| error.code);
                self.strays.lock().unwrap().push(code);
            }
            Received::Malformed { malformed, .. } => panic!("{malformed:?}"),
        }
        self.changed.notify_waiters();
    }
}

pub(crate) fn allow(option: &str) -> Answer {
    Answer::Result(json!({ "outcome": { "outcome": "selected", "optionId": option } }))
}

/// The texts of one kind of chunk, joined.
pub(crate) fn spoken(updates: &[Value], session: &str, kind: &str) -> String {
    let wanted = updates.iter().filter(|update| {
        update["sessionId"] == session && update["update"]["sessionUpdate"] == kind
    });
    wanted
        .map(|update| update["update"]["content"]["text"].as_str().unwrap())
        .collect()
}

/// Status by status, what became of the tool calls of a session.
pub(crate) fn statuses(updates: &[Value], session: &str) -> Vec<String> {
    let wanted = updates
        .iter()
        .filter(|update| update["sessionId"] == session);
    wanted
        .filter_map(|update| match update["update"]["sessionUpdate"].as_str()? {
            "tool_call" => Some(
                update["update"]["status"]
                    .as_str()
                    .unwrap_or("pending")
                    .to_owned(),
            ),
            "tool_call_update" => Some(update["update"]["status"].as_str()?.to_owned()),
            _ => None,
        })
        .collect()
}

pub(crate) fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

pub(crate) async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it takes too long")
}
