//! The tour as a newcomer takes it: every line of its blocks, in order, by a shell in an empty home.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use testkit::{eventually, kill, marked_processes};

/// The node of the tour, in a home that nothing else has ever used.
struct Tour {
    home: tempfile::TempDir,
    node: Child,
}

/// So that what the tour leaves running is found.
const MARK: &str = "AGENTCRAFT_TEST_TOUR";

impl Tour {
    fn begin() -> Self {
        let home = tempfile::Builder::new()
            .prefix("agentcraft-tour-")
            .tempdir()
            .unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        let program = home.path().join("bin/agentcraft");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_agentcraft"), &program).unwrap();
        let node = command(home.path(), &program).arg("up").spawn().unwrap();
        let tour = Self { home, node };
        eventually("the node listens", || tour.url().is_some());
        tour
    }

    fn url(&self) -> Option<String> {
        let file = self.home.path().join(".agentcraft/listener.json");
        let address: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        Some(address["url"].as_str()?.to_owned())
    }

    fn mark(&self) -> String {
        format!("{MARK}={}", self.home.path().display())
    }
}

impl Drop for Tour {
    fn drop(&mut self) {
        let _ = self.node.kill(); // It has ended, if all went well.
        let _ = self.node.wait();
    }
}

fn command(home: &Path, program: &Path) -> Command {
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("HOME", home)
        .env("PATH", format!("{}:{path}", home.join("bin").display()))
        .env("LANG", "C.UTF-8")
        .env("AGENTCRAFT_LISTEN", "127.0.0.1:0")
        .env(MARK, home)
        .current_dir(home)
        .stdin(Stdio::null());
    command
}

/// The lines of every block after the first, which starts the node.
fn lines_of(page: &str) -> Vec<&str> {
    let blocks = page.lines().filter_map(|line| line.strip_prefix("    "));
    blocks.skip_while(|line| *line == "agentcraft up").collect()
}

/// What the tour types, with our port, and with a try again where a person would have been slower.
fn script(page: &str, url: &str) -> String {
    let mut script = String::from("set -eu\n");
    for line in lines_of(page) {
        let line = line.replace("http://127.0.0.1:7420", url);
        let is_call = line.starts_with("agentcraft office call");
        match () {
            () if line.starts_with("claude ") => continue, // Somebody else's program.
            () if is_call => script.push_str(&format!("until {line}; do sleep 0.1; done\n")),
            () => script.push_str(&format!("{line}\n")),
        }
    }
    script + "echo the tour is over\n"
}

#[test]
fn every_line_of_the_tour_works_in_an_empty_home() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/tour.md");
    let page = fs::read_to_string(page).unwrap();
    let mut tour = Tour::begin();
    let script = script(&page, &tour.url().unwrap());
    let mut shell = command(tour.home.path(), Path::new("/bin/bash"));
    let output = shell.args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    // What runs in the background may have the last word.
    for part in [
        "the tour is over\n",
        "hello Ada",
        "\"awaiting\"",
        "agentcraft_list_agents",
        "/login?code=",
    ] {
        assert!(said.contains(part), "{part} was not said: {said}\n{errors}");
    }
    kill(tour.node.id(), "INT");
    assert!(tour.node.wait().unwrap().success());
    eventually("nothing is left running", || {
        marked_processes(&tour.mark()).is_empty()
    });
}
