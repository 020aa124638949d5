//! The connection to one agent: the task that owns the reading, and the requests that wait for their answers.
//!
//! Answers are routed here and not by `jsonrpc`, because some must take effect in the order of the stream: the answer to
//! `session/new` names the session that the very next line may speak of, and the answer to `session/load` is where
//! repeated words end and new ones begin.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use engine::{DriverError, SessionSink, chain};
use jsonrpc::{
    ErrorObject, Id, Incoming, LINE_MAX, Malformed, MalformedKind, Message, Peer, Received,
    SendError,
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    convert, failure,
    requests::Requests,
    sessions::{Repeats, Sessions, Start, Unknown, Words},
};

/// Requests of ours that may wait at a time: one for each session, and more sessions than an agent can serve.
const WAITING_MAX: usize = 1024;

/// What is quoted of a stray line in the log.
const QUOTE_BYTES_MAX: usize = 200;

/// The agent as something to talk to.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) peer: Peer,
    pub(crate) sessions: Sessions,
    waiting: Mutex<Waiting>,
    /// How the connection ended.
    gone: OnceLock<String>,
    /// The ways to sign in that the agent offers.
    pub(crate) sign_in: OnceLock<Vec<String>>,
}

/// What the answer to a request changes, at its place in the stream.
#[derive(Debug)]
pub(crate) enum Effect {
    Nothing,
    /// It names a new session.
    Opens(Start),
    /// The session, entered already, stops repeating; or it was refused.
    TakesUp {
        session: String,
        repeats: Repeats,
    },
    /// Nothing; but an agent whose answer is no longer wanted is told so.
    Passes,
}

#[derive(Debug, Default)]
struct Waiting {
    table: HashMap<u64, Wait>,
    closed: bool,
}

#[derive(Debug)]
struct Wait {
    answer: oneshot::Sender<Answer>,
    effect: Effect,
}

type Answer = Result<Box<RawValue>, Unanswered>;

#[derive(Debug)]
enum Unanswered {
    Refused(ErrorObject),
    Malformed(String),
}

impl Client {
    pub(crate) fn new(peer: Peer) -> Arc<Client> {
        Arc::new(Client {
            peer,
            sessions: Sessions::default(),
            waiting: Mutex::default(),
            gone: OnceLock::new(),
            sign_in: OnceLock::new(),
        })
    }

    /// Sends a request and waits for its answer, however long. Dropping the future forgets it.
    pub(crate) async fn request<P: Serialize + Sync + ?Sized>(
        &self,
        method: &'static str,
        params: &P,
        effect: Effect,
    ) -> Result<Box<RawValue>, DriverError> {
        let params = to_raw_value(params).map_err(|error| unwritable(method, &error))?;
        let answer = self.request_raw(method, Some(params), effect).await?;
        answer.map_err(|error| self.refused(&error))
    }

    /// As `request`, of any method; an error of the agent's comes back as it is.
    pub(crate) async fn request_raw(
        &self,
        method: &str,
        params: Option<Box<RawValue>>,
        effect: Effect,
    ) -> Result<Result<Box<RawValue>, ErrorObject>, DriverError> {
        let id = self.peer.fresh_id();
        let line = Message::Request {
            id: id.clone(),
            method: method.to_owned(),
            params,
        }
        .encode();
        let (answered, mut entry) = self.enter(&id, effect)?;
        match self.peer.send_line(line).await {
            Ok(()) => {}
            Err(SendError::Closed) => return Err(self.gone()),
            Err(error) => return Err(unwritable(method, &error)),
        }
        entry.sent = true;
        match answered.await {
            Ok(Ok(result)) => Ok(Ok(result)),
            Ok(Err(Unanswered::Refused(error))) => Ok(Err(error)),
            Ok(Err(Unanswered::Malformed(what))) => Err(DriverError::Protocol {
                what: format!("its answer to {method} cannot be read: {what}"),
            }),
            Err(_) => Err(self.gone()),
        }
    }

    /// An error answer in words, with what there is to do about it.
    pub(crate) fn refused(&self, error: &ErrorObject) -> DriverError {
        let sign_in = self.sign_in.get().map(Vec::as_slice).unwrap_or_default();
        failure::refused(error, sign_in)
    }

    /// As `request`, for answers that are due.
    pub(crate) async fn request_within<P: Serialize + Sync + ?Sized>(
        &self,
        limit: Duration,
        method: &'static str,
        params: &P,
        effect: Effect,
    ) -> Result<Box<RawValue>, DriverError> {
        match tokio::time::timeout(limit, self.request(method, params, effect)).await {
            Ok(answer) => answer,
            Err(_) => Err(DriverError::Silent {
                what: method,
                limit,
            }),
        }
    }

    pub(crate) fn gone(&self) -> DriverError {
        let how = self.gone.get().map_or("it does not read", String::as_str);
        DriverError::Gone {
            how: how.to_owned(),
        }
    }

    fn enter(
        &self,
        id: &Id,
        effect: Effect,
    ) -> Result<(oneshot::Receiver<Answer>, Entry<'_>), DriverError> {
        let mut waiting = self.waiting();
        if waiting.closed {
            return Err(self.gone());
        }
        if waiting.table.len() >= WAITING_MAX {
            return Err(DriverError::Unsupported {
                what: format!("take more than {WAITING_MAX} requests at a time"),
            });
        }
        let (answer, answered) = oneshot::channel();
        let id = id.as_u64().unwrap_or_default(); // The connection makes no other ids.
        waiting.table.insert(id, Wait { answer, effect });
        let entry = Entry {
            client: self,
            id,
            sent: false,
        };
        Ok((answered, entry))
    }

