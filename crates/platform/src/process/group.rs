//! A running child that leads its own process group, and the end of everything it started.
//!
//! The leader is not reaped until its whole group is gone: as a zombie it keeps its number, so no signal to the
//! group can ever reach strangers. Dropping a `Group` kills it.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};

use crate::{
    guardian::Guardian,
    owner::OwnerTag,
    pid::{ExitWatch, ProcessRef, pid_of, wait_exited},
    recent,
    snapshot::{Selection, Snapshot, Swept, kill_until_gone},
};

/// After SIGKILL a process is gone at once unless the kernel holds it; nobody's stop hangs longer than this on such a one.
const KILL_MAX: Duration = Duration::from_secs(5);

/// How a child ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// The kernel did not let it go even after SIGKILL, or somebody else took its status.
    Lost,
}

/// A running child in its own group. All methods may be called from several tasks.
#[derive(Debug)]
pub struct Group {
    core: Arc<Core>,
    watch: ExitWatch,
}

/// What the thread of a dropped group still needs.
#[derive(Debug)]
struct Core {
    leader: ProcessRef,
    pid: Pid,
    owner: OwnerTag,
    guardian: Guardian,
    started: Instant,
    /// Set when the leader is reaped. Signals are sent under this lock, so none follows the reaping.
    reaped: Mutex<Option<Exit>>,
}

impl Exit {
    pub fn success(self) -> bool {
        self == Exit::Code(0)
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
            Exit::Lost => write!(f, "unknown end"),
        }
    }
}

impl Group {
    pub(super) fn adopt(pid: u32, owner: OwnerTag, guardian: Guardian) -> io::Result<Group> {
        // Until it is reaped a child has an entry in /proc, dead or alive.
        let leader = ProcessRef::of(pid).unwrap_or(ProcessRef { pid, start_time: 0 });
        let core = Arc::new(Core {
            leader,
            pid: pid_of(pid).ok_or(io::ErrorKind::NotFound)?,
            owner,
            guardian,
            started: Instant::now(),
            reaped: Mutex::new(None),
        });
        match ExitWatch::new(pid) {
            Ok(watch) => Ok(Group { core, watch }),
            Err(error) => {
                core.abandon();
                Err(error)
            }
        }
    }

    /// The pid of the leader, which is also the number of the group.
    pub fn pid(&self) -> u32 {
        self.core.leader.pid
    }

    pub fn start_time(&self) -> u64 {
        self.core.leader.start_time
    }

    /// The leader, to be compared after a restart.
    pub fn process(&self) -> ProcessRef {
        self.core.leader
    }

    pub fn owner(&self) -> &OwnerTag {
        &self.core.owner
    }

    /// Resolves as soon as the leader has ended; the rest of its group may live on. Cancel-safe.
    pub async fn wait(&self) -> Exit {
        if let Some(exit) = self.core.exit() {
            return exit;
        }
        self.watch.exited().await;
        self.core.exit().unwrap_or(Exit::Lost)
    }

    /// Sends a signal to the whole group. A group that has ended is not an error.
    pub fn signal(&self, signal: Signal) {
        self.core.signal(signal);
    }

    /// SIGTERM to the group, up to `grace` for all its members to go, then SIGKILL, and the sweep of whatever left the
    /// group. Safe to call again, at the same time, and after the leader has ended by itself. If the future is
    /// dropped on the way, call it again or drop the group.
    pub async fn end(&self, grace: Duration) -> Exit {
        if self.core.signal(Signal::TERM) {
            let gone = async {
                self.wait().await;
                loop {
                    let members = self.members().await;
                    if members.is_empty() {
                        break;
                    }
                    for member in members {
                        member.exited().await;
                    }
                }
            };
            // Whoever is not gone by then is killed below.
            let _ = tokio::time::timeout(grace, gone).await;
        }
        self.finish().await
    }

    /// Waits for the leader to end by itself, then kills whatever it left behind, in its group or outside.
    pub async fn reap_leftovers(&self) -> Exit {
        self.wait().await;
        match self.core.reap_alone() {
            Some(exit) => exit,
            None => self.finish().await,
        }
    }

