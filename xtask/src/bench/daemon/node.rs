//! A daemon in an empty home of its own, ended with its agents however the measurement ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::connection::Connection;
use crate::bench::context::Home;

/// The template of agents that do nothing.
pub(super) const SLEEPER: &str = "sleeper";
/// What they run.
pub(super) const SLEEP: (&str, &str) = ("/bin/sleep", "1000");

/// Far more than a start takes, also on a machine that compiles.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The daemon gives its agents a grace of seconds; after this it is killed, and its guardian ends them.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// Short beside a start, long beside a failed connect.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

#[derive(Debug)]
pub(in crate::bench) struct Daemon {
    child: Child,
    home: Home,
}

impl Daemon {
    /// A daemon that answers and has the template of sleepers.
    pub(super) fn start(binary: &Path) -> anyhow::Result<Self> {
        let home = Home::new()?;
        let folder = home.path().join("configs/templates");
        fs::create_dir_all(&folder).context("could not make the folder of templates")?;
        fs::write(
            folder.join(format!("{SLEEPER}.json")),
            template().to_string(),
        )
        .context("could not write the template of sleepers")?;
        Self::start_in(binary, home)
    }

    /// A daemon in this home, from its start to its first answer.
    pub(in crate::bench) fn start_in(binary: &Path, home: Home) -> anyhow::Result<Self> {
        let child = spawn(binary, &home)?;
        let mut daemon = Self { child, home };
        daemon.wait_for_answer()?;
        Ok(daemon)
    }

    /// Ends the daemon and starts another one in the same home.
    pub(in crate::bench) fn restart(&mut self, binary: &Path) -> anyhow::Result<()> {
        self.stop();
        self.child = spawn(binary, &self.home)?;
        self.wait_for_answer()
    }

    fn wait_for_answer(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Ok(mut connection) = self.connect() {
                connection.call("daemon.ping", &json!({}))?;
                return Ok(());
            }
            let ended = self
                .child
                .try_wait()
                .context("could not look at the daemon")?;
            if let Some(status) = ended {
                let said = fs::read_to_string(log_path(&self.home)).unwrap_or_default();
                bail!("the daemon ended with {status}: {said}");
            }
            ensure!(
                Instant::now() < deadline,
                "the daemon did not answer within {START_LIMIT:?}"
            );
            thread::sleep(LOOK_AGAIN);
        }
    }

    pub(in crate::bench) fn home(&self) -> &Home {
        &self.home
    }

    pub(in crate::bench) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(in crate::bench) fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(&self.home.path().join("agentcraft.sock"))
    }

    /// Creates sleepers with the numbers of the range in their names.
    pub(super) fn create_sleepers(&self, count: usize) -> anyhow::Result<()> {
        let mut connection = self.connect()?;
        for number in 0..count {
            connection.call("agent.create", &sleeper(&sleeper_name(number)))?;
        }
        Ok(())
    }

    /// Memory of the daemon's process that is in RAM, in KiB.
    pub(in crate::bench) fn resident_kib(&self) -> anyhow::Result<f64> {
        resident_kib(self.child.id())
    }

    fn stop(&mut self) {
        let asked = self
            .connect()
            .and_then(|mut connection| connection.call("daemon.shutdown", &json!({})));
        let deadline = Instant::now() + STOP_LIMIT;
        while asked.is_ok() && Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill(); // It may be gone already.
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(binary: &Path, home: &Home) -> anyhow::Result<Child> {
    let log = fs::File::create(log_path(home)).context("could not make the daemon's log")?;
    home.command(binary)
        .args(["daemon", "start", "--foreground"])
        .stderr(log)
        .spawn()
        .with_context(|| format!("could not start {}", binary.display()))
}

/// Memory of a process that is in RAM, in KiB.
pub(in crate::bench) fn resident_kib(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
    resident_in(&status).with_context(|| format!("{path} has no VmRSS"))
}

/// The params that create a sleeper.
pub(super) fn sleeper(name: &str) -> Value {
    json!({"name": name, "template": SLEEPER})
}

pub(super) fn sleeper_name(number: usize) -> String {
    format!("sleeper-{number}")
}

fn template() -> Value {
    let (program, argument) = SLEEP;
    json!({
        "name": SLEEPER,
        "version": "1.0.0",
        "provider": {"type": "custom"},
        "domainContext": {},
        "backend": {"type": "custom", "config": {"executablePath": program, "args": [argument]}},
    })
}

fn log_path(home: &Home) -> PathBuf {
    home.path().join("bench.log")
}

fn resident_in(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_from_the_status_of_a_process() {
        assert_eq!(
            resident_in("Name:\tx\nVmRSS:\t    5120 kB\nThreads:\t1\n"),
            Some(5120.0)
        );
        assert_eq!(resident_in("Name:\tx\n"), None);
    }
}
