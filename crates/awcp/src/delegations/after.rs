//! What can be done with a delegation that has ended: look at what it changed, take that back, and remove what is left.

use std::path::{Path, PathBuf};

use domain::{
    Name,
    delegation::{DelegationId, Hold, HostInput, LockDecision, Phase, RemoteInput},
};
use platform::files;
use sftp::mount::SECRETS_PREFIX;

use super::Delegations;
use crate::{
    DelegationError, clock, convert,
    host::HostEvent,
    record::{DelegationView, SnapshotStatus},
    remote::RemoteEvent,
    shadow::AuditReport,
};

impl Delegations {
    /// What was changed, once the result has been taken home.
    pub async fn audit(&self, id: &str) -> Result<AuditReport, DelegationError> {
        let record = self.host_record(id).await?;
        let shadow = self.node.shadow(record.machine.id(), &record.dir);
        let phase = record.machine.phase();
        // A mount has changed the folder however it ended.
        if phase != Phase::Completed && !(phase.is_end() && shadow.has_result()) {
            let why = format!("it is {phase}, and nothing of it came home");
            return Err(DelegationError::Audit {
                id: id.to_owned(),
                why,
            });
        }
        let report = shadow.report().await;
        report.map_err(|why| DelegationError::Audit {
            id: id.to_owned(),
            why,
        })
    }

    /// Takes the result back, unless its files have changed since or the folder is lent.
    pub async fn undo(&self, id: &str) -> Result<(), DelegationError> {
        let record = self.host_record(id).await?;
        let nothing = |why: String| DelegationError::NothingToUndo {
            id: id.to_owned(),
            why,
        };
        let phase = record.machine.phase();
        let shadow = self.node.shadow(record.machine.id(), &record.dir);
        if phase != Phase::Completed && !(phase.is_end() && shadow.has_result()) {
            return Err(nothing(format!("it is {phase}")));
        }
        if record
            .snapshot
            .as_ref()
            .is_some_and(|it| it.status != SnapshotStatus::Applied)
        {
            return Err(nothing("its changes were not applied".to_owned()));
        }
        let guard = format!("undo-{}", uuid::Uuid::new_v4().simple());
        let guard = DelegationId(Name::parse(&guard).expect("letters and digits are a name"));
        let decision = self.node.request_lock(&guard, &record.dir, Hold::Write);
        let undone = match decision {
            Ok(LockDecision::Granted) => shadow.undo().await,
            Ok(LockDecision::Queued { .. }) => Err("its folder is lent now".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        self.node.release_lock(&guard);
        undone.map_err(nothing)
    }

    /// Removes what is left of delegations that have ended: exports, archives on their way, and the shadow repositories,
    /// after which there is nothing to audit or to undo. Says how many things went.
    pub async fn prune(&self) -> Result<usize, DelegationError> {
        self.clean_up_again().await;
        let mut removed = 0;
        for root in [
            self.node.exports_root(),
            self.node.audits_root(),
            self.node.stage_root(),
            self.node.results_root(),
            self.node.snapshots_root(),
        ] {
            for path in files::list(&root)? {
                if !self.is_needed(&path).await {
                    self.remove(path).await?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    /// Removes the audits of what was lent longer ago than they are kept; says how many.
    pub(crate) async fn forget_old_audits(&self) -> Result<usize, DelegationError> {
        let age = self.node.config().audit_age;
        let mut removed = 0;
        for path in files::list(&self.node.audits_root())? {
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
                continue;
            };
            let is_old = match self.host_record(name).await {
                Ok(record) => clock::now().since(record.created_at) > age,
                Err(DelegationError::NotFound { .. }) => true, // Nobody could ask for it.
                Err(error) => return Err(error),
            };
            if is_old && !self.is_needed(&path).await {
                self.remove(path).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Whether what lies there belongs to something that lives, or whose changes wait.
    async fn is_needed(&self, path: &Path) -> bool {
        let name = path.file_stem().and_then(|name| name.to_str());
        // The keys of mounts that come up or are up.
        if name.is_some_and(|name| name.starts_with(SECRETS_PREFIX)) {
            return self.node.has_remotes();
        }
        let Some(id) = name.and_then(convert::id) else {
            return false;
        };
        let lives = self.node.host(&id).is_some() || self.node.remote(&id).is_some();
        lives || self.waits(&id).await
    }

    async fn remove(&self, path: PathBuf) -> Result<(), DelegationError> {
        let tasks = self.node.tasks();
        let removing = tasks.spawn_blocking(move |_| files::remove_tree(&path));
        removing
            .await
            .map_err(|_| DelegationError::ShuttingDown)??;
        Ok(())
    }

    /// Whether changes of it wait to be applied, for which its audit is needed.
    async fn waits(&self, id: &DelegationId) -> bool {
        let record = self.host_record(&id.to_string()).await;
        let snapshot = record.ok().and_then(|record| record.snapshot);
        snapshot.is_some_and(|snapshot| snapshot.status == SnapshotStatus::Pending)
    }

    /// What could not be given back at the end is tried once more.
    async fn clean_up_again(&self) {
        let is_due = |view: &DelegationView| view.state.is_end() && view.cleanup_due;
        let hosts: Vec<_> = self.node.hosts().values().cloned().collect();
        for handle in hosts.iter().filter(|it| is_due(&it.view.borrow())) {
            let again = HostEvent::Input(HostInput::Recover);
            let _ = handle.inputs.send(again).await; // It has ended meanwhile.
        }
        let remotes: Vec<_> = self.node.remotes().values().cloned().collect();
        for handle in remotes.iter().filter(|it| is_due(&it.view.borrow())) {
            let again = RemoteEvent::Input(RemoteInput::Recover);
            let _ = handle.events.send(again).await; // As above.
        }
    }
}
