//! One session as the editor sees it: its events in their order, its prompts and their answers, what the agent asks.

mod requests;
mod turns;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use domain::turn::{AskId, Event, EventKind, Raw, TurnId, Usage};
use engine::{Backlog, EngineError, EventReader, NativeRequest};
use jsonrpc::{ErrorObject, Responder, SendError};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    face::{Face, reply},
    frames::{self, Frame, Style},
    line::Line,
};
use requests::Open;
use turns::Owed;

/// Prompts that wait for their turn, as many as a session queues.
const PROMPTS_MAX: usize = 32;

/// Messages of the agent on their way to the editor: more than requests and the bytes of the backlog let through.
const NATIVE_MAX: usize = 128 * 1024;

/// The way to a room.
#[derive(Debug, Clone)]
pub(super) struct Room {
    /// The engine's id of the session.
    pub(super) id: String,
    pub(super) prompts: mpsc::Sender<Prompted>,
    pub(super) native: mpsc::Sender<NativeRequest>,
    pub(super) backlog: Backlog,
    /// What the editor does for the agent instead of this machine.
    pub(super) instead: Vec<&'static str>,
    pub(super) cancels: Cancels,
    /// Where its messages to the agent wait for each other.
    pub(super) line: Line,
    /// Cancelled when the editor has opened the session anew: the new room tells what happens from then on.
    pub(super) replaced: CancellationToken,
}

/// How often the editor has cancelled: a prompt that came before a cancel is cancelled by it, however far it has got.
#[derive(Debug, Clone, Default)]
pub(super) struct Cancels(Arc<AtomicU64>);

impl Cancels {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// What comes into a room.
#[derive(Debug)]
pub(super) struct Inbox {
    id: String,
    prompts: mpsc::Receiver<Prompted>,
    native: mpsc::Receiver<NativeRequest>,
    backlog: Backlog,
    terminals: bool,
    cancels: Cancels,
    replaced: CancellationToken,
}

impl Room {
    pub(super) fn new(id: String, instead: Vec<&'static str>) -> (Room, Inbox) {
        let (prompts_in, prompts) = mpsc::channel(PROMPTS_MAX);
        let (native_in, native) = mpsc::channel(NATIVE_MAX);
        let terminals = instead.contains(&"terminal/create");
        let room = Room {
            id: id.clone(),
            prompts: prompts_in,
            native: native_in,
            backlog: Backlog::default(),
            instead,
            cancels: Cancels::default(),
            line: Line::default(),
            replaced: CancellationToken::new(),
        };
        let inbox = Inbox {
            id,
            cancels: room.cancels.clone(),
            replaced: room.replaced.clone(),
            backlog: room.backlog.clone(),
            prompts,
            native,
            terminals,
        };
        (room, inbox)
    }
}

/// A prompt of the editor's.
#[derive(Debug)]
pub(super) struct Prompted {
    pub(super) text: String,
    pub(super) words: Raw,
    pub(super) responder: Responder,
    /// How often the editor had cancelled before it.
    pub(super) cancels: u64,
    /// Cancelled when the editor wants no answer any more.
    pub(super) withdrawn: CancellationToken,
    /// Its turn, once it has one.
    pub(super) turn: Arc<OnceLock<TurnId>>,
    /// Dropped when it is answered.
    pub(super) over: oneshot::Sender<()>,
}

/// From where on a room tells its editor what happens.
#[derive(Debug)]
pub(super) enum Beginning {
    /// Behind this event.
    After(u64),
    Replay(Replay),
}

/// The history that an editor is told before its request is answered.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) until: u64,
    /// Whether it is told, or only read for what is still open.
    pub(super) told: bool,
    pub(super) responder: Responder,
    pub(super) answer: Box<RawValue>,
}

/// Starts the room's task.
pub(super) fn spawn(face: &Arc<Face>, shown: String, inbox: Inbox, beginning: Beginning) {
    let (after, replay) = match beginning {
        Beginning::After(seq) => (seq, None),
        Beginning::Replay(replay) => (0, Some(replay)),
    };
    let task = Task {
        face: Arc::clone(face),
        shown,
        inbox,
        replay,
        seen: after,
        turns: BTreeMap::new(),
        said: None,
        used: Usage::default(),
        asks: BTreeMap::new(),
        requests: VecDeque::new(),
    };
    face.tasks.spawn(|stop| async move {
        tokio::select! { biased;
            () = stop.cancelled() => {}
            () = task.run() => {}
        }
    });
}

struct Task {
    face: Arc<Face>,
    /// What the editor calls the session.
    shown: String,
    inbox: Inbox,
    replay: Option<Replay>,
    /// The last event that was handled.
    seen: u64,
    /// Turns of this editor that are not answered.
    turns: BTreeMap<TurnId, Owed>,
    /// The agent's own answer to the prompt that is about to end.
    said: Option<Raw>,
    /// What the turn has used, of an agent that does not answer prompts in the protocol's words.
    used: Usage,
    asks: BTreeMap<AskId, Open>,
    /// Requests of the agent that wait for what was told before them.
    requests: VecDeque<NativeRequest>,
}

