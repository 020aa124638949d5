//! What every handler shares: the engine, the register of tasks, the contexts, the extensions, the webhooks.

use std::sync::Arc;

use domain::{Name, Timestamp};
use engine::{Engine, EngineError, Records, Stored, Which};
use platform::Tasks;
use tokio::sync::{OnceCell, Semaphore, mpsc, oneshot};
use tracing::warn;
use wire::a2a::{Part, TaskState};

use crate::{
    A2aConfig, clock,
    config::Extensions,
    context::{ContextKey, Contexts},
    error::Refusal,
    feed::Feed,
    push::Push,
    record::{Entry, Letter, LiveTask, Register, TASK_KIND, TaskRecord},
    request::READING_MAX,
    run::{Begin, TaskRun},
};

/// Letters that may wait at one task: a client answers one ask at a time.
const INBOX_MAX: usize = 16;

/// Documents read at a time; each may have some megabytes.
const PAGE: u32 = 16;

/// One node's A2A side.
#[derive(Debug)]
pub(crate) struct Face {
    pub(crate) config: A2aConfig,
    pub(crate) engine: Engine,
    pub(crate) tasks: Tasks,
    pub(crate) extensions: Extensions,
    pub(crate) register: Register,
    pub(crate) contexts: Contexts,
    pub(crate) push: Push,
    /// Set once the register knows what is in the store.
    known: OnceCell<()>,
    /// Places for bodies that become values.
    pub(crate) reading: Semaphore,
    /// Since when the cards are as they are.
    pub(crate) since: Timestamp,
}

impl Face {
    pub(crate) fn new(
        config: A2aConfig,
        engine: Engine,
        tasks: Tasks,
        extensions: Extensions,
    ) -> Arc<Self> {
        let push = Push::new(config.push);
        Arc::new(Self {
            config,
            engine,
            tasks,
            extensions,
            register: Register::default(),
            contexts: Contexts::default(),
            push,
            known: OnceCell::new(),
            reading: Semaphore::new(READING_MAX),
            since: clock::now(),
        })
    }

    pub(crate) fn records(&self) -> Records {
        self.engine.records()
    }

    /// Takes up what the last daemon left: interrupted tasks come to their end in words, asks stay open, and tasks that had
    /// not begun take their turns in the order in which they came.
    pub(crate) async fn take_up(self: &Arc<Self>) -> Result<(), EngineError> {
        let mut live = Vec::new();
        self.read_tasks(Which::Live, |stored| live.push(stored.value))
            .await?;
        // Those that had begun come before those that wait for them.
        live.sort_by_key(|record| {
            let entry = Entry::of(record);
            (entry.state == TaskState::Submitted, entry.at)
        });
        for record in live {
            self.take_up_task(record).await;
        }
        self.push.take_up(self).await
    }

    /// The register knows every task from here on. Reading them takes a while where there are many, so that only whoever
    /// wants a list waits for it.
    pub(crate) async fn know_all(&self) -> Result<(), EngineError> {
        let read = async || {
            let note = |stored: Stored<TaskRecord>| {
                self.register
                    .note_unless_known(&stored.id, Entry::of(&stored.value));
            };
            self.read_tasks(Which::All, note).await
        };
        self.known.get_or_try_init(read).await?;
        Ok(())
    }

    async fn read_tasks(
        &self,
        which: Which,
        mut take: impl FnMut(Stored<TaskRecord>),
    ) -> Result<(), EngineError> {
        let records = self.records();
        let mut before = None;
        loop {
            let page: Vec<Stored<TaskRecord>> =
                records.list(TASK_KIND, which, before, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            before = Some((last.at, last.id.clone()));
            page.into_iter().for_each(&mut take);
        }
    }

    async fn take_up_task(self: &Arc<Self>, record: TaskRecord) {
        let id = record.task.id.clone();
        let begin = match record.task.status.state {
            TaskState::InputRequired | TaskState::AuthRequired => Begin::Parked,
            TaskState::Working if record.session.is_some() => Begin::CatchUp,
            // Before an agent hears of a task it is kept as working, so nobody has heard of this one.
            TaskState::Submitted => match record.task.history.last() {
                Some(message) => Begin::Prompt((self.config.prompt)(message)),
                None => Begin::Lost,
            },
            TaskState::Working
            | TaskState::Completed
            | TaskState::Failed
            | TaskState::Canceled
            | TaskState::Rejected => Begin::Lost,
        };
        if let Err(refusal) = self.spawn(record, begin).await {
            warn!(
                task = id,
                refusal = refusal.message,
                "a task could not be taken up"
            );
        }
    }

    /// Starts the task that owns an A2A task from here on. It lives from the moment in which it is known, whether or not the
    /// client is still there: nothing is awaited in between.
    pub(crate) async fn spawn(
        self: &Arc<Self>,
        record: TaskRecord,
        begin: Begin,
    ) -> Result<Arc<Feed>, Refusal> {
        let name = Name::parse(&record.agent).map_err(|_| Refusal::no_agent(&record.agent))?;
        let key = ContextKey {
            caller: record.caller.clone(),
            agent: record.agent.clone(),
            context: record.task.context_id.clone(),
        };
        let context = self.contexts.get(key, &self.records()).await?;
        let (inbox, letters) = mpsc::channel::<Letter>(INBOX_MAX);
        let feed = Feed::new(record.task.clone());
        let said = record.task.history.iter().flat_map(|said| &said.parts);
        let live = LiveTask {
            feed: feed.clone(),
            inbox,
            weight: said.map(Part::weight).sum(),
        };
        let id = record.task.id.clone();
        self.register.insert(&id, live, Entry::of(&record))?;
        let (accepted, answer) = oneshot::channel();
        let run = TaskRun::new(self.clone(), name, record, feed.clone(), context, letters);
        self.tasks.spawn(|stop| run.run(begin, accepted, stop));
        let stopped = || Refusal::busy("this node is about to stop");
        answer.await.unwrap_or_else(|_| Err(stopped()))?;
        Ok(feed)
    }
}
