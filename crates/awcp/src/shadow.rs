//! The audit: a shadow repository outside the workspace, with how it was and how it became.
//!
//! Both are written by our own hand, so keeping them starts no program; git reads them when somebody asks. Every path is
//! named by us, so no rule that a remote writes into the workspace hides anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use archive::{Folder, KeptTree, ObjectPack};
use platform::{crash, files};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    clock,
    error::chain,
    git::{ATTRIBUTES, Repository, path_of, split},
    spool::{self, Stoppable},
};

/// What is kept of a diff; who wants more has the repository.
const DIFF_MAX: usize = 1024 * 1024;

pub(crate) const BASELINE: &str = "refs/heads/baseline";
pub(crate) const RESULT: &str = "refs/heads/result";

/// What was kept of the workspace when it was lent, in the repository.
const KEPT: &str = "kept";

/// A list of the largest workspace is shorter.
const KEPT_MAX: u64 = 256 << 20;

/// What the remote changed and is in no comparison, in the repository; each name ends with NUL.
const UNSEEN: &str = "unseen";

/// Names of it that are kept; who changes more is told to have.
const UNSEEN_MAX: usize = 1000;

/// The name that says that there were more: no path is empty.
const AND_MORE: &[u8] = b"\0";

/// Longer than so many of the longest names.
const UNSEEN_BYTES_MAX: u64 = 8 << 20;

/// The settings of the repository; everything else that matters is said with each act.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";

/// Longer than a reference.
const REFERENCE_MAX: u64 = 4096;

/// Where to find git, and the repository of one delegation.
#[derive(Debug, Clone)]
pub(crate) struct Shadow {
    pub(crate) repository: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) environment: BTreeMap<OsString, OsString>,
}

/// What a delegation changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    pub changes: Vec<ChangedFile>,
    pub diff: String,
    /// The diff is longer than what is shown.
    pub truncated: bool,
    /// What the remote changed among that which stays at home: over a mount it is there and not taken back, otherwise it
    /// was left behind. In no diff.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// There is more of it than is named.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignored_truncated: bool,
}

/// One file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// `added`, `changed` or `removed`.
    pub change: &'static str,
    pub path: String,
}

impl Shadow {
    /// Keeps how the workspace is, in a repository made anew; ends soon once it shall stop. Blocks.
    pub(crate) fn baseline(
        &self,
        paths: &[PathBuf],
        stop: CancellationToken,
    ) -> Result<(), String> {
        self.make().map_err(|error| chain(&error))?;
        let kept = self.keep(KeptTree::default(), paths, BASELINE, stop)?;
        self.git().write(KEPT, &kept.to_bytes())
    }

    /// Keeps how the workspace became; `paths` are all that may have changed, those that are gone included. Blocks.
    pub(crate) fn result(&self, paths: &[PathBuf]) -> Result<(), String> {
        if paths.is_empty() {
            let file = self.repository.join(BASELINE);
            let commit = files::read_bounded(&file, REFERENCE_MAX);
            let commit = commit.map_err(|error| chain(&error))?;
            return self.git().write(RESULT, &commit);
        }
        let never = CancellationToken::new();
        self.keep(self.kept()?, paths, RESULT, never).map(drop)
    }

    /// Every file that was there at the beginning. Blocks.
    pub(crate) fn baseline_paths(&self) -> Result<Vec<PathBuf>, String> {
        Ok(self.kept()?.paths().map(path_of).collect())
    }

    fn kept(&self) -> Result<KeptTree, String> {
        let bytes = files::read_bounded(&self.repository.join(KEPT), KEPT_MAX);
        let bytes = bytes.map_err(|error| chain(&error))?;
        KeptTree::from_bytes(&bytes).ok_or_else(|| "its list of files cannot be read".to_owned())
    }

    /// Room for what is kept.
    fn make(&self) -> Result<(), files::FileError> {
        let root = &self.repository;
        files::remove_tree(root)?;
        files::create_private_dir(root)?;
        files::create_dir_all(&root.join("objects/pack"))?;
        files::create_dir_all(&root.join("refs/heads"))
    }

    /// Makes a repository of it that git can read: most are never asked for, and what nobody reads is not written. Blocks.
    pub(crate) fn complete(&self) -> Result<Repository, String> {
        let git = self.git();
        let last = "HEAD"; // Whoever finds it finds everything.
        if files::is_there(&self.repository.join(last)) {
            return Ok(git);
        }
        if !files::is_there(&self.repository.join(BASELINE)) {
            return Err("its audit is not kept any more".to_owned());
        }
        let info = self.repository.join("info");
        files::create_private_dir(&info).map_err(|error| chain(&error))?;
        for (name, text) in [
            ("config", CONFIG),
            ("info/attributes", ATTRIBUTES),
            (last, "ref: refs/heads/baseline\n"),
        ] {
            git.write(name, text.as_bytes())?;
        }
        Ok(git)
    }

