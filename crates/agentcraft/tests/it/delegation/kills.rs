//! Everybody who takes part in a delegation is killed, and the delegation itself is ended, at random moments spread over
//! all of it: nothing is left on either side.

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{GIT, Pair, SSHFS, can_mount, planes_and_git, processes_about, read};
use serde_json::Value;

/// Moments of one test, two of each plane; five tests have thirty.
const MOMENTS: u32 = 6;

/// Of many, this part: the whole is reached by nobody.
pub(super) fn random() -> f64 {
    let bits = RandomState::new().hash_one(()) >> 32;
    bits as f64 / f64::from(u32::MAX)
}

/// Changes two files with a pause between them, so that some moments are in the middle of the work.
const TASK: &str = "/run sleep 0.1; echo two > a.txt; sleep 0.1; echo two > b.txt; sleep 0.1";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Host,
    Remote,
    Sshfs,
    Agent,
    /// It is cancelled instead.
    Delegation,
}

impl Victim {
    fn kill(self, pair: &mut Pair) {
        let home = pair.remote.home();
        let pids = match self {
            Self::Host => return pair.host.kill(),
            Self::Remote => return pair.remote.kill(),
            Self::Sshfs => processes_about(&home, "sshfs"),
            Self::Agent => pair.remote.agent_processes(),
            Self::Delegation => {
                for id in live(pair) {
                    let cancelled = pair.host.cli(&["delegation", "cancel", &id]);
                    assert_eq!(cancelled.code, 0, "{cancelled:?}");
                }
                return;
            }
        };
        for pid in pids {
            // It may have ended since it was looked for.
            let _ = Command::new("kill")
                .args(["-KILL", &pid.to_string()])
                .stderr(Stdio::null())
                .status();
        }
    }

    fn come_back(self, pair: &mut Pair) {
        match self {
            Self::Host => pair.host.start(),
            Self::Remote => pair.remote.start(),
            Self::Sshfs | Self::Agent | Self::Delegation => {}
        }
    }
}

fn folder(pair: &Pair) -> PathBuf {
    pair.folder_for(GIT, &[("a.txt", "one\n"), ("b.txt", "one\n")])
}

/// How long it takes if nobody is killed.
fn undisturbed(pair: &Pair, plane: &str) -> Duration {
    let began = Instant::now();
    let lent = pair.delegate(&folder(pair), TASK, &["--transport", plane]);
    assert_eq!(lent.code, 0, "{plane}: {lent:?}");
    began.elapsed()
}

/// Ids of what has not ended.
pub(super) fn live(pair: &Pair) -> Vec<String> {
    let listed = pair.host.cli(&["delegation", "list", "-f", "json"]);
    let all: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed:?}"));
    let is_live = |it: &&Value| {
        let state = it["state"].as_str().unwrap();
        !["completed", "error", "cancelled", "expired"].contains(&state)
    };
    let live = all.as_array().unwrap().iter().filter(is_live);
    live.map(|it| it["id"].as_str().unwrap().to_owned())
        .collect()
}

fn killed_at_every_moment(victim: Victim, planes: &[&str]) {
    let mut pair = Pair::new();
    let whole: Vec<_> = planes
        .iter()
        .map(|plane| (plane, undisturbed(&pair, plane)))
        .collect();
    for (number, (plane, whole)) in (0..MOMENTS).zip(whole.into_iter().cycle()) {
        let folder = folder(&pair);
        // Each part of it has its moment, so that none is left out by chance.
        let moment = whole.mul_f64((f64::from(number) + random()) / f64::from(MOMENTS));
        let story = format!("{victim:?} at {moment:?} of {whole:?} over {plane}");
        let mut lending = pair.host.command(&[
            "delegate",
            &pair.remote.url(),
            TASK,
            "--dir",
            folder.to_str().unwrap(),
            "--token-file",
            pair.token.to_str().unwrap(),
            "--transport",
            plane,
        ]);
        let mut lending = lending
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The moment is what is tried here; whatever it hits must be survived.
        thread::sleep(moment);
        victim.kill(&mut pair);
        victim.come_back(&mut pair);
        lending.wait().unwrap();
        for id in live(&pair) {
            let end = pair.ended(&id);
            assert!(end["ending"].is_object(), "{story}: {end}");
        }
        pair.left_nothing();
        let now = [read(folder.join("a.txt")), read(folder.join("b.txt"))];
        if *plane != SSHFS {
            // Changes come home whole or not at all.
            assert!(
                now == ["one\n", "one\n"] || now == ["two\n", "two\n"],
                "{story}: {now:?}"
            );
        }
        let names = fs::read_dir(&folder).unwrap().count();
        assert_eq!(names, 3, "{story}: something is left in the folder");
    }
}

#[test]
fn a_host_that_is_killed_at_any_moment_leaves_nothing() {
    killed_at_every_moment(Victim::Host, &planes_and_git());
}

#[test]
fn a_remote_that_is_killed_at_any_moment_leaves_nothing() {
    killed_at_every_moment(Victim::Remote, &planes_and_git());
}

#[test]
fn a_mount_that_is_killed_at_any_moment_leaves_nothing() {
    if can_mount() {
        killed_at_every_moment(Victim::Sshfs, &[SSHFS]);
    }
}

#[test]
fn an_agent_that_is_killed_at_any_moment_leaves_nothing() {
    killed_at_every_moment(Victim::Agent, &planes_and_git());
}

#[test]
fn a_delegation_that_is_cancelled_at_any_moment_leaves_nothing() {
    killed_at_every_moment(Victim::Delegation, &planes_and_git());
}
