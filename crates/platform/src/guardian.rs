//! The daemon's side of the guardian: starts it, tells it groups and mounts, notices its death, starts another.
//!
//! The guardian is a process of our own binary that reads a pipe and, when that closes, ends everything it was told
//! of (`ending`). Only we hold the pipe's write end, so our death by whatever cause closes it. A child writes its
//! own group into the pipe between fork and exec; until its exec it holds the pipe open too, so there is no moment
//! at which a group runs unknown.

mod ending;
mod line;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, Instant},
};

use crate::{
    owner::Owner,
    pid::{ExitWatch, ProcessRef, wait_exited},
};

pub use ending::run;
use line::{LINE_BYTES_MAX, Line};

/// What the guardian needs of an environment: where `fusermount3` is.
const GUARDIAN_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// A guardian ends everything within two seconds; one that takes longer than this is left alone.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Clones are the same guardian. When the last one is dropped the pipe closes and the guardian does its work.
#[derive(Clone, Debug)]
pub struct Guardian {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    exe: PathBuf,
    args: Vec<String>,
    owner: Owner,
    /// Read-locked during a spawn, so that a change of guardians never falls between a child's own
    /// registration and the entry in `known`.
    link: RwLock<Option<Link>>,
    known: Mutex<Known>,
}

/// One running guardian. Dropping it closes the pipe.
#[derive(Debug)]
struct Link {
    pipe: OwnedFd,
    child: Child,
    watch: Arc<ExitWatch>,
}

/// What another guardian would have to be told.
#[derive(Debug, Default)]
struct Known {
    groups: BTreeSet<u32>,
    mounts: BTreeSet<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum GuardianError {
    #[error("could not make the pipe to the guardian")]
    Pipe { source: io::Error },
    #[error("could not start the guardian {exe}")]
    Start { exe: PathBuf, source: io::Error },
    #[error("could not watch the guardian, pid {pid}")]
    Watch { pid: u32, source: io::Error },
    #[error("could not tell the guardian of {what}")]
    Tell { what: String, source: io::Error },
    #[error(
        "the mount point {path} has a line break or is longer than the guardian's line of {LINE_BYTES_MAX} bytes"
    )]
    MountPath { path: PathBuf },
    #[error("the guardian is closed")]
    Closed,
}

