//! The task that owns one agent: takes commands and events, lets the machine decide, keeps the decision, performs it.
//!
//! The order is always the same: decide, commit, show, act. Slow acts run as tasks of their own and come back as events,
//! so a stop is never blocked behind a start.

mod acts;

use std::{sync::Arc, time::Duration};

use domain::{
    Timestamp,
    lifecycle::{Exit, Force, Input, Lifecycle, Process, Refusal},
};
use platform::{ProcessRef, Tasks, crash};
use store::{Change, Entry, Store};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    AgentRecord, InstanceFile, Workspace,
    handle::{AgentHandle, Command, Event, Reply, Shown},
    launch::Launcher,
    process,
    waiting::{Until, Waiting, answer},
};
use crate::{Driver, Drivers, EngineError, clock, engine::Registry};
use acts::effect_name;

/// Commands that may wait: a client sends one and waits for its answer, so this many clients may queue up at one agent.
const COMMANDS_MAX: usize = 64;

/// Events that may wait: a process reports at most two.
const EVENTS_MAX: usize = 8;

/// How long a full disk has before a record is written again.
const KEEP_AGAIN: Duration = Duration::from_secs(1);

/// How long whoever ended a client's process on purpose has to say so, which they can only after it has ended.
const SAY_SO: Duration = Duration::from_secs(3);

/// What an agent needs of its surroundings.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) store: Store,
    pub(crate) tasks: Tasks,
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) drivers: Drivers,
    pub(crate) registry: Arc<Registry>,
    pub(crate) workspace: Workspace,
    /// Learns the id of every agent that is gone.
    pub(crate) gone: mpsc::Sender<String>,
}

/// How an agent's task begins.
#[derive(Debug)]
pub(crate) enum Begin {
    /// It has just been created.
    Fresh,
    /// The daemon has come up and found it in the store; `settled` is dropped once what is shown of it is true.
    Recovered { settled: mpsc::Sender<()> },
}

/// Starts the task that owns the agent.
pub(crate) fn spawn(
    record: AgentRecord,
    begin: Begin,
    surroundings: &Arc<Surroundings>,
) -> AgentHandle {
    let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
    let (events_in, events) = mpsc::channel(EVENTS_MAX);
    let record = Arc::new(record);
    let (shown_in, shown) = watch::channel(Shown::of(&record, None));
    let mut task = AgentTask {
        record,
        around: surroundings.clone(),
        shown: shown_in,
        events: events_in,
        process: None,
        driver: None,
        attached: None,
        watching: None,
        lost_at: None,
        restart_at: None,
        keep_again_at: None,
        waiting: Waiting::default(),
        gone: false,
        not_removed: None,
    };
    surroundings.tasks.spawn(|stop| async move {
        if let Begin::Recovered { settled } = begin {
            task.recover().await;
            drop(settled);
        }
        task.run(stop, inbox, events).await;
    });
    AgentHandle { commands, shown }
}

/// What a state that cannot be written down means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    OrRefuse,
    OrRetry,
}

struct AgentTask {
    record: Arc<AgentRecord>,
    around: Arc<Surroundings>,
    shown: watch::Sender<Shown>,
    events: mpsc::Sender<Event>,
    process: Option<process::Ending>,
    driver: Option<Arc<dyn Driver>>,
    /// The last process that a client attached, also once it has ended.
    attached: Option<u32>,
    watching: Option<CancellationToken>,
    /// When a client's process that has ended counts as lost.
    lost_at: Option<Instant>,
    restart_at: Option<Instant>,
    /// When the record is written again that could not be written before.
    keep_again_at: Option<Instant>,
    waiting: Waiting,
    gone: bool,
    /// Why the removal that was just tried failed.
    not_removed: Option<String>,
}

impl AgentTask {
    async fn run(
        &mut self,
        stop: CancellationToken,
        mut inbox: mpsc::Receiver<(Command, Reply)>,
        mut events: mpsc::Receiver<Event>,
    ) {
        while !self.gone {
            let (restart_at, keep_again_at) = (self.restart_at, self.keep_again_at);
            let lost_at = self.lost_at;
            tokio::select! { biased;
                () = stop.cancelled() => break,
                Some(event) = events.recv() => self.on_event(event).await,
                command = inbox.recv() => match command {
                    Some((command, reply)) => self.on_command(command, reply).await,
                    None => break, // Every handle is gone.
                },
                () = due(keep_again_at) => self.keep_again().await,
                () = due(lost_at) => self.lose().await,
                () = due(restart_at) => {
                    self.restart_at = None;
                    self.try_input(Input::RestartDue).await;
                }
            }
            self.answer_those_who_wait();
        }
    }

