//! Either side dies at every point of a delegation where a crash would be interesting: nothing is left on either side, and
//! the changes are at home whole or not at all.

use std::{fs, process::Stdio};

use testkit::{TestDaemon, eventually, zombie_or_gone};

use super::{ARCHIVE, GIT, Pair, SSHFS, can_mount, read};

const TASK: &str = "/run echo two > a.txt; echo two > b.txt";
const TRACE: &str = "AGENTCRAFT_CRASH_TRACE";
const CRASH: &str = "AGENTCRAFT_CRASH_AT";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Host,
    Remote,
}

impl Victim {
    fn of(self, pair: &mut Pair) -> &mut TestDaemon {
        match self {
            Self::Host => &mut pair.host,
            Self::Remote => &mut pair.remote,
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Host => "lending.host.",
            Self::Remote => "lending.remote.",
        }
    }

    /// Begins anew with this variable, or without it.
    fn restart(self, pair: &mut Pair, variable: &str, value: Option<&str>) {
        let daemon = self.of(pair);
        match zombie_or_gone(daemon.pid()) {
            true => daemon.wait_for_death(),
            false => daemon.stop(),
        }
        daemon.set_env(variable, value);
        daemon.start();
    }

    /// Every point that one whole delegation passes on this side, each as often as it does.
    fn points(self, pair: &mut Pair, plane: &str) -> Vec<String> {
        let trace = pair.host.scratch("trace");
        fs::create_dir_all(trace.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&trace); // Of the time before.
        self.restart(pair, TRACE, trace.to_str());
        let folder = folder(pair, plane);
        let lent = pair.delegate(&folder, TASK, &["--transport", plane]);
        assert_eq!(lent.code, 0, "{plane}: {lent:?}");
        pair.left_nothing();
        self.restart(pair, TRACE, None);
        let mut points: Vec<String> = Vec::new();
        for line in read(&trace)
            .lines()
            .filter(|it| it.starts_with(self.prefix()))
        {
            let before = |it: &&String| it.rsplit_once(':').is_some_and(|(name, _)| name == line);
            let times = points.iter().filter(before).count();
            points.push(format!("{line}:{}", times + 1));
        }
        points
    }
}

fn folder(pair: &Pair, plane: &str) -> std::path::PathBuf {
    pair.folder_for(plane, &[("a.txt", "one\n"), ("b.txt", "one\n")])
}

fn dies_at(victim: Victim, point: &str, pair: &mut Pair, plane: &str) {
    let story = format!("{victim:?} at {point} over {plane}");
    victim.restart(pair, CRASH, Some(point));
    let pid = victim.of(pair).pid();
    let folder = folder(pair, plane);
    let names = fs::read_dir(&folder).unwrap().count();
    let id = {
        let (url, token) = (pair.remote.url(), pair.token.to_str().unwrap());
        let dir = folder.to_str().unwrap();
        let fixed = ["delegate", &url, TASK, "--dir", dir, "--token-file", token];
        let mut lending = pair
            .host
            .command(&[&fixed[..], &["--transport", plane]].concat());
        let mut lending = lending
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually(&format!("{story}: somebody ends"), || {
            zombie_or_gone(pid) || lending.try_wait().unwrap().is_some()
        });
        // A point that is only passed afterwards is passed soon; one that is not passed this time is no crash.
        victim.restart(pair, CRASH, None);
        lending.wait().unwrap();
        super::kills::live(pair)
    };
    for id in id {
        let end = pair.ended(&id);
        assert!(end["ending"].is_object(), "{story}: {end}");
    }
    pair.left_nothing();
    let now = [read(folder.join("a.txt")), read(folder.join("b.txt"))];
    // A mount changes one file after the other.
    assert!(
        plane == SSHFS || now == ["one\n", "one\n"] || now == ["two\n", "two\n"],
        "{story}: {now:?}"
    );
    let left = fs::read_dir(&folder).unwrap().count();
    assert_eq!(left, names, "{story}: something is left in the folder");
}

/// Dies at those points that belong to lending alone, the first time each is passed.
fn dies(victim: Victim, plane: &str, points: &[&str]) {
    let mut pair = Pair::new();
    for point in points {
        let point = format!("{}{point}", victim.prefix());
        dies_at(victim, &point, &mut pair, plane);
    }
}

/// Dies at every point that there is, each time it is passed.
fn dies_everywhere(victim: Victim, plane: &str) {
    let mut pair = Pair::new();
    let points = victim.points(&mut pair, plane);
    assert!(points.len() > 10, "{points:?}");
    for point in points {
        dies_at(victim, &point, &mut pair, plane);
    }
}

#[test]
fn a_host_that_dies_when_it_applies_an_archive_leaves_nothing() {
    let points = [
        "before-apply",
        "after-apply",
        "before-audit",
        "before-keep:5",
    ];
    dies(Victim::Host, ARCHIVE, &points);
}

#[test]
fn a_remote_that_dies_when_it_sends_an_archive_leaves_nothing() {
    let points = ["before-delivery", "after-delivery", "after-keep"];
    dies(Victim::Remote, ARCHIVE, &points);
}

#[test]
fn a_host_that_dies_when_it_takes_a_branch_leaves_nothing() {
    let points = ["before-branch", "after-branch", "after-apply"];
    dies(Victim::Host, GIT, &points);
}

#[test]
fn a_remote_that_dies_when_it_sends_a_branch_leaves_nothing() {
    dies(Victim::Remote, GIT, &["before-delivery", "after-delivery"]);
}

#[test]
#[ignore = "slow: a crash at each of twenty points"]
fn slow_a_host_that_dies_at_any_point_of_an_archive_leaves_nothing() {
    dies_everywhere(Victim::Host, ARCHIVE);
}

#[test]
#[ignore = "slow: a crash at each of twenty points"]
fn slow_a_remote_that_dies_at_any_point_of_an_archive_leaves_nothing() {
    dies_everywhere(Victim::Remote, ARCHIVE);
}

#[test]
#[ignore = "slow: a crash at each of twenty points"]
fn slow_a_host_that_dies_at_any_point_of_a_repository_leaves_nothing() {
    dies_everywhere(Victim::Host, GIT);
}

#[test]
#[ignore = "slow: a crash at each of twenty points"]
fn slow_a_remote_that_dies_at_any_point_of_a_repository_leaves_nothing() {
    dies_everywhere(Victim::Remote, GIT);
}

#[test]
#[ignore = "slow: a crash at each of twenty points"]
fn slow_a_host_that_dies_at_any_point_of_a_mount_leaves_nothing() {
    if can_mount() {
        dies_everywhere(Victim::Host, SSHFS);
    }
}

#[test]
#[ignore = "slow: a crash at each of twenty points"]
fn slow_a_remote_that_dies_at_any_point_of_a_mount_leaves_nothing() {
    if can_mount() {
        dies_everywhere(Victim::Remote, SSHFS);
    }
}
