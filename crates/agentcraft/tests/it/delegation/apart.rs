//! Host and remote on machines of their own, with a network between them that can be cut.

use std::{fs, path::Path, thread, time::Duration};

use testkit::eventually;

use super::{ARCHIVE, GIT, Pair, SSHFS, can_mount, planes_and_git, read};
use crate::network_peers::lan::Lan;

/// Long enough for an agent to begin on a busy machine.
const TTL: &str = "12";

/// Two machines. The first is the host's, at the address that its own settings name.
struct Apart {
    lan: Lan,
    pair: Pair,
    /// The remote's machine.
    there: usize,
}

impl Apart {
    fn new() -> Option<Self> {
        let mut lan = Lan::new()?;
        // It listens everywhere and is told nowhere how others reach it.
        let lending = "[lending]\nsftp = \"0.0.0.0:7422\"\n";
        let host = lan.node_with("host", "trust = \"open\"", lending);
        assert_eq!(host.machine, 1);
        let settings = format!("trust = \"open\"\nurl = \"{}\"", lan.url(2));
        let remote = lan.node_with("remote", &settings, "[lending]\nexecutor = \"worker\"\n");
        let mut pair = Pair::of(host.daemon, remote.daemon);
        pair.url = Some(lan.url(remote.machine));
        Some(Self {
            lan,
            pair,
            there: remote.machine,
        })
    }

    /// Lends, cuts the network in the middle of the work, and has the end come however it comes.
    fn cut(&self, plane: &str, access: &[&str], end: impl FnOnce(&str)) -> (String, u64) {
        let pair = &self.pair;
        let folder = pair.folder_for(plane, &[("a.txt", "one\n")]);
        let begun = pair.remote.scratch("begun");
        let _ = fs::remove_file(&begun); // Of the time before.
        fs::create_dir_all(begun.parent().unwrap()).unwrap();
        let task = format!(
            "/run touch {}; while :; do date +%s%N >> ticks; cat a.txt > /dev/null; sync; sleep 0.02; done",
            begun.display()
        );
        let id = pair.begin(
            &folder,
            &task,
            &[&["--transport", plane, "--ttl", TTL], access].concat(),
        );
        eventually("the agent works", || begun.exists());
        self.lan.plug(self.there, "down");
        end(&id);
        let shown = pair.ended(&id);
        let written = ticks(&folder);
        let state = shown["state"].as_str().unwrap().to_owned();
        // The remote hears of nothing, and is clean all the same.
        pair.left_nothing();
        self.lan.plug(self.there, "up");
        (state, written)
    }

    fn app(&self) -> std::path::PathBuf {
        self.pair.host.scratch("app")
    }
}

fn ticks(folder: &Path) -> u64 {
    fs::metadata(folder.join("ticks")).map_or(0, |metadata| metadata.len())
}

#[test]
fn folders_are_lent_between_machines_for_writing_and_for_reading() {
    let Some(apart) = Apart::new() else { return };
    let pair = &apart.pair;
    for plane in planes_and_git() {
        let folder = pair.folder_for(plane, &[("a.txt", "one\n")]);
        let task = "/run cat a.txt; echo two > a.txt";
        let lent = pair.delegate(&folder, task, &["--transport", plane]);
        assert_eq!(lent.code, 0, "{plane}: {lent:?}");
        assert!(lent.stdout.contains("one"), "{plane}: {lent:?}");
        assert_eq!(read(folder.join("a.txt")), "two\n", "{plane}");
        let task = "/run cat a.txt; echo three > a.txt; true";
        let more = ["--transport", plane, "--read-only"];
        let lent = pair.delegate(&folder, task, &more);
        assert_eq!(lent.code, 0, "{plane}: {lent:?}");
        assert!(lent.stdout.contains("two"), "{plane}: {lent:?}");
        assert_eq!(read(folder.join("a.txt")), "two\n", "{plane}");
        pair.left_nothing();
    }
}

fn the_lease_ends_both_sides(plane: &str) {
    let Some(apart) = Apart::new() else { return };
    let (state, written) = apart.cut(plane, &[], |_| {});
    assert_eq!(state, "expired", "{plane}");
    assert_eq!(
        ticks(&apart.app()),
        written,
        "{plane}: written after the end"
    );
    assert_eq!(read(apart.app().join("a.txt")), "one\n", "{plane}");
    // And both go on as if nothing had been.
    let lent = apart.pair.delegate(
        &apart.app(),
        "/run echo two > a.txt",
        &["--transport", plane],
    );
    assert_eq!(lent.code, 0, "{plane}: {lent:?}");
    assert_eq!(read(apart.app().join("a.txt")), "two\n", "{plane}");
}

#[test]
fn a_network_cut_under_an_archive_leaves_nothing_at_the_end_of_the_lease() {
    the_lease_ends_both_sides(ARCHIVE);
}

#[test]
fn a_network_cut_under_a_clone_leaves_nothing_at_the_end_of_the_lease() {
    the_lease_ends_both_sides(GIT);
}

#[test]
fn a_network_cut_under_a_mount_leaves_nothing_at_the_end_of_the_lease() {
    if can_mount() {
        the_lease_ends_both_sides(SSHFS);
    }
}

#[test]
fn who_cannot_be_told_loses_access_at_once_and_is_clean_at_the_end_of_the_lease() {
    if !can_mount() {
        return;
    }
    let Some(apart) = Apart::new() else { return };
    let host = &apart.pair.host;
    let (state, written) = apart.cut(SSHFS, &["--read-only"], |id| {
        let cancelled = host.cli(&["delegation", "cancel", id]);
        assert_eq!(cancelled.code, 0, "{cancelled:?}");
    });
    assert_eq!((state.as_str(), written), ("cancelled", 0));
}

/// In how many parts of a delegation the network is cut, each at a random moment of it.
const CUTS: u32 = 7;

/// From before the first message until well after the last.
const SPAN: Duration = Duration::from_secs(1);

#[test]
#[ignore = "slow: waits for the end of many leases"]
fn slow_a_network_cut_at_any_moment_leaves_nothing() {
    let Some(apart) = Apart::new() else { return };
    let pair = &apart.pair;
    for plane in planes_and_git() {
        for number in 0..CUTS {
            let folder = pair.folder_for(plane, &[("a.txt", "one\n")]);
            let part = (f64::from(number) + super::kills::random()) / f64::from(CUTS);
            let moment = SPAN.mul_f64(part);
            let story = format!("{plane}, cut after {moment:?}");
            let task = "/run sleep 0.3; echo two > a.txt; sync; sleep 0.3";
            let id = pair.begin(&folder, task, &["--transport", plane, "--ttl", "8"]);
            thread::sleep(moment);
            apart.lan.plug(apart.there, "down");
            let end = pair.ended(&id);
            assert!(end["ending"].is_object(), "{story}: {end}");
            pair.left_nothing();
            apart.lan.plug(apart.there, "up");
            let text = read(folder.join("a.txt"));
            assert!(text == "one\n" || text == "two\n", "{story}: {text}");
        }
    }
}
