//! A real daemon in a home of its own, ended with the test.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{PATIENCE, RawClient, kill, marked_processes};

/// How a daemon is to be started.
#[derive(Debug)]
pub struct Builder {
    binary: PathBuf,
    home: TempDir,
    environment: Vec<(String, String)>,
}

/// A daemon that runs, or that the test has killed.
#[derive(Debug)]
pub struct TestDaemon {
    binary: PathBuf,
    home: TempDir,
    environment: Vec<(String, String)>,
    child: Option<Child>,
}

/// What a command printed, and how it ended.
#[derive(Debug, Clone)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

impl Builder {
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let home = tempfile::Builder::new()
            .prefix("agentcraft-test-")
            .tempdir()
            .unwrap();
        Self {
            binary: binary.into(),
            home,
            // Tests run at once; only those that need the network take a port.
            environment: vec![("AGENTCRAFT_LISTEN".to_owned(), "off".to_owned())],
        }
    }

    /// The daemon listens on a port of its own on this machine.
    pub fn listening(mut self) -> Self {
        self.environment
            .retain(|(key, _)| key != "AGENTCRAFT_LISTEN");
        self.env("AGENTCRAFT_LISTEN", "127.0.0.1:0")
    }

    /// A variable for the daemon and its commands.
    pub fn env(mut self, key: &str, value: impl Into<String>) -> Self {
        self.environment.push((key.to_owned(), value.into()));
        self
    }

    /// A file below the home, before the daemon starts.
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        write(&self.home.path().join("home").join(path), content.as_ref());
        self
    }

    pub fn start(self) -> TestDaemon {
        let mut daemon = self.stopped();
        daemon.start();
        daemon
    }

    /// Everything prepared, nothing started.
    pub fn stopped(self) -> TestDaemon {
        TestDaemon {
            binary: self.binary,
            home: self.home,
            environment: self.environment,
            child: None,
        }
    }
}

impl TestDaemon {
    pub fn home(&self) -> PathBuf {
        self.home.path().join("home")
    }

    /// A folder of the test's own, outside the daemon's home.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.home.path().join("scratch").join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.home().join("agentcraft.sock")
    }

    /// The address of a daemon that listens, such as `http://127.0.0.1:41234`.
    pub fn url(&self) -> String {
        let text = fs::read_to_string(self.home().join("listener.json")).unwrap();
        let address: Value = serde_json::from_str(&text).unwrap();
        address["url"].as_str().unwrap().to_owned()
    }

    /// The owner's token.
    pub fn token(&self) -> String {
        let text = fs::read_to_string(self.home().join("listener.token")).unwrap();
        text.trim().to_owned()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the daemon runs").id()
    }

    /// What tells this test's agents from everybody else's.
    pub fn mark(&self) -> String {
        format!("AGENTCRAFT_TEST_MARK={}", self.home.path().display())
    }

    /// Every process of an agent of this test.
    pub fn agent_processes(&self) -> Vec<u32> {
        marked_processes(&self.mark())
    }

    /// Starts the daemon in the foreground of its own process and waits until it is ready.
    pub fn start(&mut self) {
        let child = self
            .try_start()
            .unwrap_or_else(|said| panic!("the daemon did not start:\n{said}"));
        self.child = Some(child);
    }

    /// Starts it, or gives what it said instead of becoming ready.
    pub fn try_start(&self) -> Result<Child, String> {
        let (child, mut log) = self.spawn_until_ready()?;
        // The rest of its log is read, so that it never blocks, and dropped.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Ok(child)
    }

    /// Starts it with a log whose reader goes away once it is ready.
    pub fn start_with_closed_log(&mut self) {
        let started = self.spawn_until_ready();
        let (child, _) = started.unwrap_or_else(|said| panic!("it did not start:\n{said}"));
        self.child = Some(child);
    }

    fn spawn_until_ready(&self) -> Result<(Child, BufReader<ChildStderr>), String> {
        let mut command = self.command(&["daemon", "start", "--foreground"]);
        // A group of its own: killing the daemon must not depend on killing its group.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("the daemon is ready") {
            if log.read_line(&mut said).unwrap() == 0 {
                child.wait().unwrap();
                return Err(said);
            }
        }
        Ok((child, log))
    }

    /// Sets a variable for the next start, or takes it away.
    pub fn set_env(&mut self, key: &str, value: Option<&str>) {
        self.environment.retain(|(other, _)| other != key);
        self.environment
            .extend(value.map(|value| (key.to_owned(), value.to_owned())));
    }

    /// SIGKILL to the daemon itself and nothing else.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the daemon runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits until the daemon has died by itself, as at a crash point.
    pub fn wait_for_death(&mut self) {
        let mut child = self.child.take().expect("the daemon runs");
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the daemon lives on");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// SIGTERM, and waits for the end.
    pub fn stop(&mut self) {
        let mut child = self.child.take().expect("the daemon runs");
        kill(child.id(), "TERM");
        child.wait().unwrap();
    }

    pub fn client(&self) -> RawClient {
        RawClient::connect(&self.socket())
    }

    /// Runs a command of the binary and waits for it.
    pub fn cli(&self, arguments: &[&str]) -> Output {
        let output = self
            .command(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Output {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap_or(-1),
        }
    }

    /// The binary with this home, not yet run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env_clear()
            .current_dir(self.home.path());
        command
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path());
        command
            .env("AGENTCRAFT_HOME", self.home())
            .env("LC_ALL", "C.UTF-8");
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command
    }

    /// Writes a template whose agents carry this test's mark, and waits until the daemon knows it.
    pub fn template(&self, name: &str, mut template: Value) {
        template["name"] = json!(name);
        if template.get("version").is_none() {
            template["version"] = json!("1.0.0");
        }
        for (key, value) in [
            ("provider", json!({"type": "custom"})),
            ("domainContext", json!({})),
        ] {
            if template.get(key).is_none() {
                template[key] = value;
            }
        }
        let (key, value) = self
            .mark()
            .split_once('=')
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .unwrap();
        template["env"][key] = json!(value);
        let path = self.home().join(format!("configs/templates/{name}.json"));
        write(&path, template.to_string().as_bytes());
        if self.child.is_some() {
            let mut client = self.client();
            let known = template["version"].clone();
            eventually("the daemon reads the template", || {
                client
                    .call("template.get", json!({"name": name}))
                    .is_ok_and(|found| found["version"] == known)
            });
        }
    }

    /// A template of a program of the test's own: `sh -c SCRIPT`.
    pub fn script_template(&self, name: &str, script: &str) {
        self.template(
            name,
            json!({"backend": {"type": "custom", "config": {"executablePath": "/bin/sh", "args": ["-c", script]}}}),
        );
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let _ = Command::new("kill").arg(child.id().to_string()).status(); // It may be gone already.
        let _ = child.wait();
        if !std::thread::panicking() {
            assert_eq!(
                self.agent_processes(),
                Vec::<u32>::new(),
                "agents outlived their daemon"
            );
        }
    }
}

/// Looks again and again until it holds; panics when the patience is over.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "did not happen: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}
