//! The task that owns one A2A task: waits for its place in the context, prompts the session, follows its events.
//!
//! Every change of state is kept before it is shown. When the daemon stops, the task is left as it is; the next daemon
//! takes it up from its document and the session's history.

mod fold;
mod letters;

pub use fold::PASSED_ON;

use std::{sync::Arc, task::Poll, time::Duration};

use domain::{
    Name, Trace,
    session::{ClientId, Lease, WhenBusy},
    turn::TurnId,
};
use engine::{
    Answers, AttachAs, CreateSession, EngineError, Keep, Loan, Note, Prompt, Start, TurnOptions,
    chain,
};
use futures_util::poll;
use serde_json::json;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use wire::a2a::{Message, Part, Role, StatusUpdate, Task, TaskState, TaskStatus};

use crate::{
    calls::CallGuard,
    clock,
    context::Context,
    error::Refusal,
    face::Face,
    feed::Feed,
    record::{Entry, Letter, TASK_KIND, TaskRecord},
};

/// How long an agent has to end a turn that was cancelled; after it the task is over for the client.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

/// How long a task waits for its client's answer.
const ANSWER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How a task begins.
#[derive(Debug)]
pub(crate) enum Begin {
    Prompt(String),
    /// Its turn ran under another daemon; what happened is read from its session.
    CatchUp,
    /// It waits for its client, and the turn that asked is gone.
    Parked,
    /// It was interrupted before its turn began.
    Lost,
}

/// How a part of a task's life ended.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Over,
    /// There is more to say to the agent.
    Prompt(String),
}

#[derive(Debug)]
pub(crate) struct TaskRun {
    face: Arc<Face>,
    agent: Name,
    record: TaskRecord,
    feed: Arc<Feed>,
    context: Arc<Context>,
    letters: mpsc::Receiver<Letter>,
    client: ClientId,
    /// The agent, where it was started for this task.
    loan: Option<Loan>,
    /// Who stands behind the turn, as long as it is taken.
    call: Option<CallGuard>,
    /// When waiting ends: for an answer, or for the end of a cancelled turn.
    deadline: Option<Instant>,
    cancelling: bool,
    folding: fold::Folding,
    /// Its place in the context, from the turn that asked to the one that its answer begins.
    place: Option<OwnedSemaphorePermit>,
    /// Whoever waits to hear that the task is kept and has its place in the context.
    accepted: Option<Accepted>,
}

/// How a task tells that it was taken, or why not.
pub(crate) type Accepted = oneshot::Sender<Result<(), Refusal>>;

impl TaskRun {
    pub(crate) fn new(
        face: Arc<Face>,
        agent: Name,
        record: TaskRecord,
        feed: Arc<Feed>,
        context: Arc<Context>,
        letters: mpsc::Receiver<Letter>,
    ) -> Self {
        let client = ClientId(format!("a2a:{}#{}", record.caller, record.task.id));
        Self {
            face,
            agent,
            record,
            feed,
            context,
            letters,
            client,
            loan: None,
            call: None,
            deadline: None,
            cancelling: false,
            folding: fold::Folding::default(),
            place: None,
            accepted: None,
        }
    }

    pub(crate) async fn run(mut self, begin: Begin, accepted: Accepted, stop: CancellationToken) {
        let task = self.record.task.id.clone();
        let face = self.face.clone();
        self.accepted = Some(accepted);
        tokio::select! { biased;
            // The document says how far the task was.
            () = stop.cancelled() => return,
            () = self.live(begin) => {}
        }
        face.register.retire(&task);
    }

    async fn live(&mut self, begin: Begin) {
        // Nobody hears of a task that is not kept.
        let records = self.face.records();
        let id = &self.record.task.id;
        let kept = records.put(TASK_KIND, id, Keep::Live, &self.record, None);
        if let Err(error) = kept.await {
            self.face.register.forget(id);
            self.tell_accepted(Err(error.into()));
            return;
        }
        // One that begins has its place in the context first, so that tasks take turns in the order in which they were sent.
        match begin {
            Begin::Prompt(_) => {}
            Begin::Parked => {
                self.place = Some(self.context.turn().await);
                self.tell_accepted(Ok(()));
            }
            Begin::CatchUp | Begin::Lost => self.tell_accepted(Ok(())),
        }
        let mut next = match begin {
            Begin::Prompt(prompt) => Next::Prompt(prompt),
            Begin::CatchUp => self.catch_up().await,
            Begin::Parked => self.parked().await,
            Begin::Lost => {
                let words = "the daemon ended before this task began; send it again";
                self.finish(TaskState::Failed, Some(words.to_owned())).await;
                Next::Over
            }
        };
        while let Next::Prompt(prompt) = next {
            next = self.turn(prompt).await;
        }
        if let Some(session) = self.record.session.clone() {
            let sessions = self.face.engine.sessions();
            sessions.detach(&session, self.client.clone()).await;
        }
    }

