//! A child that begins as a copy of us, where nothing better is known.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Command, Stdio},
};

use super::Launched;
use crate::{
    guardian::Pipe,
    process::{Spawn, Stream},
};

#[expect(
    unsafe_code,
    reason = "The child must lead its session and be registered before exec."
)]
pub(in crate::process) fn launch(spawn: Spawn, pipe: Pipe) -> io::Result<Launched> {
    let stdio = |stream| match stream {
        Stream::Piped => Stdio::piped(),
        Stream::Null => Stdio::null(),
        Stream::File(file) => Stdio::from(file),
    };
    let mut command = Command::new(&spawn.program);
    command
        .args(&spawn.args)
        .env_clear()
        .envs(&spawn.env)
        .env(crate::owner::OWNER_VARIABLE, spawn.owner.to_string())
        .current_dir(&spawn.cwd)
        .stdin(stdio(spawn.stdin))
        .stdout(stdio(spawn.stdout))
        .stderr(stdio(spawn.stderr));
    let prepare = move || {
        rustix::process::setsid()?;
        pipe.register_ourselves()
    };
    // SAFETY: the closure makes only async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
    let mut child = command.spawn()?;
    Ok(Launched {
        pid: child.id(),
        stdin: child.stdin.take().map(OwnedFd::from),
        stdout: child.stdout.take().map(OwnedFd::from),
        stderr: child.stderr.take().map(OwnedFd::from),
    })
}
