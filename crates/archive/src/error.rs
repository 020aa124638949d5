//! What can go wrong with an archive: it is refused, the machine failed, or the tree changed under our hands.

use std::io;

use crate::EntryPath;

/// Why packing or unpacking stopped.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive is hostile, broken or too large.
    #[error("the archive is refused: {0}")]
    Refused(Problem),
    #[error("could not {act} {path}")]
    Failed {
        act: &'static str,
        path: EntryPath,
        source: io::Error,
    },
    #[error("could not {act}")]
    Stream {
        act: &'static str,
        source: io::Error,
    },
    #[error("{path} changed while it was read")]
    Changed { path: EntryPath },
    #[error("the folder to unpack into is not empty")]
    NotEmpty,
    /// What has the name of our stage came with the tree.
    #[error("the folder holds {name}, which this node did not make; look at it and remove it")]
    ForeignStage { name: &'static str },
}

impl From<Problem> for ArchiveError {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

/// What is wrong with an archive. Names are shown with what is no text escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("{name:?} is not a path below the folder: {why}")]
    Path { name: String, why: &'static str },
    #[error("{path} links to {target:?}: {why}")]
    Link {
        path: EntryPath,
        target: String,
        why: &'static str,
    },
    #[error("{path} is a {kind}, which is not unpacked")]
    Kind { path: EntryPath, kind: &'static str },
    #[error("{path} is there twice")]
    Twice { path: EntryPath },
    #[error("{path} differs from another name only in case")]
    Case { path: EntryPath },
    #[error("{path} lies below something that is not a folder")]
    BelowNoFolder { path: EntryPath },
    #[error("it holds more than {max} bytes")]
    TooManyBytes { max: u64 },
    #[error("it holds more than {max} entries")]
    TooManyEntries { max: u64 },
    #[error("{path} has {bytes} bytes, at most {max} are taken")]
    TooLargeFile {
        path: EntryPath,
        bytes: u64,
        max: u64,
    },
    #[error("it grows to more than {max} times its size")]
    Ratio { max: u64 },
    #[error("it ends too early")]
    Truncated,
    #[error("it cannot be read: {why}")]
    Malformed { why: String },
    #[error("its SHA-256 is {found}, announced was {expected}")]
    Checksum { expected: String, found: String },
    #[error("{path} is not part of what was lent")]
    NotLent { path: EntryPath },
    #[error("{path} is not what the list of changes says")]
    NotAsListed { path: EntryPath },
}

impl Problem {
    pub(crate) fn malformed(why: impl Into<String>) -> Self {
        Self::Malformed { why: why.into() }
    }
}

/// Carries a problem through code that knows only `io::Error`.
pub(crate) fn smuggle(problem: Problem) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// Takes the problem out again, or says what was being done.
pub(crate) fn reading(source: io::Error) -> ArchiveError {
    match source.downcast::<Problem>() {
        Ok(problem) => problem.into(),
        Err(source) => match source.kind() {
            io::ErrorKind::UnexpectedEof => Problem::Truncated.into(),
            // The decoder has no kind of its own for rubbish.
            io::ErrorKind::Other | io::ErrorKind::InvalidData => {
                Problem::malformed(source.to_string()).into()
            }
            _ => ArchiveError::Stream {
                act: "read the archive",
                source,
            },
        },
    }
}

pub(crate) fn writing(source: io::Error) -> ArchiveError {
    ArchiveError::Stream {
        act: "write the archive",
        source,
    }
}

pub(crate) fn failed(
    act: &'static str,
    path: &EntryPath,
) -> impl Fn(rustix::io::Errno) -> ArchiveError {
    move |error| ArchiveError::Failed {
        act,
        path: path.clone(),
        source: error.into(),
    }
}
