//! The audit: a shadow repository outside the workspace, with how it was and how it became.
//!
//! Git is given the paths one by one, so no rule that a remote writes into the workspace hides anything.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use serde::Serialize;

use crate::git::{Repository, path_of, split};

/// What is kept of a diff; who wants more has the repository.
const DIFF_MAX: usize = 1024 * 1024;

pub(crate) const BASELINE: &str = "refs/heads/baseline";
pub(crate) const RESULT: &str = "refs/heads/result";

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
}

/// One file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// `added`, `changed` or `removed`.
    pub change: &'static str,
    pub path: String,
}

impl Shadow {
    /// Keeps how the workspace is, in a repository made anew.
    pub(crate) async fn baseline(&self, paths: &[PathBuf]) -> Result<(), String> {
        self.git().init().await?;
        self.git().stage(paths).await?;
        self.keep("baseline", BASELINE).await
    }

    /// Keeps how the workspace became; `paths` are all that may have changed, those that are gone included.
    pub(crate) async fn result(&self, paths: &[PathBuf]) -> Result<(), String> {
        self.git().stage(paths).await?;
        self.keep("result", RESULT).await
    }

    /// Every file that was there at the beginning.
    pub(crate) async fn baseline_paths(&self) -> Result<Vec<PathBuf>, String> {
        let listed = self
            .git()
            .run(&["ls-tree", "-r", "-z", "--name-only", BASELINE])
            .await?;
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
        let listed = self.git().run(&args).await?;
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
        let (diff, is_whole) = self.git().beginning(&args, DIFF_MAX).await?;
        Ok(AuditReport {
            changes,
            diff: String::from_utf8_lossy(&diff).into_owned(),
            truncated: !is_whole,
        })
    }

    /// Takes the result back, unless somebody has changed one of its files since.
    pub(crate) async fn undo(&self) -> Result<(), String> {
        self.git().run(&["read-tree", RESULT]).await?;
        // It says which files differ, which the merge below finds out by itself.
        let _ = self.git().run(&["update-index", "-q", "--refresh"]).await;
        self.git()
            .run(&["read-tree", "-m", "-u", RESULT, BASELINE])
            .await?;
        self.name(RESULT, BASELINE).await
    }

    async fn keep(&self, message: &str, reference: &str) -> Result<(), String> {
        let commit = self.git().commit(message, None).await?;
        self.name(reference, &commit).await
    }

    pub(crate) async fn name(&self, reference: &str, commit: &str) -> Result<(), String> {
        self.git()
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
            .baseline(&paths(&["keep", "change", "gone"]))
            .await
            .unwrap();
        std::fs::write(w.join("change"), "new\n").unwrap();
        std::fs::write(w.join(".gitignore"), "*\n").unwrap();
        std::fs::write(w.join("hidden"), "h\n").unwrap();
        std::fs::remove_file(w.join("gone")).unwrap();
        let all = paths(&["keep", "change", "gone", ".gitignore", "hidden"]);
        shadow.result(&all).await.unwrap();
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
        assert!(!w.join("hidden").exists());
    }

    #[tokio::test]
    async fn what_was_changed_since_is_not_taken_back() {
        let Scene { folder, shadow } = scene();
        let w = folder.path().join("w");
        shadow
            .baseline(&paths(&["keep", "change", "gone"]))
            .await
            .unwrap();
        std::fs::write(w.join("change"), "new\n").unwrap();
        shadow.result(&paths(&["change"])).await.unwrap();
        std::fs::write(w.join("change"), "newer, by hand\n").unwrap();
        let error = shadow.undo().await.unwrap_err();
        assert!(error.contains("change"), "{error}");
        assert_eq!(
            std::fs::read_to_string(w.join("change")).unwrap(),
            "newer, by hand\n"
        );
    }
}
