//! Starting a child: what it runs, in which folder, with which environment, and why it could not.
//!
//! The running child and its end are `group`'s.

mod group;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::File,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

pub use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

pub use group::{Exit, Group};

use crate::{
    guardian::{Guardian, Pipe},
    owner::{OWNER_VARIABLE, OwnerTag},
};

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
        let Spawn {
            program,
            args,
            env,
            cwd,
            stdin,
            stdout,
            stderr,
            owner,
        } = self;
        let failed = |source| explain(&program, &cwd, &env, source);
        let mut command = Command::new(&program);
        command
            .args(&args)
            .env_clear()
            .envs(&env)
            .env(OWNER_VARIABLE, owner.to_string())
            .current_dir(&cwd)
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::from(stdout))
            .stderr(Stdio::from(stderr));
        let start = |pipe| {
            lead_a_registered_session(&mut command, pipe);
            command.spawn()
        };
        let mut child = match guardian.register(start, Child::id) {
            Some(started) => started.map_err(failed)?,
            None => return Err(SpawnError::GuardianGone { program, cwd }),
        };
        // From here on the group's drop ends the child, whatever fails.
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let group = Group::adopt(child, owner, guardian.clone()).map_err(failed)?;
        let pipes = Pipes {
            stdin: streams
                .0
                .map(ChildStdin::from_std)
                .transpose()
                .map_err(failed)?,
            stdout: streams
                .1
                .map(ChildStdout::from_std)
                .transpose()
                .map_err(failed)?,
            stderr: streams
                .2
                .map(ChildStderr::from_std)
                .transpose()
                .map_err(failed)?,
        };
        Ok((group, pipes))
    }
}

impl From<Stream> for Stdio {
    fn from(stream: Stream) -> Stdio {
        match stream {
            Stream::Piped => Stdio::piped(),
            Stream::Null => Stdio::null(),
            Stream::File(file) => Stdio::from(file),
        }
    }
}

#[expect(
    unsafe_code,
    reason = "The child must lead its session and be registered before exec."
)]
fn lead_a_registered_session(command: &mut Command, pipe: Pipe) {
    let prepare = move || {
        // A session, not only a group: an agent without a terminal cannot stop on one, nor hear its Ctrl-C.
        rustix::process::setsid()?;
        pipe.register_ourselves()
    };
    // SAFETY: the closure makes only async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// The kernel says ENOENT for a missing folder, program and interpreter alike; a second look tells them apart.
fn explain(
    program: &Path,
    cwd: &Path,
    env: &BTreeMap<OsString, OsString>,
    source: io::Error,
) -> SpawnError {
    let (program, cwd) = (program.to_owned(), cwd.to_owned());
    if source.raw_os_error() == Some(libc::EPIPE) {
        return SpawnError::GuardianGone { program, cwd };
    }
    let enterable = rustix::fs::access(&cwd, rustix::fs::Access::EXEC_OK).is_ok() && cwd.is_dir();
    let found = if program.components().count() > 1 {
        cwd.join(&program).exists()
    } else {
        let path = env.get(std::ffi::OsStr::new("PATH"));
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
