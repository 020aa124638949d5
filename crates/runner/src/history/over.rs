//! Waiting for the end of a run that another process works on, told by the system that the records have changed.

use std::{path::Path, time::Duration};

use engine::EngineError;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{sync::mpsc, time::Instant};

use super::{History, RunView};

impl History {
    /// The run once it is over, or as it is when the time has run out. `folder` is where the records lie.
    pub async fn over(
        &self,
        id: &str,
        folder: &Path,
        patience: Duration,
    ) -> Result<Option<RunView>, EngineError> {
        let deadline = Instant::now() + patience;
        // Watched before it is read, so that no change is missed.
        let watched = watch(folder);
        if let Ok((_watcher, mut changes)) = watched {
            loop {
                let view = self.get(id).await?;
                if view.as_ref().is_none_or(|view| view.state.is_over()) {
                    return Ok(view);
                }
                let told = tokio::time::timeout_at(deadline, changes.recv()).await;
                if told.is_err() {
                    break;
                }
            }
        } else {
            // Where nothing can be watched, the time is given and the run is looked at once.
            tokio::time::sleep_until(deadline).await;
        }
        self.get(id).await
    }
}

fn watch(folder: &Path) -> notify::Result<(RecommendedWatcher, mpsc::Receiver<()>)> {
    let (changed, changes) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            let _ = changed.try_send(()); // One notice that waits is enough.
        }
    })?;
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok((watcher, changes))
}
