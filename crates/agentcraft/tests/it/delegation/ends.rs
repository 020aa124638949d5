//! Every end of a delegation, and what is left after it: nothing.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use testkit::{eventually, kill};

use super::{Pair, SSHFS, listening, planes_and_git, processes_about, read};

/// The agent writes a line every moment, and says at home that it does.
const WRITING: &str = "/run while :; do date +%s%N >> ticks; sync; sleep 0.02; done";
const WAITING: &str = "/run touch here; sleep 1000";

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// The agent has begun: over a mount its first file is at home, as an archive it is at the remote.
fn began(pair: &Pair, id: &str, folder: &Path, file: &str) {
    let (home, away) = (folder.join(file), pair.mount_point(id).join(file));
    eventually("the agent works", || {
        size(&home) > 0 || home.exists() || away.exists()
    });
}

#[test]
fn a_cancelled_delegation_ends_at_once_and_leaves_nothing() {
    for plane in planes_and_git() {
        let pair = Pair::new();
        let folder = pair.folder_for(plane, &[("a.txt", "one\n")]);
        let id = pair.begin(&folder, WAITING, &["--transport", plane]);
        began(&pair, &id, &folder, "here");
        let cancelled = pair.host.cli(&["delegation", "cancel", &id]);
        assert_eq!(cancelled.code, 0, "{plane}: {cancelled:?}");
        let end = pair.show(&id);
        assert_eq!(end["state"], "cancelled", "{plane}: {end}");
        pair.left_nothing();
        assert_eq!(read(folder.join("a.txt")), "one\n", "{plane}");
    }
}

/// Stands in for sshfs: it comes up, says so, and never mounts anything.
const NEVER_MOUNTS: &str =
    "#!/bin/sh\ncase $1 in --help) exit 0;; esac\ntouch \"$0.begun\"\nexec sleep 1000\n";

#[test]
fn a_delegation_that_is_cancelled_while_it_is_mounted_leaves_nothing() {
    if !super::can_mount() {
        return;
    }
    // With the real program, a moment after it has begun.
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    for _ in 0..3 {
        let id = pair.begin(&folder, WAITING, &["--transport", SSHFS]);
        let home = pair.remote.home();
        eventually("sshfs begins", || {
            !processes_about(&home, "sshfs").is_empty()
        });
        let cancelled = pair.host.cli(&["delegation", "cancel", &id]);
        assert_eq!(cancelled.code, 0, "{cancelled:?}");
        let end = pair.show(&id);
        assert_eq!(end["state"], "cancelled", "{end}");
        pair.left_nothing();
    }
}

