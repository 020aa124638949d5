//! On which cores the two ends of a conversation run. A wake-up on another core costs several times one on the same
//! core, and the kernel's choice is a lottery, so figures of single exchanges fix it.

use std::fs;
use std::process::{Command, id};

use anyhow::Context as _;

use crate::workspace::output_of;

/// Threads end rarely, so that even a second failure means something else.
const BIND_TRIES: usize = 5;

/// Processes that stay on their cores until this is dropped. Of ourselves only the main thread is bound.
#[derive(Debug)]
pub(in crate::bench) struct Pinned {
    pids: Vec<u32>,
    allowed: String,
}

impl Pinned {
    /// Us and the others on the same core.
    pub(in crate::bench) fn together(pids: &[u32]) -> anyhow::Result<Self> {
        let allowed = allowed()?;
        let core = *cores(&allowed).first().context("there is no core")?;
        Self::pin(pids, allowed, core, core)
    }

    /// Us on one core and the others on another; none where the machine has only one.
    pub(in crate::bench) fn apart(pids: &[u32]) -> anyhow::Result<Option<Self>> {
        let allowed = allowed()?;
        match cores(&allowed)[..] {
            [first, second, ..] => Self::pin(pids, allowed, first, second).map(Some),
            _ => Ok(None),
        }
    }

    fn pin(pids: &[u32], allowed: String, own: usize, others: usize) -> anyhow::Result<Self> {
        let pinned = Self {
            pids: pids.to_vec(),
            allowed,
        };
        bind_main_thread(&own.to_string())?;
        for pid in pids {
            bind_all_threads(*pid, &others.to_string())?;
        }
        Ok(pinned)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = bind_main_thread(&self.allowed); // Later figures are slower then, and nothing worse.
        for pid in &self.pids {
            let _ = bind_all_threads(*pid, &self.allowed); // It may be gone already.
        }
    }
}

fn bind_main_thread(cores: &str) -> anyhow::Result<()> {
    output_of(Command::new("taskset").args(["-p", "-c", cores, &id().to_string()])).map(drop)
}

fn bind_all_threads(pid: u32, cores: &str) -> anyhow::Result<()> {
    let mut bind = Command::new("taskset");
    bind.args(["-a", "-p", "-c", cores, &pid.to_string()]);
    // It gives up when a thread ends while it goes through them.
    for _ in 1..BIND_TRIES {
        if output_of(&mut bind).is_ok() {
            return Ok(());
        }
    }
    output_of(&mut bind).map(drop)
}

/// The cores we may use, as the kernel writes them: `0-3,8`.
fn allowed() -> anyhow::Result<String> {
    let status = fs::read_to_string("/proc/self/status").context("could not read our status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.map(|list| list.trim().to_owned())
        .context("our status does not tell our cores")
}

fn cores(list: &str) -> Vec<usize> {
    let ranges = list.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cores_is_read_with_its_ranges() {
        assert_eq!(cores("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(cores("7"), [7]);
        assert_eq!(cores(""), Vec::<usize>::new());
    }
}
