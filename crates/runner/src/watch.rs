//! Noticing that workflow files come, change and go, told by the system and never looked for.
//!
//! One watcher serves every conversation of a driver, since the system has few of them to give.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// A change is over when nothing else has happened for so long: editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(50);

/// Parts of paths that have to do with workflows; a folder that is not there yet is noticed through its parent.
const NAMES: [&str; 6] = [
    ".agentcraft",
    ".awf",
    "workflows",
    "workflow-packs",
    "templates",
    "roles",
];

/// Watches as long as it lives.
#[derive(Debug)]
pub(crate) struct Watch {
    watcher: Mutex<(RecommendedWatcher, BTreeSet<PathBuf>)>,
}

/// Tells of changes; ends when the watch is dropped.
#[derive(Debug)]
pub(crate) struct Changes(mpsc::Receiver<()>);

impl Watch {
    /// Nothing where the system cannot watch: then changes are seen by whoever opens a conversation later.
    pub(crate) fn start() -> Option<(Self, Changes)> {
        let (changed, changes) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let matters = |event: notify::Event| {
                !event.kind.is_access() && event.paths.iter().any(|path| is_about(path))
            };
            if event.is_ok_and(matters) {
                let _ = changed.try_send(()); // One notice that waits is enough.
            }
        });
        match watcher {
            Ok(watcher) => {
                let watcher = Mutex::new((watcher, BTreeSet::new()));
                Some((Self { watcher }, Changes(changes)))
            }
            Err(error) => {
                tracing::warn!(%error, "changes of workflow files are not noticed");
                None
            }
        }
    }

    /// Watches these folders and no others; says whether there is one among them that was not watched before.
    pub(crate) fn follow(&self, folders: BTreeSet<PathBuf>) -> bool {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let (watcher, followed) = &mut *watcher;
        for gone in followed.difference(&folders) {
            let _ = watcher.unwatch(gone); // A folder that was removed is not watched any more.
        }
        let mut kept: BTreeSet<PathBuf> = followed.intersection(&folders).cloned().collect();
        for folder in folders.difference(followed) {
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => drop(kept.insert(folder.clone())),
                Err(error) => {
                    tracing::debug!(folder = %folder.display(), %error, "could not watch a folder");
                }
            }
        }
        let is_more = kept.difference(followed).next().is_some();
        *followed = kept;
        is_more
    }
}

impl Changes {
    /// Waits for a change and until it is over; false when there will be none.
    pub(crate) async fn next(&mut self) -> bool {
        if self.0.recv().await.is_none() {
            return false;
        }
        while let Ok(Some(())) = tokio::time::timeout(QUIET, self.0.recv()).await {}
        true
    }
}

fn is_about(path: &Path) -> bool {
    let is_file = path
        .extension()
        .is_some_and(|suffix| suffix == "yaml" || suffix == "yml");
    let mut parts = path.components();
    is_file || parts.any(|part| NAMES.iter().any(|name| part.as_os_str() == *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_new_file_is_told_and_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (watch, mut changes) = Watch::start().unwrap();
        watch.follow(BTreeSet::from([folder.path().to_owned()]));
        std::fs::write(folder.path().join("notes.txt"), "").unwrap();
        std::fs::write(folder.path().join("a.yaml"), "").unwrap();
        assert!(changes.next().await);
        drop(watch);
        // What was under way when it was dropped may still be told; then it ends.
        while changes.next().await {}
    }

    #[test]
    fn only_what_has_to_do_with_workflows_counts() {
        for (path, counts) in [
            ("/p/.agentcraft", true),
            ("/p/.awf/workflows/x", true),
            ("/any/x.yml", true),
            ("/p/src/main.rs", false),
        ] {
            assert_eq!(is_about(Path::new(path)), counts, "{path}");
        }
    }
}
