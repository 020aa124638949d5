//! A Socket.IO client of a few lines that sends whatever a test wants, right or wrong.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest},
};
use wire::smcp::Profile;

use super::support::SOON;

type Answers = Arc<Mutex<HashMap<String, Option<Value>>>>;

pub(super) struct Raw {
    sending: mpsc::UnboundedSender<Send>,
    events: mpsc::UnboundedReceiver<Heard>,
    kept: Vec<Heard>,
    answers: Answers,
    running: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
pub(super) struct Heard {
    pub(super) event: String,
    pub(super) body: Value,
    id: Option<u64>,
}

enum Send {
    Text(String),
    Ask(String, Option<oneshot::Sender<Vec<Value>>>),
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Raw {
    /// Connects as a client that acknowledges everything.
    pub(super) async fn connect(
        address: SocketAddr,
        profile: Profile,
        auth: Value,
    ) -> Result<Self, Value> {
        Self::connect_as("Python/3 aiohttp/3", address, profile, auth).await
    }

    #[expect(
        clippy::too_many_lines,
        reason = "It is one loop over everything that can arrive."
    )]
    pub(super) async fn connect_as(
        agent: &str,
        address: SocketAddr,
        profile: Profile,
        auth: Value,
    ) -> Result<Self, Value> {
        let version = match profile {
            Profile::Seed => "",
            Profile::Shipped => "&a2c_version=0.4.1",
        };
        let url = format!("ws://{address}/socket.io/?EIO=4&transport=websocket{version}");
        let mut request = url.into_client_request().unwrap();
        let agent = agent.parse().unwrap();
        request.headers_mut().insert("user-agent", agent);
        let (mut socket, _) = connect_async(request).await.unwrap();
        let opened = socket.next().await.unwrap().unwrap();
        assert!(opened.to_text().unwrap().starts_with('0'));
        socket
            .send(Message::text(format!("40/smcp,{auth}")))
            .await
            .unwrap();
        loop {
            let message = socket.next().await.unwrap().unwrap();
            let text = message.to_text().unwrap();
            if let Some(error) = text.strip_prefix("44/smcp,") {
                return Err(serde_json::from_str(error).unwrap());
            }
            if text.starts_with("40/smcp,") {
                break;
            }
            if text == "2" {
                socket.send(Message::text("3")).await.unwrap();
            }
        }
        let (sending, mut to_send) = mpsc::unbounded_channel();
        let (hearing, events) = mpsc::unbounded_channel();
        let answers: Answers = Arc::default();
        let automatic = Arc::clone(&answers);
        let running = tokio::spawn(async move {
            let mut waiting: HashMap<u64, oneshot::Sender<Vec<Value>>> = HashMap::new();
            let mut last = 0;
            loop {
                tokio::select! {
                    send = to_send.recv() => match send {
                        None => break,
                        Some(Send::Text(text)) => socket.send(Message::text(text)).await.unwrap(),
                        Some(Send::Ask(args, answer)) => {
                            let mut id = String::new();
                            if let Some(answer) = answer {
                                last += 1;
                                waiting.insert(last, answer);
                                id = last.to_string();
                            }
                            let text = format!("42/smcp,{id}{args}");
                            if socket.send(Message::text(text)).await.is_err() { break }
                        }
                    },
                    message = socket.next() => {
                        let Some(Ok(Message::Text(text))) = message else { break };
                        if text.as_str() == "2" {
                            if socket.send(Message::text("3")).await.is_err() { break }
                        } else if let Some(ack) = text.strip_prefix("43/smcp,") {
                            let (id, args) = split_id(ack);
                            if let Some(answer) = waiting.remove(&id.unwrap()) {
                                let _ = answer.send(serde_json::from_str(args).unwrap());
                            }
                        } else if let Some(event) = text.strip_prefix("42/smcp,") {
                            let (id, args) = split_id(event);
                            let args: Vec<Value> = serde_json::from_str(args).unwrap();
                            let name = args[0].as_str().unwrap().to_owned();
                            let said = automatic.lock().unwrap().get(&name).cloned();
                            match (said, id) {
                                (Some(Some(said)), Some(id)) => {
                                    let text = format!("43/smcp,{id}{}", json!([said]));
                                    if socket.send(Message::text(text)).await.is_err() { break }
                                }
                                (Some(_), _) => {}
                                (None, id) => {
                                    let body = args.get(1).cloned().unwrap_or_default();
                                    let _ = hearing.send(Heard { event: name, body, id });
                                }
                            }
                        } else if text.starts_with("41/smcp") {
                            break;
                        }
                    }
                }
            }
        });
        let raw = Self {
            sending,
            events,
            kept: Vec::new(),
            answers,
            running,
        };
        raw.always("client:get_mcp_config", Some(json!({"servers": {}})));
        raw.always("client:get_config", Some(json!({"servers": {}})));
        raw.always("notify:still_there", Some(Value::Null));
        Ok(raw)
    }

