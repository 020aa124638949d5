//! What is lent: made ready for the remote, and the result taken home.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Instant,
};

use archive::{ApplyError, Change, Content, Delta, Folder, Limits};
use domain::delegation::{Access, Code, DelegationId, Failure, Grant, Transport};
use platform::{
    ConfinedDir,
    files::{self, Durability, Mode},
};
use tokio_util::sync::CancellationToken;

use super::Gate;
use crate::{
    clock,
    error::chain,
    node::Node,
    record::HostRecord,
    shadow::Shadow,
    spool,
    survey::{self, Ignored},
};

/// The packed workspace, and the packed changes, in the folder of the export.
pub(crate) const ARCHIVE: &str = "workspace.tar.zst";
pub(crate) const DELTA: &str = "delta.tar.zst";

/// What stays at home, decided when the workspace was lent.
const IGNORED: &str = "ignored";

/// A list of what stays at home is shorter.
const IGNORED_MAX: u64 = 64 << 20;

/// Paths that are told when both sides changed them.
const CONFLICTS_TOLD_MAX: usize = 10;

/// Everything a slow step of the host needs.
pub(super) struct Export {
    node: Node,
    id: DelegationId,
    dir: PathBuf,
    folder: PathBuf,
    shadow: Shadow,
    grant: Grant,
    transport: Transport,
    quota_bytes: u64,
}

impl Export {
    pub(super) fn of(node: &Node, record: &HostRecord, grant: Grant, transport: Transport) -> Self {
        let id = record.machine.id().clone();
        Self {
            folder: node.export_folder(&id),
            shadow: node.shadow(&id, &record.dir),
            node: node.clone(),
            id,
            dir: record.dir.clone(),
            grant,
            transport,
            quota_bytes: record.quota_bytes,
        }
    }

    /// Keeps how the workspace is, and makes the way in. Gives the checksum of the archive, if there is one.
    pub(super) async fn prepare(
        self,
        gate: &Gate,
        stop: &CancellationToken,
    ) -> Result<String, Failure> {
        let (dir, folder, max) = (
            self.dir.clone(),
            self.folder.clone(),
            self.node.config().size_max,
        );
        let survey = self.blocking(move || {
            files::create_private_dir(&folder).map_err(|error| failed(&error))?;
            let survey = survey::survey(&dir, max)?;
            let list = survey.ignored.to_bytes();
            let file = folder.join(IGNORED);
            files::write_atomic(&file, &list, Mode::PRIVATE, Durability::ProcessDeath)
                .map_err(|error| failed(&error))?;
            Ok(survey)
        });
        let survey = survey.await?;
        let kept = tokio::select! { biased;
            () = stop.cancelled() => return Err(stopped()),
            kept = self.shadow.baseline(&survey.files) => kept,
        };
        kept.map_err(|why| {
            Failure::new(
                Code::TaskFailed,
                format!("could not keep the baseline: {why}"),
            )
        })?;
        match self.transport {
            Transport::Archive => self.pack(survey.ignored, stop.clone()).await,
            Transport::Sshfs => {
                gate.lock().grant = Some(self.serve()?);
                Ok(String::new())
            }
        }
    }

    async fn pack(self, ignored: Ignored, stop: CancellationToken) -> Result<String, Failure> {
        let (dir, folder, limits) = (self.dir.clone(), self.folder.clone(), self.limits());
        let packed = self.blocking(move || {
            let workspace = Folder::open(&dir).map_err(|error| failed(&error))?;
            let file = spool::create(&folder, ARCHIVE).map_err(|error| failed(&error))?;
            let file = spool::Stoppable { inner: file, stop };
            let keep = |path: &archive::EntryPath, kind| ignored.covers(path, kind);
            archive::pack(&workspace, &keep, &limits, file).map_err(|error| failed(&error))
        });
        Ok(packed.await?.checksum.to_string())
    }

    fn serve(&self) -> Result<sftp::Grant, Failure> {
        let server = self.node.sftp().ok_or_else(|| {
            Failure::new(
                Code::DepMissing,
                "this host serves no workspaces for mounting",
            )
        })?;
        let workspace = ConfinedDir::open(&self.dir).map_err(|error| failed(&error))?;
        let left = self.grant.until.since(clock::now());
        let export = sftp::Export {
            id: self.id.to_string(),
            workspace,
            meta: None,
            access: match self.grant.access {
                Access::Ro => sftp::Access::ReadOnly,
                Access::Rw => sftp::Access::ReadWrite,
            },
            quota_bytes: Some(self.quota_bytes),
            until: Instant::now() + left,
        };
        server.export(export).map_err(|error| failed(&error))
    }

    /// Takes the result home and writes the audit. Changes are applied all or not at all, whoever asks to stop.
    pub(super) async fn collect(self, stop: &CancellationToken) -> Result<(), Failure> {
        let changed = match (self.transport, self.grant.access) {
            (Transport::Archive, Access::Rw) => self.take_home(stop).await?,
            (Transport::Archive, Access::Ro) => Vec::new(),
            (Transport::Sshfs, _) => self.look_around().await?,
        };
        let kept = self.shadow.result(&changed).await;
        kept.map_err(|why| {
            Failure::new(
                Code::TaskFailed,
                format!("could not keep the result: {why}"),
            )
        })
    }

