//! One process, named so that a reused pid is never mistaken for it, and the notice of its exit.
//!
//! The name is pid and start time. On Linux exits are told by a pidfd, without polling.

use std::{
    io,
    time::{Duration, Instant},
};

use rustix::process::Pid;
pub use rustix::process::Signal;

/// Where no pidfd can be had, an exit is noticed within this time.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A process that is or was: the pid and when it started, in clock ticks since the machine started.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ProcessRef {
    pub pid: u32,
    pub start_time: u64,
}

/// Whether the number is that of a process, not of a thread within one.
#[cfg(target_os = "linux")]
pub fn is_process(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    leader.is_some_and(|leader| leader.trim() == pid.to_string())
}

/// Whether the number is that of a process; elsewhere threads have numbers of another kind.
#[cfg(not(target_os = "linux"))]
pub fn is_process(pid: u32) -> bool {
    ProcessRef::of(pid).is_some()
}

/// Our own process.
pub fn own_pid() -> u32 {
    std::process::id()
}

impl ProcessRef {
    /// The process that has this pid now; `None` when there is none. A zombie still counts.
    pub fn of(pid: u32) -> Option<ProcessRef> {
        let stat = Stat::read(pid)?;
        Some(ProcessRef {
            pid,
            start_time: stat.start_time,
        })
    }

    /// Whether this very process still runs. Zombies do not.
    pub fn alive(self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.start_time == self.start_time && stat.alive)
    }

    /// Resolves when this very process has ended, at once if it already has.
    pub async fn exited(self) {
        match ExitWatch::new(self.pid) {
            // The pid may have been reused before the watch was opened, so the name is compared after it.
            Ok(watch) if self.alive() => watch.exited().await,
            Ok(_) => {}
            Err(_) => {
                while self.alive() {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
        }
    }

    /// Sends a signal to this very process; a process that has ended is not an error.
    pub fn signal(self, signal: Signal) -> io::Result<()> {
        let Some(pid) = pid_of(self.pid) else {
            return Ok(());
        };
        #[cfg(target_os = "linux")]
        let sent = {
            use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
            match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(pidfd) if self.alive() => pidfd_send_signal(&pidfd, signal),
                Ok(_) => return Ok(()),
                // With no descriptor to be had, the comparison alone must do.
                Err(_) if self.alive() => rustix::process::kill_process(pid, signal),
                Err(error) => Err(error),
            }
        };
        #[cfg(not(target_os = "linux"))]
        let sent = if self.alive() {
            rustix::process::kill_process(pid, signal)
        } else {
            return Ok(());
        };
        match sent {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The memory of a process that is in RAM now.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// A pid that may be signalled: 0 means our own group and 1 the init process (as a group: everybody), so neither is one.
pub(crate) fn pid_of(pid: u32) -> Option<Pid> {
    let raw = i32::try_from(pid).ok().filter(|raw| *raw > 1)?;
    Pid::from_raw(raw)
}

/// What one `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stat {
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) start_time: u64,
    pub(crate) alive: bool,
    pub(crate) kernel_thread: bool,
}

impl Stat {
    #[cfg(target_os = "linux")]
    pub(crate) fn read(pid: u32) -> Option<Stat> {
        /// A line has 52 numbers and a name of at most 64 bytes, so one call reads it.
        const LINE_MAX: usize = 1280;
        let mut line = [0; LINE_MAX];
        let mut file = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?;
        let length = io::Read::read(&mut file, &mut line).ok()?;
        Stat::parse(&line[..length])
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn read(pid: u32) -> Option<Stat> {
        rustix::process::test_kill_process(pid_of(pid)?).ok()?;
        Some(Stat {
            parent: 0,
            group: 0,
            session: 0,
            start_time: 0,
            alive: true,
            kernel_thread: false,
        })
    }

    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "Only Linux has /proc.")
    )]
    pub(crate) fn parse(line: &[u8]) -> Option<Stat> {
        /// The kernel's flag of its own threads, which have no environment.
        const PF_KTHREAD: u32 = 0x0020_0000;
        // The name in parentheses may itself hold parentheses, spaces and bytes that are no text.
        let name_end = line.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(&line[name_end + 1..]).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        let flags: u32 = fields.nth(2)?.parse().ok()?;
        let threads: u32 = fields.nth(10)?.parse().ok()?;
        let start_time = fields.nth(1)?.parse().ok()?;
        let alive = match state {
            // The first thread may have ended while others of the process still run.
            "Z" => threads > 1,
            "X" | "x" => false,
            _ => true,
        };
        Some(Stat {
            parent,
            group,
            session,
            start_time,
            alive,
            kernel_thread: flags & PF_KTHREAD != 0,
        })
    }
}

/// Tells the exit of the process that has the pid when the watch is made. Needs the runtime.
#[derive(Debug)]
pub(crate) struct ExitWatch {
    #[cfg(target_os = "linux")]
    pidfd: tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>,
    #[cfg(not(target_os = "linux"))]
    process: Option<ProcessRef>,
}

