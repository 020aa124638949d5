//! One delegation on the host's side: its task decides, keeps, shows and acts, in this order.

mod acts;
mod carried;
mod exports;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{
    Timestamp,
    delegation::{
        Access, Code, Ending, Failure, HostEffect, HostInput, Phase, Rejected, Transport,
    },
};
use platform::files::{self, Durability, Mode};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

pub(crate) use exports::{ARCHIVE, BUNDLE, DELTA, Export, LENT_NAME, WORK_NAME};

use crate::{
    clock,
    kept::{self, Kept},
    node::Node,
    peer::Found,
    record::{DelegationView, HostRecord, Snapshot},
    step::Step,
};

/// Inputs that wait for one delegation: a peer that repeats itself waits here.
const INPUTS_MAX: usize = 64;

/// What reaches the task.
#[derive(Debug)]
pub(crate) enum HostEvent {
    Input(HostInput),
    /// The same, from somebody who forgets it once it is kept.
    Said(HostInput, oneshot::Sender<()>),
    /// Nothing was heard of the remote for some time.
    AskIsDue,
    /// The workspace is packed; its checksum.
    Packed(String),
    /// The result is home, or waits to be applied.
    Collected(Option<Snapshot>),
}

/// A delegation that has not ended, as others hold it. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct HostHandle {
    pub(crate) inputs: mpsc::Sender<HostEvent>,
    pub(crate) view: watch::Receiver<DelegationView>,
    pub(crate) gate: Arc<Gate>,
}

/// The way in for the remote: asked at every request.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
}

#[derive(Default)]
pub(crate) struct GateState {
    /// Known as long as the remote may still say how it went.
    pub(crate) secret: Option<String>,
    /// What the remote may do with the workspace now.
    pub(crate) open: Option<Access>,
    pub(crate) delta_max: u64,
    /// Served for mounting.
    pub(crate) grant: Option<sftp::Grant>,
    /// Cancelled when nothing may be read or sent any more.
    pub(crate) over: CancellationToken,
}

impl std::fmt::Debug for GateState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GateState")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl Gate {
    pub(crate) fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the secret of the delegation; takes as long for a wrong one as for a right one.
    pub(crate) fn knows(&self, secret: &str) -> bool {
        use subtle::ConstantTimeEq;
        let state = self.lock();
        let known = state.secret.as_ref();
        known.is_some_and(|known| known.as_bytes().ct_eq(secret.as_bytes()).into())
    }
}

/// How the task of a delegation comes to be.
pub(crate) enum Beginning {
    /// It is new and kept, and its peer was found a moment ago.
    New(Found),
    /// It was taken up after a restart, and that is to be kept.
    Again,
}

/// The owner of one machine.
pub(crate) struct HostTask {
    node: Node,
    record: HostRecord,
    events: mpsc::Receiver<HostEvent>,
    own: mpsc::Sender<HostEvent>,
    shown: watch::Sender<DelegationView>,
    gate: Arc<Gate>,
    step: Step,
    tick: Option<Timestamp>,
    /// When the remote is asked next how it stands.
    ask: Option<Timestamp>,
    quota_hit: Option<sftp::QuotaHit>,
    /// The peer, as long as it was found a moment ago.
    found: Option<Found>,
    is_kept: bool,
}

impl HostTask {
    pub(crate) fn new(node: Node, record: HostRecord, beginning: Beginning) -> (Self, HostHandle) {
        let (own, events) = mpsc::channel(INPUTS_MAX);
        let (shown, view) = watch::channel(record.view());
        let gate = Arc::new(Gate::default());
        gate.lock().secret.clone_from(&record.secret);
        let handle = HostHandle {
            inputs: own.clone(),
            view,
            gate: gate.clone(),
        };
        let (found, is_kept) = match beginning {
            Beginning::New(found) => (Some(found), true),
            Beginning::Again => (None, false),
        };
        let task = Self {
            node,
            record,
            events,
            own,
            shown,
            gate,
            step: Step::default(),
            tick: None,
            ask: None,
            quota_hit: None,
            found,
            is_kept,
        };
        (task, handle)
    }

    /// Performs the effects of the beginning, then goes on until everything has been given back.
    pub(crate) async fn run(mut self, first: Vec<HostEffect>, stop: CancellationToken) {
        if !self.is_kept {
            let before = self.record.clone();
            kept::keep(&self.node, &mut self.record, &before).await;
        }
        self.perform(first).await;
        self.release().await;
        self.shown.send_replace(self.record.view());
        while !self.is_over() {
            self.ask = match self.record.machine.phase() {
                Phase::Running => self
                    .ask
                    .or(Some(clock::now() + self.node.config().ask_every)),
                _ => None,
            };
            let event = tokio::select! { biased;
                () = stop.cancelled() => break,
                event = self.events.recv() => event,
                () = until(self.tick) => Some(HostEvent::Input(HostInput::Tick)),
                () = until(self.ask) => Some(HostEvent::AskIsDue),
            };
            match event {
                Some(HostEvent::AskIsDue) => {
                    self.ask = None;
                    self.ask_remote();
                }
                Some(HostEvent::Input(input)) => {
                    self.apply(input).await;
                }
                Some(HostEvent::Said(input, kept)) => {
                    if self.apply(input).await {
                        let _ = kept.send(()); // The asker left.
                    }
                }
                Some(HostEvent::Packed(checksum)) => {
                    self.record.checksum = Some(checksum);
                    self.apply(HostInput::Prepared).await;
                }
                Some(HostEvent::Collected(snapshot)) => {
                    self.record.snapshot = snapshot;
                    self.apply(HostInput::Collected).await;
                }
                None => break,
            }
        }
        self.step.stop().await;
        self.node.forget_host(self.record.machine.id());
    }

