//! The sessions of one connection: where what the agent tells goes, and what is known of each.

mod session;

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use domain::turn::{EventKind, OptionKind, Raw, ToolCall, ToolUpdate};
use engine::{Lent, SessionSink};
use serde_json::{Value, value::RawValue};
use tokio_util::sync::CancellationToken;

use crate::{
    asking::Asking, convert, grants::Grants, lenders::Lenders, members::Members, relay::Relay,
    tools::KnownTools,
};

use session::Session;

/// Notifications held for a session whose id is still on its way to us: what agents announce at the start.
const EARLY_MAX: usize = 64;

/// Bytes of them; the largest announcements are tens of kilobytes.
const EARLY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Sessions that are remembered after they were closed: an agent speaks of one for a moment at most.
const PAST_MAX: usize = 1024;

/// What a session starts with.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) sink: SessionSink,
    pub(crate) cwd: PathBuf,
}

/// Whether an agent's words are new, or what it said before and repeats while it takes up a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    New,
    Repeated,
    /// It has said that the session is taken up, but may not have finished repeating.
    Settling,
}

/// When an agent repeats what was said in a session that it takes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Before it answers, as the protocol wants it.
    InTime,
    /// Also after it.
    Late,
}

/// What an agent has repeated of a session so far.
#[derive(Clone, Copy, Debug, Default)]
struct Repetition {
    /// How many updates there were.
    length: u64,
    /// The last of them was a person's, so the agent's answer to it should follow.
    unanswered: bool,
}

/// What to do with a notification for a session that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// A session is being opened, and this may be it.
    Hold,
    Ignore,
}

/// A request for permission, with everything known of its tool call.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) tool: ToolCall,
    pub(crate) asking: Asking,
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<String, Session>,
    early: VecDeque<Early>,
    early_bytes: usize,
    /// Sessions of ours that are no longer open: what an agent asks in one of them is nobody else's.
    past: VecDeque<String>,
}

#[derive(Debug)]
struct Early {
    session: String,
    method: String,
    params: Box<RawValue>,
}

/// The session that a message names.
pub(crate) fn named_session(params: Option<&RawValue>) -> Option<String> {
    // Of a name that comes twice the last value counts, here and in what is passed on.
    Members::read(params?.get())?.text("sessionId")
}

impl Sessions {
    /// Enters a session; what came for it before its id was known follows at once.
    pub(crate) fn enter(&self, id: &str, start: Start, words: Words) {
        let mut table = self.lock();
        let mut session = Session {
            asking: Asking {
                sink: start.sink,
                cancelled: CancellationToken::new(),
                stopping: CancellationToken::new(),
            },
            cwd: start.cwd,
            words,
            repetition: Repetition::default(),
            tools: KnownTools::default(),
            cost_before: (words == Words::New).then_some(0.0),
            cost: None,
            grants: Grants::default(),
            said: None,
            lenders: Lenders::default(),
        };
        let early = std::mem::take(&mut table.early);
        let (own, others): (VecDeque<_>, VecDeque<_>) =
            early.into_iter().partition(|early| early.session == id);
        table.early = others;
        for early in own {
            table.early_bytes -= early.params.get().len();
            session.tell(&early.method, &early.params);
        }
        table.open.insert(id.to_owned(), session);
    }

    /// The agent says that it has taken up a session. One that was not done repeating is listened to a while longer.
    pub(crate) fn taken_up(&self, id: &str, repeats: Repeats) {
        if let Some(session) = self.lock().open.get_mut(id)
            && session.words != Words::New
        {
            session.words = match repeats {
                Repeats::InTime if !session.repetition.unanswered => Words::New,
                Repeats::InTime | Repeats::Late => Words::Settling,
            };
        }
    }

    /// How much was repeated of a session that settles; nothing of any other.
    pub(crate) fn settling(&self, id: &str) -> Option<u64> {
        let table = self.lock();
        let session = table.open.get(id)?;
        (session.words == Words::Settling).then_some(session.repetition.length)
    }

