//! Starting a child: what it runs, in which folder, with which environment, and why it could not.
//!
//! How a process is made of it is `launch`'s, the running child and its end are `group`'s.

mod group;
mod launch;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    path::{Path, PathBuf},
};

pub use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

pub use group::{Exit, Group};

use crate::{guardian::Guardian, owner::OwnerTag};

/// A child to be started.
#[derive(Debug)]
pub struct Spawn {
    /// A path, or a name that is looked for in the child's own PATH.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// The whole environment, to which only the owner's token is added; nothing is inherited.
    pub env: BTreeMap<OsString, OsString>,
    pub cwd: PathBuf,
    pub stdin: Stream,
    pub stdout: Stream,
    pub stderr: Stream,
    pub owner: OwnerTag,
}

/// Where one of the standard streams goes.
#[derive(Debug, Default)]
pub enum Stream {
    Piped,
    #[default]
    Null,
    File(File),
}

/// Our ends of the streams that are piped.
#[derive(Debug, Default)]
pub struct Pipes {
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
}

#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("could not start {program} in {cwd}: there is no such program")]
    NotFound {
        program: PathBuf,
        cwd: PathBuf,
        source: io::Error,
    },
    #[error("could not start {program} in {cwd}: the interpreter it names does not exist")]
    InterpreterNotFound {
        program: PathBuf,
        cwd: PathBuf,
        source: io::Error,
    },
    #[error("could not start {program} in {cwd}: it may not be executed")]
    NotExecutable {
        program: PathBuf,
        cwd: PathBuf,
        source: io::Error,
    },
    #[error("could not start {program} in {cwd}: the folder cannot be entered")]
    Folder {
        program: PathBuf,
        cwd: PathBuf,
        source: io::Error,
    },
    #[error("could not start {program} in {cwd}: the guardian that would end it is gone")]
    GuardianGone { program: PathBuf, cwd: PathBuf },
    #[error("could not start {program} in {cwd}")]
    Failed {
        program: PathBuf,
        cwd: PathBuf,
        source: io::Error,
    },
}

impl Spawn {
    /// A child without arguments, environment and streams.
    pub fn new(program: impl Into<PathBuf>, cwd: impl Into<PathBuf>, owner: OwnerTag) -> Spawn {
        Spawn {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: cwd.into(),
            stdin: Stream::Null,
            stdout: Stream::Null,
            stderr: Stream::Null,
            owner,
        }
    }

    /// Starts the child as leader of its own session and group, known to the guardian before its first instruction.
    /// Needs the runtime. Blocks until the exec, some milliseconds.
    pub fn spawn(self, guardian: &Guardian) -> Result<(Group, Pipes), SpawnError> {
        let (program, cwd) = (self.program.clone(), self.cwd.clone());
        let path = self.env.get(OsStr::new("PATH")).cloned();
        let owner = self.owner.clone();
        let failed = |source| explain(&program, &cwd, path.as_deref(), source);
        let start = |pipe| launch::launch(self, pipe);
        let launched = match guardian.register(start, |launched| launched.pid) {
            Some(launched) => launched.map_err(failed)?,
            None => return Err(SpawnError::GuardianGone { program, cwd }),
        };
        // From here on the group's drop ends the child, whatever fails.
        let group = Group::adopt(launched.pid, owner, guardian.clone()).map_err(failed)?;
        let pipes = Pipes {
            stdin: launched
                .stdin
                .map(|end| ChildStdin::from_std(end.into()))
                .transpose()
                .map_err(failed)?,
            stdout: launched
                .stdout
                .map(|end| ChildStdout::from_std(end.into()))
                .transpose()
                .map_err(failed)?,
            stderr: launched
                .stderr
                .map(|end| ChildStderr::from_std(end.into()))
                .transpose()
                .map_err(failed)?,
        };
        Ok((group, pipes))
    }
}

/// The kernel says ENOENT for a missing folder, program and interpreter alike; a second look tells them apart.
fn explain(program: &Path, cwd: &Path, path: Option<&OsStr>, source: io::Error) -> SpawnError {
    let (program, cwd) = (program.to_owned(), cwd.to_owned());
    if source.raw_os_error() == Some(libc::EPIPE) {
        return SpawnError::GuardianGone { program, cwd };
    }
    let enterable = rustix::fs::access(&cwd, rustix::fs::Access::EXEC_OK).is_ok() && cwd.is_dir();
    let found = if program.components().count() > 1 {
        cwd.join(&program).exists()
    } else {
        path.is_some_and(|path| crate::system::find_program(program.as_os_str(), path).is_some())
    };
    match source.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::PermissionDenied
            if !enterable =>
        {
            SpawnError::Folder {
                program,
                cwd,
                source,
            }
        }
        io::ErrorKind::NotFound if found => SpawnError::InterpreterNotFound {
            program,
            cwd,
            source,
        },
        io::ErrorKind::NotFound => SpawnError::NotFound {
            program,
            cwd,
            source,
        },
        io::ErrorKind::PermissionDenied => SpawnError::NotExecutable {
            program,
            cwd,
            source,
        },
        _ if source.raw_os_error() == Some(libc::ENOEXEC) => SpawnError::NotExecutable {
            program,
            cwd,
            source,
        },
        _ => SpawnError::Failed {
            program,
            cwd,
            source,
        },
    }
}
