//! A new daemon takes up where the last one left off, however that one ended.

use std::{path::PathBuf, sync::Arc, time::Duration};

use domain::Name;
use notify::{RecursiveMode, Watcher};
use platform::{files, owner};
use store::Change;
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use crate::{
    EngineError, Library,
    agent::{self, AgentRecord, Begin, Surroundings, chain},
};

/// Editors write a file in several steps; this long after the last one it is read.
const QUIET: Duration = Duration::from_millis(100);

/// The fact that holds which templates were loaded by hand.
const LOADED_TEMPLATES: &str = "loaded-templates";

/// Reads the configs folder and keeps reading it.
pub(crate) async fn prepare_library(
    library: &Arc<Library>,
    around: &Arc<Surroundings>,
) -> Result<(), EngineError> {
    let loaded = around
        .store
        .fact(LOADED_TEMPLATES)
        .await
        .map_err(of_the_node)?;
    let paths: Vec<PathBuf> = loaded
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let reading = library.clone();
    let read = around.tasks.spawn_blocking(move |_| {
        reading.reload();
        for path in paths {
            if let Err(error) = reading.load(&path) {
                warn!(path = %path.display(), error = %chain(&error), "a loaded template is not usable any more");
            }
        }
    });
    read.await.map_err(|_| EngineError::ShuttingDown)?;
    watch(library, around);
    Ok(())
}

/// Keeps which templates were loaded by hand.
pub(crate) async fn keep_loaded(
    library: &Library,
    around: &Surroundings,
) -> Result<(), EngineError> {
    let value = serde_json::to_string(&library.loaded_paths()).expect("paths are text");
    let fact = Change::PutFact {
        key: LOADED_TEMPLATES.into(),
        value,
    };
    around.store.write(vec![fact]).await.map_err(of_the_node)
}

/// Ends what an earlier daemon left running, then takes up every agent of the store. Gives those whose work is over.
pub(crate) async fn take_up(around: &Arc<Surroundings>) -> Result<Vec<Name>, EngineError> {
    let scope = owner::OwnerScope::other_boots(&around.launcher.owner);
    let swept = around
        .tasks
        .spawn_blocking(move |_| owner::sweep(&scope, &[]))
        .await;
    if let Ok(swept) = swept
        && swept.killed > 0
    {
        info!(
            killed = swept.killed,
            "ended what an earlier daemon had left"
        );
    }
    let mut passing = Vec::new();
    let (settled, mut all_settled) = mpsc::channel(1);
    for (name, text) in around.store.agents().await.map_err(of_the_node)? {
        match serde_json::from_str::<AgentRecord>(&text) {
            Ok(record) => {
                clean(around, &record).await;
                let name = record.name.clone();
                passing.extend(record.is_passing().then(|| name.clone()));
                let begin = Begin::Recovered {
                    settled: settled.clone(),
                };
                around.registry.take(&name);
                around
                    .registry
                    .put(name, agent::spawn(record, begin, around));
            }
            Err(error) => {
                error!(agent = name, %error, "the record of this agent cannot be read; it is left alone")
            }
        }
    }
    drop(settled);
    // Nobody sends; the channel closes when the last agent has found its true state.
    let _ = all_settled.recv().await;
    Ok(passing)
}

/// A crash may have left a half-written file and, beside a finished creation, what had been set aside for it.
async fn clean(around: &Arc<Surroundings>, record: &AgentRecord) {
    let (workspace, place, created) = (
        around.workspace.clone(),
        record.place.clone(),
        record.view().is_some(),
    );
    let cleaned = around.tasks.spawn_blocking(move |_| {
        if files::is_there(place.dir()) {
            files::remove_stale_temps(place.dir())?;
        }
        if created {
            workspace.settle(&place)
        } else {
            Ok(())
        }
    });
    if let Ok(Err(error)) = cleaned.await {
        warn!(agent = %record.name, error = %chain(&error), "could not clean up after a crash");
    }
}

/// Reads the folder again when something in it has changed and the change is over.
fn watch(library: &Arc<Library>, around: &Arc<Surroundings>) {
    let (changed, mut changes) = mpsc::channel(1);
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            let _ = changed.try_send(()); // One notice that waits is enough.
        }
    });
    let configs = around.launcher.config.configs_dir.clone();
    let watcher = watcher.and_then(|mut watcher| {
        watcher.watch(&configs, RecursiveMode::Recursive)?;
        Ok(watcher)
    });
    let watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => {
            warn!(%error, "changes of the configs folder are not noticed; restart the daemon after a change");
            return;
        }
    };
    let (library, tasks) = (library.clone(), around.tasks.clone());
    around.tasks.spawn(|stop| async move {
        let _watcher = watcher; // It watches as long as this task lives.
        loop {
            tokio::select! { biased;
                () = stop.cancelled() => return,
                change = changes.recv() => if change.is_none() { return },
            }
            while let Ok(Some(())) = tokio::time::timeout(QUIET, changes.recv()).await {}
            let library = library.clone();
            let reloaded = tasks.spawn_blocking(move |_| library.reload()).await;
            if reloaded.is_err() {
                return;
            }
            info!("read the configs folder again");
        }
    });
}

fn of_the_node(source: store::StoreError) -> EngineError {
    EngineError::Store {
        name: "the node".to_owned(),
        source,
    }
}
