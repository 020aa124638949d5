//! One pass over `/proc`: who runs, under whom, in which group, and which owner's token they carry.
//!
//! A hundred agents may stop at once, so callers that wait share the next pass instead of each making one.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    owner::{OWNER_VARIABLE, OwnerScope},
    pid::{ProcessRef, Stat, wait_exited},
};

/// Processes that fork while they are swept need another round; one that forks faster than this is left for the caller to report.
const ROUNDS_MAX: usize = 20;

/// How long one round waits for those it has killed: SIGKILL acts at once unless the kernel holds the process.
const ROUND_WAIT: Duration = Duration::from_millis(250);

/// More of an environment is not read; the kernel limits one string to 128 KiB, and ours is set first.
const ENVIRON_MAX: u64 = 1024 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) process: ProcessRef,
    pub(crate) stat: Stat,
    pub(crate) owner: Option<Box<str>>,
}

/// The processes of one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) entries: Vec<Entry>,
}

/// Which processes are meant: by token, by group or session, and everybody below those.
#[derive(Clone, Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) scope: &'a OwnerScope,
    pub(crate) groups: &'a BTreeSet<u32>,
    /// Never picked, nor what runs below them only because of them. We ourselves are always among these.
    pub(crate) spare: &'a [u32],
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Swept {
    pub killed: usize,
    /// Still there at the end: held by the kernel, of another user, or forking faster than the rounds.
    pub left: usize,
}

impl Snapshot {
    /// A snapshot begun after this call. Callers that wait for the same lock share the one made next.
    pub(crate) fn fresh() -> Arc<Snapshot> {
        static LATEST: Mutex<Option<(Instant, Arc<Snapshot>)>> = Mutex::new(None);
        let asked = Instant::now();
        let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((begun, snapshot)) = &*latest
            && *begun > asked
        {
            return Arc::clone(snapshot);
        }
        let begun = Instant::now();
        let snapshot = Arc::new(Snapshot::take());
        *latest = Some((begun, Arc::clone(&snapshot)));
        snapshot
    }

    /// Live members of these process groups, and nobody else.
    pub(crate) fn members(&self, groups: &BTreeSet<u32>) -> Vec<ProcessRef> {
        self.entries
            .iter()
            .filter(|entry| entry.stat.alive && groups.contains(&entry.stat.group))
            .map(|entry| entry.process)
            .collect()
    }

    pub(crate) fn select(&self, selection: &Selection<'_>) -> Vec<ProcessRef> {
        let ourselves = std::process::id();
        let spared = |pid: u32| pid <= 1 || pid == ourselves || selection.spare.contains(&pid);
        let mut below: BTreeMap<u32, Vec<&Entry>> = BTreeMap::new();
        for entry in &self.entries {
            below.entry(entry.stat.parent).or_default().push(entry);
        }
        let mut open: Vec<&Entry> = self
            .entries
            .iter()
            .filter(|entry| {
                selection.groups.contains(&entry.stat.group)
                    || selection.groups.contains(&entry.stat.session)
                    || entry
                        .owner
                        .as_deref()
                        .is_some_and(|owner| selection.scope.holds(owner))
            })
            .collect();
        let mut seen = BTreeSet::new();
        let mut picked = Vec::new();
        while let Some(entry) = open.pop() {
            if spared(entry.process.pid) || !seen.insert(entry.process.pid) {
                continue;
            }
            if entry.stat.alive {
                picked.push(entry.process);
            }
            open.extend(below.get(&entry.process.pid).into_iter().flatten());
        }
        picked
    }

    #[cfg(target_os = "linux")]
    fn take() -> Snapshot {
        use std::os::unix::fs::MetadataExt;
        let uid = rustix::process::geteuid().as_raw();
        let mut entries = Vec::new();
        let mut unsettled = Vec::new();
        let mut environ = Vec::new();
        for folder in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = folder
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let Some(stat) = Stat::read(pid) else {
                continue; // It ended during the pass.
            };
            let mut owner = None;
            let has_environment = stat.alive && !stat.kernel_thread;
            if has_environment && folder.metadata().is_ok_and(|folder| folder.uid() == uid) {
                match read_owner(pid, &mut environ) {
                    Environ::Owner(found) => owner = Some(found),
                    Environ::NoOwner => {}
                    Environ::Empty => unsettled.push(entries.len()),
                }
            }
            let process = ProcessRef {
                pid,
                start_time: stat.start_time,
            };
            entries.push(Entry {
                process,
                stat,
                owner,
            });
        }
        // In the middle of an exec a process shows no environment at all; by the end of the pass it is through.
        for index in unsettled {
            let entry: &mut Entry = &mut entries[index];
            if let Environ::Owner(found) = read_owner(entry.process.pid, &mut environ) {
                entry.owner = Some(found);
            }
        }
        Snapshot { entries }
    }

    #[cfg(not(target_os = "linux"))]
    fn take() -> Snapshot {
        Snapshot {
            entries: Vec::new(),
        }
    }
}