    /// One turn, from its place in the queue to its end.
    async fn turn(&mut self, prompt: String) -> Next {
        let _place = match self.place.take() {
            Some(place) => place,
            None => match self.wait_for_place().await {
                Some(place) => place,
                None => return Next::Over,
            },
        };
        match self.begin_turn(prompt).await {
            Ok(()) => self.follow().await,
            Err(error) => {
                self.finish(TaskState::Failed, Some(chain(&error))).await;
                Next::Over
            }
        }
    }

    /// Waits until the context is free; nothing once the task is over.
    async fn wait_for_place(&mut self) -> Option<OwnedSemaphorePermit> {
        let context = self.context.clone();
        let waiting = context.turn();
        tokio::pin!(waiting);
        let first = poll!(&mut waiting);
        self.tell_accepted(Ok(()));
        if let Poll::Ready(place) = first {
            return Some(place);
        }
        loop {
            tokio::select! { biased;
                letter = self.letters.recv() => match letter {
                    Some(Letter::Cancel) => {
                        self.finish(TaskState::Canceled, None).await;
                        return None;
                    }
                    Some(Letter::Message { reply, .. }) => letters::not_now(reply),
                    None => return None, // The face is gone.
                },
                place = &mut waiting => return Some(place),
            }
        }
    }

    async fn begin_turn(&mut self, prompt: String) -> Result<(), EngineError> {
        self.loan = self
            .face
            .engine
            .borrow(&self.agent, Start::IfNeeded)
            .await?;
        let session = self.session().await?;
        if let Some(loan) = &mut self.loan {
            loan.is_for(&session);
        }
        let sessions = self.face.engine.sessions();
        let attach = AttachAs {
            client: self.client.clone(),
            answers: Answers::Everything,
        };
        let view = sessions.attach(&session, attach).await?;
        self.record.session = Some(session.clone());
        self.record.turn = None;
        self.record.from_seq = view.last_seq + 1;
        self.show(TaskState::Working, None).await;
        let trace = self.record.trace;
        let trace = trace.unwrap_or_else(|| Trace::new(uuid::Uuid::new_v4().as_u128()));
        self.call = Some(
            self.face
                .config
                .calls
                .enter(trace, self.record.chain.clone()),
        );
        let prompt = Prompt {
            text: prompt,
            options: TurnOptions {
                trace: Some(trace),
                ..TurnOptions::default()
            },
            when_busy: WhenBusy::Queue,
            by: None,
        };
        let sessions = self.face.engine.sessions();
        self.record.turn = Some(sessions.prompt(&session, prompt).await?);
        Ok(())
    }

    /// The context's session, or a new one if there is none that lives.
    async fn session(&self) -> Result<String, EngineError> {
        let sessions = self.face.engine.sessions();
        if let Some(known) = self.context.session()
            && let Ok(view) = sessions.get(&known).await
            && matches!(view.state, Lease::Active | Lease::Idle)
        {
            return Ok(known);
        }
        let create = CreateSession {
            agent: self.agent.clone(),
            client: Some("a2a".to_owned()),
            idle_ttl: None,
        };
        let view = sessions.create(create).await?;
        self.context.keep_session(&view.session_id).await?;
        Ok(view.session_id)
    }

    /// Reads the session's events until the turn is over.
    async fn follow(&mut self) -> Next {
        let Some(session) = self.record.session.clone() else {
            return Next::Over; // A turn that was begun has one.
        };
        let sessions = self.face.engine.sessions().clone();
        let mut reader = match sessions.events(&session, self.record.from_seq).await {
            Ok(reader) => reader,
            Err(error) => return self.fail(&error).await,
        };
        loop {
            let ready = match reader.try_next().await {
                Ok(ready) => ready,
                Err(error) => return self.fail(&error).await,
            };
            let event = match ready {
                Some(event) => Some(event),
                None => {
                    // An ask that was settled at once has been followed by its answer.
                    self.show_ask().await;
                    let deadline = self.deadline;
                    tokio::select! { biased;
                        letter = self.letters.recv() => match letter {
                            Some(letter) => {
                                self.on_letter(letter, &session).await;
                                continue;
                            }
                            None => return Next::Over, // The face is gone.
                        },
                        () = due(deadline) => return self.out_of_time(&session).await,
                        event = reader.next() => match event {
                            Ok(event) => event,
                            Err(error) => return self.fail(&error).await,
                        },
                    }
                }
            };
            let Some(event) = event else {
                let words = "the session ended before this task did".to_owned();
                self.finish(TaskState::Failed, Some(words)).await;
                return Next::Over;
            };
            if let Some(next) = self.fold(&event).await {
                return next;
            }
        }
    }

