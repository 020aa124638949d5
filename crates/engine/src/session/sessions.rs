//! The API of sessions: create, attach, prompt, answer, cancel, close, list, read back.

mod first;
mod left_open;
mod native;
mod resting;
mod take_up;
mod turns;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use domain::{
    Name,
    session::{ClientId, IDLE_TTL, Lease, WhenBusy},
    turn::{EventKind, Stop, ToolCall, TurnId},
};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    EventReader, NativeOpen, SessionRecord, SessionView, Waiting, asks,
    handle::{Command, Conversation, Handle},
    live::Live,
    task::{self, Row, Surroundings},
};
use crate::{EngineError, TurnOptions, clock, engine::Via};

pub use first::FirstTurn;

/// Every session of the node. Clones are the same.
#[derive(Debug, Clone)]
pub struct Sessions {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    around: Arc<Surroundings>,
    live: Arc<Live>,
    /// One at a time: a session that rests must not be given two tasks.
    waking: Semaphore,
    /// Sessions that are over, until their agent is done with the conversation.
    ending: Mutex<BTreeMap<String, CancellationToken>>,
}

/// What to create.
#[derive(Debug, Clone)]
pub struct CreateSession {
    pub agent: Name,
    /// Who will use it, for people to read.
    pub client: Option<String>,
    pub idle_ttl: Option<Duration>,
}

/// How a client attaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachAs {
    pub client: ClientId,
    pub answers: Answers,
}

/// What a client can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Answers {
    #[default]
    Nothing,
    /// What the turns ask that it has asked for itself.
    OwnTurns,
    /// What any turn asks.
    Everything,
}

impl From<bool> for Answers {
    fn from(answers: bool) -> Self {
        match answers {
            true => Self::Everything,
            false => Self::Nothing,
        }
    }
}

/// What the ids of our sessions begin with; agents' own ids do not.
const OWN: &str = "s-";

impl Sessions {
    /// An id for a session that is yet to be.
    pub fn fresh_id() -> String {
        format!("{OWN}{}", uuid::Uuid::now_v7())
    }
}

/// Whether an id is one of ours, known or not.
pub(crate) fn is_own(id: &str) -> bool {
    id.starts_with(OWN)
}

/// What to carry out.
#[derive(Debug, Clone)]
pub struct Prompt {
    pub text: String,
    pub options: TurnOptions,
    pub when_busy: WhenBusy,
    /// Who asks, if it is a client that may want to take it back.
    pub by: Option<ClientId>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnOutcome {
    pub turn: TurnId,
    pub stop: Stop,
    /// Everything the agent said.
    pub text: String,
    /// The number of the turn's last event.
    pub last_seq: u64,
}

impl Sessions {
    pub(crate) fn new(around: Surroundings) -> Self {
        Self {
            inner: Arc::new(Inner {
                around: Arc::new(around),
                live: Arc::default(),
                waking: Semaphore::new(1),
                ending: Mutex::default(),
            }),
        }
    }

    /// A new conversation with an agent that runs, which nobody is attached to yet.
    pub async fn create(&self, create: CreateSession) -> Result<SessionView, EngineError> {
        let via = self.via(&create.agent)?;
        let via = via.ok_or_else(|| EngineError::NotStarted {
            name: create.agent.clone(),
        })?;
        self.create_via(create, via, None).await
    }

    /// A new conversation, or one of the agent's own to be taken up.
    pub(crate) async fn create_via(
        &self,
        create: CreateSession,
        via: Via,
        agent_session: Option<String>,
    ) -> Result<SessionView, EngineError> {
        let cwd = self.workspace(&create.agent)?;
        self.begin(create, via, agent_session, cwd, None).await
    }

    async fn begin(
        &self,
        create: CreateSession,
        via: Via,
        agent_session: Option<String>,
        cwd: PathBuf,
        open: Option<NativeOpen>,
    ) -> Result<SessionView, EngineError> {
        let mut record = self.record(create, via, cwd)?;
        record.agent_session = agent_session;
        record.open = open;
        let id = record.id.clone();
        self.inner
            .around
            .store
            .write(vec![record.change()])
            .await
            .map_err(of(&id))?;
        let handle = self.spawn(record, Row::Written, 1);
        let view = handle.view.borrow().clone();
        self.inner.live.insert(id, handle);
        Ok(view)
    }

