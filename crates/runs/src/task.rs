//! The task that owns one run: it follows the turn, lets the machine decide, keeps the decision, then shows it.
//!
//! While the run awaits, the task only waits too, and may be given up: the record is enough to go on, as it is when the
//! daemon goes.

mod deciding;
mod following;
mod keeping;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use domain::{
    run::{Effect, Input, Status, TurnEnd},
    turn::Event as TurnEvent,
};
use engine::{EngineError, EventReader};
use platform::crash;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use wire::runs::{Event, Message};

use crate::{
    awaits,
    begin::{Begun, Conversation},
    error::RunsError,
    log::RunLog,
    node::{Handle, Runs},
    record::{self, RunRecord, SessionRecord},
    story::Story,
};

/// Commands that may wait at a run; a caller sends one at a time.
const COMMANDS_MAX: usize = 16;

/// How long events that were told may wait to be stored: so much of a run's story goes with a daemon that is killed.
const STORED_WITHIN: Duration = Duration::from_millis(500);

/// What a caller wants of a run.
#[derive(Debug)]
pub(crate) enum Command {
    Resume {
        messages: Vec<Message>,
        /// The question that the caller answers, where they say which.
        ask: Option<String>,
        /// How many events there were before; a stream of the resume begins after them.
        reply: oneshot::Sender<Result<u64, RunsError>>,
    },
    Cancel {
        reply: oneshot::Sender<Result<(), RunsError>>,
    },
    /// If it awaits, it is to do so without its turn and without this task.
    PutDown,
}

/// A run that has begun, as it was kept.
#[derive(Debug)]
pub(crate) struct NewRun {
    pub(crate) record: RunRecord,
    pub(crate) session: SessionRecord,
    pub(crate) conversation: Conversation,
    pub(crate) place: OwnedSemaphorePermit,
}

pub(crate) struct RunTask {
    runs: Runs,
    record: RunRecord,
    /// The session as it was kept when the run began; nobody but the run changes it until the run is over.
    session: Option<SessionRecord>,
    conversation: Conversation,
    _place: Option<OwnedSemaphorePermit>,
    log: Arc<RunLog>,
    view: watch::Sender<Arc<RunRecord>>,
    story: Story,
    opening: Option<AbortOnDropHandle<Result<Begun, RunsError>>>,
    begun: Option<Begun>,
    /// Events that were looked at before their turn came.
    ahead: VecDeque<Arc<TurnEvent>>,
    in_turn: bool,
    /// Files that the turn's tools have named, below the workspace.
    touched: BTreeSet<String>,
    has_awaited: bool,
    /// Whether the store has what the run has become.
    is_kept: bool,
    /// When the daemon ends.
    stop: CancellationToken,
    /// When events are stored that wait for it.
    store_at: Option<Instant>,
}

/// Starts the task of a new run. `created` is what it was before it began, `effects` what its beginning asks for.
pub(crate) fn spawn_new(
    runs: &Runs,
    new: NewRun,
    created: RunRecord,
    effects: Vec<Effect>,
    log: RunLog,
) -> Handle {
    let (mut task, handle, inbox) = RunTask::new(runs, new.record, log);
    task.session = Some(new.session);
    task.conversation = new.conversation;
    task._place = Some(new.place);
    let created = Arc::new(created);
    task.view.send_replace(created.clone());
    runs.tasks().spawn(|stop| async move {
        for record in [created, Arc::new(task.record.clone())] {
            task.log.append(Event::of_run(record.view()));
            task.view.send_replace(record);
        }
        for effect in effects {
            task.perform(effect, None).await;
        }
        task.run(inbox, stop).await;
    });
    handle
}

/// Starts the task of a run that awaits and had none.
pub(crate) fn spawn_known(runs: &Runs, record: RunRecord, log: RunLog) -> Handle {
    let (mut task, handle, inbox) = RunTask::new(runs, record, log);
    task._place = runs.place().ok(); // An answer is never refused for want of room.
    runs.tasks()
        .spawn(|stop| async move { task.run(inbox, stop).await });
    handle
}

/// What the task wakes up for.
enum Wake {
    Stop,
    Opened(Box<Result<Begun, RunsError>>),
    Command(Command),
    Event(Result<Option<Arc<TurnEvent>>, EngineError>),
    Due,
    Store,
}

/// Whether the task has something left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    On,
    ToRest,
}

impl RunTask {
    fn new(runs: &Runs, record: RunRecord, log: RunLog) -> (Self, Handle, mpsc::Receiver<Command>) {
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let log = Arc::new(log);
        let (view_in, view) = watch::channel(Arc::new(record.clone()));
        let handle = Handle {
            commands,
            log: log.clone(),
            view,
        };
        let task = Self {
            runs: runs.clone(),
            story: Story::new(&record.agent),
            has_awaited: record.status() == Status::Awaiting,
            record,
            session: None,
            conversation: Conversation::Known,
            _place: None,
            log,
            view: view_in,
            opening: None,
            begun: None,
            ahead: VecDeque::new(),
            in_turn: false,
            touched: BTreeSet::new(),
            is_kept: true,
            stop: runs.tasks().stop(),
            store_at: None,
        };
        (task, handle, inbox)
    }