#[cfg(target_os = "linux")]
impl ExitWatch {
    #[expect(
        unsafe_code,
        reason = "Registering a descriptor asks for a promise about its life."
    )]
    pub(crate) fn new(pid: u32) -> io::Result<ExitWatch> {
        use rustix::process::{PidfdFlags, pidfd_open};
        let pid = pid_of(pid).ok_or(io::ErrorKind::NotFound)?;
        let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        // SAFETY: the descriptor is owned by the registration and closed only after it.
        let pidfd = unsafe {
            tokio::io::unix::AsyncFd::register_with_interest(pidfd, tokio::io::Interest::READABLE)?
        };
        Ok(ExitWatch { pidfd })
    }

    /// Cancel-safe; any number of callers may wait. The readiness is never cleared: an exit stays one.
    pub(crate) async fn exited(&self) {
        if self.pidfd.readable().await.is_err() {
            // The runtime is going away, and the caller with it.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl ExitWatch {
    pub(crate) fn new(pid: u32) -> io::Result<ExitWatch> {
        Ok(ExitWatch {
            process: ProcessRef::of(pid),
        })
    }

    pub(crate) async fn exited(&self) {
        // A child of ours stays a zombie until it is reaped, so its state is asked as well as its existence.
        while self.process.is_some_and(|process| {
            use rustix::process::{WaitId, WaitIdOptions, waitid};
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let zombie = pid_of(process.pid)
                .is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_))));
            process.alive() && !zombie
        }) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Blocks until all of these processes have ended or the deadline has passed; true if they have.
pub(crate) fn wait_exited(processes: &[ProcessRef], deadline: Instant) -> bool {
    /// At most this many pidfds are open at once, far below the usual limit of 1,024 files.
    const BATCH: usize = 256;
    processes
        .chunks(BATCH)
        .all(|batch| wait_batch_exited(batch, deadline))
}

#[cfg(target_os = "linux")]
fn wait_batch_exited(batch: &[ProcessRef], deadline: Instant) -> bool {
    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        process::{PidfdFlags, pidfd_open},
    };
    let mut pidfds: Vec<_> = batch
        .iter()
        .filter_map(|process| {
            let pidfd = pidfd_open(pid_of(process.pid)?, PidfdFlags::empty()).ok()?;
            process.alive().then_some(pidfd)
        })
        .collect();
    while !pidfds.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else {
            return false;
        };
        let mut polled: Vec<_> = pidfds
            .iter()
            .map(|pidfd| PollFd::new(pidfd, PollFlags::IN))
            .collect();
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return false,
        }
        let mut ended = polled
            .iter()
            .map(|fd| !fd.revents().is_empty())
            .collect::<Vec<_>>()
            .into_iter();
        pidfds.retain(|_| !ended.next().unwrap_or(false));
    }
    // A pidfd that could not be opened means that the process is gone, or that there are no files left to open.
    batch.iter().all(|process| !process.alive())
}

#[cfg(not(target_os = "linux"))]
fn wait_batch_exited(batch: &[ProcessRef], deadline: Instant) -> bool {
    while batch.iter().any(|process| process.alive()) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{PATIENCE, Sleeper};

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let line = b"42 (a) b) (c) S 7 42 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 998877 1 2 3";
        let stat = Stat::parse(line).unwrap();
        let expected = Stat {
            parent: 7,
            group: 42,
            session: 41,
            start_time: 998_877,
            alive: true,
            kernel_thread: false,
        };
        assert_eq!(stat, expected);
        assert_eq!(Stat::parse(b"42 (short) S 1"), None);
        assert_eq!(Stat::parse(b""), None);
    }

    #[tokio::test]
    async fn the_exit_of_a_foreign_process_is_noticed_at_once() {
        let sleeper = Sleeper::start();
        let process = ProcessRef::of(sleeper.pid()).unwrap();
        assert!(process.alive());
        let noticed = tokio::spawn(process.exited());
        process.signal(Signal::KILL).unwrap();
        // Nobody has reaped it yet: a zombie has ended too.
        tokio::time::timeout(PATIENCE, noticed)
            .await
            .unwrap()
            .unwrap();
        assert!(!process.alive());
    }

    #[tokio::test]
    async fn a_reused_pid_is_neither_alive_nor_signalled() {
        let sleeper = Sleeper::start();
        let real = ProcessRef::of(sleeper.pid()).unwrap();
        let earlier = ProcessRef {
            start_time: real.start_time - 1,
            ..real
        };
        assert!(!earlier.alive());
        tokio::time::timeout(PATIENCE, earlier.exited())
            .await
            .unwrap();
        earlier.signal(Signal::KILL).unwrap();
        assert!(wait_exited(&[earlier], Instant::now() + PATIENCE));
        assert!(real.alive());
    }

    #[test]
    fn waiting_for_processes_that_stay_ends_at_the_deadline() {
        let (first, second) = (Sleeper::start(), Sleeper::start());
        let both = [first.pid(), second.pid()].map(|pid| ProcessRef::of(pid).unwrap());
        both[0].signal(Signal::KILL).unwrap();
        assert!(wait_exited(&both[..1], Instant::now() + PATIENCE));
        assert!(!wait_exited(
            &both,
            Instant::now() + Duration::from_millis(20)
        ));
    }

    #[test]
    fn nobody_can_name_init_or_their_own_group() {
        assert_eq!([0, 1, u32::MAX].map(pid_of), [None; 3]);
    }

    #[test]
    fn our_own_memory_is_known() {
        assert!(resident_bytes(std::process::id()).unwrap() > 100_000);
        assert_eq!(resident_bytes(u32::MAX), None);
    }
}