    /// Looks at these paths, keeps what is new in a pack, and gives the commit of it all this name.
    fn keep(
        &self,
        mut tree: KeptTree,
        paths: &[PathBuf],
        reference: &str,
        stop: CancellationToken,
    ) -> Result<KeptTree, String> {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        let (pack, index) = (format!("pack-{name}.pack"), format!("pack-{name}.idx"));
        let folder = self.repository.join("objects/pack");
        let now = clock::now().0 / 1000;
        let paths: BTreeSet<&[u8]> = paths.iter().map(|it| it.as_os_str().as_bytes()).collect();
        // One that a crash left is found by its index.
        files::remove_file_if_there(&folder.join(&index)).map_err(|error| chain(&error))?;
        let inner = spool::create(&folder, &pack).map_err(|error| chain(&error))?;
        let file = Stoppable { inner, stop };
        let home = Folder::open(&self.workspace).map_err(|error| chain(&error))?;
        let mut pack = ObjectPack::new(file).map_err(|error| chain(&error))?;
        tree.look(&home, &paths, now, &mut pack)
            .map_err(|error| chain(&error))?;
        let commit = tree.commit(name, now, &mut pack);
        let commit = commit.map_err(|error| chain(&error))?;
        let bytes = pack.finish().map_err(|error| chain(&error))?;
        self.git().write(&format!("objects/pack/{index}"), &bytes)?;
        crash::point("lending.host.before-audit");
        self.git()
            .write(reference, format!("{commit}\n").as_bytes())?;
        Ok(tree)
    }

    /// Keeps what is in no comparison. Blocks.
    pub(crate) fn keep_unseen(
        &self,
        paths: &BTreeSet<PathBuf>,
        is_more: bool,
    ) -> Result<(), String> {
        let named = paths.iter().take(UNSEEN_MAX);
        let named = named.map(|path| path.as_os_str().as_bytes());
        let mut bytes: Vec<u8> = named.flat_map(|path| [path, b"\0"].concat()).collect();
        if is_more || paths.len() > UNSEEN_MAX {
            bytes.extend(AND_MORE);
        }
        match bytes.is_empty() {
            true => Ok(()),
            false => self.git().write(UNSEEN, &bytes),
        }
    }

    /// The same as it is shown, and whether there is more.
    fn unseen(&self) -> (Vec<String>, bool) {
        // Most have none.
        let bytes = files::read_bounded(&self.repository.join(UNSEEN), UNSEEN_BYTES_MAX);
        let bytes = bytes.unwrap_or_default();
        let names = split(&bytes).map(|name| String::from_utf8_lossy(name).into_owned());
        let is_more = bytes.ends_with(b"\0\0") || bytes == AND_MORE;
        (names.collect(), is_more)
    }

    /// Whether there is something to compare and to take back.
    pub(crate) fn has_result(&self) -> bool {
        files::is_there(&self.repository.join(RESULT))
    }

    pub(crate) fn forget_result(&self) -> Result<(), String> {
        files::remove_file_if_there(&self.repository.join(RESULT)).map_err(|error| chain(&error))
    }

    /// How many paths differ.
    pub(crate) async fn changed(&self) -> Result<usize, String> {
        Ok(self.differing().await?.len())
    }

    async fn differing(&self) -> Result<Vec<PathBuf>, String> {
        let args = [
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--name-only",
            BASELINE,
            RESULT,
        ];
        let listed = self.complete()?.run(&args).await?;
        Ok(split(&listed).map(path_of).collect())
    }

    pub(crate) async fn report(&self) -> Result<AuditReport, String> {
        let range = [BASELINE, RESULT];
        let mut args = vec![
            "diff",
            "--no-renames",
            "--no-ext-diff",
            "--name-status",
            "-z",
        ];
        args.extend(range);
        let git = self.complete()?;
        let listed = git.run(&args).await?;
        let mut words = split(&listed);
        let mut changes = Vec::new();
        while let (Some(kind), Some(path)) = (words.next(), words.next()) {
            let change = match kind {
                b"A" => "added",
                b"D" => "removed",
                _ => "changed",
            };
            let path = String::from_utf8_lossy(path).into_owned();
            changes.push(ChangedFile { change, path });
        }
        let mut args = vec!["diff", "--no-renames", "--no-ext-diff", "--no-textconv"];
        args.extend(range);
        let (diff, is_whole) = git.beginning(&args, DIFF_MAX).await?;
        let (ignored, ignored_truncated) = self.unseen();
        Ok(AuditReport {
            ignored,
            ignored_truncated,
            changes,
            diff: String::from_utf8_lossy(&diff).into_owned(),
            truncated: !is_whole,
        })
    }

