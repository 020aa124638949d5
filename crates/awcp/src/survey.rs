//! Looking at a workspace before it is lent: how large it is, what stays at home, and what nobody should lend unawares.

use std::{
    collections::{BTreeSet, HashSet},
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
};

use domain::delegation::{Code, Failure, Preflight, Size, SizeMax};
use ignore::{DirEntry, WalkBuilder, WalkState};
use platform::files;

use crate::ignored::{Ignored, LEFT_AT_HOME};

/// Files of these names hold secrets more often than not.
const SENSITIVE_NAMES: [&str; 14] = [
    ".env",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".git-credentials",
    "credentials",
    "credentials.json",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "secrets.json",
    "service-account.json",
];
const SENSITIVE_ENDINGS: [&str; 5] = [".key", ".keystore", ".p12", ".pem", ".pfx"];

/// Threads that look through a folder.
const WALKERS: usize = 4;

/// Names in ignored folders that are looked at: a build leaves some ten thousand.
const LOOKED_AT_MAX: usize = 200_000;

/// Names that are told; more would not be read.
const TOLD_MAX: usize = 5;

/// What was found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Survey {
    pub(crate) size: Size,
    /// Files and links that are lent, by their paths from the workspace.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) ignored: Ignored,
    /// Among what is lent.
    pub(crate) sensitive: Vec<PathBuf>,
    /// Among what is ignored: a mount shows it all the same.
    pub(crate) sensitive_ignored: Vec<PathBuf>,
}

/// Walks the workspace and stops as soon as it is known to be too large. Blocks.
pub(crate) fn survey(dir: &Path, max: SizeMax) -> Result<Survey, Failure> {
    let mut preflight = Preflight::new(max);
    let mut files = Vec::new();
    // Names first, which cost a fraction of asking after each file: too many are known without their sizes.
    let (found, folders) = names(dir, max)?;
    for entry in found {
        let Ok(path) = entry.path().strip_prefix(dir) else {
            continue;
        };
        let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
        files.push(path.to_owned());
        if preflight.file(bytes).is_break() {
            break;
        }
    }
    let size = preflight.finish()?;
    let ignored = ignored(dir, &files, &folders);
    let sensitive = |paths: &mut dyn Iterator<Item = &PathBuf>| {
        let named = paths.filter(|path| is_sensitive(path));
        named.cloned().collect::<Vec<_>>()
    };
    Ok(Survey {
        size,
        sensitive: sensitive(&mut files.iter()),
        sensitive_ignored: sensitive(&mut ignored.paths().iter()),
        files,
        ignored,
    })
}

/// Files and links that would be lent, in their order, and the folders they are in. Several threads look: a tree of very many
/// files is mostly waited for.
fn names(dir: &Path, max: SizeMax) -> Result<(Vec<DirEntry>, Vec<PathBuf>), Failure> {
    let walk = WalkBuilder::new(dir)
        .hidden(false)
        .parents(false)
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .filter_entry(|entry| !LEFT_AT_HOME.iter().any(|left| entry.file_name() == *left))
        .threads(WALKERS)
        .build_parallel();
    let (seen, all) = mpsc::channel();
    let count = AtomicU64::new(0);
    walk.run(|| {
        let (seen, count) = (seen.clone(), &count);
        Box::new(move |entry| {
            let Ok(entry) = entry else {
                return WalkState::Continue;
            };
            let is_lent = match entry.file_type() {
                Some(kind) if kind.is_file() || kind.is_symlink() => true,
                Some(kind) if kind.is_dir() && entry.depth() > 0 => false,
                _ => return WalkState::Continue, // The folder itself; sockets and pipes stay at home.
            };
            let is_more = is_lent && count.fetch_add(1, Ordering::Relaxed) >= max.files;
            let _ = seen.send((is_lent, entry)); // It is read below.
            match is_more {
                true => WalkState::Quit,
                false => WalkState::Continue,
            }
        })
    });
    drop(seen);
    max.check_files(count.into_inner())?;
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    for (is_lent, entry) in all {
        match is_lent {
            true => found.push(entry),
            false => folders.push(entry.into_path()),
        }
    }
    found.sort_unstable_by(|left, right| left.path().cmp(right.path()));
    Ok((found, folders))
}

