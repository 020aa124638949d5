//! The git plane at the host: a commit of how the folder is goes out; a branch comes back and is kept in the folder's own
//! repository.
//!
//! What the remote gets is what is lent, and no history. What it sends is only looked at in the shadow repository.

use std::path::PathBuf;

use archive::{Checksum, Content, Folder, Manifest};
use domain::delegation::{Code, Failure};
use platform::{crash, files};

use super::{DELTA, Export, IGNORED, failed, not_kept, over_quota};
use crate::{
    git::{LeafKind, path_of, split},
    ignored::Ignored,
    lent_repository::LentRepository,
    record::{Keeping, Snapshot, SnapshotStatus},
    shadow::{BASELINE, RESULT},
    spool,
};

/// The packed commit, in the folder of the export.
pub(crate) const BUNDLE: &str = "workspace.bundle";

/// In the shadow repository: what was lent, and what came back.
pub(super) const LENT: &str = "refs/heads/lent";
pub(super) const BRANCH: &str = "refs/heads/branch";

/// The name of what is lent and of what comes back, in bundles.
pub(crate) const LENT_NAME: &str = "refs/heads/lent";
pub(crate) const WORK_NAME: &str = "refs/heads/work";

/// The index of what is lent, which later needs to look at changed files alone.
pub(super) const LENT_INDEX: &str = "index-lent";

/// What goes into the folder's own repository, on its way.
const HOMEWARD: &str = "homeward.bundle";

impl Export {
    /// Packs a commit of what is lent; gives the checksum of the bundle.
    pub(super) async fn lend_commit(&self, ignored: Ignored) -> Result<String, Failure> {
        let home = LentRepository::of(&self.dir, &self.node).await;
        let home = home.map_err(|why| Failure::new(Code::DepMissing, why))?;
        let before = self.manifest(ignored).await?;
        self.commit_lent(&home, &paths_of(&before))
            .await
            .map_err(|why| {
                let words = format!("could not pack the repository: {why}");
                Failure::new(Code::TaskFailed, words)
            })?;
        let folder = self.folder.clone();
        self.blocking(move || {
            let file = spool::open(&folder, BUNDLE).map_err(|error| failed(&error))?;
            let checksum = Checksum::of_reader(file).map_err(|error| failed(&error))?;
            Ok(checksum.to_string())
        })
        .await
    }

    async fn commit_lent(&self, home: &LentRepository, paths: &[PathBuf]) -> Result<(), String> {
        let shadow = self.shadow.git();
        let lent = shadow.with("GIT_INDEX_FILE", shadow.folder.join(LENT_INDEX));
        lent.stage(paths).await?;
        let tree = lent.line(&["write-tree"]).await?;
        // Its parent is known by name alone: history stays at home. Git does not write what is there already, so no other
        // delegation may have made the same commit.
        let lent = lent.with("GIT_ALTERNATE_OBJECT_DIRECTORIES", &home.objects);
        let message = format!("What was lent\n\nAs {}.", self.id);
        let commit = lent.commit_tree(&message, home.head.as_deref(), &tree);
        let commit = commit.await?;
        self.shadow.name(LENT, &commit).await?;
        shadow.write("shallow", format!("{commit}\n").as_bytes())?;
        let bundle = self.folder.join(BUNDLE).display().to_string();
        let args = ["bundle", "create", "-q", &bundle, LENT_NAME];
        shadow.run(&args).await.map(drop)
    }

    /// Looks at the branch that came, if one did, keeps it, and merges it unless the changes are to wait.
    pub(super) async fn collect_branch(
        &self,
        keeping: Keeping,
    ) -> Result<Option<Snapshot>, Failure> {
        let bundle = self.folder.join(DELTA);
        if !self.node.is_there(&bundle).await {
            self.keep_result(Vec::new()).await?;
            return Ok(None);
        }
        let taken = self.shadow.git().fetch(&bundle, WORK_NAME, BRANCH).await;
        taken.map_err(|why| refused(&why))?;
        let changes = self.check_branch().await?;
        // The audit tells what the remote did, whatever happened at home meanwhile. A merge that was begun has its own.
        if !self.is_merge_begun().await {
            for (name, commit) in [(BASELINE, LENT), (RESULT, BRANCH)] {
                self.shadow.name(name, commit).await.map_err(not_kept)?;
            }
        }
        let status = match keeping {
            Keeping::Discard => SnapshotStatus::Discarded,
            Keeping::Auto | Keeping::Staged => {
                self.keep_branch().await?;
                SnapshotStatus::Pending
            }
        };
        match keeping {
            Keeping::Auto => self.merge(self.folder.clone()).await.map(|()| None),
            Keeping::Staged | Keeping::Discard if changes == 0 => Ok(None),
            Keeping::Staged | Keeping::Discard => {
                self.keep_ignored(status).await?;
                Ok(Some(Snapshot::new(status, changes)))
            }
        }
    }

