//! One session as the editor sees it: its events in their order, its prompts and their answers, what the agent asks.

use std::{
    collections::{BTreeMap, VecDeque},
    future::poll_fn,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use domain::turn::{Ask, AskId, Event, EventKind, Raw, Stop, TurnId};
use engine::{EngineError, EventReader, NativeAnswer, NativeRequest, Prompt, TurnOptions};
use jsonrpc::{CallError, ErrorObject, Responder, SendError};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    asks, error,
    face::{Asks, Face, reply},
    frames::{self, Frame, Style},
    line::Line,
};
use crate::members::with_session;

/// Prompts that wait for their turn, as many as a session queues.
const PROMPTS_MAX: usize = 32;

/// Requests of the agent on their way to the editor.
const NATIVE_MAX: usize = 256;

/// The way to a room.
#[derive(Debug, Clone)]
pub(super) struct Room {
    /// The engine's id of the session.
    pub(super) id: String,
    pub(super) prompts: mpsc::Sender<Prompted>,
    pub(super) native: mpsc::Sender<NativeRequest>,
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
            instead,
            cancels: Cancels::default(),
            line: Line::default(),
            replaced: CancellationToken::new(),
        };
        let inbox = Inbox {
            id,
            cancels: room.cancels.clone(),
            replaced: room.replaced.clone(),
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
    asks: BTreeMap<AskId, Open>,
    /// Requests of the agent that wait for what was told before them.
    requests: VecDeque<NativeRequest>,
}

/// A turn of the editor's that is not answered.
struct Owed {
    responder: Responder,
    withdrawn: CancellationToken,
    _over: oneshot::Sender<()>,
}

impl Owed {
    /// A request that was withdrawn is answered so, and not with the end of its turn.
    async fn answer(self, stop: &Stop, said: Option<&Raw>) {
        let answer = match stop {
            Stop::Cancelled if self.withdrawn.is_cancelled() => Err(ErrorObject::cancelled()),
            stop => prompt_answer(stop, said),
        };
        reply(self.responder, answer).await;
    }
}

/// An ask without an answer.
struct Open {
    ask: Ask,
    raw: Option<Raw>,
    /// Cancelled when somebody else has answered; nothing before the editor was asked.
    settled: Option<CancellationToken>,
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
                Vec::new()
            }
            EventKind::TurnStarted { prompt, .. } => {
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

    async fn prompt(&mut self, prompted: Prompted) {
        let Prompted {
            text,
            words,
            responder,
            cancels,
            withdrawn,
            turn: place,
            over,
        } = prompted;
        let owed = Owed {
            responder,
            withdrawn: withdrawn.clone(),
            _over: over,
        };
        let all_cancels = self.inbox.cancels.clone();
        let is_cancelled = || withdrawn.is_cancelled() || all_cancels.count() != cancels;
        if is_cancelled() {
            return owed.answer(&Stop::Cancelled, None).await;
        }
        let prompt = Prompt {
            text,
            options: TurnOptions::default(),
            when_busy: self.face.when_busy,
            by: Some(self.face.client()),
        };
        let sessions = self.face.engine.sessions();
        let turn = match sessions.prompt_native(&self.inbox.id, prompt, words).await {
            Ok(turn) => turn,
            Err(error) => return reply(owed.responder, Err(error::of_engine(&error))).await,
        };
        self.turns.insert(turn, owed);
        let _ = place.set(turn); // A prompt has one turn.
        // A cancel that overtook the prompt on its way found nothing to end.
        if is_cancelled()
            && let Err(error) = sessions.cancel_turn(&self.inbox.id, turn).await
        {
            tracing::debug!(%error, session = self.inbox.id, "could not cancel");
        }
    }

    async fn end_turn(&mut self, turn: TurnId, stop: &Stop) {
        let said = self.said.take();
        if let Some(owed) = self.turns.remove(&turn) {
            owed.answer(stop, said.as_ref()).await;
        }
    }

    /// Asks the editor what is open and was not asked yet.
    async fn ask_editor(&mut self) {
        if self.face.asks == Asks::Unheard || self.inbox.replaced.is_cancelled() {
            return;
        }
        let forms = self.face.abilities().forms;
        for open in self.asks.values_mut().filter(|open| open.settled.is_none()) {
            let settled = CancellationToken::new();
            open.settled = Some(settled.clone());
            let question = asks::question(&open.ask, open.raw.as_ref(), &self.shown);
            let asking = asks::EditorAsk {
                face: Arc::clone(&self.face),
                session: self.inbox.id.clone(),
                ask: open.ask.clone(),
            };
            if question.method == "elicitation/create" && !forms {
                self.face.tasks.spawn(|_| asking.give_up());
                continue;
            }
            let call = self
                .face
                .peer
                .call_with_cancel(question.method, &question.params);
            let mut call = Box::pin(call);
            // Sent now, at its place among the updates; the answer is waited for elsewhere.
            let first = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
            self.face.tasks.spawn(|_| async move {
                let answered = async {
                    match first {
                        Poll::Ready(answered) => answered,
                        Poll::Pending => call.await,
                    }
                };
                tokio::select! { biased;
                    () = settled.cancelled() => {}
                    answered = answered => asking.answer(answered).await,
                }
            });
        }
    }

    /// Has the editor carry out what the agent asks for, or tells it what concerns no session.
    async fn relay(&self, request: NativeRequest) {
        let NativeRequest {
            method,
            params,
            answer,
            ..
        } = request;
        let params = params.and_then(|params| with_session(&params.frame, &self.shown));
        let Some(answer) = answer else {
            drop(self.face.peer.notify(&method, &params).await); // An editor that has left misses it.
            return;
        };
        let call = self.face.peer.call_with_cancel(&method, &params);
        let mut call = Box::pin(call);
        let first = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        self.face.tasks.spawn(|_| async move {
            let mut answer = answer;
            let answered = async {
                match first {
                    Poll::Ready(answered) => answered,
                    Poll::Pending => call.await,
                }
            };
            let answered = tokio::select! { biased;
                () = answer.closed() => return, // The agent has withdrawn it.
                answered = answered => answered,
            };
            drop(answer.send(native(answered)));
        });
    }
}

fn native(answered: Result<Box<RawValue>, CallError>) -> NativeAnswer {
    let error = match answered {
        Ok(result) => return NativeAnswer::Result(result.get().into()),
        Err(CallError::Remote(error)) => error,
        Err(error) => ErrorObject::internal(error.to_string()),
    };
    let error = to_raw_value(&error).expect("an error has only text keys");
    NativeAnswer::Error(error.get().into())
}

/// What a prompt is answered with: the agent's own words where it is known, or ours.
fn prompt_answer(stop: &Stop, said: Option<&Raw>) -> Result<Box<RawValue>, ErrorObject> {
    let said = said.and_then(|said| RawValue::from_string(said.frame.to_string()).ok());
    match stop {
        Stop::Failed { message } => Err(said
            .and_then(|said| {
                crate::members::Members::read(said.get())?
                    .get("error")
                    .map(RawValue::get)
                    .map(str::to_owned)
            })
            .and_then(|error| serde_json::from_str(&error).ok())
            .unwrap_or_else(|| ErrorObject::internal(message.clone()))),
        Stop::EndTurn
        | Stop::MaxTokens
        | Stop::MaxTurnRequests
        | Stop::Refusal
        | Stop::Cancelled => {
            let ours = || {
                to_raw_value(&json!({ "stopReason": stop.as_str() })).expect("text can be written")
            };
            let own = said.filter(|said| said.get().contains("\"stopReason\""));
            Ok(own.unwrap_or_else(ours))
        }
    }
}