/// What looks like a secret among what is ignored, in ignored folders too: a mount shows it. What can be had again, and
/// git's own, is not looked at. Blocks.
pub(crate) fn sensitive_on_a_mount(dir: &Path, survey: &Survey) -> Vec<PathBuf> {
    let mut found = survey.sensitive_ignored.clone();
    let mut looked_at = 0;
    for folder in survey.ignored.paths() {
        if LEFT_AT_HOME.iter().any(|left| folder.ends_with(left)) {
            continue;
        }
        let walk = WalkBuilder::new(dir.join(folder))
            .standard_filters(false)
            .follow_links(false)
            .filter_entry(|entry| !LEFT_AT_HOME.iter().any(|left| entry.file_name() == *left))
            .build();
        for entry in walk.flatten().filter(|entry| entry.depth() > 0) {
            looked_at += 1;
            if looked_at > LOOKED_AT_MAX {
                return found;
            }
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            if let Ok(path) = entry.path().strip_prefix(dir)
                && !is_folder
                && is_sensitive(path)
            {
                found.push(path.to_owned());
            }
        }
    }
    found
}

/// What is there now and not ignored, the rules being those of before. Blocks.
pub(crate) fn files_now(dir: &Path, ignored: &Ignored) -> Vec<PathBuf> {
    let rules = ignored.clone();
    let root = dir.to_owned();
    let walk = WalkBuilder::new(dir)
        .standard_filters(false)
        .follow_links(false)
        .filter_entry(move |entry| {
            let path = entry.path().strip_prefix(&root);
            path.is_ok_and(|path| path.as_os_str().is_empty() || !rules.covers_path(path))
        })
        .build();
    let files = walk
        .flatten()
        .filter(|entry| entry.file_type().is_some_and(|kind| !kind.is_dir()));
    files
        .filter_map(|entry| entry.path().strip_prefix(dir).ok().map(Path::to_owned))
        .collect()
}

/// The refusal of a workspace with secrets in it.
pub(crate) fn refuse_sensitive(paths: &[PathBuf]) -> Failure {
    let shown: Vec<String> = paths
        .iter()
        .take(TOLD_MAX)
        .map(|path| path.display().to_string())
        .collect();
    let more = match paths.len().saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Failure::with_hint(
        Code::Declined,
        format!(
            "the workspace holds what looks like secrets: {}{more}",
            shown.join(", ")
        ),
        "move them away, let git ignore them, or say that they may be lent (`--lend-secrets`)",
    )
}

fn is_sensitive(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else {
        return false;
    };
    let name = name.to_ascii_lowercase();
    let is_example = name.ends_with(".example") || name.ends_with(".sample");
    let is_variant = name.starts_with(".env.") && !is_example;
    SENSITIVE_NAMES.contains(&name.as_str())
        || is_variant
        || SENSITIVE_ENDINGS
            .iter()
            .any(|ending| name.ends_with(ending))
}

