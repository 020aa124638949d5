//! Noticing that the file or folder behind a computer has changed, told by the system and never looked for.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// A change is over when nothing else has happened for so long: editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(100);

/// A change that never ends is told after so many pieces.
const PIECES_MAX: usize = 50;

/// Tells of changes for as long as it lives.
#[derive(Debug)]
pub(crate) struct Watch {
    /// None where the system cannot watch: then there are no changes.
    watching: Option<(RecommendedWatcher, mpsc::Receiver<()>)>,
    /// A folder that is not there yet: until it is, what is above it is watched.
    missing: Option<PathBuf>,
    has_begun: bool,
}

impl Watch {
    /// Of nothing.
    pub(crate) fn idle() -> Self {
        Self {
            watching: None,
            missing: None,
            has_begun: false,
        }
    }

    /// Of one file, which may be replaced, removed and made again.
    pub(crate) fn file(path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Self::idle();
        };
        let name = name.to_owned();
        let is_it = move |changed: &Path| changed.file_name() == Some(&name);
        Self::start(folder, RecursiveMode::NonRecursive, is_it)
    }

    /// Of everything below a folder, which may be made later.
    pub(crate) fn folder(path: &Path) -> Self {
        if path.is_dir() {
            return Self::start(path, RecursiveMode::Recursive, |_| true);
        }
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let Some(above) = nearest(&path) else {
            return Self::idle();
        };
        let way = path.clone();
        let is_on_the_way = move |changed: &Path| way.starts_with(changed);
        let watch = Self::start(above, RecursiveMode::NonRecursive, is_on_the_way);
        Self {
            // It may have been made before anybody watched.
            has_begun: path.is_dir() || nearest(&path) != Some(above),
            missing: Some(path.clone()),
            ..watch
        }
    }

    fn start(
        folder: &Path,
        mode: RecursiveMode,
        matters: impl Fn(&Path) -> bool + Send + 'static,
    ) -> Self {
        if !folder.is_dir() {
            return Self::idle();
        }
        let (changed, changes) = mpsc::channel(1);
        let told = move |event: notify::Result<notify::Event>| {
            let is_change = |event: notify::Event| {
                !event.kind.is_access() && event.paths.iter().any(|path| matters(path))
            };
            if event.is_ok_and(is_change) {
                let _ = changed.try_send(()); // One notice that waits is enough.
            }
        };
        let watcher = notify::recommended_watcher(told).and_then(|mut watcher| {
            watcher.watch(folder, mode)?;
            Ok(watcher)
        });
        let watching = watcher
            .map(|watcher| (watcher, changes))
            .inspect_err(|error| {
                tracing::warn!(folder = %folder.display(), %error, "changes here are not noticed");
            });
        Self {
            watching: watching.ok(),
            missing: None,
            has_begun: false,
        }
    }

    /// Waits for a change and until it is over. Cancel-safe: a change that has begun is not forgotten.
    pub(crate) async fn changed(&mut self) {
        let Some((_, changes)) = &mut self.watching else {
            return std::future::pending().await;
        };
        if !self.has_begun {
            if changes.recv().await.is_none() {
                return std::future::pending().await;
            }
            self.has_begun = true;
        }
        for _ in 0..PIECES_MAX {
            if tokio::time::timeout(QUIET, changes.recv()).await.is_err() {
                break;
            }
        }
        self.has_begun = false;
        if let Some(path) = &self.missing {
            *self = Self::folder(path); // What was made meanwhile is seen by whoever is told now.
        }
    }
}

/// The folder above this one that is there.
fn nearest(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|above| above.is_dir())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_file_that_is_written_replaced_or_made_again_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("servers.json");
        fs::write(&file, "1").unwrap();
        let mut watch = Watch::file(&file);
        let other = folder.path().join("other");
        let acts: [&dyn Fn(); 4] = [
            &|| fs::write(&file, "2").unwrap(),
            &|| {
                fs::write(&other, "3").unwrap();
                fs::rename(&other, &file).unwrap();
            },
            &|| fs::remove_file(&file).unwrap(),
            &|| fs::write(&file, "4").unwrap(),
        ];
        for act in acts {
            act();
            tokio::time::timeout(PATIENCE, watch.changed())
                .await
                .unwrap();
        }
    }

    #[tokio::test]
    async fn a_change_that_has_begun_is_told_to_whoever_asks_next() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = Watch::folder(folder.path());
        fs::write(folder.path().join("a"), "").unwrap();
        while !watch.has_begun {
            tokio::select! { biased;
                () = watch.changed() => panic!("nobody waited until it was over"),
                () = tokio::task::yield_now() => {}
            }
        }
        tokio::time::timeout(PATIENCE, watch.changed())
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_folder_that_is_made_later_is_watched_from_then_on() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("configs/mcp");
        let mut watch = Watch::folder(&folder);
        let acts: [&dyn Fn(); 3] = [
            &|| fs::create_dir(home.path().join("configs")).unwrap(),
            &|| fs::create_dir(&folder).unwrap(),
            &|| fs::write(folder.join("clock.json"), "{}").unwrap(),
        ];
        for act in acts {
            act();
            tokio::time::timeout(PATIENCE, watch.changed())
                .await
                .unwrap();
        }
        assert_eq!(watch.missing, None);
    }

    #[tokio::test]
    async fn what_cannot_be_watched_does_not_change() {
        for mut watch in [Watch::idle(), Watch::folder(Path::new("/nowhere/at/all"))] {
            tokio::select! { biased;
                () = watch.changed() => panic!("nothing is there to change"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
}
