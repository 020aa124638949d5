//! Editors that speak ACP inside of our own messages: the older way to an agent, kept for clients that know it.
//!
//! Each is an ordinary editor to the rest of the program, at the other end of a pipe in memory.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use domain::Name;
use jsonrpc::{
    CANCEL_METHOD, Connection, ErrorObject, Id, Incoming, Limits, Message, Peer, Received,
    Responder,
};
use serde::Serialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wire::daemon::{ErrorCode, ProxyMessage, ProxySession};

use crate::{
    editor::{EditorAsks, EditorFolder, EditorLink},
    error::RpcError,
    server::{Call, fresh_number},
};

/// The notification that carries what the agent says and asks.
const MESSAGE: &str = "proxy.message";

/// What waits in the pipe between the two ends: a few lines, since both ends are read all the time.
const PIPE_BYTES: usize = 64 * 1024;

/// Every proxy of the node, at most one for each agent.
#[derive(Debug, Default)]
pub struct Proxies {
    table: Mutex<BTreeMap<String, Arc<Proxy>>>,
    next: AtomicU64,
}

/// One proxy.
#[derive(Debug)]
pub(crate) struct Proxy {
    session: ProxySession,
    agent: Name,
    /// The connection it belongs to, and ends with.
    connection: u64,
    line: Peer,
    /// By our own ids: two requests of the client may have the same one.
    waiting: Mutex<HashMap<Id, Waiting>>,
    /// What the agent asked and was not answered.
    asked: Mutex<HashMap<Id, Responder>>,
    stop: CancellationToken,
}

/// A request of the client that was not answered.
#[derive(Debug)]
struct Waiting {
    /// As the client calls it.
    id: Id,
    answer: oneshot::Sender<Outcome>,
}

type Outcome = Result<Box<RawValue>, ErrorObject>;

/// A message of ACP, as its sender gets it back.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum AcpMessage {
    Result {
        jsonrpc: &'static str,
        id: Id,
        result: Box<RawValue>,
    },
    Error {
        jsonrpc: &'static str,
        id: Id,
        error: ErrorObject,
    },
    /// Nothing is answered to what asks for nothing.
    Nothing,
}

impl Proxies {
    pub(crate) fn connect(
        &self,
        call: &Call,
        agent: Name,
        asks: EditorAsks,
    ) -> Result<ProxySession, RpcError> {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let (near_reader, near_writer) = tokio::io::split(near);
        let (far_reader, far_writer) = tokio::io::split(far);
        let open = |reader, writer| Connection::new(reader, writer, Limits::default());
        let (line, answers) = open(near_reader, near_writer);
        let (peer, incoming) = open(far_reader, far_writer);
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let session = ProxySession {
            session_id: format!("p-{}-{number}", call.caller.number),
            agent_name: agent.to_string(),
            env_passthrough: asks == EditorAsks::Relayed,
            created_at: jiff::Timestamp::now().to_string(),
        };
        let proxy = Arc::new(Proxy {
            session: session.clone(),
            agent: agent.clone(),
            connection: call.caller.number,
            line,
            waiting: Mutex::default(),
            asked: Mutex::default(),
            stop: CancellationToken::new(),
        });
        self.enter(&proxy)?;
        let link = EditorLink {
            engine: call.service.engine.clone(),
            agent,
            folder: EditorFolder::Workspace,
            asks,
            // Not that of the connection: what an earlier proxy of it still leaves is not left by this one.
            number: fresh_number(),
            peer,
            incoming,
            tasks: call.caller.tasks.clone(),
        };
        let serving = (call.service.editor)(link);
        call.caller.tasks.spawn(|_| serving);
        let client = call.caller.peer.clone();
        call.caller.tasks.spawn(|stop| async move {
            tokio::select! { biased;
                () = stop.cancelled() => {}
                () = proxy.stop.cancelled() => {}
                () = listen(answers, &proxy, &client) => {}
            }
        });
        Ok(session)
    }

    fn enter(&self, proxy: &Arc<Proxy>) -> Result<(), RpcError> {
        let mut table = self.table();
        if let Some(other) = table.values().find(|other| other.agent == proxy.agent) {
            let (agent, id) = (&proxy.agent, &other.session.session_id);
            let message = format!(
                "{agent} already has a proxy ({id}); end it with proxy.disconnect, or use `agentcraft proxy {agent} \
                 --lease`, which any number of clients may do"
            );
            let error = RpcError::new(ErrorCode::ProxySessionConflict, message);
            let error = error.with("agentName", agent.as_str());
            return Err(error.with("sessionId", id.as_str()));
        }
        table.insert(proxy.session.session_id.clone(), Arc::clone(proxy));
        Ok(())
    }

    pub(crate) fn find(&self, id: &str) -> Result<Arc<Proxy>, RpcError> {
        self.table().get(id).cloned().ok_or_else(|| unknown(id))
    }

    pub(crate) fn disconnect(&self, id: &str) -> Result<(), RpcError> {
        let proxy = self.table().remove(id).ok_or_else(|| unknown(id))?;
        proxy.stop.cancel();
        Ok(())
    }

