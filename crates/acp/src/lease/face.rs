//! One editor's connection: requests are answered here, by its rooms, or by the agent itself.

mod passing;
mod requests;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use domain::{
    Name,
    session::{ClientId, WhenBusy},
};
use engine::{AttachAs, Engine};
use jsonrpc::{ErrorObject, Id, Incoming, Peer, Received, Responder};
use platform::Tasks;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{error, hello::Abilities, line::Line, room::Room};

/// Requests of one editor that are carried out at a time. Most wait for the agent, and no editor has this many.
const REQUESTS_MAX: usize = 256;

/// What notifications of one editor may hold while they wait for their way to the agent. Beyond it the editor waits.
const HEARD_MAX_KIB: u32 = 4 * 1024;

/// What an editor that closes its side at once still gets answers to: requests under way, but no turn is waited for.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Requests that are given up let go of their places at once.
const LAST_PLACES: Duration = Duration::from_secs(5);

/// An editor, and the agent that it shall have.
#[derive(Debug)]
pub struct Editor {
    pub engine: Engine,
    pub agent: Name,
    pub folder: Folder,
    pub asks: Asks,
    /// What becomes of a prompt while another is carried out.
    pub when_busy: WhenBusy,
    /// Tells this editor from every other client.
    pub number: u64,
    pub peer: Peer,
    pub incoming: Incoming,
    pub tasks: Tasks,
}

/// Where new sessions work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    Workspace,
    /// In the folder that the editor names.
    Client,
}

/// Whether the editor is asked what the agent asks, and acts for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    Relayed,
    /// There is nobody to ask.
    Unheard,
}

/// Speaks to an editor until it leaves. Its sessions go on without it.
pub async fn serve(editor: Editor) {
    let Editor {
        engine,
        agent,
        folder,
        asks,
        when_busy,
        number,
        peer,
        mut incoming,
        tasks,
    } = editor;
    let tasks = tasks.child();
    let stop = tasks.stop();
    let face = Arc::new(Face {
        engine,
        agent,
        folder,
        asks,
        when_busy,
        number,
        peer,
        tasks,
        abilities: OnceLock::new(),
        rooms: Mutex::default(),
        entering: Mutex::default(),
        line: Line::default(),
        running: Mutex::default(),
        places: Arc::new(Semaphore::new(REQUESTS_MAX)),
        heard: Arc::new(Semaphore::new(HEARD_MAX_KIB as usize)),
    });
    loop {
        let received = tokio::select! { biased;
            () = stop.cancelled() => break,
            received = incoming.recv() => received,
        };
        match received {
            None => break,
            Some(Received::Request(request)) => Arc::clone(&face).take(request).await,
            Some(Received::Notification { method, params, .. }) => {
                tokio::select! { biased;
                    () = stop.cancelled() => break,
                    () = face.hear(&method, params.as_deref()) => {}
                }
            }
            Some(Received::Malformed { malformed, .. }) => {
                tracing::debug!(why = %malformed.error.message, "a line of the editor is no message");
            }
            Some(Received::Response { .. }) => {} // To a question that is settled already.
        }
    }
    face.leave().await;
}

/// What everything that is done for one editor shares.
#[derive(Debug)]
pub(super) struct Face {
    pub(super) engine: Engine,
    pub(super) agent: Name,
    pub(super) folder: Folder,
    pub(super) asks: Asks,
    pub(super) when_busy: WhenBusy,
    pub(super) number: u64,
    pub(super) peer: Peer,
    pub(super) tasks: Tasks,
    abilities: OnceLock<Abilities>,
    rooms: Mutex<HashMap<String, Room>>,
    /// Sessions that the editor is attached to and not in a room of yet, with how often it opens each.
    entering: Mutex<HashMap<String, usize>>,
    /// For messages that belong to no session.
    line: Line,
    /// What withdraws each request that is carried out.
    running: Mutex<HashMap<Id, CancellationToken>>,
    places: Arc<Semaphore>,
    /// Room for notifications, by their size.
    heard: Arc<Semaphore>,
}