fn ignored(dir: &Path, files: &[PathBuf], folders: &[PathBuf]) -> Ignored {
    let files: HashSet<&Path> = files.iter().map(PathBuf::as_path).collect();
    let kept: HashSet<&Path> = folders.iter().map(PathBuf::as_path).collect();
    let mut ignored = BTreeSet::new();
    for folder in folders {
        for path in files::list(folder).unwrap_or_default() {
            let Ok(short) = path.strip_prefix(dir) else {
                continue;
            };
            if !files.contains(short) && !kept.contains(path.as_path()) {
                ignored.insert(short.to_owned());
            }
        }
    }
    Ignored::new(ignored, dir, folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: SizeMax = SizeMax {
        bytes: 1000,
        files: 5,
        file_bytes: 500,
    };

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn what_git_ignores_and_what_can_be_had_again_is_neither_counted_nor_lent() {
        let folder = folder(&[
            (".gitignore", "build/\n*.log\n"),
            ("src/a.rs", "12345"),
            ("src/x.log", "no"),
            ("build/out", "no"),
            ("node_modules/m/i.js", "no"),
            (".git/config", "no"),
        ]);
        let survey = survey(folder.path(), MAX).unwrap();
        assert_eq!(survey.files.len(), 2, "{:?}", survey.files);
        assert_eq!(survey.size.bytes, 18);
        assert_eq!(survey.ignored.nested_repository(), None);
        for (path, covered) in [
            ("src/x.log", true),
            ("build/new", true),
            ("node_modules/other", true),
            ("sub/.git/hooks/post-checkout", true),
            ("src/b.rs", false),
            ("other.log", false),
        ] {
            assert_eq!(
                survey.ignored.covers_path(Path::new(path)),
                covered,
                "{path}"
            );
        }
        assert_eq!(
            Ignored::from_bytes(&survey.ignored.to_bytes()),
            survey.ignored
        );
        for (path, told) in [
            ("build/out", Some("build/out")),
            ("sub/.git/refs/heads/main", Some("sub/.git")),
            ("src/a.rs", None),
        ] {
            let unseen = survey.ignored.unseen(Path::new(path));
            assert_eq!(unseen.as_deref(), told.map(Path::new), "{path}");
        }
        std::fs::write(folder.path().join(".gitignore"), "*").unwrap();
        std::fs::write(folder.path().join("new"), "").unwrap();
        let now = files_now(folder.path(), &survey.ignored);
        assert!(now.contains(&PathBuf::from("new")), "{now:?}");
        assert!(!now.contains(&PathBuf::from("build/out")), "{now:?}");
    }

    #[test]
    fn a_workspace_that_is_too_large_is_refused_with_figures() {
        let folder = folder(&[("a", &"x".repeat(501))]);
        let failure = survey(folder.path(), MAX).unwrap_err();
        assert_eq!(failure.code, Code::WorkspaceTooLarge);
        assert!(failure.message.contains("501"), "{}", failure.message);
    }

    #[test]
    fn too_many_files_are_refused_by_their_number_alone() {
        let names = ["a", "b", "c/d", "c/e", "f", "g"];
        let folder = folder(&names.map(|name| (name, "x")));
        let failure = survey(folder.path(), MAX).unwrap_err();
        assert_eq!(failure.code, Code::WorkspaceTooLarge);
        assert!(failure.message.contains("6 files"), "{}", failure.message);
        std::fs::remove_file(folder.path().join("g")).unwrap();
        assert_eq!(survey(folder.path(), MAX).unwrap().size.files, 5);
    }

    #[test]
    fn files_that_look_like_secrets_are_named() {
        let folder = folder(&[
            (".gitignore", "local.pem\nhidden/\n"),
            ("hidden/x/.env", ""),
            ("hidden/node_modules/m/test.pem", ""),
            (".env", ""),
            (".env.example", ""),
            ("sub/id_rsa", ""),
            ("local.pem", ""),
        ]);
        let survey = survey(folder.path(), MAX).unwrap();
        let mut sensitive = survey.sensitive.clone();
        sensitive.sort();
        assert_eq!(sensitive, [Path::new(".env"), Path::new("sub/id_rsa")]);
        assert_eq!(survey.sensitive_ignored, [Path::new("local.pem")]);
        let shown = sensitive_on_a_mount(folder.path(), &survey);
        assert_eq!(shown, [Path::new("local.pem"), Path::new("hidden/x/.env")]);
        let failure = refuse_sensitive(&sensitive);
        assert!(failure.message.contains("sub/id_rsa"));
    }
}