    async fn finish(&self) -> Exit {
        let core = Arc::clone(&self.core);
        // The sweep reads /proc and waits, so it has a thread. It does nothing that outlives this group's end.
        match tokio::task::spawn_blocking(move || core.kill_and_reap()).await {
            Ok(exit) => exit,
            Err(_) => Exit::Lost, // The runtime is going away; the drop of the group does the work.
        }
    }

    async fn members(&self) -> Vec<ProcessRef> {
        let groups = BTreeSet::from([self.pid()]);
        let scan = move || Snapshot::fresh().members(&groups);
        tokio::task::spawn_blocking(scan).await.unwrap_or_default()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.core.abandon();
    }
}

impl Core {
    /// How the leader ended, if it has, without reaping it.
    fn exit(&self) -> Option<Exit> {
        let reaped = self.reaped();
        if reaped.is_some() {
            return *reaped;
        }
        self.peek()
    }

    /// Only while the lock is held and nobody has reaped it.
    fn peek(&self) -> Option<Exit> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        status(waitid(WaitId::Pid(self.pid), options))
    }

    /// False if there is nobody left to signal.
    fn signal(&self, signal: Signal) -> bool {
        let reaped = self.reaped();
        if reaped.is_some() {
            return false;
        }
        let _ = kill_process_group(self.pid, signal); // Only a group of zombies refuses it.
        true
    }

    /// Frees the number of a leader that has ended after a short life and left nobody behind, where that is quickly known.
    fn reap_alone(&self) -> Option<Exit> {
        let is_young = self.started.elapsed() < recent::LIFE_MAX;
        if !is_young || !recent::surely_none(self.leader.pid, &self.owner.scope()) {
            return None;
        }
        let mut reaped = self.reaped();
        if reaped.is_none() {
            let exit = self.peek()?;
            self.reap(&mut reaped, exit);
        }
        *reaped
    }

    /// Blocks until nothing of the group is left, then frees its number.
    fn kill_and_reap(&self) -> Exit {
        if let Some(exit) = *self.reaped() {
            return exit;
        }
        self.signal(Signal::KILL);
        let deadline = Instant::now() + KILL_MAX;
        let selection = Selection {
            scope: &self.owner.scope(),
            groups: &BTreeSet::from([self.leader.pid]),
            spare: &[],
        };
        let Swept { killed, left } = kill_until_gone(&selection, deadline);
        wait_exited(&[self.leader], deadline);
        let mut reaped = self.reaped();
        if let Some(exit) = *reaped {
            return exit; // Another caller was faster.
        }
        if left > 0 {
            tracing::warn!(owner = %self.owner, pid = self.leader.pid, left, "processes outlived SIGKILL");
            return self.peek().unwrap_or(Exit::Lost);
        }
        let Some(exit) = self.peek() else {
            return Exit::Lost; // Still held by the kernel; it stays known to the guardian.
        };
        self.reap(&mut reaped, exit);
        tracing::debug!(owner = %self.owner, pid = self.leader.pid, killed, %exit, "group ended");
        exit
    }

    /// Only when nobody of the group is left.
    fn reap(&self, reaped: &mut Option<Exit>, exit: Exit) {
        // Forgotten before it is reaped: after that the number may belong to somebody else's group.
        self.guardian.forget_group(self.leader.pid);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let _ = waitid(WaitId::Pid(self.pid), options); // The status is known already.
        *reaped = Some(exit);
    }

    /// Kills the group now and leaves the sweep and the reaping to a thread, as a drop may neither block nor await.
    fn abandon(self: &Arc<Core>) {
        if !self.signal(Signal::KILL) {
            return;
        }
        let core = Arc::clone(self);
        let named = std::thread::Builder::new().name("group-reaper".into());
        // Without a thread the killed group stays a zombie and known to the guardian, which is safe.
        let _ = named.spawn(move || core.kill_and_reap());
    }

    fn reaped(&self) -> MutexGuard<'_, Option<Exit>> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn status(waited: rustix::io::Result<Option<WaitIdStatus>>) -> Option<Exit> {
    match waited {
        Ok(None) => None,
        Ok(Some(status)) => Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Lost,
        }),
        Err(_) => Some(Exit::Lost), // Somebody else has reaped it.
    }
}
