//! The relay's state behind one lock, and what is done with the machine's effects.
//!
//! Notices are sent under the lock, so that everybody hears them in the order in which things happened;
//! acknowledgements, which may be large, are sent after it.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize},
    },
};

use axum::http::header;
use domain::office::{Allowance, ConnectionId, Input, Member, Refusal};
use platform::Tasks;
use serde_json::Value;
use tokio::{sync::watch, time::MissedTickBehavior};
use wire::smcp::{
    CALL_SCOPE, ClientEvent, ErrorBody, Event, PROTOCOL, Profile, ServerEvent, Version,
};

use super::{
    OfficeConfig, Seat,
    ack::{self, Ack, Form},
    bus::{AckSender, SocketRef},
    floor::{Afterwards, Floor, Peer},
    gate,
    guests::Guest,
    incoming::Incoming,
    outcome::Outcome,
    shared::{Parcel, Shared},
};
use crate::{
    Audit, Authenticator, Caller, Refused, clock,
    convert::{self, code},
};

/// What whoever comes with a token that was revoked or has expired is told.
const TOKEN_ENDED: &str = "The token is not valid any more.";

/// Bytes of an event's name that are repeated in an answer or in the audit.
const EVENT_SHOWN_MAX: usize = 64;

pub(super) struct Relay {
    pub(super) config: OfficeConfig,
    authenticate: Authenticator,
    audit: Audit,
    pub(super) tasks: Tasks,
    /// The other servers, if there are any.
    pub(super) shared: Option<Arc<Shared>>,
    floor: Mutex<Floor>,
    /// Counts what has happened, for those who look at the seats.
    changes: watch::Sender<u64>,
}

