//! What is lent: made ready for the remote, and the result taken home.

mod branch;
mod merge;

use std::{
    collections::BTreeSet,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Instant,
};

use archive::{ApplyError, Content, Delta, Folder, Limits};
use domain::delegation::{Access, Code, DelegationId, Failure, Grant, Transport};
use platform::{
    ConfinedDir, crash,
    files::{self, Durability, Mode},
};
use tokio_util::sync::CancellationToken;

pub(crate) use branch::{BUNDLE, LENT_NAME, WORK_NAME};

use super::Gate;
use crate::{
    blocking::blocking,
    clock,
    error::chain,
    ignored::Ignored,
    node::Node,
    record::{HostRecord, Keeping, LogLine, Snapshot, SnapshotStatus},
    shadow::Shadow,
    spool,
    survey::{self, Survey},
};

/// The packed workspace, and the packed changes, in the folder of the export.
pub(crate) const ARCHIVE: &str = "workspace.tar.zst";
pub(crate) const DELTA: &str = "delta.tar.zst";

/// What stays at home, decided when the workspace was lent.
const IGNORED: &str = "ignored";

/// Where changes are unpacked before they are applied.
const STAGED: &str = "staged";

/// What the remote reads beside the workspace: what is to be done, and what has happened.
pub(super) const META: &str = "meta";
const TASK: &str = "task.md";
pub(super) const LOG: &str = "log.txt";

/// A list of what stays at home is shorter.
const IGNORED_MAX: u64 = 64 << 20;

/// Paths that are told when both sides changed them.
const CONFLICTS_TOLD_MAX: usize = 10;

/// Everything a slow step of the host needs.
pub(crate) struct Export {
    node: Node,
    id: DelegationId,
    dir: PathBuf,
    folder: PathBuf,
    shadow: Shadow,
    grant: Grant,
    transport: Transport,
    quota_bytes: u64,
    about: String,
    log: String,
    lends_secrets: bool,
}

impl Export {
    pub(crate) fn of(node: &Node, record: &HostRecord, grant: Grant, transport: Transport) -> Self {
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
            about: about(record),
            log: log_text(&record.log),
            lends_secrets: record.lends_secrets,
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
        let (is_mount, lends_secrets) = (self.transport == Transport::Sshfs, self.lends_secrets);
        let meta = is_mount.then(|| self.meta());
        {
            // Whoever merges into the same folder now has a stage there that is theirs.
            let _turn = self.node.merging().await;
            self.take_back().await?;
        }
        let survey = self.blocking(move || {
            files::create_private_dir(&folder).map_err(|error| failed(&error))?;
            let survey = survey::survey(&dir, max)?;
            if !lends_secrets {
                // It was looked at before, but it may have waited for its folder since.
                let shown = match is_mount {
                    true => survey::sensitive_on_a_mount(&dir, &survey),
                    false => Vec::new(),
                };
                let all = [&survey.sensitive[..], &shown].concat();
                if !all.is_empty() {
                    return Err(survey::refuse_sensitive(&all));
                }
            }
            let list = survey.ignored.to_bytes();
            let file = folder.join(IGNORED);
            files::write_atomic(&file, &list, Mode::PRIVATE, Durability::ProcessDeath)
                .map_err(|error| failed(&error))?;
            if let Some(meta) = meta {
                meta.write(&folder.join(META))
                    .map_err(|error| failed(&error))?;
            }
            Ok(survey)
        });
        let Survey { files, ignored, .. } = survey.await?;
        let (shadow, stopping) = (self.shadow.clone(), stop.clone());
        let is_git = self.transport == Transport::Git;
        let baseline = self.blocking(move || {
            let kept = shadow.baseline(&files, stopping);
            // A commit and a branch are made in it.
            let kept = kept.and_then(|()| match is_git {
                true => shadow.complete().map(drop),
                false => Ok(()),
            });
            kept.map_err(|why| {
                let words = format!("could not keep the baseline: {why}");
                Failure::new(Code::TaskFailed, words)
            })
        });
        match self.transport {
            // Both read the folder and neither changes it.
            Transport::Archive => {
                let packing = self.pack(ignored, stop.clone());
                let (kept, packed) = tokio::join!(baseline, packing);
                kept.and(packed)
            }
            Transport::Git => {
                baseline.await?;
                tokio::select! { biased;
                    () = stop.cancelled() => Err(stopped()),
                    packed = self.lend_commit(ignored) => packed,
                }
            }
            // What is served may be changed at once, so how it was is kept before.
            Transport::Sshfs => {
                baseline.await?;
                gate.lock().grant = Some(self.serve(ignored.repositories())?);
                Ok(String::new())
            }
        }
    }

