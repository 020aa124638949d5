//! A command run for somebody by a process that is itself a guarded child: one group, one pipe for both outputs.
//!
//! Lighter than `process`, which needs a guardian: the command shares the session and the owner's token of the process
//! that starts it, so whoever ends that one ends the command too. Dropping a `RunningCommand` kills its group.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::unix::pipe::Receiver;

use crate::{
    pid::{ExitWatch, pid_of},
    process::Exit,
};

/// After SIGKILL a process is gone at once unless the kernel holds it; nobody waits longer than this for such a one.
const KILL_MAX: Duration = Duration::from_secs(2);

/// A command to be run.
#[derive(Clone, Debug)]
pub struct CommandLine {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    pub env: BTreeMap<OsString, OsString>,
    pub cwd: PathBuf,
}

/// A command that runs, or has ended and is not reaped yet.
#[derive(Debug)]
pub struct RunningCommand {
    /// Absent once it is reaped.
    child: Option<Child>,
    group: Pid,
    watch: ExitWatch,
    output: Receiver,
}

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("could not make the pipe for the output of {program}")]
    Pipe { program: PathBuf, source: io::Error },
    #[error("could not start {program} in {cwd}")]
    Start {
        program: PathBuf,
        cwd: PathBuf,
        source: io::Error,
    },
    #[error("could not watch {program}, which was started")]
    Watch { program: PathBuf, source: io::Error },
}

impl CommandLine {
    /// Starts the command as leader of a new group, without input. Needs the runtime, and a thread that lives on: the
    /// kernel kills the leader when the thread that started it ends.
    pub fn start(&self) -> Result<RunningCommand, CommandError> {
        let program = || self.program.clone();
        let pipe_failed = |source| CommandError::Pipe {
            program: program(),
            source,
        };
        let (reader, writer) = io::pipe().map_err(pipe_failed)?;
        let output = Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(pipe_failed)?;
        let errors = writer.try_clone().map_err(pipe_failed)?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(&self.env)
            .current_dir(&self.cwd)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(errors)
            .process_group(0);
        die_with_the_starter(&mut command);
        let started = command.spawn();
        drop(command); // It holds the pipe's write end, and the output would never end.
        let mut child = started.map_err(|source| CommandError::Start {
            program: program(),
            cwd: self.cwd.clone(),
            source,
        })?;
        let watched = ExitWatch::new(child.id());
        match (watched, pid_of(child.id())) {
            (Ok(watch), Some(group)) => Ok(RunningCommand {
                child: Some(child),
                group,
                watch,
                output,
            }),
            (watched, _) => {
                let _ = child.kill(); // It may have ended already.
                let _ = child.wait();
                let source = watched.err().unwrap_or(io::ErrorKind::NotFound.into());
                Err(CommandError::Watch {
                    program: program(),
                    source,
                })
            }
        }
    }
}

impl RunningCommand {
    /// The pid of the leader, which is also the number of the group.
    pub fn pid(&self) -> u32 {
        self.group.as_raw_nonzero().get().unsigned_abs()
    }

    /// What the command writes next; 0 when nobody holds the pipe any more. Cancel-safe.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.output.readable().await?;
            match self.output.try_read(buffer) {
                // The readiness was out of date.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    /// Resolves when the leader has ended; its children may live on. Cancel-safe.
    pub async fn exited(&self) {
        self.watch.exited().await;
    }

    /// Kills what is left of the group and tells how its leader ended.
    pub async fn end(mut self) -> Exit {
        // The leader is not reaped yet, so the number still means this group.
        let _ = kill_process_group(self.group, Signal::KILL); // Only a group of zombies refuses it.
        if tokio::time::timeout(KILL_MAX, self.watch.exited())
            .await
            .is_err()
        {
            return Exit::Lost; // The drop leaves it to a thread.
        }
        match self.child.take().map(|mut child| child.wait()) {
            Some(Ok(status)) => exit_of(status),
            Some(Err(_)) | None => Exit::Lost,
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let _ = kill_process_group(self.group, Signal::KILL); // Only a group of zombies refuses it.
        let named = std::thread::Builder::new().name("command-reaper".into());
        // Without a thread the killed child stays a zombie until we end, which is harmless.
        let _ = named.spawn(move || child.wait());
    }
}

/// Ends this process at once, with nothing cleaned up: for an agent that shows how a crash is handled.
#[expect(clippy::exit, reason = "Ending at once is what is asked for.")]
pub fn exit_now(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

#[expect(
    unsafe_code,
    reason = "The wish to die with the starter is told between fork and exec."
)]
fn die_with_the_starter(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        let prepare = || {
            Ok(rustix::process::set_parent_process_death_signal(Some(
                Signal::KILL,
            ))?)
        };
        // SAFETY: the closure makes one async-signal-safe call and allocates nothing.
        unsafe { command.pre_exec(prepare) };
    }
    #[cfg(not(target_os = "linux"))]
    {
        // SAFETY: the closure does nothing.
        unsafe { command.pre_exec(|| Ok(())) };
    }
}

fn exit_of(status: std::process::ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pid::ProcessRef;

    fn shell(script: &str) -> RunningCommand {
        let line = CommandLine {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            cwd: "/".into(),
        };
        line.start().unwrap()
    }

    async fn all_output(command: &RunningCommand) -> String {
        let mut all = Vec::new();
        let mut buffer = [0; 64];
        loop {
            match command.read(&mut buffer).await.unwrap() {
                0 => return String::from_utf8(all).unwrap(),
                length => all.extend_from_slice(&buffer[..length]),
            }
        }
    }

    #[tokio::test]
    async fn both_outputs_come_in_order_and_the_code_is_told() {
        let command = shell("echo one; echo two >&2; echo three; exit 7");
        assert_eq!(all_output(&command).await, "one\ntwo\nthree\n");
        command.exited().await;
        assert_eq!(command.end().await, Exit::Code(7));
    }

    #[tokio::test]
    async fn ending_a_command_ends_its_children() {
        let command = shell("sleep 1000 & echo $!; wait");
        let mut buffer = [0; 64];
        let length = command.read(&mut buffer).await.unwrap();
        let pid = std::str::from_utf8(&buffer[..length]).unwrap().trim();
        let child = ProcessRef::of(pid.parse().unwrap()).unwrap();
        assert_eq!(command.end().await, Exit::Signal(9));
        child.exited().await;
    }

    #[tokio::test]
    async fn dropping_a_command_kills_it() {
        let command = shell("sleep 1000");
        let process = ProcessRef::of(command.pid()).unwrap();
        drop(command);
        process.exited().await;
    }

    #[tokio::test]
    async fn a_missing_program_is_told() {
        let line = CommandLine {
            program: "/nonexistent/program".into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: "/".into(),
        };
        assert!(matches!(line.start(), Err(CommandError::Start { .. })));
    }
}