    /// What is kept of a session that is new.
    fn record(
        &self,
        create: CreateSession,
        via: Via,
        cwd: PathBuf,
    ) -> Result<SessionRecord, EngineError> {
        let agent_id = self.inner.around.agents.id(&create.agent)?;
        let now = clock::now();
        let idle_ttl = create.idle_ttl.unwrap_or(IDLE_TTL);
        Ok(SessionRecord {
            id: Self::fresh_id(),
            agent: create.agent,
            agent_id,
            cwd,
            agent_session: None,
            via,
            client: create.client,
            created_at: now,
            last_activity_at: now,
            idle_ttl_ms: u64::try_from(idle_ttl.as_millis()).unwrap_or(u64::MAX),
            turns: 0,
            prompt: None,
            running: None,
            lease: Lease::Idle,
            rests: false,
            open: None,
        })
    }

    fn spawn(&self, record: SessionRecord, row: Row, next_seq: u64) -> Handle {
        task::spawn(record, row, next_seq, &self.inner.around, &self.inner.live)
    }

    /// An agent is gone: its conversations are over.
    pub(crate) async fn agent_gone(&self, agent_id: &str) {
        self.inner.around.agents.forget(agent_id);
        for handle in self.inner.live.all() {
            if handle.agent_id == agent_id {
                let id = handle.view.borrow().session_id.clone();
                drop(handle);
                let _ = self.close(&id).await; // It may have ended meanwhile.
            }
        }
    }

    /// How the agent can be reached now, if it can.
    pub(crate) fn via(&self, agent: &Name) -> Result<Option<Via>, EngineError> {
        self.inner.around.agents.via(agent)
    }

    /// Where the agent works.
    pub(crate) fn workspace(&self, agent: &Name) -> Result<PathBuf, EngineError> {
        self.inner.around.agents.workspace(agent)
    }

    /// Sessions that are not over and do not rest, the most recently used first; of one agent, or of all.
    pub fn list(&self, agent: Option<&str>) -> Vec<SessionView> {
        let mut views: Vec<SessionView> = self
            .inner
            .live
            .all()
            .iter()
            .map(|handle| handle.view.borrow().clone())
            .collect();
        views.retain(|view| agent.is_none_or(|agent| view.agent_name == agent));
        views.sort_by(task::newest_first);
        views
    }

    /// Whether a session is among those in [`Sessions::list`].
    pub(crate) fn is_live(&self, id: &str) -> bool {
        self.inner.live.get(id).is_some()
    }

    /// One session, over or not.
    pub async fn get(&self, id: &str) -> Result<SessionView, EngineError> {
        if let Some(handle) = self.inner.live.get(id) {
            return Ok(handle.view.borrow().clone());
        }
        let record = self.past(id).await?;
        let last = self
            .inner
            .around
            .store
            .last_event(id)
            .await
            .map_err(of(&id))?;
        let mut view = record.past_view(last);
        if record.rests && self.is_orphan(&record) {
            view.state = Lease::Closed;
        }
        Ok(view)
    }

    /// What waits in a session: nothing in one that is over or rests.
    pub async fn waiting(&self, id: &str) -> Result<Waiting, EngineError> {
        if self.inner.live.get(id).is_none() {
            self.past(id).await?;
            return Ok(Waiting::default());
        }
        self.send(id, |reply| Command::Look { reply }).await
    }

    /// The session that takes place in a conversation of its agent's, by the agent's own id of it; of those in [`Sessions::list`].
    pub fn of_conversation(&self, conversation: &str) -> Option<String> {
        let live = self.inner.live.all();
        let found = live
            .iter()
            .find(|handle| handle.slot.conversation().as_deref() == Some(conversation))?;
        Some(found.view.borrow().session_id.clone())
    }

    /// Refuses a session of another agent.
    pub async fn check_owner(&self, id: &str, agent: &Name) -> Result<(), EngineError> {
        let view = self.get(id).await?;
        if view.agent_name != agent.as_str() {
            let (id, owner, name) = (id.to_owned(), view.agent_name, agent.clone());
            return Err(EngineError::OtherSession { id, owner, name });
        }
        Ok(())
    }