    /// Reads what happened under another daemon. Nothing runs now, so where the history has no end there was none.
    async fn catch_up(&mut self) -> Next {
        let session = self.record.session.clone().unwrap_or_default();
        let sessions = self.face.engine.sessions();
        let mut reader = match sessions.events(&session, self.record.from_seq).await {
            Ok(reader) => reader,
            Err(error) => return self.fail(&error).await,
        };
        loop {
            match reader.try_next().await {
                Ok(Some(event)) => {
                    if let Some(next) = self.fold(&event).await {
                        return next;
                    }
                }
                Ok(None) => {
                    let words = "the daemon ended during this task; send it again".to_owned();
                    self.finish(TaskState::Failed, Some(words)).await;
                    return Next::Over;
                }
                Err(error) => return self.fail(&error).await,
            }
        }
    }

    async fn fail(&mut self, error: &EngineError) -> Next {
        self.finish(TaskState::Failed, Some(chain(error))).await;
        Next::Over
    }

    async fn out_of_time(&mut self, session: &str) -> Next {
        if self.cancelling {
            let words = "the agent has not said yet that it stopped";
            self.finish(TaskState::Canceled, Some(words.to_owned()))
                .await;
        } else {
            let _ = self.face.engine.sessions().cancel(session).await; // The words below are true either way.
            let words = format!("nobody answered within {} h", ANSWER_MAX.as_secs() / 3600);
            self.finish(TaskState::Failed, Some(words)).await;
        }
        Next::Over
    }

    fn tell_accepted(&mut self, outcome: Result<(), Refusal>) {
        if let Some(accepted) = self.accepted.take() {
            let _ = accepted.send(outcome); // The asker may have left.
        }
    }

    /// The task is over.
    async fn finish(&mut self, state: TaskState, words: Option<String>) {
        self.record.ask = None;
        self.folding.close_answer(&self.feed);
        let said = words.map(|words| self.say(vec![Part::text(words)]));
        self.show(state, said).await;
    }

    /// Keeps the new state, and shows it.
    async fn show(&mut self, state: TaskState, message: Option<Message>) {
        let status = TaskStatus {
            state,
            message,
            timestamp: Some(clock::text(clock::now())),
        };
        let mut task = Task::clone(&self.feed.task());
        task.status = status.clone();
        let update = StatusUpdate {
            task_id: task.id.clone(),
            context_id: task.context_id.clone(),
            status,
            metadata: None,
        };
        self.record.task = task;
        let keep = if state.is_terminal() {
            Keep::Finished
        } else {
            Keep::Live
        };
        self.keep(keep, state).await;
        self.face
            .register
            .note(&self.record.task.id, Entry::of(&self.record));
        self.feed.status(update);
    }

    async fn keep(&self, keep: Keep, state: TaskState) {
        let record = &self.record;
        let id = &record.task.id;
        let note = Note {
            kind: format!("a2a.{}", state.as_v03()),
            agent: Some(record.agent.clone()),
            session: record.session.clone(),
            body: json!({
                "task": id,
                "context": record.task.context_id,
                "caller": record.caller,
            }),
        };
        let records = self.face.records();
        if let Err(error) = records.put(TASK_KIND, id, keep, record, Some(note)).await {
            warn!(task = id, error = %chain(&error), "could not keep what became of a task");
        }
    }

    /// A message of the agent in this task.
    fn say(&self, parts: Vec<Part>) -> Message {
        let id = uuid::Uuid::new_v4().to_string();
        let mut message = Message::new(id, Role::Agent, parts);
        message.task_id = Some(self.record.task.id.clone());
        message.context_id = Some(self.record.task.context_id.clone());
        message
    }

    fn is_ours(&self, turn: TurnId) -> bool {
        self.record.turn == Some(turn)
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