    /// What stays at home must be known when the changes are applied.
    async fn keep_ignored(&self, status: SnapshotStatus) -> Result<(), Failure> {
        if status != SnapshotStatus::Pending {
            return Ok(());
        }
        let (from, into) = (self.folder.clone(), self.node.snapshot_folder(&self.id));
        self.blocking(move || {
            files::remove_tree(&into).map_err(|error| failed(&error))?;
            files::create_private_dir(&into).map_err(|error| failed(&error))?;
            files::copy_atomic(&from.join(IGNORED), &into.join(IGNORED))
                .map_err(|error| failed(&error))
        })
        .await
    }

    /// Whether the branch grew out of what was lent, holds nothing but files and links, and is not too large. Gives how
    /// many paths it changes.
    async fn check_branch(&self) -> Result<usize, Failure> {
        let git = self.shadow.git();
        let grown = git
            .run(&["merge-base", "--is-ancestor", LENT, BRANCH])
            .await;
        grown.map_err(|_| refused("it did not grow out of what was lent"))?;
        let lent = git.tree(LENT).await.map_err(|why| refused(&why))?;
        let branch = git.tree(BRANCH).await.map_err(|why| refused(&why))?;
        let limits = self.limits();
        let odd = branch.iter().find(|leaf| leaf.kind == LeafKind::Other);
        if let Some(odd) = odd {
            let words = format!("{} is another repository", odd.path.display());
            return Err(refused(&words));
        }
        let large = branch.iter().find(|leaf| leaf.bytes > limits.file_bytes);
        if let Some(large) = large {
            let words = format!("{} has {} bytes", large.path.display(), large.bytes);
            return Err(refused(&words));
        }
        if branch.len() as u64 > limits.entries {
            return Err(refused("it holds too many files"));
        }
        let sum = |leaves: &[crate::git::Leaf]| leaves.iter().map(|leaf| leaf.bytes).sum::<u64>();
        let grown = sum(&branch).saturating_sub(sum(&lent));
        if grown > self.quota_bytes {
            return Err(over_quota(self.quota_bytes, grown));
        }
        let args = [
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--name-only",
            LENT,
            BRANCH,
        ];
        let listed = git.run(&args).await.map_err(|why| refused(&why))?;
        Ok(split(&listed).count())
    }

    /// Puts the branch into the folder's own repository, where its commits follow those that are there.
    async fn keep_branch(&self) -> Result<(), Failure> {
        let kept = async {
            let home = LentRepository::of(&self.dir, &self.node).await?;
            let shadow = self.shadow.git();
            let bundle = self.folder.join(HOMEWARD).display().to_string();
            // The history is at home, so here it has no edge.
            let mut args = vec![
                "--shallow-file",
                "",
                "bundle",
                "create",
                "-q",
                &bundle,
                BRANCH,
            ];
            let parent = raw_parent(&shadow.run(&["cat-file", "commit", LENT]).await?);
            let not = parent.map(|parent| format!("^{parent}"));
            args.extend(not.as_deref());
            let reading = shadow.with("GIT_ALTERNATE_OBJECT_DIRECTORIES", &home.objects);
            reading.run(&args).await?;
            let writing = shadow
                .with("GIT_OBJECT_DIRECTORY", &home.objects)
                .with("GIT_ALTERNATE_OBJECT_DIRECTORIES", shadow.objects());
            let args = ["--shallow-file", "", "bundle", "unbundle", &bundle];
            writing.run(&args).await?;
            let commit = shadow.line(&["rev-parse", BRANCH]).await?;
            crash::point("lending.host.before-branch");
            home.name_branch(&self.id, &commit).await?;
            crash::point("lending.host.after-branch");
            Ok(())
        };
        kept.await.map_err(|why: String| {
            let words = format!("could not keep the branch in the repository: {why}");
            Failure::new(Code::TaskFailed, words)
        })
    }

    /// What is in the folder and travels.
    pub(super) async fn manifest(&self, ignored: Ignored) -> Result<Manifest, Failure> {
        let (dir, limits) = (self.dir.clone(), self.limits());
        self.blocking(move || {
            let home = Folder::open(&dir).map_err(|error| failed(&error))?;
            let keep = |path: &archive::EntryPath, kind| ignored.covers(path, kind);
            let read = Manifest::of(&home, &keep, &limits);
            read.map(|(manifest, _)| manifest)
                .map_err(|error| failed(&error))
        })
        .await
    }
}

pub(super) fn paths_of(manifest: &Manifest) -> Vec<PathBuf> {
    let files = manifest
        .entries
        .iter()
        .filter(|(_, entry)| entry.content != Content::Dir);
    files.map(|(path, _)| path_of(path.as_bytes())).collect()
}

pub(super) fn refused(why: &str) -> Failure {
    Failure::new(
        Code::TaskFailed,
        format!("the branch that came back is not taken: {why}; nothing was changed"),
    )
}

/// The parent as the commit itself names it: to git it has none here.
fn raw_parent(commit: &[u8]) -> Option<String> {
    let head = commit.split(|byte| *byte == b'\n');
    let mut head = head.take_while(|line| !line.is_empty());
    let parent = head.find_map(|line| line.strip_prefix(b"parent "))?;
    Some(String::from_utf8_lossy(parent).into_owned())
}