impl Face {
    /// The name under which this editor is known in its sessions.
    pub(super) fn client(&self) -> ClientId {
        ClientId(format!("{}#{}", self.abilities().name, self.number))
    }

    /// What the editor can; little, if it did not say.
    pub(super) fn abilities(&self) -> Abilities {
        self.abilities.get().cloned().unwrap_or_else(|| Abilities {
            name: "editor".to_owned(),
            ..Abilities::default()
        })
    }

    /// Attaches the editor to a session that it opens. Whoever does so ends it with [`Face::enter`] or [`Face::turn_back`];
    /// what is cut off in between ends when the editor leaves.
    pub(super) async fn attach(&self, id: &str) -> Result<(), ErrorObject> {
        *self.entering().entry(id.to_owned()).or_default() += 1;
        let client = AttachAs {
            client: self.client(),
            answers: (self.asks == Asks::Relayed).into(),
        };
        let attached = self.engine.sessions().attach(id, client).await;
        attached.map(drop).map_err(|error| error::of_engine(&error))
    }

    pub(super) fn enter(&self, shown: String, room: Room) {
        let id = room.id.clone();
        if let Some(before) = self.rooms().insert(shown, room) {
            before.replaced.cancel();
        }
        self.has_entered(&id);
    }

    /// The session did not open: nobody is in it, unless the same editor was before or gets in by another request.
    pub(super) async fn turn_back(&self, id: &str) {
        let last = self.has_entered(id);
        if last && !self.rooms().values().any(|room| room.id == id) {
            self.engine.sessions().detach(id, self.client()).await;
        }
    }

    /// One request fewer opens this session; says whether it was the last.
    fn has_entered(&self, id: &str) -> bool {
        let mut entering = self.entering();
        let left = entering.get(id).map_or(0, |times| times - 1);
        match left {
            0 => entering.remove(id).is_some(),
            left => entering.insert(id.to_owned(), left).is_none(),
        }
    }

    pub(super) fn room(&self, shown: &str) -> Result<Room, ErrorObject> {
        let room = self.rooms().get(shown).cloned();
        room.ok_or_else(|| error::unknown_session(shown))
    }

    pub(super) fn leave_room(&self, shown: &str) {
        self.rooms().remove(shown);
    }

    /// The editor has gone: what it asked for is carried through, and its sessions wait for the next client.
    async fn leave(&self) {
        let all = u32::try_from(REQUESTS_MAX).unwrap_or(u32::MAX);
        let answered = || async {
            tokio::join!(
                self.places.acquire_many(all),
                self.heard.acquire_many(HEARD_MAX_KIB)
            )
        };
        // An agent that takes longer has nobody to answer.
        drop(tokio::time::timeout(LAST_ANSWERS, answered()).await);
        self.tasks.cancel();
        // Once every place is free nobody attaches to anything any more.
        drop(tokio::time::timeout(LAST_PLACES, answered()).await);
        let rooms = std::mem::take(&mut *self.rooms());
        let entering = std::mem::take(&mut *self.entering());
        let inside: BTreeSet<String> = rooms.into_values().map(|room| room.id).collect();
        for id in inside.into_iter().chain(entering.into_keys()) {
            self.engine.sessions().detach(&id, self.client()).await;
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), self.peer.flush()).await;
    }

    fn rooms(&self) -> MutexGuard<'_, HashMap<String, Room>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entering(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.entering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Id, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) async fn reply(responder: Responder, answer: Result<Box<RawValue>, ErrorObject>) {
    let answered = match answer {
        Ok(result) => responder.reply(&result).await,
        Err(error) => responder.fail(error).await,
    };
    drop(answered); // An editor that has left needs no answer.
}

pub(super) fn empty() -> Box<RawValue> {
    to_raw_value(&json!({})).expect("an empty object can be written")
}