    /// Answers every event of this name alike, or ignores it.
    pub(super) fn always(&self, event: &str, answer: Option<Value>) {
        self.answers
            .lock()
            .unwrap()
            .insert(event.to_owned(), answer);
    }

    pub(super) fn send_text(&self, text: &str) {
        self.sending.send(Send::Text(text.to_owned())).unwrap();
    }

    /// Sends an event that asks for no acknowledgement.
    pub(super) fn emit(&self, event: &str, body: &Value) {
        let args = json!([event, body]).to_string();
        self.sending.send(Send::Ask(args, None)).unwrap();
    }

    /// Sends an event; the acknowledgement comes later.
    pub(super) fn begin(&self, args: &Value) -> oneshot::Receiver<Vec<Value>> {
        let (answer, answered) = oneshot::channel();
        self.sending
            .send(Send::Ask(args.to_string(), Some(answer)))
            .unwrap();
        answered
    }

    pub(super) async fn ask_args(&self, args: &Value) -> Vec<Value> {
        let answered = timeout(SOON, self.begin(args)).await;
        answered
            .unwrap_or_else(|_| panic!("{args} is never acknowledged"))
            .unwrap()
    }

    pub(super) async fn ask(&self, event: &str, body: Value) -> Value {
        let mut args = self.ask_args(&json!([event, body])).await;
        if args.is_empty() {
            Value::Null
        } else {
            args.swap_remove(0)
        }
    }

    pub(super) async fn join(&mut self, role: &str, name: &str, office: &str) -> Vec<Value> {
        let body = json!({"role": role, "name": name, "office_id": office});
        self.ask_args(&json!(["server:join_office", body])).await
    }

    /// Waits for an event of this name; others are kept for later.
    pub(super) async fn hear(&mut self, event: &str) -> Heard {
        if let Some(index) = self.kept.iter().position(|heard| heard.event == event) {
            return self.kept.remove(index);
        }
        loop {
            let heard = timeout(SOON, self.events.recv()).await;
            let heard =
                heard.unwrap_or_else(|_| panic!("{event} never comes; {:?} did", self.kept));
            let heard = heard.expect("the connection is open");
            if heard.event == event {
                return heard;
            }
            self.kept.push(heard);
        }
    }

    /// Whether this came before what was waited for.
    pub(super) fn has_kept(&self, event: &str) -> bool {
        self.kept.iter().any(|heard| heard.event == event)
    }

    /// The next event, whatever it is.
    pub(super) async fn hear_any(&mut self) -> String {
        if !self.kept.is_empty() {
            return self.kept.remove(0).event;
        }
        let heard = timeout(SOON, self.events.recv()).await;
        let heard = heard.expect("something is said");
        heard.expect("the connection is open").event
    }

    pub(super) fn answer(&self, heard: &Heard, body: &Value) {
        let id = heard.id.expect("the event asks for an answer");
        self.send_text(&format!("43/smcp,{id}{}", json!([body])));
    }

    /// Everything that has arrived and was not waited for. The server handles a connection's events in order, so an
    /// answer to a last question means that everything before it is here.
    pub(super) async fn heard_so_far(&mut self) -> Vec<String> {
        self.ask("server:made_up", json!({})).await;
        while let Ok(heard) = self.events.try_recv() {
            self.kept.push(heard);
        }
        self.kept.drain(..).map(|heard| heard.event).collect()
    }

    /// Waits until the server has closed the connection.
    pub(super) async fn closed(mut self) {
        timeout(SOON, &mut self.running)
            .await
            .expect("it is closed")
            .unwrap();
    }
}

fn split_id(text: &str) -> (Option<u64>, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (id, rest) = text.split_at(digits);
    (id.parse().ok(), rest)
}