#[test]
fn a_delegation_that_is_cancelled_while_its_mount_hangs_leaves_nothing() {
    if !super::can_mount() {
        return;
    }
    let programs = tempfile::tempdir().unwrap();
    let sshfs = programs.path().join("sshfs");
    fs::write(&sshfs, NEVER_MOUNTS).unwrap();
    fs::set_permissions(&sshfs, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", programs.path().display());
    let host = listening().file("config.toml", "[lending]\nsftp = \"127.0.0.1:0\"\n");
    let remote = listening().file("config.toml", "[lending]\nexecutor = \"worker\"\n");
    let pair = Pair::of(host.start(), remote.env("PATH", path).start());
    let folder = pair.folder(&[("a.txt", "one\n")]);
    for at_host in [true, false] {
        let begun = programs.path().join("sshfs.begun");
        let _ = fs::remove_file(&begun); // Of the time before.
        let id = pair.begin(&folder, WAITING, &["--transport", SSHFS]);
        eventually("sshfs begins", || begun.exists());
        let side = match at_host {
            true => &pair.host,
            false => &pair.remote,
        };
        let cancelled = side.cli(&["delegation", "cancel", &id]);
        assert_eq!(cancelled.code, 0, "{cancelled:?}");
        let end = pair.ended(&id);
        assert_eq!(end["state"], "cancelled", "{end}");
        pair.left_nothing();
    }
}

/// Since 1970, in milliseconds; a moment as the node writes it.
fn milliseconds(moment: &str) -> i128 {
    let said = Command::new("date")
        .args(["-d", moment, "+%s%3N"])
        .output()
        .unwrap();
    String::from_utf8(said.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

fn now() -> i128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_millis().try_into().unwrap()
}

#[test]
fn a_lease_that_ends_during_a_write_stops_it_and_leaves_nothing() {
    for plane in planes_and_git() {
        let pair = Pair::new();
        let folder = pair.folder_for(plane, &[("a.txt", "one\n")]);
        let id = pair.begin(&folder, WRITING, &["--transport", plane, "--ttl", "6"]);
        let mut lease = String::new();
        eventually("it has a lease", || {
            let seen = pair.show(&id);
            seen["expiresAt"]
                .as_str()
                .unwrap_or_default()
                .clone_into(&mut lease);
            !lease.is_empty()
        });
        let lease = milliseconds(&lease);
        let end = pair.ended(&id);
        println!(
            "{plane}: the host took it back {} ms after the lease; the goal is 1 s",
            now() - lease
        );
        assert_eq!(end["state"], "expired", "{plane}: {end}");
        // Whoever has seen the end finds a folder that nobody writes to.
        let ticks = folder.join("ticks");
        let written = size(&ticks);
        pair.left_nothing();
        println!(
            "{plane}: everything is clean {} ms after the lease",
            now() - lease
        );
        assert_eq!(size(&ticks), written, "{plane}");
        let last = fs::read_to_string(&ticks).unwrap_or_default();
        if let Some(last) = last.lines().last().and_then(|line| line.parse().ok()) {
            let last: i128 = last;
            println!(
                "{plane}: the last write was {} ms after the lease",
                last / 1_000_000 - lease
            );
        }
    }
}

#[test]
fn a_remote_that_is_killed_is_clean_once_it_is_back_and_its_host_is_told() {
    for plane in planes_and_git() {
        let mut pair = Pair::new();
        let folder = pair.folder_for(plane, &[("a.txt", "one\n")]);
        let id = pair.begin(&folder, WAITING, &["--transport", plane]);
        began(&pair, &id, &folder, "here");
        pair.remote.kill();
        pair.remote.start();
        let end = pair.ended(&id);
        assert_eq!(end["state"], "error", "{plane}: {end}");
        pair.left_nothing();
    }
}

#[test]
fn a_host_that_is_killed_takes_everything_back_once_it_is_up_again() {
    for plane in planes_and_git() {
        let mut pair = Pair::new();
        let folder = pair.folder_for(plane, &[("a.txt", "one\n")]);
        let id = pair.begin(&folder, WAITING, &["--transport", plane]);
        began(&pair, &id, &folder, "here");
        pair.host.kill();
        pair.host.start();
        let cancelled = pair.host.cli(&["delegation", "cancel", &id]);
        assert_eq!(cancelled.code, 0, "{plane}: {cancelled:?}");
        let end = pair.ended(&id);
        assert!(
            end["state"] == "cancelled" || end["state"] == "error",
            "{plane}: {end}"
        );
        pair.left_nothing();
    }
}

#[test]
fn a_mount_whose_program_is_killed_never_bares_the_folder_and_the_delegation_fails() {
    if !super::can_mount() {
        return;
    }
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let task = "/run touch here; while cat a.txt > /dev/null 2>&1; do sleep 0.05; done; \
                echo bare > ./leaked; true";
    let id = pair.begin(&folder, task, &["--transport", SSHFS]);
    began(&pair, &id, &folder, "here");
    let home = pair.remote.home();
    for pid in processes_about(&home, "sshfs") {
        kill(pid, "KILL");
    }
    let end = pair.ended(&id);
    assert_eq!(end["state"], "error", "{end}");
    assert!(!pair.mount_point(&id).join("leaked").exists());
    pair.left_nothing();
}

#[test]
fn an_agent_that_is_killed_fails_the_task_in_words() {
    for plane in planes_and_git() {
        let pair = Pair::new();
        let folder = pair.folder_for(plane, &[("a.txt", "one\n")]);
        let lent = pair.delegate(&folder, "/run kill -9 $PPID", &["--transport", plane]);
        assert_eq!(lent.code, 1, "{plane}: {lent:?}");
        assert!(lent.stderr.contains("TASK_FAILED"), "{plane}: {lent:?}");
        pair.left_nothing();
    }
}

#[test]
fn a_second_writer_waits_for_the_first_and_loses_nothing() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "0\n")]);
    let first = pair.begin(&folder, "/run sleep 0.5; echo first >> a.txt", &[]);
    let second = pair.begin(&folder, "/run echo second >> a.txt", &[]);
    for id in [&first, &second] {
        let end = pair.ended(id);
        assert_eq!(end["state"], "completed", "{end}");
    }
    assert_eq!(read(folder.join("a.txt")), "0\nfirst\nsecond\n");
    pair.left_nothing();
}

#[test]
fn a_command_that_is_killed_while_it_waits_for_its_folder_takes_its_delegation_back() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let first = pair.begin(&folder, "/run sleep 1000", &[]);
    let url = pair.remote.url();
    let (dir, token) = (folder.to_str().unwrap(), pair.token.to_str().unwrap());
    let line = [
        "delegate",
        &url,
        "/run echo two > a.txt",
        "--dir",
        dir,
        "--token-file",
        token,
    ];
    for signal in ["INT", "KILL"] {
        let mut waiting = pair.host.command(&line);
        let mut waiting = waiting.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines();
        let id = loop {
            let line = lines.next().unwrap().unwrap();
            if let Some((_, rest)) = line.split_once("lent as ") {
                break rest.split_once(';').unwrap().0.to_owned();
            }
        };
        // It has asked how it goes by the time it tells of that.
        let told = lines.next().unwrap().unwrap();
        assert!(told.contains("waits for its folder"), "{told}");
        kill(waiting.id(), signal);
        waiting.wait().unwrap();
        let end = pair.ended(&id);
        assert_eq!(end["state"], "cancelled", "{end}");
    }
    assert_eq!(pair.show(&first)["ending"], Value::Null);
    pair.host.cli(&["delegation", "cancel", &first]);
    assert_eq!(read(folder.join("a.txt")), "one\n");
    pair.left_nothing();
}

#[test]
fn a_quota_that_is_reached_is_named_and_how_much_it_was() {
    for plane in planes_and_git() {
        let pair = Pair::new();
        let folder = pair.folder_for(plane, &[("a.txt", "one\n")]);
        let task = "/run head -c 300000 /dev/zero > big; sync; true";
        let more = ["--transport", plane, "--quota", "100000"];
        let lent = pair.delegate(&folder, task, &more);
        assert_eq!(lent.code, 1, "{plane}: {lent:?}");
        for word in ["TASK_FAILED", "quota of 100000 bytes"] {
            assert!(lent.stderr.contains(word), "{plane}: {lent:?}");
        }
        pair.left_nothing();
    }
}