    fn is_over(&self) -> bool {
        self.record.machine.phase().is_end() && !self.record.machine.is_cleanup_due()
    }

    /// Whether what it came to is kept; what came at the wrong time comes to nothing.
    async fn apply(&mut self, input: HostInput) -> bool {
        if input == HostInput::Tick {
            self.tick = None;
        }
        let before = self.record.clone();
        let was_accepted = matches!(input, HostInput::Accept(_));
        let mut moved = self.record.machine.apply(input, clock::now());
        if let Err(rejected @ (Rejected::NotOffered | Rejected::OtherTerms)) = &moved
            && was_accepted
            && self.record.machine.phase() == Phase::Invited
        {
            // Who accepts what nobody offered will not do better when it is waited for.
            let failure = Failure::new(Code::DepMissing, rejected.to_string());
            let failed = HostInput::RemoteFailed(failure);
            moved = self.record.machine.apply(failed, clock::now());
        }
        let effects = match moved {
            Ok(effects) => effects,
            Err(rejected) => {
                tracing::debug!(id = %self.record.machine.id(), %rejected, "an input came at the wrong time");
                return true;
            }
        };
        if let Some(agreement) = self.record.machine.agreement() {
            self.record.agreement = Some(agreement.clone());
        }
        if self.record.tell_move(&before) {
            self.show_log().await;
        }
        if !kept::keep(&self.node, &mut self.record, &before).await {
            return false;
        }
        if !self.record.machine.phase().is_end() {
            self.shown.send_replace(self.record.view());
        }
        self.perform(effects).await;
        self.release().await;
        if self.record.machine.phase().is_end() {
            // Whoever sees the end finds the credential dead.
            self.gate.lock().secret = None;
        }
        self.shown.send_replace(self.record.view());
        true
    }

    /// Says something, and waits until it is kept. Not if nobody hears it any more: it has ended, or the daemon does.
    pub(crate) async fn say(inputs: &mpsc::Sender<HostEvent>, input: HostInput) -> bool {
        let (kept, is_kept) = oneshot::channel();
        inputs.send(HostEvent::Said(input, kept)).await.is_ok() && is_kept.await.is_ok()
    }

    /// The remote reads the log beside the workspace, as long as there is an export.
    async fn show_log(&self) {
        let agreed = self.record.agreement.as_ref();
        let is_mount = agreed.is_some_and(|it| it.transport == Transport::Sshfs);
        if self.record.machine.lease().is_none() || !is_mount {
            return;
        }
        let meta = self.node.export_folder(self.record.machine.id());
        let meta = meta.join(exports::META);
        let text = exports::log_text(&self.record.log);
        let writing = self.node.tasks().spawn_blocking(move |_| {
            if files::is_there(&meta) {
                let (file, text) = (meta.join(exports::LOG), text.as_bytes());
                // What it shows is a courtesy, and the next line brings it again.
                let _ = files::write_atomic(&file, text, Mode::PRIVATE, Durability::ProcessDeath);
            }
        });
        let _ = writing.await; // The node is shutting down.
    }

    /// After an end: whatever is left on the disk goes, and then it is over.
    async fn release(&mut self) {
        if !self.record.machine.is_cleanup_due() {
            return;
        }
        if let Err(error) = self.node.remove_export(self.record.machine.id()).await {
            tracing::warn!(id = %self.record.machine.id(), %error, "could not remove an export");
            return; // The next start, or pruning, tries again.
        }
        let before = self.record.clone();
        if self
            .record
            .machine
            .apply(HostInput::Released, clock::now())
            .is_ok()
        {
            kept::keep(&self.node, &mut self.record, &before).await;
        }
    }

    async fn perform(&mut self, effects: Vec<HostEffect>) {
        for effect in effects {
            self.act(effect).await;
        }
    }

    fn announce(&mut self, ending: &Ending) {
        tracing::info!(id = %self.record.machine.id(), how = %ending.phase(), "a delegation has ended");
    }
}

/// Resolves at that moment, or never.
pub(crate) async fn until(moment: Option<Timestamp>) {
    match moment {
        Some(moment) => tokio::time::sleep(moment.since(clock::now())).await,
        None => std::future::pending().await,
    }
}

/// The earlier of two moments: a timer that fires too early does no harm.
pub(crate) fn earlier(known: Option<Timestamp>, new: Timestamp) -> Timestamp {
    known.map_or(new, |known| known.min(new))
}