impl Guardian {
    /// Starts the guardian: `exe` with `args` must call [`run`] with its standard input. Needs the runtime.
    pub fn spawn(exe: &Path, args: &[&str], owner: &Owner) -> Result<Guardian, GuardianError> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let link = Link::start(exe, &args, owner)?;
        let inner = Inner {
            exe: exe.to_owned(),
            args,
            owner: owner.clone(),
            link: RwLock::new(Some(link)),
            known: Mutex::default(),
        };
        Ok(Guardian {
            inner: Arc::new(inner),
        })
    }

    /// The pid of the guardian that watches now.
    pub fn pid(&self) -> Option<u32> {
        self.link().as_ref().map(|link| link.child.id())
    }

    /// Resolves when the present guardian has died; call [`Guardian::respawn`] then. Never resolves once closed.
    pub async fn died(&self) {
        let watch = self.link().as_ref().map(|link| Arc::clone(&link.watch));
        match watch {
            Some(watch) => watch.exited().await,
            None => std::future::pending().await,
        }
    }

    /// Replaces a guardian that has died (or ends a live one first) and tells the new one all that is known. Blocks briefly.
    pub fn respawn(&self) -> Result<(), GuardianError> {
        let mut link = self
            .inner
            .link
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(old) = link.as_mut() else {
            return Err(GuardianError::Closed);
        };
        // It must be dead before its pipe closes, or it would end the groups that are to be kept.
        let _ = old.child.kill(); // It may be dead already.
        let _ = old.child.wait();
        let new = Link::start(&self.inner.exe, &self.inner.args, &self.inner.owner)?;
        let known = self.known();
        for group in &known.groups {
            new.tell(&Line::AddGroup(*group))?;
        }
        for mount in &known.mounts {
            new.tell(&Line::AddMount(mount.clone()))?;
        }
        drop(known);
        *link = Some(new);
        Ok(())
    }

    /// Puts a mount point under the guardian's watch. Call it before mounting.
    pub fn add_mount(&self, path: &Path) -> Result<(), GuardianError> {
        let line = Line::AddMount(path.to_owned());
        if line.encode().is_none() {
            return Err(GuardianError::MountPath {
                path: path.to_owned(),
            });
        }
        let link = self.link();
        self.known().mounts.insert(path.to_owned());
        link.as_ref().ok_or(GuardianError::Closed)?.tell(&line)
    }

    /// Call it after the mount is verified gone.
    pub fn forget_mount(&self, path: &Path) {
        self.known().mounts.remove(path);
        self.forget(&Line::RemoveMount(path.to_owned()));
    }

    /// Closes the pipe and waits until the guardian has ended what was left and gone. For an orderly end of the daemon.
    pub async fn close(&self) {
        let link = self
            .inner
            .link
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(link) = link {
            let watch = Arc::clone(&link.watch);
            drop(link);
            // One that hangs in the kernel is not waited for; it has no claim on us.
            let _ = tokio::time::timeout(CLOSE_MAX, watch.exited()).await;
        }
    }

    /// Runs `start` with the pipe that the child registers itself through, and remembers the group it returns.
    pub(crate) fn register<T, E>(
        &self,
        start: impl FnOnce(Pipe) -> Result<T, E>,
        group: impl FnOnce(&T) -> u32,
    ) -> Option<Result<T, E>> {
        let link = self.link();
        let pipe = Pipe(link.as_ref()?.pipe.as_raw_fd());
        let started = start(pipe);
        if let Ok(child) = &started {
            self.known().groups.insert(group(child));
        }
        Some(started)
    }

    /// The group is verified gone and its number may be reused.
    pub(crate) fn forget_group(&self, group: u32) {
        self.known().groups.remove(&group);
        self.forget(&Line::RemoveGroup(group));
    }

    fn forget(&self, line: &Line) {
        if let Some(link) = &*self.link()
            && let Err(error) = link.tell(line)
        {
            // The next guardian is told only what is known, so nothing is lost.
            tracing::debug!(%error, "the guardian did not hear of an end");
        }
    }

    fn link(&self) -> std::sync::RwLockReadGuard<'_, Option<Link>> {
        self.inner
            .link
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.inner
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    fn start(exe: &Path, args: &[String], owner: &Owner) -> Result<Link, GuardianError> {
        let pipe_error = |error: rustix::io::Errno| GuardianError::Pipe {
            source: error.into(),
        };
        let (read, write) = pipe_closed_on_exec().map_err(pipe_error)?;
        // A guardian that does not read must not hang the daemon: a full pipe is an error like a closed one.
        rustix::fs::fcntl_setfl(&write, rustix::fs::OFlags::NONBLOCK).map_err(pipe_error)?;
        // The owner waits in the pipe before the guardian exists, so it always knows whose leftovers to sweep.
        tell(&write, &Line::Owner(owner.clone()))?;
        let mut command = Command::new(exe);
        command
            .args(args)
            .env_clear()
            .env("PATH", GUARDIAN_PATH)
            .current_dir("/")
            .stdin(Stdio::from(read))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        detach_and_ignore_signals(&mut command);
        let child = command.spawn().map_err(|source| GuardianError::Start {
            exe: exe.to_owned(),
            source,
        })?;
        let watch = ExitWatch::new(child.id()).map_err(|source| GuardianError::Watch {
            pid: child.id(),
            source,
        })?;
        Ok(Link {
            pipe: write,
            child,
            watch: Arc::new(watch),
        })
    }

    fn tell(&self, line: &Line) -> Result<(), GuardianError> {
        tell(&self.pipe, line)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The guardian outlives the pipe by up to two seconds, and somebody has to reap it while we live on.
        // The fields are dropped, and the pipe closed, after this; the thread only waits.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return; // Reaped already, so the pid is no longer ours to wait for.
        }
        let Some(process) = ProcessRef::of(self.child.id()) else {
            return;
        };
        let reap = move || {
            wait_exited(&[process], Instant::now() + CLOSE_MAX);
            reap(process.pid);
        };
        let named = std::thread::Builder::new().name("guardian-reaper".into());
        let _ = named.spawn(reap); // Without a thread it stays a zombie until we end.
    }
}