    fn answer(&self, id: &Id, answer: Answer) {
        let Some(Wait {
            answer: asker,
            effect,
        }) = id.as_u64().and_then(|id| self.waiting().table.remove(&id))
        else {
            tracing::debug!(%id, "ignored an answer that nobody waits for");
            return;
        };
        match (effect, &answer) {
            (Effect::Opens(start), answer) => {
                let session = answer.as_ref().ok().and_then(|result| opened(result));
                if let Some(session) = session {
                    self.sessions.enter(&session, start, Words::New);
                }
                if !self.opening() {
                    self.sessions.forget_early();
                }
            }
            (Effect::TakesUp { session, repeats }, Ok(_)) => {
                self.sessions.taken_up(&session, repeats);
            }
            (Effect::TakesUp { session, .. }, Err(_)) => self.sessions.remove(&session),
            (Effect::Nothing | Effect::Passes, _) => {}
        }
        let _ = asker.send(answer); // Whoever asked has left.
    }

    /// Whether a session may exist whose id has not arrived.
    fn opening(&self) -> bool {
        let waiting = self.waiting();
        let mut waits = waiting.table.values();
        waits.any(|wait| matches!(wait.effect, Effect::Opens(_)))
    }

    /// Resolves when the agent says nothing any more.
    pub(crate) async fn ended(&self) {
        self.peer.closed().await;
    }

    fn close(&self, how: String) {
        let _ = self.gone.set(how); // Only one task reads, so it is set once.
        let waits = {
            let mut waiting = self.waiting();
            waiting.closed = true;
            std::mem::take(&mut waiting.table)
        };
        drop(waits); // Outside the lock: it wakes everybody who waits.
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unwritable(method: &str, error: &dyn std::error::Error) -> DriverError {
    DriverError::Protocol {
        what: format!("could not write {method}: {}", chain(error)),
    }
}

/// The id in the answer to `session/new`.
pub(crate) fn opened(result: &RawValue) -> Option<String> {
    let result: serde_json::Value = serde_json::from_str(result.get()).ok()?;
    convert::text(&result, "sessionId").map(str::to_owned)
}

/// A request that waits; takes itself out however the wait ends.
#[derive(Debug)]
struct Entry<'a> {
    client: &'a Client,
    id: u64,
    sent: bool,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let forgotten = self.client.waiting().table.remove(&self.id);
        match forgotten.map(|wait| wait.effect) {
            // Without its answer nobody will ever speak in it.
            Some(Effect::TakesUp { session, .. }) => self.client.sessions.remove(&session),
            Some(Effect::Passes) if self.sent => {
                let params = serde_json::json!({ "requestId": self.id });
                let _ = self.client.peer.try_notify(jsonrpc::CANCEL_METHOD, &params); // It may be gone.
            }
            Some(Effect::Nothing | Effect::Opens(_) | Effect::Passes) | None => {}
        }
    }
}

/// Reads until the agent or the driver is gone; then everybody who waits learns it.
pub(crate) async fn read(
    mut incoming: Incoming,
    client: Arc<Client>,
    requests: Arc<Requests>,
    stop: CancellationToken,
) {
    let how = loop {
        let received = tokio::select! { biased;
            () = stop.cancelled() => break "it is no longer used".to_owned(),
            received = incoming.recv() => received,
        };
        let Some(received) = received else {
            break ended(&mut incoming);
        };
        if let Some(sink) = take(&client, &requests, received) {
            tokio::select! { biased;
                () = stop.cancelled() => {}
                () = sink.room() => {}
            }
        }
    };
    tracing::debug!(%how, "connection to the agent ended");
    client.close(how);
    requests.end();
}

fn ended(incoming: &mut Incoming) -> String {
    match incoming.take_error() {
        Some(error) => format!("its connection broke: {error}"),
        None => "its output ended".to_owned(),
    }
}

/// Handles one message without waiting; gives back whose history it went to.
fn take(client: &Client, requests: &Arc<Requests>, received: Received) -> Option<SessionSink> {
    match received {
        Received::Notification { method, params, .. } if method == jsonrpc::CANCEL_METHOD => {
            requests.withdraw(params.as_deref());
            None
        }
        Received::Notification { method, params, .. } => {
            let unknown = match client.opening() {
                true => Unknown::Hold,
                false => Unknown::Ignore,
            };
            client.sessions.tell(&method, params.as_deref(), unknown)
        }
        Received::Request(request) => {
            requests.take(request);
            None
        }
        Received::Response {
            id: Some(id),
            outcome,
            ..
        } => {
            client.answer(&id, outcome.map_err(Unanswered::Refused));
            None
        }
        Received::Response { id: None, .. } => {
            tracing::debug!("the agent could not read a line of ours");
            None
        }
        Received::Malformed { malformed, raw, .. } => {
            stray(client, malformed, &raw);
            None
        }
    }
}

/// A line that is no message: an answer nobody can read, or something that was never meant for us.
fn stray(client: &Client, malformed: Malformed, raw: &[u8]) {
    let quoted = &raw[..raw.len().min(QUOTE_BYTES_MAX)];
    let line = String::from_utf8_lossy(quoted);
    tracing::debug!(why = %malformed.error.message, %line, "ignored a line of the agent");
    let is_answer = matches!(
        malformed.kind,
        MalformedKind::Response | MalformedKind::Bare
    );
    if let (true, Some(id)) = (is_answer, &malformed.id) {
        client.answer(id, Err(Unanswered::Malformed(malformed.error.message)));
    } else if raw.is_empty() && malformed.id.is_none() {
        // It was too long, a message or an answer, and does not tell whose.
        client.sessions.notice(&format!(
            "The agent sent a line of more than {LINE_MAX} bytes. It was left out; if the turn does not end, cancel it."
        ));
    }
}
