//! The task that owns one A2A task: waits for its place in the context, prompts the session, follows its events.
//!
//! Every change of state is kept before it is shown. When the daemon stops, the task is left as it is; the next daemon
//! takes it up from its document and the session's history.

mod begin;
mod fold;
mod keeping;
mod letters;

pub use fold::PASSED_ON;

use std::{sync::Arc, task::Poll, time::Duration};

use domain::{Name, session::ClientId, turn::TurnId};
use engine::{CallGuard, EngineError, EventReader, Keep, Loan, Start, chain};
use futures_util::poll;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use wire::a2a::{Message, Part, Role, TaskState};

use crate::{
    context::Context,
    error::Refusal,
    face::Face,
    feed::Feed,
    record::{Letter, TASK_KIND, TaskRecord},
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
        let (engine, agent) = (self.face.engine.clone(), self.agent.clone());
        let starting = async move { engine.borrow(&agent, Start::IfNeeded).await };
        let Some(borrowed) = self.unless_cancelled(starting).await else {
            return Next::Over;
        };
        let begun = match borrowed {
            Ok(loan) => {
                self.loan = loan;
                self.begin_turn(prompt).await
            }
            Err(error) => Err(error),
        };
        match begun {
            Ok(reader) => self.follow(reader).await,
            Err(error) => self.fail(&error).await,
        }
    }

    /// Waits until the context is free; nothing once the task is over.
    async fn wait_for_place(&mut self) -> Option<OwnedSemaphorePermit> {
        let waiting = self.context.turn();
        tokio::pin!(waiting);
        let first = poll!(&mut waiting);
        self.tell_accepted(Ok(()));
        match first {
            Poll::Ready(place) => Some(place),
            Poll::Pending => self.unless_cancelled(waiting).await,
        }
    }

    /// What comes before the turn; nothing once the task was cancelled meanwhile.
    async fn unless_cancelled<T>(&mut self, waiting: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(waiting);
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
                done = &mut waiting => return Some(done),
            }
        }
    }

    /// Reads the session's events until the turn is over.
    async fn follow(&mut self, mut reader: EventReader) -> Next {
        let Some(session) = self.record.session.clone() else {
            return Next::Over; // A turn that was begun has one.
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
        let words = words.or_else(|| self.folding.left_out());
        self.folding.close_answer(&self.feed);
        let said = words.map(|words| self.say(vec![Part::text(words)]));
        self.show(state, said).await;
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