    /// The agent has finished repeating what was said before.
    pub(crate) fn settled(&self, id: &str) {
        if let Some(session) = self.lock().open.get_mut(id) {
            session.words = Words::New;
        }
    }

    /// Forgets a session, and cancels what it waits for.
    pub(crate) fn remove(&self, id: &str) {
        let removed = {
            let mut table = self.lock();
            let removed = table.open.remove(id);
            if removed.is_some() {
                table.past.push_back(id.to_owned());
                let surplus = table.past.len().saturating_sub(PAST_MAX);
                table.past.drain(..surplus);
            }
            removed
        };
        if let Some(session) = removed {
            session.asking.cancelled.cancel();
        }
    }

    /// No session is being opened any more, so nobody will claim what was held.
    pub(crate) fn forget_early(&self) {
        let mut table = self.lock();
        table.early.clear();
        table.early_bytes = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().open.len()
    }

    /// The working folder of a session.
    pub(crate) fn cwd(&self, id: &str) -> Option<PathBuf> {
        self.lock().open.get(id).map(|session| session.cwd.clone())
    }

    /// Passes a notification to its session; gives back where it went.
    pub(crate) fn tell(
        &self,
        method: &str,
        params: Option<&RawValue>,
        unknown: Unknown,
    ) -> Option<SessionSink> {
        let (Some(params), Some(id)) = (params, named_session(params)) else {
            self.tell_everybody(method, params);
            return None;
        };
        let mut table = self.lock();
        if let Some(session) = table.open.get_mut(&id) {
            session.tell(method, params);
            return Some(session.asking.sink.clone());
        }
        let length = params.get().len();
        let room = table.early.len() < EARLY_MAX && table.early_bytes + length <= EARLY_BYTES_MAX;
        if unknown == Unknown::Hold && room {
            table.early_bytes += length;
            table.early.push_back(Early {
                session: id,
                method: method.to_owned(),
                params: params.to_owned(),
            });
        } else {
            tracing::debug!(method, session = %id, "ignored a notification for an unknown session");
        }
        None
    }

    /// What belongs to no session is for every client that is there.
    fn tell_everybody(&self, method: &str, params: Option<&RawValue>) {
        let mut told: HashMap<u64, Relay> = HashMap::new();
        let table = self.lock();
        let (working, resting): (Vec<_>, Vec<_>) = table
            .open
            .values()
            .partition(|session| session.lenders.is_in_turn());
        // In the room of the session that is at work, at its place among the updates of that one.
        for session in working.into_iter().chain(resting) {
            let after = session.asking.sink.last_seq();
            for client in session.lenders.present() {
                let client = client.clone();
                told.entry(client.client).or_insert(Relay { client, after });
            }
        }
        drop(table);
        if told.is_empty() {
            tracing::debug!(method, "ignored a notification that names no session");
        }
        for relay in told.into_values() {
            relay.tell(method, params);
        }
    }

    /// Whose session a request is about that names this one: an agent may open sessions of its own within a turn, and what it
    /// asks in one of those is asked for whoever is at work. With more than one at work nobody can tell.
    pub(crate) fn parent(&self, id: &str) -> Option<String> {
        let table = self.lock();
        if table.open.contains_key(id) || table.past.iter().any(|past| past == id) {
            return None;
        }
        table.at_work()
    }

    /// The session that is at work, if that is one alone: whoever is asked something that names no session is asked there.
    pub(crate) fn at_work(&self) -> Option<String> {
        self.lock().at_work()
    }

    /// Lets a client stand in for this machine in a session.
    pub(crate) fn lend(&self, id: &str, client: Lent) {
        if let Some(session) = self.lock().open.get_mut(id) {
            session.lenders.add(client);
        }
    }

