//! How a run hears that somebody in another process wants it cancelled: a bell in its folder.

use std::path::Path;

use platform::{
    bell::{self, Bell},
    files,
};

use super::claim;
use crate::refused::StartError;

const FILE: &str = "cancel";

pub(super) fn hang(runs: &Path, id: &str) -> Result<Bell, StartError> {
    let folder = claim::folder(runs, id)?;
    Bell::hang(&folder.join(FILE)).map_err(|source| StartError::Bell { source })
}

/// Never, without a bell.
pub(super) async fn rung(bell: Option<&Bell>) {
    match bell {
        Some(bell) => bell.rung().await,
        None => std::future::pending().await,
    }
}

/// Nobody listens any more; the folder stays if something else is in it.
pub(super) fn take_down(bell: Bell, runs: &Path, id: &str) {
    drop(bell);
    files::remove_dir_if_empty(&runs.join(id));
}

/// Tells whoever works on the run that something was written down for it. Nobody may be there, or not any more.
pub(crate) fn ring(runs: &Path, id: &str) {
    if let Err(error) = bell::ring(&runs.join(id).join(FILE)) {
        tracing::warn!(run = id, %error, "a run could not be told that it shall be cancelled");
    }
}