    /// Attaches a client. It reads events with [`Sessions::events`].
    pub async fn attach(&self, id: &str, client: AttachAs) -> Result<SessionView, EngineError> {
        let AttachAs { client, answers } = client;
        self.ask(id, |reply| Command::Attach {
            client,
            answers,
            reply,
        })
        .await?;
        self.get(id).await
    }

    /// A client has gone. The session goes on.
    pub async fn detach(&self, id: &str, client: ClientId) {
        if let Some(handle) = self.inner.live.get(id) {
            let _ = handle.commands.send(Command::Detach { client }).await; // It may have ended meanwhile.
        }
    }

    /// Whether an act is allowed where nobody can be asked; if not, the words say why.
    pub fn permits(&self, agent: &Name, act: ToolCall) -> Result<(), String> {
        let around = &self.inner.around;
        let policy = around.agents.policy(agent, &around.node_policy);
        let workspace = around.agents.workspace(agent).unwrap_or_default();
        asks::permits(&policy, act, &workspace.to_string_lossy())
    }

    /// Says something in a session for everybody who reads it.
    pub fn notice(&self, id: &str, text: String) {
        if let Some(handle) = self.inner.live.get(id) {
            handle.log.append(EventKind::Notice { text }, None);
        }
    }

    /// Ends the session. Its history stays, and whoever has a use for it can [`Sessions::reopen`] it.
    pub async fn close(&self, id: &str) -> Result<(), EngineError> {
        self.end(id, Conversation::Kept).await
    }

    /// Ends a session whose conversation is gone in the agent, for good.
    pub async fn close_deleted(&self, id: &str) -> Result<(), EngineError> {
        if self.forget_conversation(id).await? {
            return Ok(());
        }
        self.end(id, Conversation::Deleted).await
    }

    async fn end(&self, id: &str, conversation: Conversation) -> Result<(), EngineError> {
        if self.inner.live.get(id).is_none()
            && conversation == Conversation::Kept
            && self.close_resting(id).await?
        {
            return Ok(());
        }
        let handle = self.awake(id).await?;
        let close = |reply| Command::Close {
            conversation,
            reply,
        };
        let closed = self.ask(id, close).await;
        // Whoever opens it again numbers its events from the last one on, so that one has to be stored.
        handle.commands.closed().await;
        {
            let mut ending = self.ending();
            ending.retain(|_, gone| !gone.is_cancelled());
            ending.insert(id.to_owned(), handle.slot.gone());
        }
        self.inner.live.remove(id);
        closed
    }

    fn ending(&self) -> MutexGuard<'_, BTreeMap<String, CancellationToken>> {
        let ending = self.inner.ending.lock();
        ending.unwrap_or_else(PoisonError::into_inner)
    }

    /// The session's events from number `from` on: the past at once, then as they come.
    pub async fn events(&self, id: &str, from: u64) -> Result<EventReader, EngineError> {
        let log = self.inner.live.get(id).map(|handle| handle.log);
        if log.is_none() {
            self.past(id).await?;
        }
        Ok(EventReader::new(
            id.to_owned(),
            log,
            self.inner.around.store.clone(),
            from,
        ))
    }

    async fn ask(
        &self,
        id: &str,
        command: impl FnOnce(oneshot::Sender<Result<(), EngineError>>) -> Command,
    ) -> Result<(), EngineError> {
        self.send(id, command).await
    }

    async fn send<T>(
        &self,
        id: &str,
        command: impl FnOnce(oneshot::Sender<Result<T, EngineError>>) -> Command,
    ) -> Result<T, EngineError> {
        let handle = self.awake(id).await?;
        let (reply, answer) = oneshot::channel();
        let over = || EngineError::SessionOver {
            id: id.to_owned(),
            state: Lease::Closed,
        };
        handle
            .commands
            .send(command(reply))
            .await
            .map_err(|_| over())?;
        answer.await.unwrap_or_else(|_| Err(over()))
    }

    async fn past(&self, id: &str) -> Result<SessionRecord, EngineError> {
        let not_found = || EngineError::SessionNotFound { id: id.to_owned() };
        let row = self
            .inner
            .around
            .store
            .session(id)
            .await
            .map_err(of(&id))?
            .ok_or_else(not_found)?;
        serde_json::from_str(&row.record).map_err(|_| not_found())
    }
}

fn of(name: &impl ToString) -> impl FnOnce(store::StoreError) -> EngineError {
    let name = name.to_string();
    move |source| EngineError::Store { name, source }
}
