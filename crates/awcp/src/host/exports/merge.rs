//! Merging a branch that came back with how the folder is by then, all or nothing.
//!
//! Git merges trees in the shadow repository; the folder is changed by our own hand, the same way as by an archive's delta.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use archive::{ApplyError, Delta, Folder, Manifest, everything};
use domain::delegation::{Code, Failure};
use platform::{crash, files};

use super::{
    CONFLICTS_TOLD_MAX, Export, STAGED,
    branch::{BRANCH, LENT, LENT_INDEX, paths_of, refused},
    conflicting, failed, not_kept, read_ignored,
};
use crate::{
    delegations::recover,
    git::{path_of, split},
    lent_repository::LentRepository,
    shadow::{BASELINE, RESULT},
};

/// What the folder becomes, once that is about to happen.
const MERGED: &str = "refs/heads/merged";

/// The index of what comes of a merge.
const MERGED_INDEX: &str = "index-merged";

impl Export {
    /// Merges the branch with how the folder is now, all or nothing. One at a time: several may have been lent the same
    /// repository. The list of what stays at home is in `folder`.
    pub(super) async fn merge(&self, folder: PathBuf) -> Result<(), Failure> {
        let _turn = self.node.merging().await;
        let from = folder.clone();
        let ignored = self.blocking(move || read_ignored(&from)).await?;
        self.take_back().await?;
        let before = self.manifest(ignored.clone()).await?;
        let merged = self.merge_trees(&before).await?;
        if merged.is_empty() && self.is_merge_begun().await {
            return Ok(()); // It was done, and we ended before we could say so.
        }
        let staged = folder.join(STAGED);
        self.check_out(&merged, &staged).await?;
        for (name, commit) in [
            (BASELINE, &merged.home),
            (RESULT, &merged.commit),
            (MERGED, &merged.commit),
        ] {
            self.shadow.name(name, commit).await.map_err(not_kept)?;
        }
        let (dir, limits, removed) = (self.dir.clone(), self.limits(), merged.removed.clone());
        let written = merged.written.len();
        let node = self.node.clone();
        self.blocking(move || {
            let home = Folder::open(&dir).map_err(|error| failed(&error))?;
            let journal = node.journal(&dir).map_err(|error| failed(&error))?;
            let content = Folder::open(&staged).map_err(|error| failed(&error))?;
            let (after, left_out) =
                Manifest::of(&content, &everything, &limits).map_err(|error| failed(&error))?;
            if let Some(left) = left_out.first() {
                return Err(refused(&format!("{} leads outside", left.path)));
            }
            if paths_of(&after).len() != written {
                return Err(refused("it holds names that are not taken"));
            }
            let removed = removed.iter().map(|path| path.as_os_str().as_bytes());
            let delta = Delta::overlay(&home, &before, &after, removed);
            let keep = |path: &archive::EntryPath, kind| ignored.covers(path, kind);
            crash::point("lending.host.before-apply");
            let applied = archive::apply(&home, &journal, &delta, &content, &keep, &limits);
            crash::point("lending.host.after-apply");
            match applied {
                Ok(_) => Ok(()),
                Err(ApplyError::Conflicts(conflicts)) => Err(conflicting(&conflicts)),
                Err(error) => Err(failed(&error)),
            }
        })
        .await
    }

    /// Whether a merge was going to change the folder, now or before we were started again.
    pub(super) async fn is_merge_begun(&self) -> bool {
        let git = self.shadow.git();
        git.run(&["rev-parse", "-q", "--verify", MERGED])
            .await
            .is_ok()
    }

    /// Half of a merge that a crash left is none; what looks like one and is not ours is refused.
    pub(super) async fn take_back(&self) -> Result<(), Failure> {
        let (node, dir) = (self.node.clone(), self.dir.clone());
        self.blocking(move || {
            recover(&node, &dir).map_err(|why| Failure::new(Code::TaskFailed, why))
        })
        .await
    }

