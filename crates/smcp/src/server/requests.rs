//! What an agent asks of a computer: checked, forwarded, waited for, and answered in any case.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    mem,
    sync::{Arc, MutexGuard, atomic::Ordering},
    time::Duration,
};

use domain::office::{
    ConnectionId, Effect, Input, MemberName, Question, Refusal, RequestId, Ticket,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use socketioxide::{AckError, SendError, SocketError};
use tokio_util::sync::CancellationToken;
use wire::smcp::{CALL_SCOPE, ClientEvent, ErrorBody, Profile};

use super::{
    floor::{Departure, Floor, Peer, Pending},
    incoming::Incoming,
    join::invalid,
    knowledge::Knowledge,
    outcome::Outcome,
    relay::Relay,
    shared::{self, Parcel, Passage},
};
use crate::{
    clock,
    convert::{self, code},
};

/// How long the server waits beyond the caller's time, so that the computer itself can say that it was too slow.
const GRACE: Duration = Duration::from_secs(1);

/// How much earlier a released agent is told that its call was too slow: it leaves when the time is over, and the words
/// have to reach it.
const AHEAD_MAX: Duration = Duration::from_millis(250);

/// How long a computer has to tell its configuration to the server.
pub(super) const LEARN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a first call waits for that configuration.
pub(super) const LEARN_WAIT: Duration = Duration::from_secs(1);

/// What an agent asks, read and within bounds.
struct Asked {
    event: ClientEvent,
    body: Value,
    timeout: Duration,
    patience: Duration,
}

/// A request that has been checked and is on its way.
struct Journey {
    ticket: Ticket,
    to: Arc<Peer>,
    event: ClientEvent,
    body: Value,
    patience: Duration,
    over: CancellationToken,
}

impl Relay {
    pub(super) fn ask(self: &Arc<Self>, request: Incoming<'_>, event: ClientEvent, body: Value) {
        let read = question(event, &body).and_then(|(computer, question)| {
            let timeout = self.timeout(event, &body)?;
            Ok((computer, question, timeout))
        });
        let (computer, question, timeout) = match read {
            Ok(read) => read,
            Err(error) => return request.refuse(&error),
        };
        let patience = patience(&request.peer, event, timeout);
        let ask = Input::Ask {
            connection: request.connection.clone(),
            computer: computer.clone(),
            question: question.clone(),
        };
        let mut floor = self.floor();
        let mut applied = floor.offices.apply(ask, clock::now());
        if self.shared.is_some()
            && applied == Err(Refusal::NoSuchComputer)
            && let Some(member) = floor.offices.member(&request.connection)
        {
            // Not here; then it may be at another server.
            let ask = Input::AskElsewhere {
                connection: request.connection.clone(),
                to: shared::elsewhere(&member.office, &computer),
                question,
            };
            applied = floor.offices.apply(ask, clock::now());
        }
        match applied {
            Ok(effects) => {
                let asked = Asked {
                    event,
                    body,
                    timeout,
                    patience,
                };
                self.route(floor, effects, request, asked);
            }
            Err(refusal) => {
                drop(floor);
                request.refuse(&unroutable(&refusal, &computer));
            }
        }
    }

    /// Forwards a request that is new, joins one that is under way, or repeats an answer.
    fn route(
        self: &Arc<Self>,
        mut floor: MutexGuard<'_, Floor>,
        effects: Vec<Effect>,
        request: Incoming<'_>,
        mut asked: Asked,
    ) {
        if let Some(member) = floor.offices.member(&request.connection) {
            // Whatever the sender calls itself, the computer hears the name under which it joined.
            asked.body["agent"] = json!(member.name.as_str());
        }
        if asked.event == ClientEvent::ToolCall {
            let scope = floor.offices.scope(&request.connection);
            asked.body[CALL_SCOPE] = json!(scope.map(scope_word));
        }
        let mut asker = Some(request.into_asker());
        let (mut forwarded, mut answered) = (None, None);
        for effect in &effects {
            match effect {
                Effect::Forward { ticket, to } => {
                    let over = CancellationToken::new();
                    let pending = Pending {
                        event: asked.event,
                        computer: asked.body["computer"]
                            .as_str()
                            .unwrap_or_default()
                            .to_owned(),
                        askers: asker.take().into_iter().collect(),
                        over: over.clone(),
                        departure: Departure::ahead(to, &asked.body),
                    };
                    floor.pending.insert(*ticket, pending);
                    let peer = floor.peers.get(to).cloned();
                    forwarded = Some((*ticket, peer, to.clone(), over));
                }
                Effect::Join { ticket } => {
                    if let Some(pending) = floor.pending.get_mut(ticket) {
                        pending.askers.extend(asker.take());
                    }
                }
                Effect::Replay { ticket } => answered = Some(floor.answers.get(*ticket)),
                Effect::Tell { .. }
                | Effect::Evict { .. }
                | Effect::Learn { .. }
                | Effect::Deliver { .. }
                | Effect::Settle { .. }
                | Effect::Forget { .. }
                | Effect::SeekCall { .. } => {}
            }
        }
        let mut afterwards = floor.perform(effects, None);
        drop(floor);
        if let (Some((event, outcome)), Some(asker)) = (answered, asker) {
            afterwards.reply(asker, event, outcome);
        }
        self.finish(afterwards);
        if let Some(forwarded) = forwarded {
            self.send_off(forwarded, asked);
        }
    }

    fn send_off(
        self: &Arc<Self>,
        (ticket, peer, to, over): (Ticket, Option<Arc<Peer>>, ConnectionId, CancellationToken),
        asked: Asked,
    ) {
        let (event, patience) = (asked.event, asked.patience);
        let body = complete(event, asked.body, asked.timeout);
        match (peer, &self.shared) {
            // What waits for a computer whose token has ended is answered as if it had left.
            (Some(peer), _) if !peer.caller.is_valid() => self.evict(&to),
            (Some(to), _) => self.travel(Journey {
                ticket,
                event,
                body: scoped(body, to.knows_scopes),
                to,
                patience,
                over,
            }),
            (None, Some(shared)) => self.travel_elsewhere(
                shared,
                Passage {
                    ticket,
                    to,
                    event,
                    body,
                    patience,
                    over,
                },
            ),
            (None, None) => self.settle(ticket, Outcome::Undelivered(unreachable_computer())),
        }
    }

    fn timeout(&self, event: ClientEvent, body: &Value) -> Result<Duration, ErrorBody> {
        if event != ClientEvent::ToolCall {
            return Ok(self.config.read_timeout);
        }
        let seconds = match body.get("timeout") {
            None | Some(Value::Null) => return Ok(self.config.call_timeout),
            Some(value) => value
                .as_f64()
                .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
                .ok_or_else(|| invalid("timeout", "it is a number of seconds"))?,
        };
        if seconds == 0.0 {
            return Ok(self.config.call_timeout);
        }
        let asked = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        Ok(asked.min(self.config.call_timeout_max))
    }

    fn travel(self: &Arc<Self>, journey: Journey) {
        let relay = Arc::clone(self);
        self.tasks.spawn(|stop| async move {
            let (ticket, over) = (journey.ticket, journey.over.clone());
            let size = convert::size(&journey.body);
            let to = Arc::clone(&journey.to);
            let unread = &to.unread;
            if unread.fetch_add(size, Ordering::SeqCst) > relay.config.unread_bytes_max {
                unread.fetch_sub(size, Ordering::SeqCst);
                return relay.settle(ticket, Outcome::Undelivered(busy()));
            }
            let outcome = tokio::select! { biased;
                () = over.cancelled() => None, // It has been answered without the computer.
                () = stop.cancelled() => Some(Outcome::Failed(ErrorBody::new(
                    code::INTERNAL,
                    "The server is stopping.",
                ))),
                outcome = journey.arrive(&relay) => Some(outcome),
            };
            let is_read = matches!(outcome, Some(Outcome::Answer { .. }));
            if let Some(outcome) = outcome {
                relay.settle(ticket, outcome);
            }
            if !is_read {
                // By then the connection has read it, or its heartbeat has failed.
                let heartbeat = relay.config.ping_interval + relay.config.ping_timeout;
                tokio::select! { biased;
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(heartbeat) => {}
                }
            }
            unread.fetch_sub(size, Ordering::SeqCst);
        });
    }

    /// A request is on its way to another server; a cancel that came meanwhile follows it.
    pub(super) fn has_left(&self, ticket: Ticket, to: &ConnectionId) {
        let mut floor = self.floor();
        let pending = floor.pending.get_mut(&ticket);
        let departure =
            pending.map(|pending| mem::replace(&mut pending.departure, Departure::Gone));
        if let (Some(Departure::Cancelled(notice)), Some(shared)) = (departure, &self.shared) {
            let to = to.clone();
            shared.post.put(Parcel::Forward { to, notice });
        }
    }

    pub(super) fn settle(self: &Arc<Self>, ticket: Ticket, outcome: Outcome) {
        let input = match outcome {
            Outcome::TimedOut => Input::TimedOut { ticket },
            Outcome::Undelivered(_) => Input::Undelivered { ticket },
            Outcome::Answer { .. } | Outcome::Failed(_) => Input::Answered { ticket },
        };
        // The machine never refuses an answer; one that is late has no effects.
        let _ = self.apply(input, Some(outcome));
    }

    /// Asks a computer for its configuration, because it came in or says that something has changed.
    pub(super) fn learn(self: &Arc<Self>, peer: Arc<Peer>) {
        peer.knowledge.send_replace(Knowledge::Asking);
        let computer = {
            let floor = self.floor();
            let connection = ConnectionId(peer.socket.id.to_string());
            floor
                .offices
                .member(&connection)
                .map(|member| member.name.to_string())
        };
        self.tasks.spawn(|stop| async move {
            let body = json!({
                "agent": "office", "computer": computer, "req_id": uuid::Uuid::new_v4().to_string()
            });
            let event = ClientEvent::GetConfig.name(peer.profile);
            let asked = peer
                .socket
                .timeout(LEARN_TIMEOUT)
                .emit_with_ack::<_, Value>(event, &body);
            let known = match asked {
                Err(_) => Knowledge::Nothing,
                Ok(answer) => tokio::select! { biased;
                    () = stop.cancelled() => Knowledge::Nothing,
                    answer = answer => answer.map_or(Knowledge::Nothing, |answer| Knowledge::of(&answer)),
                },
            };
            peer.knowledge.send_replace(known);
        });
    }
}

impl Journey {
    async fn arrive(&self, relay: &Relay) -> Outcome {
        if self.event == ClientEvent::ToolCall {
            let mut knowledge = self.to.knowledge.subscribe();
            let known = knowledge.wait_for(|known| !known.is_asking());
            // A computer that does not say in time decides alone.
            let _ = tokio::time::timeout(LEARN_WAIT, known).await;
            let tool = self.body["tool_name"].as_str().unwrap_or_default();
            if let Some(refused) = self.to.knowledge.borrow().refuses(tool) {
                return Outcome::Undelivered(refused);
            }
        }
        let event = self.event.name(self.to.profile);
        let sent = {
            // It leaves under the lock: a cancel comes before, and is taken along, or after, and follows it.
            let mut floor = relay.floor();
            let Some(pending) = floor.pending.get_mut(&self.ticket) else {
                return Outcome::Undelivered(unreachable_computer()); // It has been answered meanwhile.
            };
            let departure = mem::replace(&mut pending.departure, Departure::Gone);
            let socket = &self.to.socket;
            let sent = socket
                .timeout(self.patience)
                .emit_with_ack::<_, Value>(event, &self.body);
            if let Departure::Cancelled(notice) = departure
                && let Some((event, body)) = convert::notice(&notice, self.to.profile)
            {
                let _ = socket.emit(event, &body); // Where it cannot be sent, the request could not either.
            }
            sent
        };
        let answer = match sent {
            Ok(answer) => answer.await,
            Err(SendError::Serialize(_)) => {
                let words = "The request could not be written.";
                return Outcome::Undelivered(ErrorBody::new(code::INTERNAL, words));
            }
            Err(SendError::Socket(SocketError::InternalChannelFull)) => {
                return Outcome::Undelivered(busy());
            }
            Err(SendError::Socket(_)) => return Outcome::Undelivered(unreachable_computer()),
        };
        if let (ClientEvent::GetConfig, Ok(value)) = (self.event, &answer) {
            self.to.knowledge.send_replace(Knowledge::of(value));
        }
        outcome_of(answer, self.to.profile)
    }
}

/// How long the server waits for an answer. Whoever says that it waits no longer than the call may take is answered
/// within that time, or would hear nothing.
fn patience(asker: &Peer, event: ClientEvent, timeout: Duration) -> Duration {
    match (event, asker.profile) {
        (ClientEvent::ToolCall, Profile::Shipped) if !asker.knows_scopes => {
            timeout.saturating_sub((timeout / 10).min(AHEAD_MAX))
        }
        (_, _) => timeout.saturating_add(GRACE),
    }
}

/// What the acknowledgement of a computer means to its askers.
pub(super) fn outcome_of(answer: Result<Value, AckError>, from: Profile) -> Outcome {
    match answer {
        Ok(value) => Outcome::Answer { value, from },
        Err(AckError::Timeout) => Outcome::TimedOut,
        Err(AckError::Decode(_)) => {
            let words = "The computer's answer is not one JSON value.";
            Outcome::Failed(ErrorBody::new(code::INTERNAL, words))
        }
        Err(AckError::Socket(SocketError::InternalChannelFull)) => Outcome::Undelivered(busy()),
        Err(AckError::Socket(_)) => Outcome::Failed(unreachable_computer()),
    }
}

fn unroutable(refusal: &Refusal, computer: &MemberName) -> ErrorBody {
    match refusal {
        Refusal::NoSuchComputer => no_such_computer(computer.as_str()),
        other => convert::refusal(other),
    }
}

pub(super) fn no_such_computer(computer: &str) -> ErrorBody {
    let words = format!("Computer with name '{computer}' not found");
    ErrorBody::new(code::NOT_FOUND, words).with("computer_name", computer)
}

pub(super) fn busy() -> ErrorBody {
    let words = "The computer does not keep up with its requests.";
    ErrorBody::new(code::INTERNAL, words).with("reason", "busy")
}

pub(super) fn unreachable_computer() -> ErrorBody {
    ErrorBody::new(code::NOT_FOUND, "The computer cannot be reached.")
}

fn question(event: ClientEvent, body: &Value) -> Result<(MemberName, Question), ErrorBody> {
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let computer = text("computer").ok_or_else(|| invalid("computer", "it is a text"))?;
    let computer =
        MemberName::parse(computer).map_err(|error| invalid("computer", &error.to_string()))?;
    if event != ClientEvent::ToolCall {
        return Ok((computer, Question::Read));
    }
    let tool = text("tool_name").ok_or_else(|| invalid("tool_name", "it is a text"))?;
    match body.get("params") {
        None | Some(Value::Null | Value::Object(_)) => {}
        Some(_) => return Err(invalid("params", "it is an object")),
    }
    let request = match body.get("req_id") {
        None | Some(Value::Null) => return Ok((computer, Question::Read)),
        Some(id) => id
            .as_str()
            .ok_or_else(|| invalid("req_id", "it is a text"))?,
    };
    let request =
        RequestId::parse(request).map_err(|error| invalid("req_id", &error.to_string()))?;
    let mut hasher = DefaultHasher::new();
    let params = body.get("params").unwrap_or(&Value::Null);
    (computer.as_str(), tool, params).hash(&mut hasher);
    let fingerprint = hasher.finish();
    Ok((
        computer,
        Question::Call {
            request,
            fingerprint,
        },
    ))
}

/// Only computers that asked for it are told whose agent a call comes from; to others a call looks as its agent sent it.
pub(super) fn scoped(mut body: Value, knows_scopes: bool) -> Value {
    if let (false, Value::Object(fields)) = (knows_scopes, &mut body) {
        fields.remove(CALL_SCOPE);
    }
    body
}

/// A word for whose agent asks, from which nobody learns who that is.
fn scope_word(scope: [&str; 3]) -> String {
    let hash = Sha256::digest(scope.join("\n"));
    wire::hex(&hash[..8])
}

/// Computers of every version find the fields they insist on; everything else travels as it came.
fn complete(event: ClientEvent, mut body: Value, timeout: Duration) -> Value {
    if !body["req_id"].is_string() {
        body["req_id"] = json!(uuid::Uuid::new_v4().to_string());
    }
    if event == ClientEvent::ToolCall {
        if !body["params"].is_object() {
            body["params"] = json!({});
        }
        let asked = body["timeout"].as_f64();
        if asked.is_none_or(|seconds| seconds <= 0.0 || seconds > timeout.as_secs_f64()) {
            body["timeout"] = json!(timeout.as_secs());
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_travels_and_what_is_missing_is_filled_in() {
        let body = json!({"computer": "pc", "tool_name": "t", "made_up": [1]});
        let sent = complete(ClientEvent::ToolCall, body, Duration::from_secs(60));
        assert_eq!(sent["made_up"], json!([1]));
        assert_eq!(
            (&sent["params"], &sent["timeout"]),
            (&json!({}), &json!(60))
        );
        assert!(sent["req_id"].is_string());
        let body = json!({"computer": "pc", "timeout": 7, "req_id": "r", "params": {"a": 1}});
        let sent = complete(ClientEvent::ToolCall, body.clone(), Duration::from_secs(7));
        assert_eq!(sent, body);
    }

    #[test]
    fn a_request_that_cannot_be_routed_says_which_field_is_wrong() {
        for (body, field) in [
            (json!({}), "computer"),
            (json!({"computer": 1}), "computer"),
            (json!({"computer": "pc"}), "tool_name"),
            (
                json!({"computer": "pc", "tool_name": "t", "params": []}),
                "params",
            ),
            (
                json!({"computer": "pc", "tool_name": "t", "req_id": 7}),
                "req_id",
            ),
        ] {
            let error = question(ClientEvent::ToolCall, &body).unwrap_err();
            assert_eq!((error.code, &error.details["field"]), (400, &json!(field)));
        }
    }
}