    async fn run(&mut self, mut inbox: mpsc::Receiver<Command>, stop: CancellationToken) {
        while !self.record.status().is_over() {
            match self.wake(&mut inbox, &stop).await {
                Wake::Stop => return,
                Wake::Opened(opened) => self.on_opened(*opened).await,
                Wake::Command(command) => {
                    if self.on_command(command).await == Goes::ToRest {
                        // Whoever has asked meanwhile gets no answer, and asks the task that the run is given then.
                        self.runs.forget(&self.record.id);
                        return;
                    }
                }
                Wake::Event(event) => self.on_event(event).await,
                Wake::Due => self.input(Input::Tick, None).await,
                Wake::Store => self.flush().await,
            }
            if self.log.is_full() {
                self.flush().await;
            }
            self.store_at = match self.store_at {
                _ if !self.log.has_unstored() => None,
                Some(at) if at > Instant::now() => Some(at),
                Some(_) | None => Some(Instant::now() + STORED_WITHIN),
            };
        }
        if self.stop.is_cancelled() && !self.is_kept {
            return; // Nobody was told, so the next daemon takes it up as it was kept last.
        }
        self.runs.forget(&self.record.id);
        self.log.finish();
        // Whoever asked in the last moment learns that it is over.
        inbox.close();
        while let Some(command) = inbox.recv().await {
            self.on_command(command).await;
        }
    }

    async fn wake(
        &mut self,
        inbox: &mut mpsc::Receiver<Command>,
        stop: &CancellationToken,
    ) -> Wake {
        let wait = self
            .record
            .machine
            .due()
            .map(|due| due.since(record::now()));
        if let Some(event) = self.ahead.pop_front() {
            return Wake::Event(Ok(Some(event)));
        }
        tokio::select! { biased;
            () = stop.cancelled() => Wake::Stop,
            command = inbox.recv() => command.map_or(Wake::Stop, Wake::Command),
            opened = opened(&mut self.opening) => {
                self.opening = None;
                Wake::Opened(Box::new(opened))
            }
            event = next(&mut self.begun) => Wake::Event(event),
            () = due(wait) => Wake::Due,
            () = store_due(self.store_at) => Wake::Store,
        }
    }

    async fn on_command(&mut self, command: Command) -> Goes {
        match command {
            Command::Resume {
                messages,
                ask,
                reply,
            } => {
                let result = self.resume(&messages, ask.as_deref()).await;
                let is_refused = result.is_err();
                let _ = reply.send(result); // The caller may have left.
                if is_refused && self.holds_nothing() {
                    return Goes::ToRest;
                }
            }
            Command::Cancel { reply } => {
                let applied = self.try_input(Input::Cancel, None).await;
                let _ = reply.send(applied); // As above.
            }
            Command::PutDown => return self.put_down().await,
        }
        Goes::On
    }

    /// It awaits, and its turn is gone: whoever answers finds it in the store.
    fn holds_nothing(&self) -> bool {
        self.record.status() == Status::Awaiting && self.begun.is_none() && self.opening.is_none()
    }

    async fn resume(
        &mut self,
        messages: &[Message],
        meant: Option<&str>,
    ) -> Result<u64, RunsError> {
        let seen = self.log.count();
        let asked = self
            .record
            .asked()
            .map(|(id, kind)| (id.clone(), kind.clone()));
        let Some((ask, kind)) = asked else {
            self.try_input(Input::Resume, None).await?;
            return Ok(seen);
        };
        if meant.is_some_and(|meant| meant != ask.0) {
            let id = self.record.id.clone();
            return Err(RunsError::OtherAsk { id });
        }
        let answer = awaits::answer(&kind, messages).map_err(|how| RunsError::WrongAnswer {
            id: self.record.id.clone(),
            how,
        })?;
        self.record.asks.remove(&ask.0);
        let resumed = self
            .try_input(Input::Resume, Some((kind.clone(), answer)))
            .await;
        if resumed.is_err() {
            self.record.asks.insert(ask.0, kind);
        }
        resumed.map(|()| seen)
    }

    async fn on_opened(&mut self, opened: Result<Begun, RunsError>) {
        match opened {
            Ok(begun) => {
                crash::point("run.turn-asked-for");
                self.record.turn = Some(begun.turn);
                let session = begun.engine_session.clone();
                self.begun = Some(begun);
                self.conversation = Conversation::Known;
                self.goes_on_in(session).await;
                if self.record.status() == Status::Cancelling {
                    self.cancel_turn().await;
                }
            }
            Err(_) if self.record.status() == Status::Cancelling => {
                let end = TurnEnd::Cancelled;
                self.input(Input::TurnEnded { end }, None).await;
            }
            Err(error) => {
                self.record.error = Some(error.failure());
                self.input(Input::Fail, None).await;
            }
        }
    }
}

async fn opened(
    opening: &mut Option<AbortOnDropHandle<Result<Begun, RunsError>>>,
) -> Result<Begun, RunsError> {
    match opening {
        Some(opening) => match opening.await {
            Ok(opened) => opened,
            Err(_) => Err(EngineError::ShuttingDown.into()),
        },
        None => std::future::pending().await,
    }
}

async fn next(begun: &mut Option<Begun>) -> Result<Option<Arc<TurnEvent>>, EngineError> {
    let reader: Option<&mut EventReader> = begun.as_mut().map(|begun| &mut begun.reader);
    match reader {
        Some(reader) => reader.next().await,
        None => std::future::pending().await,
    }
}

async fn store_due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

async fn due(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