    async fn merge_trees(&self, before: &Manifest) -> Result<Merged, Failure> {
        let git = self.shadow.git();
        let listed = git.run(&["ls-tree", "-r", "-z", "--name-only", LENT]).await;
        let mut paths: Vec<PathBuf> = split(&listed.map_err(not_kept)?).map(path_of).collect();
        paths.extend(paths_of(before));
        paths.sort();
        paths.dedup();
        let index = git.with("GIT_INDEX_FILE", git.folder.join(LENT_INDEX));
        index.stage(&paths).await.map_err(not_kept)?;
        let home = index.commit("Home", Some(LENT)).await.map_err(not_kept)?;
        let args = [
            "merge-tree",
            "--write-tree",
            "-z",
            "--name-only",
            &home,
            BRANCH,
        ];
        let args = args.map(Into::into);
        let (code, said) = git.ask(&args).await.map_err(not_kept)?;
        let mut words = said.split(|byte| *byte == 0);
        let tree = words.next().unwrap_or_default();
        let tree = String::from_utf8_lossy(tree).into_owned();
        match code {
            0 => {}
            1 => {
                let paths = words.take_while(|path| !path.is_empty());
                return Err(self.does_not_go_together(paths));
            }
            _ => return Err(not_kept(String::from_utf8_lossy(&said).into_owned())),
        }
        let args = [
            "commit-tree",
            "-m",
            "Merged",
            "-p",
            &home,
            "-p",
            BRANCH,
            &tree,
        ];
        let commit = git.line(&args).await.map_err(not_kept)?;
        let args = [
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--name-status",
            &home,
            &commit,
        ];
        let listed = git.run(&args).await.map_err(not_kept)?;
        let mut merged = Merged {
            home,
            commit,
            written: Vec::new(),
            removed: Vec::new(),
        };
        let mut words = split(&listed);
        while let (Some(kind), Some(path)) = (words.next(), words.next()) {
            match kind {
                b"D" => merged.removed.push(path_of(path)),
                _ => merged.written.push(path_of(path)),
            }
        }
        Ok(merged)
    }

    /// Writes the files that the merge brings to a folder of their own.
    async fn check_out(&self, merged: &Merged, staged: &Path) -> Result<(), Failure> {
        let fresh = staged.to_owned();
        self.blocking(move || {
            files::remove_tree(&fresh).map_err(|error| failed(&error))?;
            files::create_private_dir(&fresh).map_err(|error| failed(&error))
        })
        .await?;
        let git = self.shadow.git();
        let index = git.with("GIT_INDEX_FILE", git.folder.join(MERGED_INDEX));
        let prefix = format!("--prefix={}/", staged.display());
        let written = async {
            index.run(&["read-tree", &merged.commit]).await?;
            let args = ["checkout-index", "-q", "-f", &prefix];
            index.run_on(&args, &merged.written).await
        };
        written.await.map_err(not_kept)
    }

    fn does_not_go_together<'a>(&self, paths: impl Iterator<Item = &'a [u8]>) -> Failure {
        let mut paths: Vec<PathBuf> = paths.map(path_of).collect();
        paths.sort();
        paths.dedup();
        let told: Vec<String> = paths
            .iter()
            .take(CONFLICTS_TOLD_MAX)
            .map(|path| path.display().to_string())
            .collect();
        let branch = LentRepository::branch(&self.id);
        Failure::with_hint(
            Code::TaskFailed,
            format!(
                "the work does not go together with what was changed at home in {} paths, so nothing was changed: {}; \
                 it is kept on the branch {branch}",
                paths.len(),
                told.join(", ")
            ),
            format!("merge it by hand: git merge {branch}"),
        )
    }
}

/// What comes of a merge.
struct Merged {
    /// How the folder was.
    home: String,
    /// How it becomes.
    commit: String,
    written: Vec<PathBuf>,
    removed: Vec<PathBuf>,
}

impl Merged {
    /// Everything is there already.
    fn is_empty(&self) -> bool {
        self.written.is_empty() && self.removed.is_empty()
    }
}
