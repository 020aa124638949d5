//! Why a delegation was not made or found, and which failure peers are told.

use std::path::PathBuf;

use domain::delegation::Failure;
use engine::EngineError;
use platform::files::FileError;
use sftp::{BindError, KeyError};

use crate::peer::PeerError;

/// Why something that was asked of lending was not done.
#[derive(Debug, thiserror::Error)]
pub enum DelegationError {
    #[error("{}: {} ({})", .0.code.as_str(), .0.message, .0.hint)]
    Refused(Failure),
    #[error("there is no delegation {id}")]
    NotFound { id: String },
    #[error("{} is not a folder that can be lent", dir.display())]
    Folder { dir: PathBuf },
    #[error("the delegation {id} has nothing to undo: {why}")]
    NothingToUndo { id: String, why: String },
    #[error("nothing of the delegation {id} can be applied or discarded: {why}")]
    NothingWaits { id: String, why: String },
    #[error("the delegation {id} has no further round: {why}")]
    NoFurtherRound { id: String, why: String },
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error("could not use the shadow repository of {id}: {why}")]
    Audit { id: String, why: String },
    #[error("could not prepare the folders of lending")]
    Files(#[from] FileError),
    #[error("could not keep the delegation")]
    Engine(#[from] EngineError),
    #[error("could not use the host key of lending")]
    Key(#[from] KeyError),
    #[error("could not serve lent workspaces")]
    Bind(#[from] BindError),
    #[error("the node is shutting down")]
    ShuttingDown,
}

/// An error with its causes: the topmost one alone says little.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        words = format!("{words}: {source}");
        cause = source.source();
    }
    words
}
