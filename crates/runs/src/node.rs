//! The runs of a node: begun, found again, taken up after a restart, and cleaned up after.

mod steering;
mod tidying;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::{
    Name,
    run::{Effect, Status},
};
use engine::{Engine, EngineError, Records};
use platform::Tasks;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, mpsc, watch};

use crate::{
    beside::AtWork,
    config::RunsConfig,
    error::RunsError,
    exchange::{Exchange, ExchangeError},
    log::RunLog,
    record::RunRecord,
    task::{self, Command, NewRun},
};

/// Runs that have a task, at a time; each may hold a process of an agent. Those that await and were put down are only
/// in the store.
const LIVE_MAX: usize = 256;

/// Runs that await with their turn still there to take the answer. A turn that waits holds a conversation in its agent,
/// and agents hold few hundred; with more, the oldest is put down, and its answer begins another turn.
const HELD_MAX: usize = 64;

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
    /// Places for them.
    places: Arc<Semaphore>,
    /// Those among them that await, the oldest first.
    held: Mutex<VecDeque<String>>,
    /// Whose turns go on in which workspace.
    at_work: AtWork,
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
                places: Arc::new(Semaphore::new(LIVE_MAX)),
                held: Mutex::default(),
                at_work: AtWork::default(),
                gate: Semaphore::new(1),
            }),
        };
        runs.take_up()
            .await
            .map_err(|source| OpenError::Records { source })?;
        runs.keep_tidy();
        Ok(runs)
    }

    /// A place for another run, if there is one.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, RunsError> {
        let places = self.inner.places.clone();
        places.try_acquire_owned().map_err(|_| RunsError::TooBusy)
    }

    /// Starts the task of a new run; `created` is what it was before its first move.
    pub(crate) fn launch(&self, new: NewRun, created: RunRecord, effects: Vec<Effect>) -> Handle {
        let log = RunLog::new(&created.id, self.records());
        let id = created.id.clone();
        let mut live = self.live();
        let handle = task::spawn_new(self, new, created, effects, log);
        live.insert(id, handle.clone());
        handle
    }

    /// A run awaits, and its turn waits with it. If there are too many of them, the oldest is to put its turn down.
    pub(crate) fn hold(&self, id: &str) {
        let mut held = self.held();
        held.push_back(id.to_owned());
        let surplus = held.len().saturating_sub(HELD_MAX);
        // They stay in the list until they are at rest: one that could not be put down is told again.
        let oldest: Vec<String> = held.iter().take(surplus).cloned().collect();
        drop(held);
        for id in oldest {
            match self.handle(&id) {
                // A run that is being asked something is no idle one.
                Some(handle) => drop(handle.commands.try_send(Command::PutDown)),
                None => self.release(&id),
            }
        }
    }

    /// Whether a run that awaits may give up its turn. Where the work outlives the turn, its end would be the end of
    /// the work: a workflow would be cancelled, and so would the run of another node.
    pub(crate) fn may_put_down(&self, agent: &Name) -> bool {
        const OUTLIVES_ITS_TURN: [&str; 4] = ["workflow", "peer", "a2a", "delegation"];
        let agent = self.engine().agent(agent.as_str());
        agent.is_ok_and(|agent| !OUTLIVES_ITS_TURN.contains(&agent.backend_type.as_str()))
    }

    /// A run awaits no more.
    pub(crate) fn release(&self, id: &str) {
        self.held().retain(|held| held != id);
    }

    pub(crate) fn at_work(&self) -> &AtWork {
        &self.inner.at_work
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
        self.release(id);
    }

    pub(crate) fn handle(&self, id: &str) -> Option<Handle> {
        self.live().get(id).cloned()
    }

    fn held(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.inner
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