    async fn take_home(&self, stop: &CancellationToken) -> Result<Vec<PathBuf>, Failure> {
        let (dir, folder, limits) = (self.dir.clone(), self.folder.clone(), self.limits());
        let (quota, stop) = (self.quota_bytes, stop.clone());
        self.blocking(move || {
            let file = match spool::open(&folder, DELTA) {
                Ok(file) => file,
                Err(error) if error.is_not_found() => return Ok(Vec::new()), // Nothing was changed.
                Err(error) => return Err(failed(&error)),
            };
            let staged = folder.join("staged");
            files::remove_tree(&staged).map_err(|error| failed(&error))?;
            files::create_private_dir(&staged).map_err(|error| failed(&error))?;
            let staged = Folder::open(&staged).map_err(|error| failed(&error))?;
            let unpacked = archive::unpack_delta(file, None, &staged, &limits);
            let (delta, content) = unpacked.map_err(|error| failed(&error))?;
            check_quota(&delta, quota)?;
            if stop.is_cancelled() {
                return Err(stopped());
            }
            let ignored = read_ignored(&folder)?;
            let keep = |path: &archive::EntryPath, kind| ignored.covers(path, kind);
            let home = Folder::open(&dir).map_err(|error| failed(&error))?;
            match archive::apply(&home, &delta, &content, &keep, &limits) {
                Ok(_) => Ok(changed_files(&delta)),
                Err(ApplyError::Conflicts(conflicts)) => Err(conflicting(&conflicts)),
                Err(error) => Err(failed(&error)),
            }
        })
        .await
    }

    /// A mount changes the workspace itself; everything that was or is there may have changed.
    async fn look_around(&self) -> Result<Vec<PathBuf>, Failure> {
        let before = self.shadow.baseline_paths().await;
        let mut paths = before.map_err(|why| Failure::new(Code::TaskFailed, why))?;
        let (dir, folder) = (self.dir.clone(), self.folder.clone());
        let now = self.blocking(move || Ok(survey::files_now(&dir, &read_ignored(&folder)?)));
        paths.extend(now.await?);
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    fn limits(&self) -> Limits {
        let max = self.node.config().size_max;
        Limits {
            bytes: max.bytes.saturating_add(self.quota_bytes),
            // Folders count here, and did not when the workspace was looked at.
            entries: max.files.saturating_mul(2),
            file_bytes: max.file_bytes.max(self.quota_bytes),
            ..Limits::default()
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let done = self.node.tasks().spawn_blocking(|_| work()).await;
        done.unwrap_or_else(|_| Err(Failure::new(Code::TaskFailed, "the host is shutting down")))
    }
}

fn failed(error: &dyn std::error::Error) -> Failure {
    Failure::new(Code::TaskFailed, chain(error))
}

fn stopped() -> Failure {
    Failure::new(Code::Cancelled, "it was stopped")
}

fn read_ignored(folder: &Path) -> Result<Ignored, Failure> {
    let text = files::read_bounded(&folder.join(IGNORED), IGNORED_MAX);
    let text = text.map_err(|error| failed(&error))?;
    Ok(Ignored::from_bytes(&text))
}

/// By how much the changes make the workspace grow.
fn check_quota(delta: &Delta, quota: u64) -> Result<(), Failure> {
    let size = |entry: Option<&archive::Entry>| match entry.map(|entry| &entry.content) {
        Some(Content::File { size, .. }) => *size,
        Some(Content::Dir | Content::Link { .. }) | None => 0,
    };
    let sum = |part: fn(&Change) -> Option<&archive::Entry>| -> u64 {
        delta
            .changes
            .values()
            .map(|change| size(part(change)))
            .sum()
    };
    let grown = sum(Change::after).saturating_sub(sum(Change::before));
    if grown > quota {
        return Err(Failure::with_hint(
            Code::TaskFailed,
            format!(
                "the quota of {quota} bytes is reached: the changes need {grown} bytes; nothing was changed"
            ),
            "lend with a larger quota, or ask for less",
        ));
    }
    Ok(())
}

fn changed_files(delta: &Delta) -> Vec<PathBuf> {
    let is_file = |entry: Option<&archive::Entry>| {
        entry.is_some_and(|entry| !matches!(entry.content, Content::Dir))
    };
    let files = delta
        .changes
        .iter()
        .filter(|(_, change)| is_file(change.before()) || is_file(change.after()));
    files
        .map(|(path, _)| PathBuf::from(std::ffi::OsStr::from_bytes(path.as_bytes())))
        .collect()
}

fn conflicting(conflicts: &[archive::Conflict]) -> Failure {
    let told: Vec<String> = conflicts
        .iter()
        .take(CONFLICTS_TOLD_MAX)
        .map(|conflict| format!("{} ({})", conflict.path, conflict.why))
        .collect();
    Failure::with_hint(
        Code::TaskFailed,
        format!(
            "{} paths were changed at home too, so nothing was changed: {}",
            conflicts.len(),
            told.join(", ")
        ),
        "keep the folder still while it is lent, and delegate again",
    )
}
