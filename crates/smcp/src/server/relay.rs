//! The relay's state behind one lock, and what is done with the machine's effects.
//!
//! Notices are sent under the lock, so that everybody hears them in the order in which things happened;
//! acknowledgements, which may be large, are sent after it.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicUsize},
};

use domain::office::{Allowance, ConnectionId, Effect, Input, Keep, Offices, Refusal, Ticket};
use platform::Tasks;
use serde_json::Value;
use socketioxide::extract::{AckSender, SocketRef};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wire::smcp::{ClientEvent, ErrorBody, Event, PROTOCOL, Profile, ServerEvent, Version};

use super::{
    OfficeConfig, Seat,
    ack::{self, Ack, Form},
    gate,
    knowledge::Knowledge,
    outcome::Outcome,
};
use crate::{
    Audit, Authenticator, Caller, Refused, clock,
    convert::{self, code},
};

/// Answers above this are not kept for a repetition: the repetition is told so.
const KEPT_ANSWER_MAX: usize = 256 * 1024;

/// Bytes of an event's name that are repeated in an answer or in the audit.
const EVENT_SHOWN_MAX: usize = 64;

pub(super) struct Relay {
    pub(super) config: OfficeConfig,
    authenticate: Authenticator,
    audit: Audit,
    pub(super) tasks: Tasks,
    floor: Mutex<Floor>,
    /// Counts what has happened, for those who look at the seats.
    changes: watch::Sender<u64>,
}

/// Everything that the lock protects.
pub(super) struct Floor {
    pub(super) offices: Offices,
    pub(super) peers: HashMap<ConnectionId, Peer>,
    pub(super) pending: HashMap<Ticket, Pending>,
    answers: HashMap<Ticket, (ClientEvent, Option<Arc<Outcome>>)>,
}

/// A connection that was let in.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) socket: SocketRef,
    pub(super) profile: Profile,
    pub(super) version: Option<String>,
    pub(super) caller: Caller,
    pub(super) knowledge: watch::Sender<Knowledge>,
    /// Bytes of requests that it may not have read yet.
    pub(super) unread: Arc<AtomicUsize>,
    allowance: Arc<Mutex<(Allowance, bool)>>,
}

/// A request under way, and who waits for it.
pub(super) struct Pending {
    pub(super) event: ClientEvent,
    pub(super) askers: Vec<Asker>,
    /// Cancelled when it has been answered without the computer.
    pub(super) over: CancellationToken,
}

pub(super) struct Asker {
    pub(super) connection: ConnectionId,
    pub(super) ack: AckSender,
    pub(super) profile: Profile,
}

/// What is left to do when the lock is released.
#[derive(Default)]
pub(super) struct Afterwards {
    replies: Vec<(Asker, ClientEvent, Arc<Outcome>)>,
    closing: Vec<SocketRef>,
    silent: Vec<ConnectionId>,
    pub(super) learn: Vec<Peer>,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").finish_non_exhaustive()
    }
}

pub(super) fn id(socket: &SocketRef) -> ConnectionId {
    ConnectionId(socket.id.to_string())
}

