//! One editor's connection: requests are answered here, by its rooms, or by the agent itself.

use std::{
    collections::{BTreeSet, HashMap},
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::Poll,
    time::Duration,
};

use domain::{
    Name,
    session::{ClientId, WhenBusy},
};
use engine::{About, AttachAs, DriverError, Engine, Expects, NativeAnswer, NativeMessage};
use jsonrpc::{ErrorObject, Id, Incoming, Peer, Received, Request, Responder};
use platform::Tasks;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{
    error, hello,
    hello::Abilities,
    line::{Line, Place},
    listing,
    opening::{self, For},
    room::{Prompted, Room},
};
use crate::{convert, requests::parsed, sessions::named_session};

/// Requests of one editor that are carried out at a time. Most wait for the agent, and no editor has this many.
const REQUESTS_MAX: usize = 256;

/// What notifications of one editor may hold while they wait for their way to the agent. Beyond it the editor waits.
const HEARD_MAX_KIB: u32 = 4 * 1024;

/// What is carried out here, whatever the agent is at: nothing waits behind it for a way to the agent.
const OURS: [&str; 7] = [
    "session/new",
    "session/load",
    "session/resume",
    "session/list",
    "session/close",
    "session/delete",
    "session/fork",
];

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

    /// Begins to carry out a request. The first one is answered in its place, since all others depend on it.
    async fn take(self: Arc<Self>, request: Request) {
        let Request {
            method,
            params,
            responder,
            ..
        } = request;
        if method == "initialize" {
            let answer = self.initialize(params.as_deref());
            return reply(responder, answer).await;
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let words = format!("more than {REQUESTS_MAX} requests are in progress");
            return reply(responder, Err(ErrorObject::internal(words))).await;
        };
        // Counted now, in the order in which prompts and cancels come.
        let room = named_session(params.as_deref()).and_then(|shown| self.room(&shown).ok());
        let cancels = room.as_ref().map_or(0, |room| room.cancels.count());
        let line = match OURS.contains(&method.as_str()) {
            true => Line::default(),
            false => self.line_of(room.as_ref()),
        };
        let in_line = line.join();
        let id = responder.id().clone();
        let withdrawn = CancellationToken::new();
        self.running().insert(id.clone(), withdrawn.clone());
        let face = Arc::clone(&self);
        let due = Due {
            responder,
            withdrawn,
            cancels,
            place,
            in_line,
        };
        self.tasks.spawn(|stop| async move {
            tokio::select! { biased;
                () = stop.cancelled() => {}
                () = face.carry_out(&method, params, due) => {}
            }
            face.running().remove(&id);
        });
    }

    fn initialize(&self, params: Option<&RawValue>) -> Result<Box<RawValue>, ErrorObject> {
        let abilities = hello::read(params)?;
        let driver = self.engine.sessions().driver(&self.agent);
        let driver = driver.map_err(|error| error::of_engine(&error))?;
        let _ = self.abilities.set(abilities); // An editor that says it twice meant it the first time.
        Ok(hello::answer(
            &self.agent,
            driver.said(About::Agent).as_ref(),
        ))
    }

    async fn carry_out(self: &Arc<Self>, method: &str, params: Option<Box<RawValue>>, due: Due) {
        let params = params.as_deref();
        if method == "session/prompt" {
            return self.prompt(params, due).await;
        }
        let Due {
            responder,
            withdrawn,
            place: _place,
            in_line,
            ..
        } = due;
        match method {
            "session/new" => opening::begin(self, params, responder).await,
            "session/load" => opening::take_up(self, opening::Way::Load, params, responder).await,
            "session/resume" => {
                opening::take_up(self, opening::Way::Resume, params, responder).await
            }
            method => {
                let answering = async {
                    match method {
                        "session/list" => listing::list(self, params).await,
                        "session/close" => self.close(params).await,
                        "session/delete" => self.delete(params).await,
                        // The agent would open a conversation that nobody here knows, with servers nobody decided on.
                        "session/fork" => Err(ErrorObject::method_not_found(method)),
                        method => self.pass(method, params, Expects::Answer, in_line).await,
                    }
                };
                let answer = tokio::select! { biased;
                    () = withdrawn.cancelled() => Err(ErrorObject::cancelled()),
                    answer = answering => answer,
                };
                reply(responder, answer).await;
            }
        }
    }

    /// Hands a prompt to its room, once the conversation is open in the agent.
    async fn prompt(&self, params: Option<&RawValue>, due: Due) {
        let Due {
            responder,
            withdrawn,
            cancels,
            place,
            in_line,
        } = due;
        let turn_in_line = in_line.reached().await;
        let prompted = match self.prompted(params).await {
            Ok(prompted) => prompted,
            Err(error) => return reply(responder, Err(error)).await,
        };
        let (room, text, words) = prompted;
        let (over, is_over) = tokio::sync::oneshot::channel();
        let turn = Arc::new(OnceLock::new());
        let prompted = Prompted {
            text,
            words,
            responder,
            cancels,
            withdrawn: withdrawn.clone(),
            turn: Arc::clone(&turn),
            over,
        };
        // The room answers, also if it closes before it gets this far.
        if room.prompts.send(prompted).await.is_err() {
            return;
        }
        drop(turn_in_line);
        drop(place); // A turn may take hours; the room bounds how many wait.
        tokio::select! { biased;
            _ = is_over => {}
            () = withdrawn.cancelled() => {
                // The room looks at it as well, once there is a turn.
                if let Some(turn) = turn.get()
                    && let Err(error) = self.engine.sessions().cancel_turn(&room.id, *turn).await
                {
                    tracing::debug!(%error, session = room.id, "could not cancel");
                }
            }
        }
    }

    async fn prompted(
        &self,
        params: Option<&RawValue>,
    ) -> Result<(Room, String, domain::turn::Raw), ErrorObject> {
        let words = params.ok_or_else(|| ErrorObject::invalid_params("params are missing"))?;
        let value = opening::legible(words)?;
        let shown = opening::required_session(params)?;
        let room = self.room(&shown)?;
        let text = opening::prompt_text(&value["prompt"])?;
        opening::open(self, &room, For::Working).await?;
        Ok((room, text, convert::raw(words)))
    }

    /// Passes what we have no word for on to the agent.
    pub(super) async fn pass(
        &self,
        method: &str,
        params: Option<&RawValue>,
        expects: Expects,
        in_line: Place,
    ) -> Result<Box<RawValue>, ErrorObject> {
        let turn_in_line = in_line.reached().await;
        let sessions = self.engine.sessions();
        let (driver, conversation) = match named_session(params) {
            Some(shown) => {
                let room = self.room(&shown)?;
                let open = opening::open(self, &room, For::Looking).await?;
                (open.driver, Some(open.conversation))
            }
            None => {
                let driver = sessions.driver(&self.agent);
                (driver.map_err(|error| error::of_engine(&error))?, None)
            }
        };
        let message = NativeMessage {
            conversation,
            method: method.to_owned(),
            params: params.map(convert::raw),
            expects,
        };
        let mut passing = driver.pass(message);
        // A request is on its way once this was asked for the first time; its answer holds up nobody.
        let first = poll_fn(|context| Poll::Ready(passing.as_mut().poll(context))).await;
        if expects == Expects::Answer {
            drop(turn_in_line);
        }
        said_by(match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => passing.await,
        })
    }

    fn line_of(&self, room: Option<&Room>) -> Line {
        room.map_or_else(|| self.line.clone(), |room| room.line.clone())
    }

    async fn close(&self, params: Option<&RawValue>) -> Result<Box<RawValue>, ErrorObject> {
        let shown = opening::required_session(params)?;
        let room = self.room(&shown)?;
        self.leave_room(&shown);
        let closed = self.engine.sessions().close(&room.id).await;
        closed.map_err(|error| error::of_engine(&error))?;
        Ok(empty())
    }

    /// Whoever deletes a session wants it gone here and in the agent.
    async fn delete(&self, params: Option<&RawValue>) -> Result<Box<RawValue>, ErrorObject> {
        let shown = opening::required_session(params)?;
        let sessions = self.engine.sessions();
        let own = opening::find(self, &shown).await?;
        let driver = || {
            let driver = sessions.driver(&self.agent);
            driver.map_err(|error| error::of_engine(&error))
        };
        let (driver, conversation) = match &own {
            // It need not be open for that; one that is over stays so if the agent refuses.
            Some(id) => {
                let conversation = sessions.conversation(id).await;
                match conversation.map_err(|error| error::of_engine(&error))? {
                    Some(conversation) => (driver()?, Some(conversation)),
                    None => {
                        let opened = sessions.open(id).await;
                        let open = opened.map_err(|error| error::of_opening(&error))?;
                        (open.driver, Some(open.conversation))
                    }
                }
            }
            // One that only the agent knows.
            None => (driver()?, None),
        };
        let message = NativeMessage {
            conversation,
            method: "session/delete".to_owned(),
            params: params.map(convert::raw),
            expects: Expects::Answer,
        };
        let answer = said_by(driver.pass(message).await)?;
        self.leave_room(&shown);
        if let Some(id) = own {
            let closed = sessions.close_deleted(&id).await;
            closed.map_err(|error| error::of_engine(&error))?;
        }
        Ok(answer)
    }

    /// Begins to pass a notification on, once there is room for it.
    async fn hear(self: &Arc<Self>, method: &str, params: Option<&RawValue>) {
        let face = Arc::clone(self);
        let bytes = params.map_or(0, |params| params.get().len());
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.heard).acquire_many_owned(kib.clamp(1, HEARD_MAX_KIB));
        let place = room.await.expect("the semaphore is never closed");
        match method {
            "session/cancel" => {
                let room = named_session(params).and_then(|shown| self.room(&shown).ok());
                if let Some(room) = room {
                    room.cancels.add();
                    self.tasks.spawn(|_| async move {
                        face.cancel(&room).await;
                        drop(place);
                    });
                }
            }
            jsonrpc::CANCEL_METHOD => {
                let id = Id::from_json(&parsed(params)["requestId"].to_string());
                let withdrawn = id.and_then(|id| self.running().get(&id).cloned());
                if let Some(withdrawn) = withdrawn {
                    withdrawn.cancel();
                }
            }
            method => {
                let room = named_session(params).and_then(|shown| self.room(&shown).ok());
                let in_line = self.line_of(room.as_ref()).join();
                let (method, params) = (method.to_owned(), params.map(ToOwned::to_owned));
                self.tasks.spawn(|stop| async move {
                    let passing = face.pass(&method, params.as_deref(), Expects::Nothing, in_line);
                    tokio::select! { biased;
                        () = stop.cancelled() => {}
                        passed = passing => if let Err(error) = passed {
                            tracing::debug!(%method, %error, "could not pass on a notification");
                        },
                    }
                    drop(place);
                });
            }
        }
    }

    async fn cancel(&self, room: &Room) {
        let cancelled = self.engine.sessions().cancel_as(&room.id, self.client());
        if let Err(error) = cancelled.await {
            tracing::debug!(%error, session = room.id, "could not cancel");
        }
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

/// What the agent answered, for the editor.
fn said_by(answer: Result<NativeAnswer, DriverError>) -> Result<Box<RawValue>, ErrorObject> {
    match answer.map_err(|error| error::of_agent(&error))? {
        NativeAnswer::Result(text) => RawValue::from_string(text.to_string())
            .map_err(|_| ErrorObject::internal("the agent's answer cannot be read")),
        NativeAnswer::Error(text) => Err(serde_json::from_str(&text)
            .unwrap_or_else(|_| ErrorObject::internal("the agent's error cannot be read"))),
    }
}

/// An answer that is owed.
struct Due {
    responder: Responder,
    withdrawn: CancellationToken,
    /// How often the editor had cancelled before the request came.
    cancels: u64,
    place: OwnedSemaphorePermit,
    /// Among what goes to the agent.
    in_line: Place,
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
