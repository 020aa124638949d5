//! One delegation on the remote's side: its task decides, keeps, answers and acts, in this order.

mod acts;
mod clone;
mod plane;
mod rounds;
mod work;

use std::sync::Arc;

use domain::{
    Timestamp,
    delegation::{DelegationId, RemoteEffect, RemoteInput},
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use wire::awcp::seed;

use crate::{
    clock, convert,
    host::until,
    kept::{self, Kept},
    node::Node,
    record::{DelegationView, Dialect, RemoteRecord, note},
    step::Step,
};
use plane::Plane;
pub(crate) use plane::{CERTIFICATE, way_home_urls};
pub(crate) use rounds::{Round, Rounds};

/// Messages that wait for one delegation: a peer that repeats itself waits here.
const MESSAGES_MAX: usize = 64;

/// The largest result that a delegator of the released dialect is given: it travels as text in one line.
pub(crate) const RESULT: u64 = 256 * 1024 * 1024;

/// What reaches the task.
#[derive(Debug)]
pub(crate) enum RemoteEvent {
    Input(RemoteInput),
    /// A message of the host's, whose answer it waits for.
    Message(Box<Message>),
}

#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) input: Option<RemoteInput>,
    /// The way in, with START.
    pub(crate) mount: Option<seed::Mount>,
    pub(crate) reply: oneshot::Sender<Value>,
}

/// A delegation that has not ended, as others hold it. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct RemoteHandle {
    pub(crate) events: mpsc::Sender<RemoteEvent>,
    pub(crate) view: watch::Receiver<DelegationView>,
    pub(crate) caller: String,
    /// It came in the released dialect, whose workspaces come in one message.
    pub(crate) is_released: bool,
    /// It may have more than one task.
    pub(crate) rounds: Option<Arc<Rounds>>,
}

/// The owner of one machine.
pub(crate) struct RemoteTask {
    node: Node,
    record: RemoteRecord,
    events: mpsc::Receiver<RemoteEvent>,
    own: mpsc::Sender<RemoteEvent>,
    shown: watch::Sender<DelegationView>,
    step: Step,
    tick: Option<Timestamp>,
    /// Who waits for an answer.
    asked: Vec<oneshot::Sender<Value>>,
    /// The way in; it holds the credential, so it is never kept.
    mount: Option<seed::Mount>,
    /// What was brought here, once something was. Steps fill it, one at a time.
    plane: Arc<Mutex<Option<Plane>>>,
    rounds: Option<Arc<Rounds>>,
}

impl RemoteTask {
    pub(crate) fn new(node: Node, record: RemoteRecord) -> (Self, RemoteHandle) {
        let (own, events) = mpsc::channel(MESSAGES_MAX);
        let (shown, view) = watch::channel(record.view());
        let silence_max = node.config().round_silence_max;
        let rounds = match record.dialect {
            Dialect::Released { .. } if !silence_max.is_zero() => {
                Some(Arc::new(Rounds::new(silence_max)))
            }
            Dialect::Released { .. } | Dialect::Seed => None,
        };
        let handle = RemoteHandle {
            rounds: rounds.clone(),
            events: own.clone(),
            view,
            caller: record.caller.clone(),
            is_released: record.dialect != Dialect::Seed,
        };
        let task = Self {
            node,
            record,
            events,
            own,
            shown,
            step: Step::default(),
            tick: None,
            asked: Vec::new(),
            mount: None,
            plane: Arc::default(),
            rounds,
        };
        (task, handle)
    }

    pub(crate) async fn run(mut self, first: Vec<RemoteEffect>, stop: CancellationToken) {
        let before = self.record.clone();
        kept::keep(&self.node, &mut self.record, &before).await;
        self.perform(first).await;
        self.release().await;
        self.shown.send_replace(self.record.view());
        while !self.is_over() {
            let event = tokio::select! { biased;
                () = stop.cancelled() => break,
                event = self.events.recv() => event,
                () = until(self.tick) => Some(RemoteEvent::Input(RemoteInput::Tick)),
            };
            match event {
                Some(RemoteEvent::Input(input)) => self.apply(input).await,
                Some(RemoteEvent::Message(message)) => self.hear(*message).await,
                None => break,
            }
        }
        self.step.stop().await;
        if let Some(plane) = self.plane.lock().await.take() {
            plane.take_down().await;
        }
        if self.is_over() {
            self.drop_result().await;
        }
        self.node.forget_remote(self.record.machine.id());
    }

