//! A host and a remote, each with a daemon and a home of its own.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::bench::context::Home;
use crate::bench::daemon::Daemon;

const HOST: &str = "[http]\nlisten = \"127.0.0.1:0\"\n[lending]\nsftp = \"127.0.0.1:0\"\n";
const REMOTE: &str = "[http]\nlisten = \"127.0.0.1:0\"\n[lending]\nexecutor = \"worker\"\n";

/// Written by a node when it listens, a moment after it answers on its socket.
const ADDRESS: &str = "listener.json";
const LISTEN_LIMIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Nodes {
    binary: PathBuf,
    host: Daemon,
    remote: Daemon,
    token: PathBuf,
    folders: tempfile::TempDir,
    made: Cell<usize>,
}

/// What came of one delegation.
#[derive(Debug)]
pub(super) struct Lent {
    /// What the agent's command printed.
    pub(super) said: String,
    whole_ms: f64,
    task_ms: f64,
}

impl Lent {
    /// What lending cost beside the agent's own time.
    pub(super) fn beyond_ms(&self) -> f64 {
        self.whole_ms - self.task_ms
    }
}

impl Nodes {
    pub(super) fn start(binary: &Path) -> anyhow::Result<Self> {
        let home = |settings: &str| -> anyhow::Result<Daemon> {
            let home = Home::new()?;
            let templates = home.path().join("configs/templates");
            fs::create_dir_all(&templates).context("could not make the folder of templates")?;
            let kinds = [
                "read", "edit", "delete", "move", "search", "execute", "other",
            ];
            let rule = json!({"kind": kinds, "decision": "allow", "destructive": true});
            let worker = json!({
                "name": "worker", "version": "1.0.0", "backend": {"type": "builtin"},
                "domainContext": {}, "permissions": {"rules": [rule]},
            });
            fs::write(templates.join("worker.json"), worker.to_string())
                .context("could not write the template")?;
            fs::write(home.path().join("config.toml"), settings)
                .context("could not write the settings")?;
            let daemon = Daemon::start_in(binary, home)?;
            let address = daemon.home().path().join(ADDRESS);
            let deadline = Instant::now() + LISTEN_LIMIT;
            while !address.exists() {
                ensure!(Instant::now() < deadline, "a node does not listen");
                thread::sleep(LOOK_AGAIN);
            }
            Ok(daemon)
        };
        let folders = tempfile::tempdir().context("could not make a folder")?;
        let nodes = Self {
            host: home(HOST)?,
            remote: home(REMOTE)?,
            token: folders.path().join("token"),
            binary: binary.to_owned(),
            folders,
            made: Cell::new(0),
        };
        let token = nodes.command(
            &nodes.remote,
            &["delegation", "admit", "host", "-f", "quiet"],
        )?;
        fs::write(&nodes.token, token).context("could not write the token")?;
        Ok(nodes)
    }

    /// An empty folder to lend.
    pub(super) fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        self.made.set(self.made.get() + 1);
        let folder = self
            .folders
            .path()
            .join(format!("{name}-{}", self.made.get()));
        fs::create_dir_all(&folder).context("could not make a folder")?;
        Ok(folder)
    }

    /// Lends it, and waits for the end.
    pub(super) fn lend(&self, folder: &Path, plane: &str, task: &str) -> anyhow::Result<Lent> {
        let more = ["--transport", plane, "--format", "json"];
        let end = self.command(
            &self.host,
            &[
                &self
                    .line(folder, task)?
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>()[..],
                &more,
            ]
            .concat(),
        )?;
        let end: Value = serde_json::from_str(&end).context("the end is no JSON")?;
        ensure!(end["state"] == "completed", "it was not completed: {end}");
        let id = end["id"].as_str().context("the end has no id")?;
        let there = self.command(&self.remote, &["delegation", "show", id])?;
        let there: Value = serde_json::from_str(&there).context("the remote's side is no JSON")?;
        let moment = |view: &Value, text: &str| {
            let lines = view["log"].as_array().into_iter().flatten();
            let mut lines = lines.filter(|line| line["text"] == text);
            let at = lines.next_back().and_then(|line| line["at"].as_str());
            milliseconds(at.with_context(|| format!("{text:?} was not logged: {view}"))?)
        };
        let begun = milliseconds(end["createdAt"].as_str().context("it has no beginning")?)?;
        Ok(Lent {
            said: end["ending"]["completed"]["summary"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            whole_ms: moment(&end, "completed")? - begun,
            task_ms: moment(&there, "the task has ended")? - moment(&there, "the task has begun")?,
        })
    }

    /// A folder that must not be lent.
    pub(super) fn refused(&self, folder: &Path) -> anyhow::Result<()> {
        let mut command = self.host.home().command(&self.binary);
        let output = command
            .args(self.line(folder, "/pwd")?)
            .stderr(Stdio::piped())
            .output();
        let output = output.context("could not start the command")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            !output.status.success() && said.contains("files"),
            "it was lent: {said}"
        );
        Ok(())
    }

    fn line(&self, folder: &Path, task: &str) -> anyhow::Result<Vec<String>> {
        let address = fs::read_to_string(self.remote.home().path().join(ADDRESS))
            .context("the remote does not listen")?;
        let address: Value = serde_json::from_str(&address).context("its address is no JSON")?;
        let url = address["url"].as_str().context("it has no address")?;
        let folder = folder.to_str().context("the folder's name is no text")?;
        let token = self.token.to_str().context("the token's path is no text")?;
        let words = [
            "delegate",
            url,
            task,
            "--dir",
            folder,
            "--token-file",
            token,
        ];
        Ok(words.map(str::to_owned).to_vec())
    }

    fn command(&self, at: &Daemon, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = at.home().command(&self.binary);
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = command.output().context("could not start the command")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{arguments:?} failed: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Of the day, of a moment as the log writes it; a benchmark does not run over midnight for long.
fn milliseconds(moment: &str) -> anyhow::Result<f64> {
    let clock = moment
        .split(['T', 'Z'])
        .nth(1)
        .context("a moment has a time")?;
    let mut parts = clock.split(':').map(str::parse::<f64>);
    let mut next = || {
        parts
            .next()
            .context("a time has three parts")?
            .context("a part is a number")
    };
    let (hours, minutes, seconds) = (next()?, next()?, next()?);
    Ok(((hours * 60.0 + minutes) * 60.0 + seconds) * 1000.0)
}