/// Whether a connection said in its handshake that it tells calls apart by their scope.
#[derive(Debug, Clone, Copy, Default)]
struct KnowsScopes(bool);

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
        shared: Option<Arc<Shared>>,
    ) -> Self {
        let post = shared.as_ref().map(|shared| shared.post.clone());
        let floor = Mutex::new(Floor::new(config.limits, post));
        Self {
            config,
            authenticate,
            audit,
            tasks,
            shared,
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
        let guest = socket.req_parts().extensions.get::<Arc<Guest>>();
        let refuse = |code: i64, reason: &str| {
            if guest.is_none_or(|guest| guest.is_worth_a_line()) {
                let error = ErrorBody::new(code, reason);
                self.record(&id(socket), None, "connect", None, &error);
            }
            Err(reason.to_owned())
        };
        if let Some(words) = auth.and_then(version_problem) {
            return refuse(code::INVALID, &words);
        }
        match (self.authenticate)(&token(socket, auth).unwrap_or_default()) {
            Some(caller) => {
                if let Some(guest) = guest {
                    guest.let_in();
                }
                let wants = auth.and_then(|auth| auth.get(CALL_SCOPE));
                let knows_scopes = KnowsScopes(wants == Some(&Value::Bool(true)));
                socket.extensions.insert(knows_scopes);
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
        let knows_scopes = socket.extensions.get::<KnowsScopes>().unwrap_or_default();
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
        let peer = Arc::new(Peer {
            socket: socket.clone(),
            profile,
            version,
            caller,
            knowledge: watch::Sender::default(),
            revision: AtomicU64::new(0),
            unread: AtomicUsize::new(0),
            knows_scopes: knows_scopes.0,
            answers_probes: knows_scopes.0 || is_python(socket),
            allowance: Mutex::new((allowance, false)),
        });
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
        let mover = self.mover(&floor, &input);
        let effects = floor.offices.apply(input, clock::now())?;
        let afterwards = floor.perform(effects, outcome);
        if let Some((connection, before)) = mover {
            self.moved(&floor, connection, before);
        }
        drop(floor);
        self.finish(afterwards);
        self.changes.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Whose place an input may change, and what it was, where other servers must know of it.
    fn mover(&self, floor: &Floor, input: &Input) -> Option<(ConnectionId, Option<Member>)> {
        self.shared.as_ref()?;
        let connection = match input {
            Input::Join { connection, .. }
            | Input::Leave { connection, .. }
            | Input::Lost { connection } => connection,
            Input::Connected { .. }
            | Input::Ask { .. }
            | Input::AskElsewhere { .. }
            | Input::Answered { .. }
            | Input::Undelivered { .. }
            | Input::TimedOut { .. }
            | Input::Cancel { .. }
            | Input::CancelCall { .. }
            | Input::Announce { .. }
            | Input::Tick => return None,
        };
        let before = floor.offices.member(connection).cloned();
        Some((connection.clone(), before))
    }

    /// Other servers find a member where it is now, and not where it was.
    fn moved(&self, floor: &Floor, connection: ConnectionId, before: Option<Member>) {
        let after = floor.offices.member(&connection);
        let (Some(shared), true) = (&self.shared, before.as_ref() != after) else {
            return;
        };
        let peer = floor.peers.get(&connection);
        if let Some(member) = before {
            if let Some(peer) = peer {
                shared.leave_rooms(&peer.socket, peer.profile, &member.office);
            }
            let connection = connection.clone();
            shared.post.put(Parcel::Departed { connection, member });
        }
        if let (Some(peer), Some(member)) = (peer, after) {
            shared.enter_rooms(peer, &member.office);
        }
    }

    /// Does what may take long or may lock again.
    pub(super) fn finish(self: &Arc<Self>, afterwards: Afterwards) {
        let mut silent = afterwards.silent;
        for (asker, event, outcome) in afterwards.replies {
            let told = outcome.in_profile(event, asker.profile);
            let said = Ack::Value(match (event, asker.profile) {
                (ClientEvent::ToolCall, Profile::Shipped) if !asker.is_ours => {
                    convert::for_released(told)
                }
                (_, _) => told,
            });
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
            let _ = peer.socket.clone().disconnect(); // Its queue is full: the next heartbeat closes it.
        }
        self.lose(connection);
    }

    /// Forgets what is old and closes what is not allowed any more, again and again.
    pub(super) fn keep_sweeping(self: &Arc<Self>) {
        let relay = Arc::clone(self);
        self.tasks.spawn(|stop| async move {
            let mut sweeps = tokio::time::interval(relay.config.sweep_every);
            sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! { biased;
                    () = stop.cancelled() => return,
                    _ = sweeps.tick() => relay.sweep(),
                }
            }
        });
    }

    fn sweep(self: &Arc<Self>) {
        let mut floor = self.floor();
        let forgotten = floor.offices.apply(Input::Tick, clock::now());
        let afterwards = floor.perform(forgotten.unwrap_or_default(), None);
        let callers: Vec<(ConnectionId, Caller)> = floor
            .peers
            .iter()
            .map(|(connection, peer)| (connection.clone(), peer.caller.clone()))
            .collect();
        drop(floor);
        self.finish(afterwards);
        for (connection, caller) in callers {
            if !caller.is_valid() {
                let error = ErrorBody::new(code::FORBIDDEN, TOKEN_ENDED);
                self.record(&connection, Some(&caller), "sweep", None, &error);
                self.evict(&connection);
            }
        }
    }

    /// Closes a connection that has lost its right or its place; it may come back and be told so.
    pub(super) fn evict(self: &Arc<Self>, connection: &ConnectionId) {
        let peer = self.floor().peers.get(connection).cloned();
        if let Some(peer) = peer {
            let _ = peer.socket.clone().disconnect(); // It is gone, or its heartbeat will find that it does not read.
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
        let form = form(event, peer.knows_scopes);
        let request = Incoming::new(self, connection, peer, name, ack, form);
        if !request.peer.caller.is_valid() {
            let connection = request.connection.clone();
            request.refuse(&ErrorBody::new(code::FORBIDDEN, TOKEN_ENDED));
            return self.evict(&connection);
        }
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
            Event::Server(ServerEvent::ToolCallProgress) => self.progress(request, &body),
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

    /// Refuses an event that can neither be taken nor wait.
    pub(super) fn turn_away(self: &Arc<Self>, socket: &SocketRef, name: &str, ack: AckSender) {
        let connection = id(socket);
        let peer = self.floor().peers.get(&connection).cloned();
        let is_ours = peer.as_ref().is_some_and(|peer| peer.knows_scopes);
        let form = form(Event::parse(name), is_ours);
        let Some(peer) = peer else {
            let error = ErrorBody::new(
                code::FORBIDDEN,
                "Too many events: wait until you are let in.",
            );
            let (profile, _) = gate::profile(&socket.req_parts().uri);
            let _ = ack::send_error(ack, &error, form, profile); // It floods us, and may not read.
            return;
        };
        let refused = peer.overflow();
        Incoming::new(self, connection, peer, name, ack, form).refuse_for_rate(refused);
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

    #[cfg(test)]
    pub(super) fn holds(&self) -> super::Holds {
        let floor = self.floor();
        super::Holds {
            connections: floor.peers.len(),
            requests: floor.pending.len(),
        }
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

/// Whether it is a client of the family that acknowledges whatever it is asked, also what it has no handler for. Of others
/// silence says nothing.
fn is_python(socket: &SocketRef) -> bool {
    let agent = socket.req_parts().headers.get(header::USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok());
    agent.is_some_and(|agent| agent.to_ascii_lowercase().contains("python"))
}

/// Where the acknowledgement of an event goes. Members of ours tell errors from results by themselves.
fn form(event: Event, is_ours: bool) -> Form {
    match event {
        Event::Server(ServerEvent::JoinOffice | ServerEvent::LeaveOffice) => Form::Pair,
        Event::Client(ClientEvent::ToolCall) if !is_ours => Form::Result,
        Event::Server(_) | Event::Client(_) | Event::Notify | Event::Unknown => Form::Plain,
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