/// The write end as a forked child sees it. It stays open because `register` holds the link during the spawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipe(RawFd);

impl Pipe {
    /// Called by the child itself between fork and exec, as leader of its new group: only async-signal-safe calls,
    /// no allocation. A write this short is atomic.
    #[expect(
        unsafe_code,
        reason = "Signals and a borrowed descriptor in a forked child."
    )]
    pub(crate) fn register_ourselves(self) -> io::Result<()> {
        let mut buffer = [0; line::GROUP_LINE_BYTES_MAX];
        let pid = rustix::process::getpid().as_raw_pid().unsigned_abs();
        let line = line::encode_group(pid, &mut buffer);
        // SAFETY: the descriptor was open in the parent during the fork and closes only on exec.
        let pipe = unsafe { BorrowedFd::borrow_raw(self.0) };
        // SAFETY: `signal` is async-signal-safe. Without it a dead guardian would kill the child silently; the
        // standard library has just set the default, so that is what is restored.
        let written = unsafe {
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            let written = rustix::io::write(pipe, line);
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            written
        };
        match written {
            Ok(count) if count == line.len() => Ok(()),
            // A pipe that is full or torn is as bad as a closed one; only raw numbers reach the parent.
            Ok(_) | Err(_) => Err(io::Error::from_raw_os_error(libc::EPIPE)),
        }
    }

    /// Called by us for a child that has registered itself and then found no program to become. Its number must not be free yet.
    #[cfg(target_os = "linux")]
    #[expect(
        unsafe_code,
        reason = "A descriptor that the caller of the launch holds."
    )]
    pub(crate) fn forget(self, group: u32) {
        // SAFETY: `register` holds the link, and so the descriptor, until the launch is over.
        let pipe = unsafe { BorrowedFd::borrow_raw(self.0) };
        if let Err(error) = tell(pipe, &Line::RemoveGroup(group)) {
            tracing::debug!(%error, "the guardian did not hear of an end");
        }
    }
}

fn tell(pipe: impl AsFd, line: &Line) -> Result<(), GuardianError> {
    let failed = |source: io::Error| GuardianError::Tell {
        what: line.to_string(),
        source,
    };
    let bytes = line
        .encode()
        .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    // Up to PIPE_BUF a write is all or nothing.
    rustix::io::write(pipe, &bytes).map_err(|error| failed(error.into()))?;
    Ok(())
}

#[cfg(not(target_vendor = "apple"))]
fn pipe_closed_on_exec() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
}

/// Without pipe2 a child started at this very moment may inherit the pipe; it then keeps the guardian waiting.
#[cfg(target_vendor = "apple")]
fn pipe_closed_on_exec() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    use rustix::io::{FdFlags, fcntl_setfd};
    let (read, write) = rustix::pipe::pipe()?;
    fcntl_setfd(&read, FdFlags::CLOEXEC)?;
    fcntl_setfd(&write, FdFlags::CLOEXEC)?;
    Ok((read, write))
}

#[expect(
    unsafe_code,
    reason = "A session and ignored signals must be set between fork and exec."
)]
fn detach_and_ignore_signals(command: &mut Command) {
    let prepare = || {
        rustix::process::setsid()?;
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: `signal` is async-signal-safe, and an ignored signal stays ignored across exec.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        Ok(())
    };
    // SAFETY: the closure makes only async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Takes the exit status of a child that has ended; one that has not, or is nobody's, is left.
fn reap(pid: u32) {
    use rustix::process::{WaitOptions, waitpid};
    if let Some(pid) = crate::pid::pid_of(pid) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}