    /// The way to a client that takes requests of this method. One that names no session goes to whoever is at work, or else to
    /// whoever is there.
    pub(crate) fn relay(&self, id: Option<&str>, method: &str) -> Option<Relay> {
        let table = self.lock();
        let relay = |session: &Session| {
            let client = session.lenders.taking(method)?.clone();
            let after = session.asking.sink.last_seq();
            Some(Relay { client, after })
        };
        match id {
            Some(id) => relay(table.open.get(id)?),
            None => {
                let mut working = table.open.values().filter(|it| it.lenders.is_in_turn());
                let found = working.find_map(relay);
                found.or_else(|| table.open.values().find_map(relay))
            }
        }
    }

    /// Remembers what the agent said when the session was opened.
    pub(crate) fn remember(&self, id: &str, said: &RawValue) {
        if let Some(session) = self.lock().open.get_mut(id) {
            session.said = Some(convert::raw(said));
        }
    }

    /// The session has another mode than the agent said at first.
    pub(crate) fn remember_mode(&self, id: &str, mode: &str) {
        if let Some(session) = self.lock().open.get_mut(id) {
            session.remember_mode(mode);
        }
    }

    /// The session has other settings than the agent said at first.
    pub(crate) fn remember_options(&self, id: &str, options: &Value) {
        if let Some(session) = self.lock().open.get_mut(id) {
            session.remember_options(options);
        }
    }

    pub(crate) fn said(&self, id: &str) -> Option<Raw> {
        self.lock().open.get(id)?.said.clone()
    }

    /// Completes a request for permission.
    pub(crate) fn asked(&self, id: &str, update: ToolUpdate) -> Option<Asked> {
        let mut table = self.lock();
        let session = table.open.get_mut(id)?;
        Some(Asked {
            tool: session.tools.asked(update),
            asking: session.asking.clone(),
        })
    }

    /// Somebody allowed what the agent asked for.
    pub(crate) fn grant(&self, id: &str, tool: &ToolCall, lasting: OptionKind) {
        if let Some(session) = self.lock().open.get_mut(id) {
            let workspace = session.cwd.to_string_lossy().into_owned();
            session.grants.allow(tool, &workspace, lasting);
        }
    }

    /// Whether `covered` holds for what was allowed in the session, and its folder.
    pub(crate) fn is_granted(&self, id: &str, covered: impl FnOnce(&Grants, &str) -> bool) -> bool {
        let table = self.lock();
        let session = table.open.get(id);
        session.is_some_and(|session| covered(&session.grants, &session.cwd.to_string_lossy()))
    }

    /// Where the questions of a session go.
    pub(crate) fn questions(&self, id: &str) -> Option<Asking> {
        let table = self.lock();
        Some(table.open.get(id)?.asking.clone())
    }

    /// Says something of ours in every session, where it cannot be known which one it is about.
    pub(crate) fn notice(&self, text: &str) {
        for session in self.lock().open.values() {
            let text = text.to_owned();
            session.asking.sink.emit(EventKind::Notice { text }, None);
        }
    }

    /// A turn begins, which ends when `stopping` is cancelled: where what it says and asks goes.
    pub(crate) fn begin_turn(&self, id: &str, stopping: CancellationToken) -> Option<Asking> {
        let mut table = self.lock();
        let session = table.open.get_mut(id)?;
        session.asking.cancelled = CancellationToken::new();
        session.asking.stopping = stopping;
        session.grants.begin_turn();
        session.lenders.begin_turn();
        session.cost_before = session.cost.or(session.cost_before);
        Some(session.asking.clone())
    }

    /// The turn is over; what the agent asks for between turns is nobody's to cancel.
    pub(crate) fn end_turn(&self, id: &str) {
        if let Some(session) = self.lock().open.get_mut(id) {
            session.asking.cancelled = CancellationToken::new();
            session.asking.stopping = CancellationToken::new();
            session.lenders.end_turn();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn at_work(&self) -> Option<String> {
        let open = self.open.iter();
        let mut working = open.filter(|(_, session)| session.lenders.is_in_turn());
        match (working.next(), working.next()) {
            (Some((id, _)), None) => Some(id.clone()),
            (None, _) | (Some(_), Some(_)) => None,
        }
    }
}
