//! Thousands of random worlds: several delegations over overlapping folders, a network that loses, repeats, delays and
//! reorders, daemons that crash between any two steps. What must always hold is checked after every step.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{table_tests::id, *};
use crate::Timestamp;

/// Worlds that are tried; each has its own seed, which a failure names.
const WORLDS: u64 = 2_000;
/// Random steps before the world calms down.
const STEPS: usize = 220;
/// Rounds until everything must have ended in a calm world.
const CALM_ROUNDS: usize = 400;

/// A small generator: the same seed gives the same world.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }
}

#[derive(Debug, Clone)]
enum Message {
    Invite,
    Accept(Acceptance),
    Start(Grant),
    Began,
    Done(Report),
    HostError(Failure),
    RemoteError(Failure),
    Told,
}

/// Something that runs by itself and comes back as an input, unless it is stopped or its daemon dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    Prepare,
    Collect,
    Check,
    Mount,
    Task,
    Flush,
}

impl Job {
    fn is_hosts(self) -> bool {
        matches!(self, Self::Prepare | Self::Collect)
    }
}

struct World {
    seed: u64,
    dice: Dice,
    now: Timestamp,
    calm: bool,
    hosts: Vec<Host>,
    folders: Vec<(PathBuf, Access)>,
    locks: Locks,
    grants: Vec<usize>,
    remotes: BTreeMap<usize, Remote>,
    network: Vec<(usize, Message)>,
    jobs: BTreeSet<(usize, Job)>,
    /// Jobs that never come back by themselves.
    hung: BTreeSet<(usize, Job)>,
    exports: BTreeMap<usize, Access>,
    /// What a crashed daemon left on the disk.
    left_exports: BTreeSet<usize>,
    credentials: BTreeSet<usize>,
    accepted: BTreeSet<usize>,
    mounts: BTreeSet<usize>,
    mount_points: BTreeSet<usize>,
    announced: BTreeMap<usize, usize>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            seed,
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            now: Timestamp(1_000_000),
            calm: false,
            hosts: Vec::new(),
            folders: Vec::new(),
            locks: Locks::default(),
            grants: Vec::new(),
            remotes: BTreeMap::new(),
            network: Vec::new(),
            jobs: BTreeSet::new(),
            hung: BTreeSet::new(),
            exports: BTreeMap::new(),
            left_exports: BTreeSet::new(),
            credentials: BTreeSet::new(),
            accepted: BTreeSet::new(),
            mounts: BTreeSet::new(),
            mount_points: BTreeSet::new(),
            announced: BTreeMap::new(),
        };
        let folders = ["/p", "/p/a", "/p/a/b", "/p/c", "/q"];
        for index in 0..2 + world.dice.roll(4) {
            let folder = folders[world.dice.roll(folders.len())];
            let access = if world.dice.one_in(3) {
                Access::Ro
            } else {
                Access::Rw
            };
            world.folders.push((folder.into(), access));
            let offer = Offer {
                access,
                ttl: Duration::from_secs(60),
                transports: vec![Transport::Sshfs],
            };
            let (host, effects) = Host::new(id(&format!("d{index}")), offer, waits(), world.now);
            world.hosts.push(host);
            world.host_effects(index, effects);
        }
        world
    }

    fn host(&mut self, index: usize, input: HostInput) {
        if matches!(input, HostInput::Accept(_)) && self.hosts[index].phase() == Phase::Invited {
            self.accepted.insert(index);
        }
        let Ok(effects) = self.hosts[index].apply(input, self.now) else {
            return;
        };
        // Stored, and dead before anything was done.
        if !self.calm && self.dice.one_in(60) {
            self.crash_hosts();
        } else {
            self.host_effects(index, effects);
        }
    }

    fn host_effects(&mut self, index: usize, effects: Vec<HostEffect>) {
        let (folder, access) = self.folders[index].clone();
        for effect in effects {
            match effect {
                HostEffect::AcquireLock => {
                    let name = self.hosts[index].id().clone();
                    if self.locks.request(name, &folder, access) == Ok(LockDecision::Granted) {
                        self.grants.push(index);
                    }
                }
                HostEffect::ReacquireLock => {
                    let name = self.hosts[index].id().clone();
                    let restored = self.locks.restore(name, &folder, access);
                    assert_eq!(restored, Ok(()), "seed {}", self.seed);
                }
                HostEffect::SendInvite => self.send(index, Message::Invite),
                HostEffect::Prepare { .. } => self.begin(index, Job::Prepare),
                HostEffect::StopPreparing => self.stop(index, Job::Prepare),
                HostEffect::Restore { grant, .. } => {
                    self.left_exports.remove(&index);
                    self.exports.insert(index, grant.access);
                }
                HostEffect::SendStart { grant, .. } => self.send(index, Message::Start(grant)),
                HostEffect::RevokeCredential => {
                    self.credentials.remove(&index);
                }
                HostEffect::CloseExport => {
                    self.exports.remove(&index);
                    self.left_exports.remove(&index);
                }
                HostEffect::Collect { .. } => self.begin(index, Job::Collect),
                HostEffect::StopCollecting => self.stop(index, Job::Collect),
                HostEffect::ReleaseLock => {
                    let name = self.hosts[index].id().clone();
                    let granted = self.locks.release(&name);
                    let by_name = |name| self.hosts.iter().position(|host| host.id() == name);
                    let granted: Vec<usize> = granted.iter().filter_map(by_name).collect();
                    self.grants.extend(granted);
                }
                HostEffect::SendError(failure) => self.send(index, Message::HostError(failure)),
                HostEffect::Announce(_) => *self.announced.entry(index).or_default() += 1,
                HostEffect::TickAt(_) => {}
            }
            self.check();
        }
        if self.hosts[index].is_cleanup_due() {
            self.hosts[index]
                .apply(HostInput::Released, self.now)
                .unwrap();
        }
    }

    fn remote(&mut self, index: usize, input: RemoteInput) {
        let Some(remote) = self.remotes.get_mut(&index) else {
            return;
        };
        let Ok(effects) = remote.apply(input, self.now) else {
            return;
        };
        if !self.calm && self.dice.one_in(60) {
            self.crash_remotes();
        } else {
            self.remote_effects(index, effects);
        }
    }

    fn remote_effects(&mut self, index: usize, effects: Vec<RemoteEffect>) {
        for effect in effects {
            match effect {
                RemoteEffect::Check => self.begin(index, Job::Check),
                RemoteEffect::SendAccept(acceptance) => {
                    self.send(index, Message::Accept(acceptance));
                }
                RemoteEffect::Mount { .. } => self.begin(index, Job::Mount),
                RemoteEffect::StopMounting => self.stop(index, Job::Mount),
                RemoteEffect::BeginTask => {
                    self.send(index, Message::Began);
                    self.begin(index, Job::Task);
                }
                RemoteEffect::StopTask => self.stop(index, Job::Task),
                RemoteEffect::Flush { .. } => self.begin(index, Job::Flush),
                RemoteEffect::StopFlushing => self.stop(index, Job::Flush),
                RemoteEffect::Unmount => {
                    self.mounts.remove(&index);
                }
                RemoteEffect::RemoveMountPoint => {
                    self.mount_points.remove(&index);
                }
                RemoteEffect::SendDone(report) => self.send(index, Message::Done(report)),
                RemoteEffect::SendError(failure) => {
                    self.send(index, Message::RemoteError(failure));
                }
                RemoteEffect::Announce(_) | RemoteEffect::TickAt(_) => {}
            }
        }
        if let Some(remote) = self.remotes.get_mut(&index)
            && remote.is_cleanup_due()
        {
            remote.apply(RemoteInput::Released, self.now).unwrap();
        }
    }

    fn send(&mut self, index: usize, message: Message) {
        if !self.calm && self.dice.one_in(5) {
            return; // Lost.
        }
        self.network.push((index, message.clone()));
        if !self.calm && self.dice.one_in(6) {
            self.network.push((index, message));
        }
    }

    fn begin(&mut self, index: usize, job: Job) {
        self.jobs.insert((index, job));
        if self.dice.one_in(8) {
            self.hung.insert((index, job));
        }
    }

    fn stop(&mut self, index: usize, job: Job) {
        self.jobs.remove(&(index, job));
        self.hung.remove(&(index, job));
    }

    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let (index, message) = self.network.remove(self.dice.roll(self.network.len()));
        match message {
            Message::Invite if self.remotes.contains_key(&index) => {
                self.remote(index, RemoteInput::InvitedAgain);
            }
            Message::Invite => {
                let (name, offer) = (self.hosts[index].id().clone(), self.hosts[index].offer());
                let (remote, effects) = Remote::new(name, offer.clone(), waits(), self.now);
                self.remotes.insert(index, remote);
                self.remote_effects(index, effects);
            }
            Message::Accept(acceptance) => self.host(index, HostInput::Accept(acceptance)),
            Message::Start(grant) => {
                assert!(self.accepted.contains(&index), "seed {}", self.seed);
                self.remote(index, RemoteInput::Start(grant));
            }
            Message::Began => self.host(index, HostInput::Began),
            Message::Done(report) => {
                self.host(index, HostInput::Done(report));
                self.send(index, Message::Told);
            }
            Message::HostError(failure) => self.remote(index, RemoteInput::HostFailed(failure)),
            Message::RemoteError(failure) => {
                self.host(index, HostInput::RemoteFailed(failure));
                self.send(index, Message::Told);
            }
            Message::Told => self.remote(index, RemoteInput::Told),
        }
    }

    fn finish_job(&mut self) {
        let ready: Vec<_> = self.jobs.difference(&self.hung).copied().collect();
        if ready.is_empty() {
            return;
        }
        let (index, job) = ready[self.dice.roll(ready.len())];
        self.jobs.remove(&(index, job));
        let goes_well = !self.dice.one_in(8);
        let failure = |code| Failure::new(code, "it did not go");
        match (job, goes_well) {
            (Job::Prepare, true) => {
                let agreement = self.hosts[index].agreement();
                let access = agreement.expect("it is being prepared").access;
                self.credentials.insert(index);
                self.exports.insert(index, access);
                self.check();
                self.host(index, HostInput::Prepared);
            }
            (Job::Prepare, false) => {
                self.credentials.insert(index); // Half of it was made.
                self.host(index, HostInput::PrepareFailed(failure(Code::TaskFailed)));
            }
            (Job::Collect, true) => {
                assert!(
                    self.locks.holds(self.hosts[index].id()),
                    "seed {}",
                    self.seed
                );
                self.host(index, HostInput::Collected);
            }
            (Job::Collect, false) => {
                self.host(index, HostInput::CollectFailed(failure(Code::TaskFailed)));
            }
            (Job::Check, true) => {
                self.mount_points.insert(index);
                let acceptance = Acceptance {
                    mount_point: format!("/mounts/d{index}"),
                    access: self.dice.one_in(4).then_some(Access::Ro),
                    ttl: Some(Duration::from_secs(30)),
                    transport: None,
                    sandbox: None,
                };
                self.remote(index, RemoteInput::Admitted(acceptance));
            }
            (Job::Check, false) => {
                self.remote(index, RemoteInput::Declined(failure(Code::Declined)));
            }
            (Job::Mount, true) => {
                self.mounts.insert(index);
                self.remote(index, RemoteInput::Mounted);
            }
            (Job::Mount, false) => {
                self.mounts.insert(index); // Half of it was made.
                self.remote(index, RemoteInput::MountFailed(failure(Code::MountFailed)));
            }
            (Job::Task, true) => {
                let report = Report {
                    summary: "done".into(),
                    highlights: Vec::new(),
                    notes: None,
                };
                self.remote(index, RemoteInput::TaskDone(report));
            }
            (Job::Task, false) => {
                self.remote(index, RemoteInput::TaskFailed(failure(Code::TaskFailed)));
            }
            (Job::Flush, true) => self.remote(index, RemoteInput::Flushed),
            (Job::Flush, false) => {
                self.remote(index, RemoteInput::FlushFailed(failure(Code::TaskFailed)));
            }
        }
    }

    /// The hosts' daemon dies and comes back: memory is gone, what was stored and what is on the disk is not.
    fn crash_hosts(&mut self) {
        self.jobs.retain(|(_, job)| !job.is_hosts());
        self.hung.retain(|(_, job)| !job.is_hosts());
        self.left_exports.extend(self.exports.keys());
        self.exports.clear();
        self.locks = Locks::default();
        self.grants.clear();
        for host in &mut self.hosts {
            let text = serde_json::to_string(&host).unwrap();
            *host = serde_json::from_str(&text).unwrap();
        }
        let (holding, others): (Vec<usize>, Vec<usize>) =
            (0..self.hosts.len()).partition(|index| self.hosts[*index].holds_lock());
        for index in holding.into_iter().chain(others) {
            let effects = self.hosts[index]
                .apply(HostInput::Recover, self.now)
                .unwrap();
            self.host_effects(index, effects);
        }
    }

    fn crash_remotes(&mut self) {
        self.jobs.retain(|(_, job)| job.is_hosts());
        self.hung.retain(|(_, job)| job.is_hosts());
        let indexes: Vec<usize> = self.remotes.keys().copied().collect();
        for index in indexes {
            let text = serde_json::to_string(&self.remotes[&index]).unwrap();
            let mut remote: Remote = serde_json::from_str(&text).unwrap();
            let effects = remote.apply(RemoteInput::Recover, self.now).unwrap();
            self.remotes.insert(index, remote);
            self.remote_effects(index, effects);
        }
    }

    fn tick(&mut self) {
        for index in 0..self.hosts.len() {
            self.host(index, HostInput::Tick);
            self.remote(index, RemoteInput::Tick);
        }
    }

    fn grant(&mut self) {
        if let Some(index) = self.grants.pop() {
            self.host(index, HostInput::LockGranted);
        }
    }

    fn step(&mut self) {
        match self.dice.roll(40) {
            0..=14 => self.deliver(),
            15..=26 => self.finish_job(),
            27..=31 => self.grant(),
            32..=34 => {
                let seconds = [1, 5, 20, 40][self.dice.roll(4)];
                self.now = self.now + Duration::from_secs(seconds);
                self.tick();
            }
            35 => self.crash_hosts(),
            36 => self.crash_remotes(),
            37 => {
                let index = self.dice.roll(self.hosts.len());
                let reason = "the user said so".into();
                self.host(index, HostInput::Cancel { reason });
            }
            38 => {
                let index = self.dice.roll(self.hosts.len());
                let reason = "it does not answer".into();
                self.remote(index, RemoteInput::AccessLost { reason });
            }
            _ => {
                let index = self.dice.roll(self.hosts.len());
                let reason = "refused".into();
                self.host(index, HostInput::Unreachable { reason });
            }
        }
        self.check();
    }

    /// What must hold at every moment.
    fn check(&self) {
        let seed = self.seed;
        for (index, access) in &self.exports {
            assert!(
                self.locks.holds(self.hosts[*index].id()),
                "seed {seed}: not locked"
            );
            for (other, other_access) in self.exports.range(index + 1..) {
                let overlap = overlap(&self.folders[*index].0, &self.folders[*other].0);
                let writes = *access == Access::Rw || *other_access == Access::Rw;
                assert!(!(overlap && writes), "seed {seed}: two at once");
            }
        }
        for index in &self.credentials {
            assert!(
                self.accepted.contains(index),
                "seed {seed}: a key before ACCEPT"
            );
        }
        for (index, host) in self.hosts.iter().enumerate() {
            if host.phase().is_end() && !host.is_cleanup_due() {
                let left = self.exports.contains_key(&index)
                    || self.left_exports.contains(&index)
                    || self.credentials.contains(&index)
                    || self.locks.holds(host.id());
                assert!(!left, "seed {seed}: d{index} ended and left something");
            }
        }
    }

    fn calm_down(&mut self) {
        self.calm = true;
        for _ in 0..CALM_ROUNDS {
            while !self.network.is_empty() {
                self.deliver();
            }
            while !self.grants.is_empty() {
                self.grant();
            }
            self.finish_job();
            self.now = self.now + Duration::from_secs(5);
            self.tick();
            self.check();
            let hosts_ended = self.hosts.iter().all(|host| host.phase().is_end());
            let remotes_ended = self.remotes.values().all(|remote| remote.phase().is_end());
            let quiet = self.network.is_empty() && self.grants.is_empty();
            let checking = self.jobs.iter().any(|job| !self.hung.contains(job));
            if hosts_ended && remotes_ended && quiet && !checking {
                break;
            }
        }
    }

    fn check_end(&self) {
        let seed = self.seed;
        for host in &self.hosts {
            assert!(host.phase().is_end(), "seed {seed}: {host:?}");
        }
        for remote in self.remotes.values() {
            assert!(remote.phase().is_end(), "seed {seed}: {remote:?}");
        }
        assert!(self.locks.is_idle(), "seed {seed}: {:?}", self.locks);
        assert!(
            self.exports.is_empty() && self.left_exports.is_empty(),
            "seed {seed}"
        );
        assert!(self.credentials.is_empty(), "seed {seed}");
        assert!(
            self.mounts.is_empty() && self.mount_points.is_empty(),
            "seed {seed}"
        );
        let left: Vec<_> = self
            .jobs
            .iter()
            .filter(|(_, job)| *job != Job::Check)
            .collect();
        assert!(left.is_empty(), "seed {seed}: {left:?} still run");
    }
}

