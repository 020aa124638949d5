//! Why a run cannot begin or go on, and the numbers that commands end with.

use std::io;

use engine::EngineError;
use platform::files::{FileError, LockError};
use workflow::{Code, Finish, Outcome, Problem, Rejected};

use crate::found::ShelfError;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    #[error("{}", words(problems))]
    Inputs { problems: Vec<Problem> },
    #[error("{why}")]
    Prompt { why: String },
    #[error("there is no run {id}")]
    NoRun { id: String },
    #[error("somebody else is at work on the run {id}")]
    Busy { id: String },
    #[error("the run {id} has succeeded and is over; --from STEP runs it again from a step")]
    Over { id: String },
    #[error(transparent)]
    Rejected(#[from] Rejected),
    #[error(transparent)]
    Store(#[from] EngineError),
    #[error("could not make the folder of the run")]
    Folder { source: FileError },
    #[error("could not take the run up")]
    Lock { source: LockError },
    #[error("could not prepare to hear that the run shall be cancelled")]
    Bell { source: io::Error },
}

impl StartError {
    /// What a command that ends because of it exits with, by the numbers of the format.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Shelf(ShelfError::Invalid { problems, .. }) | Self::Inputs { problems } => {
                workflow::exit_code(problems).max(1)
            }
            Self::Shelf(ShelfError::Missing { .. })
            | Self::Prompt { .. }
            | Self::Busy { .. }
            | Self::Over { .. }
            | Self::Rejected(_) => 1,
            // As whatever else is named and is not there.
            Self::NoRun { .. } => 4,
            Self::Shelf(ShelfError::Read { .. })
            | Self::Store(_)
            | Self::Folder { .. }
            | Self::Lock { .. }
            | Self::Bell { .. } => Code::SystemIo.exit_code(),
        }
    }

    /// Everything that is wrong, where it is a list.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Shelf(ShelfError::Invalid { problems, .. }) | Self::Inputs { problems } => {
                problems
            }
            Self::Shelf(ShelfError::Missing { .. } | ShelfError::Read { .. })
            | Self::Prompt { .. }
            | Self::NoRun { .. }
            | Self::Busy { .. }
            | Self::Over { .. }
            | Self::Rejected(_)
            | Self::Store(_)
            | Self::Folder { .. }
            | Self::Lock { .. }
            | Self::Bell { .. } => &[],
        }
    }
}

/// What a command that ran the workflow exits with: the number that its end says, or that of what went wrong.
pub fn exit_code(finish: &Finish) -> i32 {
    match finish.outcome {
        Outcome::Succeeded => 0,
        Outcome::Failed | Outcome::Cancelled => finish.exit_code.max(1),
    }
}

fn words(problems: &[Problem]) -> String {
    let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
    words.join("; ")
}