impl Relay {
    pub(super) fn new(
        config: OfficeConfig,
        authenticate: Authenticator,
        audit: Audit,
        tasks: Tasks,
    ) -> Self {
        let floor = Mutex::new(Floor {
            offices: Offices::new(config.limits),
            peers: HashMap::new(),
            pending: HashMap::new(),
            answers: HashMap::new(),
        });
        Self {
            config,
            authenticate,
            audit,
            tasks,
            floor,
            changes: watch::Sender::default(),
        }
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn floor(&self) -> MutexGuard<'_, Floor> {
        self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides whether a connection may come in, before it is told that it is connected.
    pub(super) fn admit(&self, socket: &SocketRef, auth: Option<&Value>) -> Result<(), String> {
        let refuse = |code: i64, reason: &str| {
            self.record(
                &id(socket),
                None,
                "connect",
                None,
                &ErrorBody::new(code, reason),
            );
            Err(reason.to_owned())
        };
        if let Some(words) = auth.and_then(version_problem) {
            return refuse(code::INVALID, &words);
        }
        match (self.authenticate)(&token(socket, auth).unwrap_or_default()) {
            Some(caller) => {
                socket.extensions.insert(caller);
                Ok(())
            }
            None => refuse(
                code::FORBIDDEN,
                "Joining needs a token that this server knows.",
            ),
        }
    }

    pub(super) fn connected(&self, socket: &SocketRef) {
        let Some(caller) = socket.extensions.get::<Caller>() else {
            return; // Nobody comes here without having been admitted.
        };
        let (profile, version) = gate::profile(&socket.req_parts().uri);
        let allowance = Allowance::new(
            self.config.events_per_second,
            self.config.events_burst,
            clock::now(),
        );
        let connection = id(socket);
        let connected = Input::Connected {
            connection: connection.clone(),
            caller: caller.name.clone(),
        };
        let peer = Peer {
            socket: socket.clone(),
            profile,
            version,
            caller,
            knowledge: watch::Sender::default(),
            unread: Arc::default(),
            allowance: Arc::new(Mutex::new((allowance, false))),
        };
        let mut floor = self.floor();
        floor.peers.insert(connection, peer);
        let effects = floor.offices.apply(connected, clock::now());
        drop(floor);
        debug_assert!(effects.is_ok(), "a connection is never refused here");
    }

    pub(super) fn lost(self: &Arc<Self>, socket: &SocketRef) {
        self.lose(&id(socket));
    }

    pub(super) fn lose(self: &Arc<Self>, connection: &ConnectionId) {
        let lost = Input::Lost {
            connection: connection.clone(),
        };
        // The machine never refuses a loss.
        let _ = self.apply(lost, None);
        self.floor().peers.remove(connection);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Gives the machine an input, performs the effects, and returns them.
    pub(super) fn apply(
        self: &Arc<Self>,
        input: Input,
        outcome: Option<Outcome>,
    ) -> Result<(), Refusal> {
        let mut floor = self.floor();
        let effects = floor.offices.apply(input, clock::now())?;
        let afterwards = floor.perform(effects, outcome);
        drop(floor);
        self.finish(afterwards);
        self.changes.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Does what may take long or may lock again.
    pub(super) fn finish(self: &Arc<Self>, afterwards: Afterwards) {
        let mut silent = afterwards.silent;
        for (asker, event, outcome) in afterwards.replies {
            let said = Ack::Value(outcome.in_profile(event, asker.profile));
            if ack::send(asker.ack, &said).is_err() {
                silent.push(asker.connection);
            }
        }
        for peer in afterwards.learn {
            self.learn(peer);
        }
        for socket in afterwards.closing {
            let _ = socket.disconnect(); // It is gone, or its heartbeat will find that it does not read.
        }
        for connection in silent {
            self.drop_reader(&connection);
        }
    }

    /// Ends a connection that does not read what it is sent: its office must not wait for it.
    pub(super) fn drop_reader(self: &Arc<Self>, connection: &ConnectionId) {
        let peer = self.floor().peers.get(connection).cloned();
        if let Some(peer) = peer.filter(|peer| peer.socket.connected()) {
            let error = ErrorBody::new(code::FORBIDDEN, "The connection does not read.");
            self.record(connection, Some(&peer.caller), "unread", None, &error);
            let _ = peer.socket.disconnect(); // Its queue is full: the next heartbeat closes it.
        }
        self.lose(connection);
    }

    /// Takes one event; every path through here ends in an acknowledgement, now or later.
    pub(super) fn receive(
        self: &Arc<Self>,
        socket: &SocketRef,
        name: &str,
        body: Option<Value>,
        ack: AckSender,
    ) {
        let connection = id(socket);
        let Some(peer) = self.floor().peers.get(&connection).cloned() else {
            return; // It has been closed for not reading.
        };
        let event = Event::parse(name);
        let form = match event {
            Event::Server(ServerEvent::JoinOffice | ServerEvent::LeaveOffice) => Form::Pair,
            Event::Server(_) | Event::Client(_) | Event::Notify | Event::Unknown => Form::Plain,
        };
        let request = Incoming {
            relay: self,
            connection,
            peer,
            name,
            ack,
            form,
        };
        if let Err(wait) = request.peer.spend() {
            return request.refuse_for_rate(wait);
        }
        let body = match body {
            Some(body @ Value::Object(_)) => body,
            Some(_) | None => {
                let error = ErrorBody::new(code::INVALID, "An event carries one JSON object.");
                return request.refuse(&error);
            }
        };
        match event {
            Event::Client(event) => self.ask(request, event, body),
            Event::Server(ServerEvent::JoinOffice) => self.join(request, &body),
            Event::Server(ServerEvent::LeaveOffice) => self.leave(request, &body),
            Event::Server(ServerEvent::ListRoom) => self.list_room(request, &body),
            Event::Server(ServerEvent::ToolCallCancel) => self.cancel(request, &body),
            Event::Server(ServerEvent::Update(change)) => self.announce(request, &body, change),
            Event::Notify => {
                let error = ErrorBody::new(code::FORBIDDEN, "Only the server sends notices.");
                request.refuse(&error);
            }
            Event::Unknown => {
                let shown: String = name.chars().take(EVENT_SHOWN_MAX).collect();
                let error = ErrorBody::new(code::INVALID, "There is no such event.");
                request.refuse(&error.with("event", shown));
            }
        }
    }

    pub(super) fn record(
        &self,
        connection: &ConnectionId,
        caller: Option<&Caller>,
        event: &str,
        office: Option<String>,
        error: &ErrorBody,
    ) {
        (self.audit)(Refused {
            connection: connection.0.clone(),
            caller: caller.map(|caller| caller.name.clone()),
            event: event.chars().take(EVENT_SHOWN_MAX).collect(),
            office,
            code: error.code,
            reason: error.message.clone(),
        });
    }

    pub(super) fn seats(&self) -> Vec<Seat> {
        let floor = self.floor();
        let mut seats: Vec<Seat> = floor
            .peers
            .iter()
            .filter_map(|(connection, peer)| {
                let member = floor.offices.member(connection)?;
                Some(Seat {
                    office: member.office.to_string(),
                    role: member.role.as_str(),
                    name: member.name.to_string(),
                    connection: connection.0.clone(),
                    caller: peer.caller.name.clone(),
                })
            })
            .collect();
        seats.sort_by(|a, b| (&a.office, a.role, &a.name).cmp(&(&b.office, b.role, &b.name)));
        seats
    }
}

impl Peer {
    /// Spends one event, or says how long to wait and whether this is the first refusal in a row.
    fn spend(&self) -> Result<(), (std::time::Duration, bool)> {
        let mut allowance = self
            .allowance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let spent = allowance.0.spend(clock::now());
        let was_refused = std::mem::replace(&mut allowance.1, spent.is_err());
        spent.map_err(|wait| (wait, !was_refused))
    }
}

impl Floor {
    fn peer(&self, connection: &ConnectionId) -> Option<&Peer> {
        self.peers.get(connection)
    }

    /// Performs what must happen in order, and returns the rest.
    pub(super) fn perform(&mut self, effects: Vec<Effect>, outcome: Option<Outcome>) -> Afterwards {
        let mut afterwards = Afterwards::default();
        let outcome = outcome.map(Arc::new);
        for effect in effects {
            match effect {
                Effect::Tell { to, notice } => {
                    for connection in to {
                        let Some(peer) = self.peer(&connection) else {
                            continue; // It is being closed.
                        };
                        let said = convert::notice(&notice, peer.profile);
                        if let Some((event, body)) = said
                            && peer.socket.emit(event, &body).is_err()
                        {
                            afterwards.silent.push(connection);
                        }
                    }
                }
                Effect::Evict { connection } => {
                    let socket = self.peer(&connection).map(|peer| peer.socket.clone());
                    afterwards.closing.extend(socket);
                }
                Effect::Learn { connection } => {
                    afterwards.learn.extend(self.peer(&connection).cloned());
                }
                Effect::Deliver { ticket, keep } => {
                    if let Some(outcome) = &outcome {
                        self.settle(ticket, outcome, keep, &mut afterwards);
                    }
                }
                Effect::Settle {
                    ticket,
                    ending,
                    keep,
                } => {
                    let outcome = Arc::new(Outcome::Failed(convert::ending(ending)));
                    self.settle(ticket, &outcome, keep, &mut afterwards);
                }
                Effect::Forget { ticket } => {
                    self.answers.remove(&ticket);
                }
                // Whoever asks performs these three, because it holds the request.
                Effect::Forward { .. } | Effect::Join { .. } | Effect::Replay { .. } => {}
            }
        }
        afterwards
    }

    fn settle(
        &mut self,
        ticket: Ticket,
        outcome: &Arc<Outcome>,
        keep: Keep,
        afterwards: &mut Afterwards,
    ) {
        let Some(pending) = self.pending.remove(&ticket) else {
            return;
        };
        pending.over.cancel();
        if keep == Keep::Yes {
            let kept = outcome
                .is_small(KEPT_ANSWER_MAX)
                .then(|| Arc::clone(outcome));
            self.answers.insert(ticket, (pending.event, kept));
        }
        for asker in pending.askers {
            let reply = (asker, pending.event, Arc::clone(outcome));
            afterwards.replies.push(reply);
        }
    }

    /// The answer that was given to this request.
    pub(super) fn answer(&self, ticket: Ticket) -> (ClientEvent, Arc<Outcome>) {
        let too_large = || {
            let words = "This request was answered; its answer was too large to be kept.";
            Arc::new(Outcome::Failed(ErrorBody::new(code::INTERNAL, words)))
        };
        match self.answers.get(&ticket) {
            Some((event, Some(outcome))) => (*event, Arc::clone(outcome)),
            Some((event, None)) => (*event, too_large()),
            None => (ClientEvent::ToolCall, too_large()),
        }
    }
}

impl Afterwards {
    pub(super) fn reply(&mut self, asker: Asker, event: ClientEvent, outcome: Arc<Outcome>) {
        self.replies.push((asker, event, outcome));
    }
}

/// One event with everything that an answer to it needs.
pub(super) struct Incoming<'a> {
    relay: &'a Arc<Relay>,
    pub(super) connection: ConnectionId,
    pub(super) peer: Peer,
    pub(super) name: &'a str,
    ack: AckSender,
    form: Form,
}

impl<'a> Incoming<'a> {
    /// A request whose answer took a while.
    pub(super) fn again(
        relay: &'a Arc<Relay>,
        connection: ConnectionId,
        peer: Peer,
        name: &'a str,
        ack: AckSender,
    ) -> Self {
        Self {
            relay,
            connection,
            peer,
            name,
            ack,
            form: Form::Pair,
        }
    }

    pub(super) fn answer(self, said: &Ack) {
        if ack::send(self.ack, said).is_err() {
            self.relay.drop_reader(&self.connection);
        }
    }

    /// Refuses it, and writes that down.
    pub(super) fn refuse(self, error: &ErrorBody) {
        let office = {
            let floor = self.relay.floor();
            let member = floor.offices.member(&self.connection);
            member.map(|member| member.office.to_string())
        };
        let caller = Some(&self.peer.caller);
        self.relay
            .record(&self.connection, caller, self.name, office, error);
        self.refuse_quietly(error);
    }

    fn refuse_quietly(self, error: &ErrorBody) {
        if ack::send_error(self.ack, error, self.form, self.peer.profile).is_err() {
            self.relay.drop_reader(&self.connection);
        }
    }

    /// A flood is written down once, not with every event.
    fn refuse_for_rate(self, (wait, is_first): (std::time::Duration, bool)) {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let error = ErrorBody::new(code::FORBIDDEN, "Too many events: slow down.")
            .with("reason", "rate")
            .with("retry_after_ms", millis);
        if is_first {
            self.refuse(&error);
        } else {
            self.refuse_quietly(&error);
        }
    }

    /// The acknowledgement, for somebody who answers later.
    pub(super) fn into_asker(self) -> Asker {
        Asker {
            connection: self.connection,
            ack: self.ack,
            profile: self.peer.profile,
        }
    }
}

/// The token: in the handshake's auth, or in a header as older clients and proxies send it.
fn token(socket: &SocketRef, auth: Option<&Value>) -> Option<String> {
    let text = |key: &str| auth?.get(key)?.as_str().map(str::to_owned);
    let headers = &socket.req_parts().headers;
    let header = |key: &str| headers.get(key)?.to_str().ok();
    text("token")
        .or_else(|| header("access_token").map(str::to_owned))
        .or_else(|| {
            let bearer = header("authorization")?.strip_prefix("Bearer ")?;
            Some(bearer.trim().to_owned())
        })
}

/// Why the version that a handshake or a first event names cannot be served.
pub(super) fn version_problem(handshake: &Value) -> Option<String> {
    let text = |key: &str| handshake.get(key).and_then(Value::as_str);
    if let Some(protocol) = text("protocol")
        && protocol != PROTOCOL
    {
        return Some(format!("This server speaks {PROTOCOL} and nothing else."));
    }
    let version = text("version")?;
    match Version::parse(version) {
        Ok(version) if version.is_seed() => None,
        Ok(version) => Some(format!(
            "This server speaks versions 0.x of {PROTOCOL}, not {version}."
        )),
        Err(error) => Some(error.to_string()),
    }
}