/// Why a room closes by itself.
enum Over {
    EditorGone,
    Ended,
    Unreadable(EngineError),
}

impl From<SendError> for Over {
    fn from(_: SendError) -> Self {
        Self::EditorGone
    }
}

impl From<EngineError> for Over {
    fn from(error: EngineError) -> Self {
        Self::Unreadable(error)
    }
}

impl Task {
    async fn run(mut self) {
        let over = match self.live().await {
            Ok(()) | Err(Over::EditorGone) => return,
            Err(Over::Ended) => "the session is over".to_owned(),
            Err(Over::Unreadable(error)) => engine::chain(&error),
        };
        // Whoever waits is told; a later prompt finds the room gone.
        self.face.leave_room(&self.shown);
        let turns = std::mem::take(&mut self.turns);
        for owed in turns.into_values() {
            reply(owed.responder, Err(ErrorObject::internal(over.clone()))).await;
        }
    }

    async fn live(&mut self) -> Result<(), Over> {
        let face = Arc::clone(&self.face);
        let sessions = face.engine.sessions();
        let mut reader = sessions.events(&self.inbox.id, self.seen + 1).await?;
        loop {
            self.catch_up(&mut reader).await?;
            tokio::select! { biased;
                prompted = self.inbox.prompts.recv() => match prompted {
                    Some(prompted) => self.prompt(prompted).await,
                    None => return Ok(()), // The editor has closed it, or opened it anew.
                },
                Some(request) = self.inbox.native.recv() => self.requests.push_back(request),
                event = reader.next() => match event? {
                    Some(event) => self.tell(&event).await?,
                    None => return Err(Over::Ended),
                },
            }
        }
    }

    /// Tells everything that has happened, and then what was to be told after it.
    async fn catch_up(&mut self, reader: &mut EventReader) -> Result<(), Over> {
        while let Some(event) = reader.try_next().await? {
            self.tell(&event).await?;
        }
        let caught_up = self
            .replay
            .as_ref()
            .is_none_or(|replay| replay.until <= self.seen);
        if !caught_up {
            return Ok(());
        }
        if let Some(replay) = self.replay.take() {
            reply(replay.responder, Ok(replay.answer)).await;
        }
        // An ask that the policy settles at once is settled by now, and the editor is not bothered with it.
        self.ask_editor().await;
        while self
            .requests
            .front()
            .is_some_and(|request| request.after <= self.seen)
        {
            if let Some(request) = self.requests.pop_front() {
                self.relay(request).await;
            }
        }
        let missed = self.inbox.backlog.take_missed();
        if missed > 0
            && let Some(Frame { method, params }) = frames::missed(missed, self.style())
        {
            self.face.peer.notify(&method, &params).await?;
        }
        Ok(())
    }

    fn style(&self) -> Style<'_> {
        Style {
            session: &self.shown,
            terminals: self.inbox.terminals,
            notices: self.face.abilities().notices,
        }
    }

    async fn tell(&mut self, event: &Event) -> Result<(), Over> {
        self.seen = event.seq;
        let told = !self.inbox.replaced.is_cancelled()
            && self.replay.as_ref().is_none_or(|replay| replay.told);
        let frames = match &event.kind {
            EventKind::TurnStarted { turn, .. } if self.turns.contains_key(turn) => {
                self.said = None;
                self.used = Usage::default();
                Vec::new()
            }
            EventKind::TurnStarted { prompt, .. } => {
                self.used = Usage::default();
                frames::of_prompt(prompt, event.raw.as_ref(), self.style())
            }
            EventKind::TurnEnded { turn, stop } => {
                self.end_turn(*turn, stop).await;
                Vec::new()
            }
            EventKind::Ask(ask) => {
                let open = Open {
                    ask: ask.clone(),
                    raw: event.raw.clone(),
                    settled: None,
                };
                self.asks.insert(ask.id.clone(), open);
                Vec::new()
            }
            EventKind::AskSettled { ask, .. } => {
                if let Some(settled) = self.asks.remove(ask).and_then(|open| open.settled) {
                    settled.cancel();
                }
                Vec::new()
            }
            EventKind::Usage(usage) if frames::is_ours(event) => {
                self.used = self.used.updated(*usage);
                Vec::new()
            }
            _ => match frames::prompt_answer(event) {
                Some(said) => {
                    self.said = Some(said.clone());
                    Vec::new()
                }
                None => frames::of_event(event, self.style()).into_iter().collect(),
            },
        };
        for Frame { method, params } in frames.into_iter().filter(|_| told) {
            match self.face.peer.notify(&method, &params).await {
                // One that no line can carry is missed; the rest of the session is not.
                Err(SendError::TooLong { length, .. }) => {
                    tracing::warn!(method, length, "an update is too long for the editor");
                    if let Some(Frame { method, params }) = frames::left_out(length, self.style()) {
                        self.face.peer.notify(&method, &params).await?;
                    }
                }
                sent => sent?,
            }
        }
        Ok(())
    }
}
