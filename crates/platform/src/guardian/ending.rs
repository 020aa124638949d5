//! The guardian's own body: read the pipe until it closes, then end every group, every leftover and every mount.
//!
//! It is synchronous and small, because it must work when everything else has failed.

use std::{
    collections::BTreeSet,
    io::{self, Read},
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Signal, kill_process_group};

use super::line::{LINE_BYTES_MAX, Line};
use crate::{
    owner::{Owner, OwnerScope},
    pid::{ProcessRef, pid_of, wait_exited},
    snapshot::{Selection, Snapshot, kill_until_gone},
};

/// How long groups may take over SIGTERM. The whole ending stays below two seconds.
const TERM_GRACE: Duration = Duration::from_secs(1);

/// How long the killing may take; SIGKILL acts at once unless the kernel holds a process.
const KILL_MAX: Duration = Duration::from_millis(600);

/// How long all the unmounting together may take; it is lazy, so it does not wait for the file system.
const UNMOUNT_MAX: Duration = Duration::from_millis(300);

/// What is under watch.
#[derive(Debug, Default, Eq, PartialEq)]
struct Watched {
    owner: Option<Owner>,
    groups: BTreeSet<u32>,
    mounts: BTreeSet<PathBuf>,
}

/// What the hidden subcommand calls with its standard input. Returns after the pipe has closed and all has ended.
pub fn run(stdin: impl Read) -> ExitCode {
    let watched = read_until_closed(stdin);
    if watched.end() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn read_until_closed(mut stdin: impl Read) -> Watched {
    let mut watched = Watched::default();
    let mut pending: Vec<u8> = Vec::new();
    let mut chunk = [0; LINE_BYTES_MAX];
    loop {
        let count = match stdin.read(&mut chunk) {
            Ok(0) => return watched,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return watched, // A pipe that cannot be read is as good as closed.
        };
        for byte in &chunk[..count] {
            if *byte == b'\n' {
                // Nobody can be told of a bad line, and the good ones still count.
                if pending.len() < LINE_BYTES_MAX
                    && let Some(line) = Line::parse(&pending)
                {
                    watched.apply(line);
                }
                pending.clear();
            } else if pending.len() < LINE_BYTES_MAX {
                pending.push(*byte);
            }
        }
    }
}

impl Watched {
    fn apply(&mut self, line: Line) {
        match line {
            Line::Owner(owner) => self.owner = Some(owner),
            Line::AddGroup(group) => {
                self.groups.insert(group);
            }
            Line::RemoveGroup(group) => {
                self.groups.remove(&group);
            }
            Line::AddMount(path) => {
                self.mounts.insert(path);
            }
            Line::RemoveMount(path) => {
                self.mounts.remove(&path);
            }
        }
    }

    /// True if nothing is left.
    fn end(&self) -> bool {
        self.signal_groups(Signal::TERM);
        let deadline = Instant::now() + TERM_GRACE;
        while Instant::now() < deadline && !self.groups.is_empty() {
            let members = Snapshot::fresh().members(&self.groups);
            if members.is_empty() {
                break;
            }
            wait_exited(&members, deadline);
        }
        self.signal_groups(Signal::KILL);
        let swept_clean = match &self.owner {
            Some(owner) => {
                let selection = Selection {
                    scope: &OwnerScope::boot(owner),
                    groups: &self.groups,
                    spare: &[],
                };
                kill_until_gone(&selection, Instant::now() + KILL_MAX).left == 0
            }
            None => true, // The groups were killed above, and there is no token to look for.
        };
        self.unmount();
        swept_clean
    }

    fn signal_groups(&self, signal: Signal) {
        for group in self.groups.iter().copied().filter_map(pid_of) {
            let _ = kill_process_group(group, signal); // Most are gone already.
        }
    }

    fn unmount(&self) {
        let started: Vec<_> = self
            .mounts
            .iter()
            .filter_map(|mount| {
                Command::new("fusermount3")
                    .arg("-uz")
                    .arg("--")
                    .arg(mount)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .ok()
            })
            .collect();
        let processes: Vec<_> = started
            .iter()
            .filter_map(|child| ProcessRef::of(child.id()))
            .collect();
        wait_exited(&processes, Instant::now() + UNMOUNT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_on_each_group_and_mount_counts_and_noise_does_not() {
        let long = "x".repeat(3 * LINE_BYTES_MAX);
        let text = format!(
            "=o h:b\n+g 70\nnoise\n+g 71\n-g 70\n+m {long}\n+m /a\n+m /b c\n-m /a\n+g 1\n+g 72\n+g 7"
        );
        let expected = Watched {
            owner: Some(Owner::new("h", "b").unwrap()),
            groups: BTreeSet::from([71, 72]),
            mounts: BTreeSet::from(["/b c".into()]),
        };
        assert_eq!(read_until_closed(text.as_bytes()), expected);
    }

    #[test]
    fn a_pipe_that_closes_without_a_word_ends_nothing() {
        assert!(Watched::default().end());
    }
}