    async fn recover(&mut self) {
        let alive = self.record.lifecycle.process().is_some_and(|(process, _)| {
            ProcessRef {
                pid: process.pid,
                start_time: process.started,
            }
            .alive()
        });
        self.try_input(Input::Recover { alive }).await;
        // A crash between the commit and the instance file leaves a file that lies.
        self.show().await;
    }

    async fn on_event(&mut self, event: Event) {
        let input = match event {
            Event::Launched { process, driver } => {
                self.driver = driver;
                Input::Launched { process }
            }
            Event::LaunchFailed { reason } => {
                self.process = None;
                Input::LaunchFailed { reason }
            }
            Event::Exited { exit } => {
                self.process = None;
                self.driver = None;
                self.watching = None;
                Input::Exited { exit }
            }
            Event::Lost => {
                self.watching = None;
                self.lost_at = Some(Instant::now() + SAY_SO);
                return;
            }
        };
        self.try_input(input).await;
    }

    /// Nobody has said that the end of a client's process was wanted.
    async fn lose(&mut self) {
        if self.lost_at.take().is_some() {
            let exit = Exit::Unknown;
            self.try_input(Input::Exited { exit }).await;
        }
    }

    async fn on_command(&mut self, command: Command, reply: Reply) {
        self.not_removed = None;
        match command {
            Command::Detach { pid, .. } if self.is_attached(pid) => self.lost_at = None,
            // Whoever wants something of it now finds it as it is.
            _ => self.lose().await,
        }
        let (result, until) = match command {
            Command::Start => (self.start().await, Some(Until::Started)),
            Command::Stop => (self.input(Input::Stop).await, Some(Until::Stopped)),
            Command::Shutdown => (self.input(Input::Shutdown).await, Some(Until::Stopped)),
            Command::Attach { process, metadata } => (self.attach(process, metadata).await, None),
            Command::Detach { pid, .. } if !self.is_attached(pid) => {
                let (name, refusal) = (self.record.name.clone(), Refusal::NotAttached);
                (Err(EngineError::Refused { name, refusal }), None)
            }
            Command::Detach { cleanup: false, .. } => (self.input(Input::Detach).await, None),
            Command::Detach { cleanup: true, .. } => match self.input(Input::Detach).await {
                Ok(()) => (
                    self.input(Input::Destroy { force: Force::No }).await,
                    Some(Until::Destroyed),
                ),
                refused => (refused, None),
            },
            Command::Destroy { force } => (self.destroy(force).await, Some(Until::Destroyed)),
            Command::Settle => (Ok(()), None),
        };
        match (result, until) {
            (Err(error), _) => answer(reply, Err(error)),
            (Ok(()), Some(Until::Destroyed)) if self.not_removed.is_some() => {
                let reason = self.not_removed.take().unwrap_or_default();
                let dir = self.record.place.dir().clone();
                answer(
                    reply,
                    Err(EngineError::NotRemoved {
                        name: self.record.name.clone(),
                        dir,
                        reason,
                    }),
                );
            }
            (Ok(()), Some(until)) => self.waiting.add(until, reply),
            (Ok(()), None) => answer(reply, Ok(self.shown.borrow().view.clone())),
        }
    }

    async fn start(&mut self) -> Result<(), EngineError> {
        self.refuse_if_damaged().await?;
        self.input(Input::Start).await
    }

    async fn destroy(&mut self, force: Force) -> Result<(), EngineError> {
        if force == Force::No {
            self.refuse_if_damaged().await?;
        }
        self.input(Input::Destroy { force }).await
    }

    async fn attach(
        &mut self,
        process: Process,
        metadata: Vec<(String, String)>,
    ) -> Result<(), EngineError> {
        let before = self.record.clone();
        Arc::make_mut(&mut self.record).metadata.extend(metadata);
        let pid = process.pid;
        let result = self.input(Input::Attach { process }).await;
        match result {
            Ok(()) => self.attached = Some(pid),
            Err(_) => self.record = before,
        }
        result
    }

    /// Whether this is the client's process that is attached, or was until it ended. Somebody else's may be by now.
    fn is_attached(&self, pid: Option<u32>) -> bool {
        let process = self.record.lifecycle.process();
        let last = process.map(|(process, _)| process.pid).or(self.attached);
        pid.is_none_or(|pid| last.is_none_or(|last| last == pid))
    }

    async fn refuse_if_damaged(&self) -> Result<(), EngineError> {
        let file = self.instance_file();
        let damage = self
            .around
            .tasks
            .spawn_blocking(move |_| file.damage())
            .await;
        match damage {
            Ok(None) => Ok(()),
            Ok(Some(reason)) => Err(EngineError::Corrupted {
                name: self.record.name.clone(),
                dir: self.record.place.dir().clone(),
                reason,
            }),
            Err(_) => Err(EngineError::ShuttingDown),
        }
    }