    fn meta(&self) -> Meta {
        Meta {
            task: self.about.clone(),
            log: self.log.clone(),
        }
    }

    async fn pack(&self, ignored: Ignored, stop: CancellationToken) -> Result<String, Failure> {
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

    fn serve(&self, repositories: Vec<PathBuf>) -> Result<sftp::Grant, Failure> {
        let server = self.node.sftp().ok_or_else(|| {
            Failure::new(
                Code::DepMissing,
                "this host serves no workspaces for mounting",
            )
        })?;
        let workspace = ConfinedDir::open(&self.dir).map_err(|error| failed(&error))?;
        let meta = ConfinedDir::open(&self.folder.join(META)).map_err(|error| failed(&error))?;
        let left = self.grant.until.since(clock::now());
        let export = sftp::Export {
            id: self.id.to_string(),
            workspace,
            meta: Some(meta),
            access: match self.grant.access {
                Access::Ro => sftp::Access::ReadOnly,
                Access::Rw => sftp::Access::ReadWrite,
            },
            quota_bytes: Some(self.quota_bytes),
            repositories,
            reserved: vec![archive::STAGE_NAME.to_owned()],
            until: Instant::now() + left,
        };
        server.export(export).map_err(|error| failed(&error))
    }

    /// Takes the result home and writes the audit. Changes are applied all or not at all, whoever asks to stop. Gives what
    /// waits to be applied, if the changes are to wait.
    pub(crate) async fn collect(
        self,
        keeping: Keeping,
        stop: &CancellationToken,
    ) -> Result<Option<Snapshot>, Failure> {
        let changed = match (self.transport, self.grant.access) {
            (Transport::Archive, Access::Rw) if keeping != Keeping::Auto => {
                return self.set_aside(keeping).await;
            }
            (Transport::Archive, Access::Rw) => self.take_home(self.folder.clone(), stop).await?,
            (Transport::Git, Access::Rw) => return self.collect_branch(keeping).await,
            (Transport::Archive | Transport::Git, Access::Ro) => Vec::new(),
            (Transport::Sshfs, _) => self.look_around().await?,
        };
        self.keep_result(changed).await?;
        Ok(None)
    }

    /// Writes down how the workspace became.
    pub(super) async fn keep_result(&self, changed: Vec<PathBuf>) -> Result<(), Failure> {
        let shadow = self.shadow.clone();
        self.blocking(move || shadow.result(&changed).map_err(not_kept))
            .await
    }

    /// Writes down what was changed over a mount, however it ended. Gives how many paths differ.
    pub(crate) async fn keep_mounted(&self) -> Result<usize, Failure> {
        let paths = self.look_around().await?;
        self.keep_result(paths).await?;
        let report = self.shadow.changed().await.map_err(not_kept)?;
        if report == 0 {
            let shadow = self.shadow.clone();
            self.blocking(move || shadow.forget_result().map_err(not_kept))
                .await?;
        }
        Ok(report)
    }

    /// Writes down which of what stays out of every comparison was changed over a mount.
    pub(super) async fn keep_touched(&self, touched: sftp::Touched) -> Result<(), Failure> {
        let (folder, shadow) = (self.folder.clone(), self.shadow.clone());
        self.blocking(move || {
            let ignored = read_ignored(&folder)?;
            let paths = touched.paths.iter();
            let paths = paths.filter_map(|path| path.strip_prefix(sftp::WORKSPACE).ok());
            let unseen: BTreeSet<PathBuf> = paths.filter_map(|path| ignored.unseen(path)).collect();
            shadow
                .keep_unseen(&unseen, touched.is_more)
                .map_err(not_kept)
        })
        .await
    }

    /// Keeps the changes for later, and shows what they would do.
    async fn set_aside(&self, keeping: Keeping) -> Result<Option<Snapshot>, Failure> {
        let (from, limits, quota) = (self.folder.clone(), self.limits(), self.quota_bytes);
        let folder = self.node.snapshot_folder(&self.id);
        let into = folder.clone();
        let (dir, shadow) = (self.dir.clone(), self.shadow.clone());
        let changed = self.blocking(move || {
            let Some(delta) = open_delta(&from)? else {
                return Ok(Vec::new());
            };
            files::remove_tree(&into).map_err(|error| failed(&error))?;
            let (mut delta, _) = unpack_delta(delta, &into, &limits)?;
            leave_behind(&mut delta, &read_ignored(&from)?, &shadow)?;
            let home = Folder::open(&dir).map_err(|error| failed(&error))?;
            check_quota(&delta, &home, quota)?;
            for name in [DELTA, IGNORED] {
                files::copy_atomic(&from.join(name), &into.join(name))
                    .map_err(|error| failed(&error))?;
            }
            Ok(changed_files(&delta))
        });
        let changed = changed.await?;
        if changed.is_empty() {
            self.keep_result(changed).await?;
            return Ok(None);
        }
        let shown = Shadow {
            workspace: folder.join(STAGED).join(sftp::WORKSPACE),
            ..self.shadow.clone()
        };
        let changes = changed.len();
        self.blocking(move || shown.result(&changed).map_err(not_kept))
            .await?;
        let status = match keeping {
            Keeping::Auto | Keeping::Staged => SnapshotStatus::Pending,
            Keeping::Discard => SnapshotStatus::Discarded,
        };
        if status == SnapshotStatus::Discarded {
            self.blocking(move || files::remove_tree(&folder).map_err(|error| failed(&error)))
                .await?;
        }
        Ok(Some(Snapshot::new(status, changes)))
    }

    /// Applies changes that waited, and writes the audit of what they did.
    pub(crate) async fn apply_waiting(&self) -> Result<(), Failure> {
        let folder = self.node.snapshot_folder(&self.id);
        if self.transport == Transport::Git {
            return self.merge(folder).await;
        }
        let never = CancellationToken::new();
        let changed = self.take_home(folder, &never).await?;
        self.keep_result(changed).await
    }

    /// Applies the changes in `folder`, where the list of what stays at home is too.
    async fn take_home(
        &self,
        folder: PathBuf,
        stop: &CancellationToken,
    ) -> Result<Vec<PathBuf>, Failure> {
        let (dir, limits) = (self.dir.clone(), self.limits());
        let (quota, stop) = (self.quota_bytes, stop.clone());
        let (node, shadow) = (self.node.clone(), self.shadow.clone());
        self.blocking(move || {
            let Some(delta) = open_delta(&folder)? else {
                return Ok(Vec::new());
            };
            let (mut delta, content) = unpack_delta(delta, &folder, &limits)?;
            let ignored = read_ignored(&folder)?;
            leave_behind(&mut delta, &ignored, &shadow)?;
            let home = Folder::open(&dir).map_err(|error| failed(&error))?;
            let journal = node.journal(&dir).map_err(|error| failed(&error))?;
            check_quota(&delta, &home, quota)?;
            if stop.is_cancelled() {
                return Err(stopped());
            }
            let keep = |path: &archive::EntryPath, kind| ignored.covers(path, kind);
            crash::point("lending.host.before-apply");
            let applied = archive::apply(&home, &journal, &delta, &content, &keep, &limits);
            crash::point("lending.host.after-apply");
            match applied {
                Ok(_) => Ok(changed_files(&delta)),
                Err(ApplyError::Conflicts(conflicts)) => Err(conflicting(&conflicts)),
                Err(error) => Err(failed(&error)),
            }
        })
        .await
    }

    /// A mount changes the workspace itself; everything that was or is there may have changed.
    async fn look_around(&self) -> Result<Vec<PathBuf>, Failure> {
        let (dir, folder, shadow) = (self.dir.clone(), self.folder.clone(), self.shadow.clone());
        self.blocking(move || {
            let mut paths = shadow.baseline_paths().map_err(not_kept)?;
            paths.extend(survey::files_now(&dir, &read_ignored(&folder)?));
            Ok(paths)
        })
        .await
    }

    fn limits(&self) -> Limits {
        limits(&self.node, self.quota_bytes)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        blocking(self.node.tasks(), work).await
    }
}

/// What a mount shows beside the workspace.
struct Meta {
    task: String,
    log: String,
}

impl Meta {
    fn write(&self, folder: &Path) -> Result<(), files::FileError> {
        files::create_private_dir(folder)?;
        for (name, text) in [(TASK, &self.task), (LOG, &self.log)] {
            let (file, text) = (folder.join(name), text.as_bytes());
            files::write_atomic(&file, text, Mode::PRIVATE, Durability::ProcessDeath)?;
        }
        Ok(())
    }
}

/// What a workspace may become.
pub(super) fn limits(node: &Node, quota_bytes: u64) -> Limits {
    let max = node.config().size_max;
    Limits {
        bytes: max.bytes.saturating_add(quota_bytes),
        // Folders count here, and did not when the workspace was looked at.
        entries: max.files.saturating_mul(2),
        file_bytes: max.file_bytes.max(quota_bytes),
        ..Limits::default()
    }
}

fn about(record: &HostRecord) -> String {
    let task = &record.task;
    format!(
        "# {}\n\n{}\n\nDelegation {}, access {}. The workspace is in ../workspace.\n",
        task.description,
        task.prompt,
        record.machine.id(),
        match record.machine.offer().access {
            Access::Ro => "ro",
            Access::Rw => "rw",
        },
    )
}

pub(super) fn log_text(log: &[LogLine]) -> String {
    let lines = log
        .iter()
        .map(|line| format!("{} {}\n", line.at, line.text));
    lines.collect()
}

fn failed(error: &dyn std::error::Error) -> Failure {
    Failure::new(Code::TaskFailed, chain(error))
}

fn not_kept(why: String) -> Failure {
    Failure::new(
        Code::TaskFailed,
        format!("could not keep the result: {why}"),
    )
}

/// The changes that came, if there are any.
fn open_delta(folder: &Path) -> Result<Option<impl std::io::Read + use<>>, Failure> {
    match spool::open(folder, DELTA) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

/// Unpacks changes below `folder`, in place of what was unpacked there before.
fn unpack_delta(
    delta: impl std::io::Read,
    folder: &Path,
    limits: &Limits,
) -> Result<(Delta, Folder), Failure> {
    let staged = folder.join(STAGED);
    files::remove_tree(&staged).map_err(|error| failed(&error))?;
    files::create_private_dir(&staged).map_err(|error| failed(&error))?;
    let staged = Folder::open(&staged).map_err(|error| failed(&error))?;
    archive::unpack_delta(delta, None, &staged, limits).map_err(|error| failed(&error))
}

fn stopped() -> Failure {
    Failure::new(Code::Cancelled, "it was stopped")
}

fn read_ignored(folder: &Path) -> Result<Ignored, Failure> {
    let text = files::read_bounded(&folder.join(IGNORED), IGNORED_MAX);
    let text = text.map_err(|error| failed(&error))?;
    Ok(Ignored::from_bytes(&text))
}

/// Takes out of the changes what stays at home, which the audit names: a build or an installation at the remote leaves
/// such things behind, and the work beside them is taken all the same.
fn leave_behind(delta: &mut Delta, ignored: &Ignored, shadow: &Shadow) -> Result<(), Failure> {
    let (mut left, at_home) = (BTreeSet::new(), ignored.at_home());
    delta.changes.retain(|path, change| {
        let is_dir = |entry: &archive::Entry| matches!(entry.content, Content::Dir);
        let is_dir = change.after().or(change.before()).is_some_and(is_dir);
        let path = Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
        match at_home.keeps(path, is_dir) {
            Some(top) => {
                left.insert(top);
                false
            }
            None => true,
        }
    });
    shadow.keep_unseen(&left, false).map_err(not_kept)
}

/// By how much the changes make the workspace grow. What goes is measured here: the list of changes is the remote's.
fn check_quota(delta: &Delta, home: &Folder, quota: u64) -> Result<(), Failure> {
    let (mut came, mut went) = (0_u64, 0_u64);
    for (path, change) in &delta.changes {
        if let Some(Content::File { size, .. }) = change.after().map(|entry| &entry.content) {
            came = came.saturating_add(*size);
        }
        let size = home.size_of(path).map_err(|error| failed(&error))?;
        went = went.saturating_add(size);
    }
    let grown = came.saturating_sub(went);
    if grown > quota {
        return Err(over_quota(quota, grown));
    }
    Ok(())
}

fn over_quota(quota: u64, grown: u64) -> Failure {
    Failure::with_hint(
        Code::TaskFailed,
        format!(
            "the quota of {quota} bytes is reached: the changes need {grown} bytes; nothing was changed"
        ),
        "lend with a larger quota, or ask for less",
    )
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
