//! The runs of a node: begun, found again, taken up after a restart, and cleaned up after.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use domain::{
    Timestamp,
    run::{Input, Status},
};
use engine::{Caller, Engine, EngineError, Keep, Note, Records, Rights, Which};
use platform::Tasks;
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot, watch};
use tracing::{info, warn};
use wire::runs::{Event, Message};

use crate::{
    config::RunsConfig,
    error::RunsError,
    exchange::{Exchange, ExchangeError},
    log::RunLog,
    record::{self, Failure, RUN, RunRecord},
    task::{self, Command},
};

/// Runs that are not over, at a time; each may hold a process of an agent.
const LIVE_MAX: usize = 256;

/// How often what has run out is looked for.
const ROUND: Duration = Duration::from_secs(30);

/// Runs looked at in one round.
const PAGE: u32 = 1000;

/// The runs API of a node. Clones are the same.
#[derive(Debug, Clone)]
pub struct Runs {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: RunsConfig,
    engine: Engine,
    tasks: Tasks,
    exchange: Exchange,
    live: Mutex<HashMap<String, Handle>>,
    /// One creation or taking up at a time: the same key or session must not begin two runs.
    gate: Semaphore,
}

/// A run that has a task.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) log: Arc<RunLog>,
    pub(crate) view: watch::Receiver<Arc<RunRecord>>,
}

/// Why the runs API could not be built.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("could not open the exchange")]
    Exchange { source: ExchangeError },
    #[error("could not read the runs of the last daemon")]
    Records { source: EngineError },
}

impl Runs {
    /// Takes up what the last daemon left: runs that await go on waiting, those that were at work have failed.
    pub async fn open(config: RunsConfig, engine: Engine, tasks: Tasks) -> Result<Self, OpenError> {
        let exchange = Exchange::open(config.exchange.clone(), engine.records())
            .await
            .map_err(|source| OpenError::Exchange { source })?;
        let runs = Self {
            inner: Arc::new(Inner {
                config,
                engine,
                tasks,
                exchange,
                live: Mutex::default(),
                gate: Semaphore::new(1),
            }),
        };
        runs.take_up()
            .await
            .map_err(|source| OpenError::Records { source })?;
        runs.keep_tidy();
        Ok(runs)
    }

    async fn take_up(&self) -> Result<(), EngineError> {
        let records = self.records();
        let left = records.list::<RunRecord>(RUN, Which::Live, None, PAGE);
        for stored in left.await? {
            let mut record = stored.value;
            let before = record.status();
            if record
                .machine
                .apply(Input::Restarted, record::now())
                .is_err()
            {
                continue;
            }
            if record.status() == Status::Failed && before != Status::Failed {
                record.error = Some(Failure {
                    code: "interrupted".to_owned(),
                    message: "the node was restarted while this run was at work".to_owned(),
                    details: None,
                    suggestion: "look at what it has done, then begin a new run".to_owned(),
                });
            }
            self.end_or_keep(record).await?;
        }
        Ok(())
    }

    /// Keeps a run that has no task.
    async fn end_or_keep(&self, mut record: RunRecord) -> Result<(), EngineError> {
        let is_over = record.status().is_over();
        if is_over {
            record.finished_at = Some(record::now());
            record.asks.clear();
            let run = record.id.clone();
            let changed = self
                .change_session(&record.session, |session| {
                    session.last_active = record::now();
                    if session.active_run.as_ref() == Some(&run) {
                        session.active_run = None;
                    }
                })
                .await;
            if let Err(error) = changed {
                warn!(%error, run, "the session could not be kept");
            }
        }
        let keep = if is_over { Keep::Finished } else { Keep::Live };
        let note = is_over.then(|| Note {
            kind: format!("run.{}", record.status().as_str()),
            agent: Some(record.agent.to_string()),
            body: json!({ "run": record.id, "caller": record.caller }),
            ..Note::default()
        });
        let records = self.records();
        records.put(RUN, &record.id, keep, &record, note).await?;
        if is_over {
            let log = RunLog::open(&record.id, records).await?;
            log.append(Event::of_run(record.view()));
            log.flush().await?;
        }
        Ok(())
    }

    /// Ends what has run out, every while.
    fn keep_tidy(&self) {
        let runs = self.clone();
        self.tasks().spawn(|stop| async move {
            loop {
                tokio::select! { biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(ROUND) => runs.tidy(record::now()).await,
                }
            }
        });
    }

    pub(crate) async fn tidy(&self, now: Timestamp) {
        if let Err(error) = self.expire_runs(now).await {
            warn!(error = %engine::chain(&error), "runs that await could not be looked through");
        }
        if let Err(error) = self.expire_sessions(now).await {
            warn!(%error, "sessions could not be looked through");
        }
        match self.exchange().collect(now).await {
            Ok(0) => {}
            Ok(count) => info!(count, "removed what had expired from the exchange"),
            Err(error) => warn!(%error, "the exchange could not be looked through"),
        }
    }

    /// Runs that await without a task since a restart run out here.
    async fn expire_runs(&self, now: Timestamp) -> Result<(), EngineError> {
        let records = self.records();
        let live = records.list::<RunRecord>(RUN, Which::Live, None, PAGE);
        for stored in live.await? {
            let mut record = stored.value;
            let is_due = record.machine.due().is_some_and(|due| due <= now);
            if !is_due || record.status() != Status::Awaiting || self.handle(&record.id).is_some() {
                continue;
            }
            let _ = record.machine.apply(Input::Tick, now); // A tick is never refused.
            record.error = Some(Failure {
                code: "await_timeout".to_owned(),
                message: "nobody answered what the run asked".to_owned(),
                details: None,
                suggestion: "begin a new run and answer it in time".to_owned(),
            });
            self.end_or_keep(record).await?;
        }
        Ok(())
    }

