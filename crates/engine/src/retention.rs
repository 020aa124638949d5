//! The history does not grow for ever: lines and sessions that are too old, and lines beyond a number, are removed.

use std::{sync::Arc, time::Duration};

use tracing::{info, warn};

use crate::{
    agent::{Surroundings, chain},
    clock,
};

/// How often the history is looked through; it is measured in days.
const EVERY: Duration = Duration::from_secs(6 * 60 * 60);

/// Looks through the history now and every few hours.
pub(crate) fn keep_pruning(around: &Arc<Surroundings>) {
    let around = around.clone();
    let tasks = around.tasks.clone();
    tasks.spawn(|stop| async move {
        loop {
            prune(&around).await;
            tokio::select! { biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    });
}

async fn prune(around: &Surroundings) {
    let config = &around.launcher.config;
    let age = i64::try_from(config.journal_age.as_millis()).unwrap_or(i64::MAX);
    let before = clock::now().0.saturating_sub(age);
    match around.store.prune(before, config.journal_lines).await {
        Ok(0) => {}
        Ok(removed) => info!(removed, "removed what was too old from the history"),
        Err(error) => warn!(error = %chain(&error), "could not look through the history"),
    }
}