fn overlap(left: &Path, right: &Path) -> bool {
    left.starts_with(right) || right.starts_with(left)
}

fn waits() -> Waits {
    Waits {
        lock: Duration::from_secs(300),
        accept: Duration::from_secs(40),
        start: Duration::from_secs(30),
        collect: Duration::from_secs(50),
        tell: Duration::from_secs(60),
        tell_again: Duration::from_secs(5),
    }
}

#[test]
fn in_every_world_there_is_one_writer_no_early_key_and_nothing_is_left() {
    let mut endings: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 1..=WORLDS {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.calm_down();
        world.check_end();
        for host in &world.hosts {
            *endings.entry(host.phase().as_str()).or_default() += 1;
        }
    }
    // A simulation in which something never happens proves nothing about it.
    for phase in ["completed", "error", "cancelled", "expired"] {
        assert!(
            endings.get(phase).is_some_and(|count| *count > 100),
            "{endings:?}"
        );
    }
}

#[test]
fn without_trouble_every_delegation_completes_in_turn() {
    for seed in 1..=50 {
        let mut world = World::new(seed);
        world.calm = true;
        for _ in 0..CALM_ROUNDS {
            while !world.network.is_empty() {
                world.deliver();
            }
            world.grant();
            let jobs: Vec<_> = world.jobs.iter().copied().collect();
            for (index, job) in jobs {
                world.hung.remove(&(index, job));
                world.dice = Dice(1); // Goes well.
                world.finish_job();
            }
        }
        for host in &world.hosts {
            assert_eq!(host.phase(), Phase::Completed, "seed {seed}: {host:?}");
        }
        world.calm_down();
        world.check_end();
    }
}
