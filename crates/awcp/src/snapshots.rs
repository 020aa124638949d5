//! Changes that wait: applied by hand, all or nothing, or discarded.

use domain::{
    Name,
    delegation::{Access, DelegationId, Grant, Hold, LockDecision, Transport},
};
use engine::Keep;
use platform::files;

use crate::{
    DelegationError, Delegations, Snapshot, SnapshotStatus, clock,
    host::Export,
    lent_repository::LentRepository,
    record::{HOST_KIND, HostRecord, note},
};

impl Delegations {
    /// The changes of a delegation that wait, or waited.
    pub async fn snapshots(&self, id: &str) -> Result<Vec<Snapshot>, DelegationError> {
        Ok(self.host_record(id).await?.snapshot.into_iter().collect())
    }

    /// Applies changes that wait, unless their files have changed since or the folder is lent.
    pub async fn apply_snapshot(&self, id: &str) -> Result<Snapshot, DelegationError> {
        // One at a time, and what waits is looked at in turn: somebody else may just have settled it.
        let _turn = self.node.settling().await;
        let record = self.waiting(id).await?;
        let guard = self.hold(id, &record).await?;
        let grant = Grant {
            access: Access::Rw,
            until: clock::now(),
        };
        let export = Export::of(&self.node, &record, grant, came_by(&record));
        let applied = export.apply_waiting().await;
        self.node.release_lock(&guard);
        applied.map_err(DelegationError::Refused)?;
        self.settle(record, SnapshotStatus::Applied).await
    }

    /// Throws changes away that wait.
    pub async fn discard_snapshot(&self, id: &str) -> Result<Snapshot, DelegationError> {
        let _turn = self.node.settling().await;
        let record = self.waiting(id).await?;
        if came_by(&record) == Transport::Git {
            let id = record.machine.id();
            let forgotten = match LentRepository::of(&record.dir, &self.node).await {
                Ok(repository) => repository.forget_branch(id).await,
                Err(why) => Err(why), // Whoever took the repository away took the branch.
            };
            if let Err(why) = forgotten {
                tracing::warn!(%id, why, "the branch of a delegation could not be removed");
            }
        }
        self.settle(record, SnapshotStatus::Discarded).await
    }

    async fn waiting(&self, id: &str) -> Result<HostRecord, DelegationError> {
        let record = self.host_record(id).await?;
        let status = record.snapshot.as_ref().map(|snapshot| snapshot.status);
        let why = match status {
            Some(SnapshotStatus::Pending) if record.machine.phase().is_end() => return Ok(record),
            Some(SnapshotStatus::Applied) => "its changes were applied already",
            Some(SnapshotStatus::Discarded) => "its changes were discarded",
            Some(SnapshotStatus::Pending) | None => "none of its changes wait",
        };
        Err(DelegationError::NothingWaits {
            id: id.to_owned(),
            why: why.to_owned(),
        })
    }

    /// Nobody else has the folder while changes are applied.
    pub(crate) async fn hold(
        &self,
        id: &str,
        record: &HostRecord,
    ) -> Result<DelegationId, DelegationError> {
        let guard = format!("hold-{}", uuid::Uuid::new_v4().simple());
        let guard = DelegationId(Name::parse(&guard).expect("letters and digits are a name"));
        let hold = match came_by(record) {
            Transport::Git => Hold::Merge,
            Transport::Archive | Transport::Sshfs => Hold::Write,
        };
        let why = match self.node.request_lock(&guard, &record.dir, hold) {
            Ok(LockDecision::Granted) => return Ok(guard),
            Ok(LockDecision::Queued { .. }) => "its folder is lent now".to_owned(),
            Err(error) => error.to_string(),
        };
        self.node.release_lock(&guard);
        Err(DelegationError::NothingWaits {
            id: id.to_owned(),
            why,
        })
    }

    async fn settle(
        &self,
        mut record: HostRecord,
        status: SnapshotStatus,
    ) -> Result<Snapshot, DelegationError> {
        let id = record.machine.id().clone();
        let snapshot = record
            .snapshot
            .as_mut()
            .ok_or(DelegationError::NothingWaits {
                id: id.to_string(),
                why: "none of its changes wait".to_owned(),
            })?;
        snapshot.status = status;
        let settled = snapshot.clone();
        let words = match status {
            SnapshotStatus::Applied => "the changes were applied",
            SnapshotStatus::Discarded => "the changes were discarded",
            SnapshotStatus::Pending => "the changes wait",
        };
        note(&mut record.log, words.to_owned());
        let records = self.node.records();
        let name = id.to_string();
        records
            .put(HOST_KIND, &name, Keep::Finished, &record, None)
            .await?;
        let folder = self.node.snapshot_folder(&id);
        let removing = self
            .node
            .tasks()
            .spawn_blocking(move |_| files::remove_tree(&folder));
        removing
            .await
            .map_err(|_| DelegationError::ShuttingDown)??;
        Ok(settled)
    }
}

/// How changes that wait came home.
fn came_by(record: &HostRecord) -> Transport {
    let agreed = record.agreement.as_ref();
    agreed.map_or(Transport::Archive, |agreement| agreement.transport)
}