/// Kills the selected processes until none is left, the rounds are used up or the deadline has passed. Blocks.
pub(crate) fn kill_until_gone(selection: &Selection<'_>, deadline: Instant) -> Swept {
    let mut killed = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let victims = Snapshot::fresh().select(selection);
        if victims.is_empty() {
            return Swept {
                killed: killed.len(),
                left: 0,
            };
        }
        for victim in &victims {
            match victim.signal(Signal::KILL) {
                Ok(()) => {
                    killed.insert(*victim);
                }
                Err(error) => {
                    tracing::debug!(pid = victim.pid, %error, "could not kill a leftover")
                }
            }
        }
        let now = Instant::now();
        if now >= deadline {
            break;
        }
        wait_exited(&victims, deadline.min(now + ROUND_WAIT));
    }
    Swept {
        killed: killed.len(),
        left: Snapshot::fresh().select(selection).len(),
    }
}

/// What the environment of a process says about its owner.
#[derive(Debug)]
pub(crate) enum Environ {
    Owner(Box<str>),
    /// It has none, or may not be read.
    NoOwner,
    /// It shows nothing: the process is in the middle of an exec, or has wiped it.
    Empty,
}

/// `buffer` is only there to be used again.
pub(crate) fn read_owner(pid: u32, buffer: &mut Vec<u8>) -> Environ {
    /// Most environments fit, so that one call reads them.
    const USUAL: usize = 16 * 1024;
    buffer.clear();
    buffer.reserve(USUAL);
    let Ok(file) = std::fs::File::open(format!("/proc/{pid}/environ")) else {
        return Environ::NoOwner;
    };
    // A process may end while it is read; what was read until then is judged.
    let _ = file.take(ENVIRON_MAX).read_to_end(buffer);
    if buffer.is_empty() {
        return Environ::Empty;
    }
    let value = buffer.split(|byte| *byte == 0).find_map(|variable| {
        variable
            .strip_prefix(OWNER_VARIABLE.as_bytes())?
            .strip_prefix(b"=")
    });
    match value.and_then(|value| std::str::from_utf8(value).ok()) {
        Some(owner) => Environ::Owner(Box::from(owner)),
        None => Environ::NoOwner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::Owner;

    fn entry(pid: u32, parent: u32, group: u32, owner: Option<&str>) -> Entry {
        let stat = Stat {
            parent,
            group,
            session: group,
            start_time: 1,
            alive: true,
            kernel_thread: false,
        };
        Entry {
            process: ProcessRef { pid, start_time: 1 },
            stat,
            owner: owner.map(Box::from),
        }
    }

    fn select(entries: Vec<Entry>, groups: &[u32], spare: &[u32]) -> Vec<u32> {
        let owner = Owner::new("home", "boot").unwrap();
        let scope = OwnerScope::boot(&owner);
        let groups = groups.iter().copied().collect();
        let selection = Selection {
            scope: &scope,
            groups: &groups,
            spare,
        };
        let mut pids: Vec<u32> = Snapshot { entries }
            .select(&selection)
            .iter()
            .map(|process| process.pid)
            .collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn token_group_and_descent_select_and_nothing_else_does() {
        let entries = vec![
            entry(500, 1, 500, Some("home:boot:a")),
            entry(501, 500, 501, None),
            entry(502, 501, 502, Some("home:other:a")),
            entry(600, 1, 600, None),
            entry(601, 1, 600, None),
            entry(700, 1, 700, Some("home:other:a")),
            entry(701, 700, 700, None),
        ];
        assert_eq!(select(entries, &[600], &[]), [500, 501, 502, 600, 601]);
    }

    #[test]
    fn the_spared_and_what_runs_below_them_stay() {
        let ourselves = std::process::id();
        let entries = vec![
            entry(1, 0, 1, Some("home:boot:a")),
            entry(ourselves, 500, 500, Some("home:boot:a")),
            entry(4_000_001, ourselves, 4_000_001, None),
            entry(500, 1, 500, Some("home:boot:a")),
            entry(501, 500, 501, None),
            entry(502, 501, 502, None),
        ];
        assert_eq!(select(entries, &[], &[501]), [500]);
    }

    #[test]
    fn a_snapshot_is_never_older_than_the_question() {
        let before = Snapshot::fresh();
        let sleeper = crate::test_support::Sleeper::start();
        let seen = |snapshot: &Snapshot| {
            let found = |entry: &Entry| entry.process.pid == sleeper.pid();
            snapshot.entries.iter().any(found)
        };
        assert!(!seen(&before));
        assert!(seen(&Snapshot::fresh()));
    }
}