    /// A connection has ended, and its proxies with it.
    pub(crate) fn leave(&self, connection: u64) {
        self.table().retain(|_, proxy| {
            let stays = proxy.connection != connection;
            if !stays {
                proxy.stop.cancel();
            }
            stays
        });
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Proxy>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Proxy {
    /// Hands a message to the agent; the answer to a request comes back under the id the client gave it.
    pub(crate) async fn forward(&self, message: &RawValue) -> Result<AcpMessage, RpcError> {
        match parse("acpMessage", message)? {
            Message::Request { id, method, params } => {
                let own = self.line.fresh_id();
                let (answer, answered) = oneshot::channel();
                let waiting = Waiting {
                    id: id.clone(),
                    answer,
                };
                lock(&self.waiting).insert(own.clone(), waiting);
                let request = Message::Request {
                    id: own,
                    method,
                    params,
                };
                self.send(request).await?;
                let jsonrpc = "2.0";
                let answered = tokio::select! { biased;
                    answered = answered => answered.map_err(|_| self.over())?,
                    () = self.stop.cancelled() => return Err(self.over()),
                };
                Ok(match answered {
                    Ok(result) => AcpMessage::Result {
                        jsonrpc,
                        id,
                        result,
                    },
                    Err(error) => AcpMessage::Error { jsonrpc, id, error },
                })
            }
            Message::Notification { method, params } => {
                let params = match method == CANCEL_METHOD {
                    false => params,
                    true => match self.withdrawn(params.as_deref()) {
                        Some(own) => to_raw_value(&json!({ "requestId": own })).ok(),
                        // It was answered meanwhile, or is none of this proxy.
                        None => return Ok(AcpMessage::Nothing),
                    },
                };
                self.send(Message::Notification { method, params }).await?;
                Ok(AcpMessage::Nothing)
            }
            Message::Response { .. } => {
                self.answer(message).await?;
                Ok(AcpMessage::Nothing)
            }
        }
    }

    /// Answers what the agent asked.
    pub(crate) async fn answer(&self, response: &RawValue) -> Result<(), RpcError> {
        let Message::Response { id, outcome } = parse("response", response)? else {
            return Err(RpcError::invalid_params("response", "it answers nothing"));
        };
        let responder = id.as_ref().and_then(|id| lock(&self.asked).remove(id));
        let responder = responder.ok_or_else(|| {
            let message = "nothing that the agent asked waits for this answer";
            RpcError::new(ErrorCode::GenericBusiness, message)
        })?;
        let sent = match outcome {
            Ok(result) => responder.reply(&result).await,
            Err(error) => responder.fail(error).await,
        };
        sent.map_err(|_| self.over())
    }

    /// Our own id of the request that a client takes back.
    fn withdrawn(&self, params: Option<&RawValue>) -> Option<Id> {
        let meant = request_id(params)?;
        let waiting = lock(&self.waiting);
        let mut found = waiting.iter().filter(|(_, waiting)| waiting.id == meant);
        found.next().map(|(own, _)| own.clone())
    }

    async fn send(&self, message: Message) -> Result<(), RpcError> {
        let sent = self.line.send_line(message.encode()).await;
        sent.map_err(|_| self.over())
    }

    fn over(&self) -> RpcError {
        let message = format!("the proxy {} has ended", self.session.session_id);
        RpcError::new(ErrorCode::GenericBusiness, message)
    }
}

/// Hands on everything the agent says, in its order: an answer is given only after what was said before it.
async fn listen(mut answers: Incoming, proxy: &Proxy, client: &Peer) {
    while let Some(received) = answers.recv().await {
        let raw = match received {
            Received::Response { id, outcome, .. } => {
                let waiting = id.and_then(|id| lock(&proxy.waiting).remove(&id));
                if let Some(waiting) = waiting {
                    drop(waiting.answer.send(outcome)); // The client may have gone.
                }
                continue;
            }
            Received::Request(request) => {
                let id = request.responder.id().clone();
                lock(&proxy.asked).insert(id, request.responder);
                request.raw
            }
            Received::Notification {
                method,
                params,
                raw,
                ..
            } => {
                // Nobody answers what the agent takes back.
                if method == CANCEL_METHOD
                    && let Some(id) = request_id(params.as_deref())
                {
                    drop(lock(&proxy.asked).remove(&id));
                }
                raw
            }
            Received::Malformed { .. } => continue, // We write nothing that is none.
        };
        let text = String::from_utf8_lossy(&raw).into_owned();
        let Ok(acp_message) = RawValue::from_string(text) else {
            continue;
        };
        let message = ProxyMessage {
            session_id: proxy.session.session_id.clone(),
            acp_message,
        };
        if client.notify(MESSAGE, &message).await.is_err() {
            return;
        }
    }
}

/// Which request a cancel means.
fn request_id(params: Option<&RawValue>) -> Option<Id> {
    let params: Value = serde_json::from_str(params?.get()).ok()?;
    Id::from_json(&params.get("requestId")?.to_string())
}

fn parse(field: &str, message: &RawValue) -> Result<Message, RpcError> {
    Message::parse(message.get().as_bytes())
        .map_err(|malformed| RpcError::invalid_params(field, &malformed.error.message))
}

fn unknown(id: &str) -> RpcError {
    let message = format!("there is no proxy {id}; make one with proxy.connect");
    RpcError::new(ErrorCode::GenericBusiness, message).with("sessionId", id)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
