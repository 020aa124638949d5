//! A lent workspace: what is lent and how long, what all its connections share, and the grant that ends it.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use platform::{ConfinedDir, Drained, Tasks};
use russh::keys::PublicKey;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    audit::{Audit, Record, Touched, Usage},
    guard::Guard,
    keys::Credential,
    protocol::Status,
    quota::{Quota, QuotaHit},
    server::Exports,
    view::{Area, Below, View},
};

/// Files and folders that the connections of one export may have open together: a build has some dozens, and the
/// daemon's own descriptors must not run out.
pub(crate) const HANDLES_MAX: usize = 512;

/// Connections of one export: sshfs opens one, or a few when it is told to.
const CONNECTIONS_MAX: usize = 8;

/// After a revocation nothing new begins; what the disk is doing at that moment gets this long to end.
const REVOKE_MAX: Duration = Duration::from_secs(5);

/// A folder to be lent.
#[derive(Debug)]
pub struct Export {
    /// For logs; clients never see it.
    pub id: String,
    /// Opened once: moving or replacing its path later changes nothing.
    pub workspace: ConfinedDir,
    /// Shown as `meta` beside `workspace`, never writable.
    pub meta: Option<ConfinedDir>,
    pub access: Access,
    /// By how much the workspace may grow.
    pub quota_bytes: Option<u64>,
    /// Folders of git in it, whose settings and hooks nobody changes.
    pub repositories: Vec<PathBuf>,
    /// Names at the top of the workspace that nobody makes or changes.
    pub reserved: Vec<String>,
    pub until: Instant,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// The right that an export is. Dropping it ends every connection and forgets the key.
#[derive(Debug)]
pub struct Grant {
    lent: Arc<Lent>,
    credential: Credential,
    exports: Weak<Exports>,
}

/// What all connections of an export share.
#[derive(Debug)]
pub(crate) struct Lent {
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) key: PublicKey,
    pub(crate) view: View,
    pub(crate) guard: Guard,
    access: Access,
    pub(crate) quota: Quota,
    pub(crate) audit: Audit,
    /// Held while names change, so that a check of a link and its use are one.
    names: Mutex<()>,
    handles: AtomicUsize,
    connections: AtomicUsize,
    until: watch::Sender<Instant>,
    /// The threads that serve it. Cancelled when it is over.
    pub(crate) tasks: Tasks,
    stop: CancellationToken,
}

/// A place among those of an export, given back on drop.
#[derive(Debug)]
pub(crate) struct Counted {
    lent: Arc<Lent>,
    counter: fn(&Lent) -> &AtomicUsize,
}

impl Lent {
    pub(crate) fn new(export: Export, user: String, key: PublicKey, tasks: Tasks) -> Lent {
        Lent {
            guard: Guard::of(&export.workspace, &export.repositories, export.reserved),
            id: export.id,
            user,
            key,
            view: View {
                workspace: export.workspace,
                meta: export.meta,
            },
            access: export.access,
            quota: Quota::new(export.quota_bytes),
            audit: Audit::new(),
            names: Mutex::default(),
            handles: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            until: watch::Sender::new(export.until),
            stop: tasks.stop(),
            tasks,
        }
    }

    /// Revoked or expired. Asked before every request, so that no timer has to be right.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_cancelled() || Instant::now() >= *self.until.borrow()
    }

    /// Resolves when it is over, also if its end is moved meanwhile.
    pub(crate) async fn over(&self) {
        let mut moved = self.until.subscribe();
        while !self.is_over() {
            let end = *moved.borrow_and_update();
            tokio::select! { biased;
                () = self.stop.cancelled() => break,
                () = tokio::time::sleep_until(end.into()) => {}
                // The sender is ours, so it cannot be gone.
                _ = moved.changed() => {}
            }
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.access == Access::ReadOnly
    }

    /// Whether anything at this place may be changed.
    pub(crate) fn check_change(&self, below: &Below) -> Result<(), Status> {
        match (self.access, below.area) {
            (Access::ReadWrite, Area::Workspace) => Ok(()),
            (Access::ReadOnly, _) | (_, Area::Meta) => Err(Status::denied("It is read-only")),
        }
    }

    pub(crate) fn names(&self) -> MutexGuard<'_, ()> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_handle(self: &Arc<Lent>) -> Result<Counted, Status> {
        self.take(|lent| &lent.handles, HANDLES_MAX)
            .ok_or(Status::failure("Too many open files"))
    }

    pub(crate) fn take_connection(self: &Arc<Lent>) -> Option<Counted> {
        self.take(|lent| &lent.connections, CONNECTIONS_MAX)
    }

    fn take(self: &Arc<Lent>, counter: fn(&Lent) -> &AtomicUsize, max: usize) -> Option<Counted> {
        let add = |count| (count < max).then_some(count + 1);
        counter(self)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add)
            .ok()?;
        let lent = Arc::clone(self);
        Some(Counted { lent, counter })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.counter)(&self.lent).fetch_sub(1, Ordering::AcqRel);
    }
}

impl Grant {
    pub(crate) fn new(lent: Arc<Lent>, credential: Credential, exports: Weak<Exports>) -> Grant {
        Grant {
            lent,
            credential,
            exports,
        }
    }

    /// What the client needs to connect.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    pub fn id(&self) -> &str {
        &self.lent.id
    }

    /// Ends all access. When it returns, nothing is being written any more, unless the kernel holds a write for longer
    /// than anybody waits. Gives what may have been changed until then.
    pub async fn revoke(self) -> Touched {
        self.end();
        if let Drained::Stuck(stuck) = self.lent.tasks.drain(REVOKE_MAX).await {
            tracing::warn!(export = %self.lent.id, stuck, "a revoked export still has threads in the kernel");
        }
        self.lent.audit.touched()
    }

    /// Moves the end of the lease.
    pub fn renew(&self, until: Instant) {
        self.lent.until.send_replace(until);
    }

    /// Revoked, expired, or the server is gone.
    pub fn is_over(&self) -> bool {
        self.lent.is_over()
    }

    pub fn usage(&self) -> Usage {
        let totals = self.lent.audit.totals();
        let read = |total: &std::sync::atomic::AtomicU64| total.load(Ordering::Relaxed);
        Usage {
            read_bytes: read(&totals.read_bytes),
            written_bytes: read(&totals.written_bytes),
            grown_bytes: self.lent.quota.grown(),
            opened_files: read(&totals.opened),
            changes: read(&totals.changed),
            refusals: read(&totals.refused),
        }
    }

    /// The first write that the quota refused, if one was.
    pub fn quota_hit(&self) -> Option<QuotaHit> {
        self.lent.quota.hit()
    }

    /// The records from this number on that are still kept.
    pub fn audit_since(&self, sequence: u64) -> Vec<Record> {
        self.lent.audit.since(sequence)
    }

    /// Resolves when there is a record with this number.
    pub async fn audit_reached(&self, sequence: u64) {
        self.lent.audit.reached(sequence).await;
    }

    fn end(&self) {
        self.lent.tasks.cancel();
        if let Some(exports) = self.exports.upgrade() {
            exports.remove(&self.lent.user);
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.end();
    }
}
