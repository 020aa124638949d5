//! Workflows on the command line and in an editor, with real processes.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

mod commands;
mod crash;
mod editor;
mod examples;
mod files;
mod model;
mod providers;
mod same;
mod sdks;
mod serving;
mod slow;
mod terminal;

use std::{
    fs,
    path::{Path, PathBuf},
};

use testkit::{Output, TestDaemon};

use crate::node;

/// A home without a daemon, and a project folder with workflows in it.
pub(crate) struct Project {
    pub(crate) home: TestDaemon,
    pub(crate) folder: PathBuf,
}

impl Project {
    pub(crate) fn new() -> Self {
        Self::of(node().stopped())
    }

    /// Processes of the runs can be found by a mark in their environment.
    fn of(mut home: TestDaemon) -> Self {
        let mark = home.mark();
        let (key, value) = mark.split_once('=').unwrap();
        home.set_env(key, Some(value));
        let program = Path::new(env!("CARGO_BIN_EXE_agentcraft"));
        let own = program.parent().unwrap().to_string_lossy().into_owned();
        let path = format!("{own}:{}", std::env::var("PATH").unwrap());
        home.set_env("PATH", Some(&path));
        let folder = home.scratch("project");
        fs::create_dir_all(folder.join(".agentcraft/workflows")).unwrap();
        Self { home, folder }
    }

    pub(crate) fn workflow(&self, name: &str, text: &str) {
        let file = format!(".agentcraft/workflows/{name}.yaml");
        fs::write(self.folder.join(file), text).unwrap();
    }

    /// All the examples of the documentation.
    fn examples(&self) {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
        for entry in fs::read_dir(examples).unwrap().flatten() {
            let to = self
                .folder
                .join(".agentcraft/workflows")
                .join(entry.file_name());
            fs::copy(entry.path(), to).unwrap();
        }
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.home.command(arguments);
        command.current_dir(&self.folder);
        command
    }

    fn cli(&self, arguments: &[&str]) -> Output {
        self.with_input(arguments, "")
    }

    fn with_input(&self, arguments: &[&str], input: &str) -> Output {
        use std::{io::Write, process::Stdio};
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        Output {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap_or(-1),
        }
    }

    /// Runs a workflow, and wants it to end so.
    pub(crate) fn run(&self, arguments: &[&str], code: i32) -> Output {
        let output = self.cli(&[&["workflow", "run"], arguments].concat());
        assert_eq!(
            output.code, code,
            "{arguments:?}:\n{}\n{}",
            output.stdout, output.stderr
        );
        output
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    /// Nothing that a run has started is there any more.
    pub(crate) fn nothing_is_left(&self) {
        testkit::eventually("everything of the run is gone", || {
            self.home.agent_processes().is_empty()
        });
    }

    /// As above, while the one who runs workflows lives, with the guardian it has.
    fn nothing_is_left_but(&self, server: &std::process::Child) {
        testkit::eventually("everything of the run is gone", || {
            let left = self.home.agent_processes();
            left.iter().all(|pid| {
                let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                *pid == server.id() || words.contains("guardian")
            })
        });
    }

    /// The id of the newest run that is not a step of another.
    fn newest(&self) -> String {
        let listed = self.cli(&["workflow", "history", "-f", "json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
        let mut runs = listed["runs"].as_array().unwrap().iter();
        let run = runs.find(|run| run["parent"].is_null());
        run.map_or("", |run| run["id"].as_str().unwrap()).to_owned()
    }
}
