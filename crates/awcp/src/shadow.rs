//! The audit: a shadow repository outside the workspace, with how it was and how it became.
//!
//! Git is given the paths one by one, so no rule that a remote writes into the workspace hides anything, and a
//! configuration of its own, so nothing in the workspace or of the user is run.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use platform::{
    Exit,
    command::CommandLine,
    files::{self, Durability, Mode},
    system::find_program,
};
use serde::Serialize;

/// How long one act of git may take: a hundred thousand files on a slow disk.
const GIT_MAX: Duration = Duration::from_secs(5 * 60);

/// What is kept of a diff; who wants more has the repository.
const DIFF_MAX: usize = 1024 * 1024;

const BASELINE: &str = "refs/heads/baseline";
const RESULT: &str = "refs/heads/result";

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
        files::remove_tree(&self.repository).map_err(|error| error.to_string())?;
        files::create_private_dir(&self.repository).map_err(|error| error.to_string())?;
        self.git(&["init", "-q", "--bare", "."]).await?;
        self.stage(paths).await?;
        self.commit("baseline", BASELINE).await
    }

    /// Keeps how the workspace became; `paths` are all that may have changed, those that are gone included.
    pub(crate) async fn result(&self, paths: &[PathBuf]) -> Result<(), String> {
        self.stage(paths).await?;
        self.commit("result", RESULT).await
    }

    /// Every file that was there at the beginning.
    pub(crate) async fn baseline_paths(&self) -> Result<Vec<PathBuf>, String> {
        let listed = self
            .git(&["ls-tree", "-r", "-z", "--name-only", BASELINE])
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
        let listed = self.git(&args).await?;
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
        let mut diff = self.git(&args).await?;
        let truncated = diff.len() > DIFF_MAX;
        diff.truncate(DIFF_MAX);
        Ok(AuditReport {
            changes,
            diff: String::from_utf8_lossy(&diff).into_owned(),
            truncated,
        })
    }

    /// Takes the result back, unless somebody has changed one of its files since.
    pub(crate) async fn undo(&self) -> Result<(), String> {
        self.git(&["read-tree", RESULT]).await?;
        // It says which files differ, which the merge below finds out by itself.
        let _ = self.git(&["update-index", "-q", "--refresh"]).await;
        self.git(&["read-tree", "-m", "-u", RESULT, BASELINE])
            .await?;
        self.git(&["update-ref", RESULT, BASELINE]).await.map(drop)
    }

    async fn stage(&self, paths: &[PathBuf]) -> Result<(), String> {
        if paths.is_empty() {
            return Ok(());
        }
        let mut list = Vec::new();
        for path in paths {
            list.extend_from_slice(path.as_os_str().as_bytes());
            list.push(0);
        }
        let file = self.repository.join("paths");
        files::write_atomic(&file, &list, Mode::PRIVATE, Durability::ProcessDeath)
            .map_err(|error| error.to_string())?;
        let from = format!("--pathspec-from-file={}", file.display());
        let args = ["add", "-A", "-f", "--pathspec-file-nul", &from];
        self.git(&args).await.map(drop)
    }

    async fn commit(&self, message: &str, reference: &str) -> Result<(), String> {
        let tree = self.git(&["write-tree"]).await?;
        let tree = String::from_utf8_lossy(&tree).trim().to_owned();
        let commit = self.git(&["commit-tree", "-m", message, &tree]).await?;
        let commit = String::from_utf8_lossy(&commit).trim().to_owned();
        self.git(&["update-ref", reference, &commit])
            .await
            .map(drop)
    }

    /// Runs git and gives what it printed; its words if it failed.
    async fn git(&self, args: &[&str]) -> Result<Vec<u8>, String> {
        let path = self.environment.get(std::ffi::OsStr::new("PATH"));
        let path = path.cloned().unwrap_or_default();
        let program = find_program("git", &path)
            .ok_or("git is missing: install it, the audit needs it".to_owned())?;
        let mut all: Vec<OsString> = Vec::new();
        for setting in SETTINGS {
            all.push("-c".into());
            all.push(setting.into());
        }
        all.extend(args.iter().map(OsString::from));
        let line = CommandLine {
            program,
            args: all,
            env: self.variables(path, args),
            // Paths that are listed are relative to here.
            cwd: match args.first() {
                Some(&"init") => self.repository.clone(),
                Some(_) | None => self.workspace.clone(),
            },
        };
        let command = line.start().map_err(|error| error.to_string())?;
        let mut output = Vec::new();
        let reading = async {
            let mut buffer = vec![0; 64 * 1024];
            loop {
                match command.read(&mut buffer).await {
                    Ok(0) | Err(_) => break,
                    Ok(length) if output.len() <= OUTPUT_MAX => {
                        output.extend_from_slice(&buffer[..length]);
                    }
                    Ok(_) => {} // Read on, or git would wait for ever.
                }
            }
            command.exited().await;
        };
        if tokio::time::timeout(GIT_MAX, reading).await.is_err() {
            return Err(format!("git {} took too long", args[0]));
        }
        match command.end().await {
            Exit::Code(0) => Ok(output),
            exit => {
                let words = String::from_utf8_lossy(&output).trim().to_owned();
                Err(format!("git {} ended with {exit}: {words}", args[0]))
            }
        }
    }

    fn variables(&self, path: OsString, args: &[&str]) -> BTreeMap<OsString, OsString> {
        let mut variables = BTreeMap::from([
            ("PATH".into(), path),
            ("GIT_DIR".into(), self.repository.clone().into_os_string()),
        ]);
        // A repository is made without one.
        if args.first() != Some(&"init") {
            let workspace = self.workspace.clone().into_os_string();
            variables.insert("GIT_WORK_TREE".into(), workspace);
        }
        let fixed = [
            ("HOME", "/nonexistent"),
            ("LC_ALL", "C"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_AUTHOR_NAME", "agentcraft"),
            ("GIT_AUTHOR_EMAIL", "agentcraft@localhost"),
            ("GIT_COMMITTER_NAME", "agentcraft"),
            ("GIT_COMMITTER_EMAIL", "agentcraft@localhost"),
        ];
        variables.extend(fixed.map(|(name, value)| (name.into(), value.into())));
        variables
    }
}

/// Content stays as it is, nothing of the workspace is run, and warnings do not mix with what is read.
const SETTINGS: [&str; 8] = [
    "core.bare=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "advice.addEmbeddedRepo=false",
    "gc.auto=0",
];

/// What is read of git: the paths of the largest workspace.
const OUTPUT_MAX: usize = 32 * 1024 * 1024;

fn split(listed: &[u8]) -> impl Iterator<Item = &[u8]> {
    listed
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
}

fn path_of(bytes: &[u8]) -> PathBuf {
    Path::new(std::ffi::OsStr::from_bytes(bytes)).to_owned()
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