    /// Whether another run may begin.
    pub(crate) fn check_room(&self) -> Result<(), RunsError> {
        if self.live().len() >= LIVE_MAX {
            return Err(RunsError::TooBusy);
        }
        Ok(())
    }

    /// Starts the task of a new run.
    pub(crate) fn launch(&self, record: RunRecord) -> Handle {
        let log = RunLog::new(&record.id, self.records());
        let id = record.id.clone();
        let mut live = self.live();
        let handle = task::spawn(self, record, log);
        live.insert(id, handle.clone());
        handle
    }

    /// A run that this caller may see, as it was kept last.
    pub(crate) async fn find(&self, id: &str, caller: &Caller) -> Result<RunRecord, RunsError> {
        let not_found = || RunsError::RunNotFound { id: id.to_owned() };
        let live = self.handle(id).map(|handle| handle.view.borrow().clone());
        let record = match live {
            Some(record) => (*record).clone(),
            None => {
                let stored = self.records().get::<RunRecord>(RUN, id).await?;
                stored.ok_or_else(not_found)?.value
            }
        };
        let may_see = record.caller == caller.name || caller.rights == Rights::All;
        may_see.then_some(record).ok_or_else(not_found)
    }

    /// The task of a run; one that awaits since before a restart gets one again.
    async fn wake(&self, record: RunRecord) -> Result<Option<Handle>, RunsError> {
        if let Some(handle) = self.handle(&record.id) {
            return Ok(Some(handle));
        }
        if record.status() != Status::Awaiting {
            return Ok(None);
        }
        let _gate = self.gate().await;
        let log = RunLog::open(&record.id, self.records()).await?;
        let mut live = self.live();
        let handle = live
            .entry(record.id.clone())
            .or_insert_with(|| task::spawn(self, record, log));
        Ok(Some(handle.clone()))
    }

    /// Answers what a run awaits; says how many events came before.
    pub(crate) async fn resume(
        &self,
        record: RunRecord,
        messages: Vec<Message>,
    ) -> Result<(Handle, u64), RunsError> {
        let refused = RunsError::Refused {
            id: record.id.clone(),
            refusal: domain::run::Refusal::NotAwaiting {
                status: record.status(),
            },
        };
        let Some(handle) = self.wake(record).await? else {
            return Err(refused);
        };
        let (reply, answer) = oneshot::channel();
        let command = Command::Resume { messages, reply };
        if handle.commands.send(command).await.is_err() {
            return Err(refused);
        }
        match answer.await {
            Ok(resumed) => resumed.map(|seen| (handle, seen)),
            Err(_) => Err(EngineError::ShuttingDown.into()),
        }
    }

    pub(crate) async fn cancel(&self, record: RunRecord) -> Result<Arc<RunRecord>, RunsError> {
        let refused = RunsError::Refused {
            id: record.id.clone(),
            refusal: domain::run::Refusal::Over {
                status: record.status(),
            },
        };
        let Some(handle) = self.wake(record).await? else {
            return Err(refused);
        };
        let (reply, answer) = oneshot::channel();
        if handle
            .commands
            .send(Command::Cancel { reply })
            .await
            .is_err()
        {
            return Err(refused);
        }
        match answer.await {
            Ok(cancelled) => cancelled.map(|()| handle.view.borrow().clone()),
            Err(_) => Err(EngineError::ShuttingDown.into()),
        }
    }

    /// The events of a run, also of one that is over.
    pub(crate) async fn log(&self, record: &RunRecord) -> Result<Arc<RunLog>, RunsError> {
        if let Some(handle) = self.handle(&record.id) {
            return Ok(handle.log);
        }
        let log = RunLog::open(&record.id, self.records()).await?;
        log.finish();
        Ok(Arc::new(log))
    }

    pub(crate) fn config(&self) -> &RunsConfig {
        &self.inner.config
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.inner.tasks
    }

    pub(crate) fn exchange(&self) -> &Exchange {
        &self.inner.exchange
    }

    pub(crate) fn records(&self) -> Records {
        self.inner.engine.records()
    }

    pub(crate) async fn gate(&self) -> SemaphorePermit<'_> {
        let permit = self.inner.gate.acquire().await;
        permit.expect("the gate is never closed")
    }

    pub(crate) fn forget(&self, id: &str) {
        self.live().remove(id);
    }

    pub(crate) fn handle(&self, id: &str) -> Option<Handle> {
        self.live().get(id).cloned()
    }

    fn live(&self) -> MutexGuard<'_, HashMap<String, Handle>> {
        self.inner
            .live
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// Waits until the run awaits or is over.
    pub(crate) async fn settled(&self) -> Arc<RunRecord> {
        let mut view = self.view.clone();
        let is_settled = |record: &Arc<RunRecord>| {
            record.status().is_over() || record.status() == Status::Awaiting
        };
        let settled = view.wait_for(is_settled).await.map(|record| record.clone());
        // The task is gone with the daemon; the last that was known is all there is.
        settled.unwrap_or_else(|_| self.view.borrow().clone())
    }
}