    /// Takes the result back, unless somebody has changed one of its files since.
    pub(crate) async fn undo(&self) -> Result<(), String> {
        let git = self.complete()?;
        git.run(&["read-tree", RESULT]).await?;
        // It says which files differ, which the merge below finds out by itself.
        let _ = git.run(&["update-index", "-q", "--refresh"]).await;
        let changed = self.differing().await?;
        git.run(&["read-tree", "-m", "-u", RESULT, BASELINE])
            .await?;
        // Git knows of a mode whether a file can be run, and nothing else.
        if let Ok(kept) = self.kept() {
            let home = Folder::open(&self.workspace).map_err(|error| chain(&error))?;
            let paths = changed.iter().map(|path| path.as_os_str().as_bytes());
            kept.dress(&home, paths);
        }
        self.name(RESULT, BASELINE).await
    }

    pub(crate) async fn name(&self, reference: &str, commit: &str) -> Result<(), String> {
        self.complete()?
            .run(&["update-ref", reference, commit])
            .await
            .map(drop)
    }

    pub(crate) fn git(&self) -> Repository {
        Repository {
            folder: self.repository.clone(),
            work_tree: Some(self.workspace.clone()),
            environment: self.environment.clone(),
            variables: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    struct Scene {
        folder: tempfile::TempDir,
        shadow: Shadow,
    }

    fn scene() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("w");
        std::fs::create_dir_all(&workspace).unwrap();
        for (name, text) in [("keep", "1\n"), ("change", "old\n"), ("gone", "g\n")] {
            std::fs::write(workspace.join(name), text).unwrap();
        }
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(workspace.join("change"), private).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let shadow = Shadow {
            repository: folder.path().join("shadow.git"),
            workspace,
            environment: BTreeMap::from([("PATH".into(), path)]),
        };
        Scene { folder, shadow }
    }

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[tokio::test]
    async fn a_result_is_told_and_can_be_taken_back() {
        let Scene { folder, shadow } = scene();
        let w = folder.path().join("w");
        shadow
            .baseline(
                &paths(&["keep", "change", "gone"]),
                CancellationToken::new(),
            )
            .unwrap();
        let mode = || std::fs::metadata(w.join("change")).unwrap().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::write(w.join("change"), "new\n").unwrap();
        std::fs::write(w.join(".gitignore"), "*\n").unwrap();
        std::fs::write(w.join("hidden"), "h\n").unwrap();
        std::fs::remove_file(w.join("gone")).unwrap();
        let all = paths(&["keep", "change", "gone", ".gitignore", "hidden"]);
        shadow.result(&all).unwrap();
        let report = shadow.report().await.unwrap();
        let told: Vec<_> = report
            .changes
            .iter()
            .map(|it| (it.change, it.path.as_str()))
            .collect();
        let expected = [
            ("added", ".gitignore"),
            ("changed", "change"),
            ("removed", "gone"),
            ("added", "hidden"),
        ];
        assert_eq!(told, expected);
        assert!(report.diff.contains("-old\n+new\n"), "{}", report.diff);
        assert!(!w.join(".git").exists());
        shadow.undo().await.unwrap();
        assert_eq!(std::fs::read_to_string(w.join("change")).unwrap(), "old\n");
        assert_eq!(std::fs::read_to_string(w.join("gone")).unwrap(), "g\n");
        assert_eq!(mode(), 0o600, "what was private is so again");
        assert!(!w.join("hidden").exists());
    }

    #[tokio::test]
    async fn what_was_changed_since_is_not_taken_back() {
        let Scene { folder, shadow } = scene();
        let w = folder.path().join("w");
        shadow
            .baseline(
                &paths(&["keep", "change", "gone"]),
                CancellationToken::new(),
            )
            .unwrap();
        std::fs::write(w.join("change"), "new\n").unwrap();
        shadow.result(&paths(&["change"])).unwrap();
        std::fs::write(w.join("change"), "newer, by hand\n").unwrap();
        let error = shadow.undo().await.unwrap_err();
        assert!(error.contains("change"), "{error}");
        assert_eq!(
            std::fs::read_to_string(w.join("change")).unwrap(),
            "newer, by hand\n"
        );
    }
}