    /// Nobody fetches the result any more.
    async fn drop_result(&self) {
        let file = self.node.results_root().join(format!("{}.zip", self.id()));
        let removing = self
            .node
            .tasks()
            .spawn_blocking(move |_| platform::files::remove_file_if_there(&file));
        if let Ok(Err(error)) = removing.await {
            tracing::warn!(id = %self.id(), %error, "could not remove a result");
        }
    }

    /// It has ended, nothing of it is left, and the host has heard of it or will not any more.
    fn is_over(&self) -> bool {
        self.record.machine.phase().is_end()
            && !self.record.machine.is_cleanup_due()
            && self.tick.is_none()
    }

    async fn hear(&mut self, message: Message) {
        self.asked.push(message.reply);
        if let Some(mount) = message.mount {
            self.record.home = plane::way_home(&mount);
            // What is at the mount point decides later how it is removed, so it is kept before it is there.
            let agreed = self.record.machine.agreement();
            self.record.transport = agreed.map(|it| it.transport).or(self.record.transport);
            self.mount = Some(mount);
        }
        if let Some(input) = message.input {
            self.apply(input).await;
        }
        // An invitation is answered when it is decided; everything else is answered now.
        let is_undecided = self.record.machine.phase() == domain::delegation::Phase::Invited;
        if !is_undecided {
            self.answer(&json!({ "ok": true }));
        }
    }

    fn answer(&mut self, data: &Value) {
        for asked in self.asked.drain(..) {
            let _ = asked.send(data.clone()); // The asker left.
        }
    }

    async fn apply(&mut self, input: RemoteInput) {
        if matches!(input, RemoteInput::Tick | RemoteInput::Told) {
            self.tick = None;
        }
        let before = self.record.clone();
        let is_task_over = matches!(input, RemoteInput::TaskDone(_) | RemoteInput::TaskFailed(_));
        let effects = match self.record.machine.apply(input, clock::now()) {
            Ok(effects) => effects,
            Err(rejected) => {
                let id = self.id();
                tracing::debug!(%id, %rejected, "an input came at the wrong time");
                let failure = domain::delegation::Failure::new(
                    domain::delegation::Code::TaskFailed,
                    rejected.to_string(),
                );
                self.answer(&convert::error(&id.to_string(), &failure).to_data());
                return;
            }
        };
        if is_task_over {
            note(&mut self.record.log, "the task has ended".to_owned());
        }
        self.record.tell_move(&before);
        if !kept::keep(&self.node, &mut self.record, &before).await {
            return;
        }
        if !self.record.machine.phase().is_end() {
            self.shown.send_replace(self.record.view());
        }
        self.perform(effects).await;
        self.release().await;
        self.shown.send_replace(self.record.view());
    }

    /// After an end: once the mount point is gone, so is the delegation.
    async fn release(&mut self) {
        if !self.record.machine.is_cleanup_due() {
            return;
        }
        if self.node.is_there(&self.record.mount_point).await {
            tracing::warn!(id = %self.id(), "the mount point of a delegation could not be removed");
            return; // The next start, or pruning, tries again.
        }
        let before = self.record.clone();
        if self
            .record
            .machine
            .apply(RemoteInput::Released, clock::now())
            .is_ok()
        {
            kept::keep(&self.node, &mut self.record, &before).await;
        }
    }

    async fn perform(&mut self, effects: Vec<RemoteEffect>) {
        for effect in effects {
            self.act(effect).await;
        }
    }

    fn id(&self) -> DelegationId {
        self.record.machine.id().clone()
    }
}