    fn instance_file(&self) -> InstanceFile {
        self.around.workspace.instance_file(&self.record.place)
    }

    /// An input nobody waits for: a refusal of it is a late event, a failure is logged.
    async fn try_input(&mut self, input: Input) {
        match self.input(input).await {
            Ok(()) | Err(EngineError::Refused { .. }) => {}
            Err(error) => {
                warn!(agent = %self.record.name, error = %process::chain(&error), "could not go on")
            }
        }
    }

    async fn input(&mut self, input: Input) -> Result<(), EngineError> {
        let now = clock::now();
        let mut lifecycle = self.record.lifecycle.clone();
        let keep = if input.holds_unkept() {
            Keep::OrRetry
        } else {
            Keep::OrRefuse
        };
        let effects = lifecycle
            .apply(input, now)
            .map_err(|refusal| EngineError::Refused {
                name: self.record.name.clone(),
                refusal,
            })?;
        if lifecycle != self.record.lifecycle {
            self.commit(lifecycle, now, keep).await?;
            self.show().await;
        }
        for effect in effects {
            let point = effect_name(&effect);
            self.perform(effect).await?;
            crash::point(point);
        }
        Ok(())
    }

    /// The new state is on disk before anybody hears of it or anything is done about it. What has happened has happened,
    /// though: if it cannot be kept now, it is kept later.
    async fn commit(
        &mut self,
        lifecycle: Lifecycle,
        now: Timestamp,
        keep: Keep,
    ) -> Result<(), EngineError> {
        crash::point("lifecycle.before-commit");
        let record = AgentRecord {
            lifecycle,
            updated_at: now,
            ..self.record.as_ref().clone()
        };
        let changes = vec![self.put(&record), journal_entry(&record, now)];
        match (self.write(changes).await, keep) {
            (Ok(()), _) => self.keep_again_at = None,
            (Err(error), Keep::OrRefuse) => return Err(error),
            (Err(error), Keep::OrRetry) => {
                warn!(agent = %record.name, error = %process::chain(&error), "not kept yet");
                self.keep_again_at = Some(Instant::now() + KEEP_AGAIN);
            }
        }
        crash::point("lifecycle.after-commit");
        self.record = Arc::new(record);
        Ok(())
    }

    async fn keep_again(&mut self) {
        self.keep_again_at = match self.write(vec![self.put(&self.record)]).await {
            Ok(()) => None,
            Err(_) => Some(Instant::now() + KEEP_AGAIN),
        };
    }

    fn put(&self, record: &AgentRecord) -> Change {
        Change::PutAgent {
            name: record.name.to_string(),
            record: record.to_json(),
        }
    }

    async fn write(&self, changes: Vec<Change>) -> Result<(), EngineError> {
        let name = self.record.name.to_string();
        self.around
            .store
            .write(changes)
            .await
            .map_err(|source| EngineError::Store { name, source })
    }

    async fn show(&mut self) {
        let shown = Shown::of(&self.record, self.driver.clone());
        if let Some(view) = shown.view.clone() {
            let (file, name) = (self.instance_file(), self.record.name.clone());
            let written = self
                .around
                .tasks
                .spawn_blocking(move |_| file.refresh(&view))
                .await;
            if let Ok(Err(error)) = written {
                warn!(agent = %name, error = %process::chain(&error), "could not refresh the instance file");
            }
            crash::point("lifecycle.after-instance-file");
        }
        let status = shown
            .view
            .as_ref()
            .map_or("hidden", |view| view.status.as_str());
        info!(agent = %self.record.name, status, "agent");
        self.shown.send_replace(shown);
    }

    fn answer_those_who_wait(&mut self) {
        let state = self.record.lifecycle.state();
        let view = self.shown.borrow().view.clone();
        self.waiting
            .answer(&self.record.name, state, self.gone, &view);
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn journal_entry(record: &AgentRecord, now: Timestamp) -> Change {
    let state =
        serde_json::to_string(record.lifecycle.state()).expect("a state has only text keys");
    let status = record
        .lifecycle
        .status()
        .map_or("hidden", |status| status.as_str());
    Change::Journal(Entry {
        at: now.0,
        kind: format!("agent.{status}"),
        agent: Some(record.name.to_string()),
        session: None,
        body: state,
    })
}

/// How long a whole node may take to stop its agents beyond their own grace.
pub(crate) const STOP_MARGIN: Duration = Duration::from_secs(3);
