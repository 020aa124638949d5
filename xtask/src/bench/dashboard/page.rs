//! A browser with the page open, driven by a script that says what it measures line by line.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::Value;

const SCRIPT: &str = include_str!("page.mjs");
const CHROMIUM: &str = "/usr/bin/chromium";

/// Where the browser and its driver are.
#[derive(Debug)]
pub(super) struct Tools {
    modules: PathBuf,
}

/// What `./test` has installed; nothing where it has not.
pub(super) fn tools() -> Option<Tools> {
    let cache = match std::env::var_os("AGENTCRAFT_TEST_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".cache/agentcraft-test"),
    };
    let modules = cache.join("node-dashboard/node_modules");
    let are_there = modules.join("playwright-core").exists() && PathBuf::from(CHROMIUM).exists();
    are_there.then_some(Tools { modules })
}

#[derive(Debug)]
pub(super) struct Page {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Page {
    /// Logs in with the link and shows the session.
    pub(super) fn open(tools: &Tools, link: &str, session: &str) -> anyhow::Result<Self> {
        let mut child = Command::new("node")
            .args(["--input-type=module", "-e", SCRIPT, "--", link, session])
            .env("DASHBOARD_MODULES", &tools.modules)
            .env("DASHBOARD_CHROMIUM", CHROMIUM)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start node")?;
        let output = child.stdout.take().context("node has no output")?;
        Ok(Self {
            input: child.stdin.take(),
            lines: BufReader::new(output).lines(),
            child,
        })
    }

    /// Milliseconds from a reload until something can be typed, the median of some.
    pub(super) fn usable(&mut self) -> anyhow::Result<f64> {
        self.told("usable")
    }

    /// The same in another window, while everything streams.
    pub(super) fn usable_meanwhile(&mut self) -> anyhow::Result<f64> {
        self.ask("usable")?;
        self.told("usable")
    }

    /// What the process of the page holds as the system counts it, in MiB: its elements and pictures, too.
    pub(super) fn resident(&mut self) -> anyhow::Result<f64> {
        self.ask("resident")?;
        self.told("resident")
    }

    /// What the page holds after its garbage was collected, in MiB.
    pub(super) fn memory(&mut self) -> anyhow::Result<f64> {
        self.ask("memory")?;
        self.told("memory")
    }

    /// Waits for the end of the turn, and gives the updates that are there, each once and in order.
    pub(super) fn finish(&mut self) -> anyhow::Result<u32> {
        self.ask("finish")?;
        let shown = self.told("shown")?;
        self.input = None;
        self.child.wait().context("could not wait for node")?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "It is a count of some thousands."
        )]
        Ok(shown as u32)
    }

    fn ask(&mut self, what: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the browser is closed")?;
        writeln!(input, "{what}").context("the browser's script has ended")
    }

    fn told(&mut self, key: &str) -> anyhow::Result<f64> {
        let line = self.lines.next().context("the browser's script ended")?;
        let line: Value = serde_json::from_str(&line.context("could not read its words")?)
            .context("the browser's script printed no JSON")?;
        match line[key].as_f64() {
            Some(value) => Ok(value),
            None => bail!("the browser's script said {line} instead of {key}"),
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.input = None; // The script closes its browser when nobody asks any more.
        let _ = self.child.wait();
    }
}
