//! A browser with a script in it, and what the script says and asks for.

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::Value;
use testkit::TestDaemon;

/// Where distributions put it.
const CHROMIUM: [&str; 3] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];

/// A script that runs; ended with the test.
pub(super) struct Browser {
    child: Child,
    input: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

/// A link that logs in, once.
pub(super) fn link(daemon: &TestDaemon) -> String {
    let link = daemon.cli(&["dashboard"]);
    assert_eq!(link.code, 0, "{link:?}");
    link.stdout.trim().to_owned()
}

/// Starts a script with a link that logs in; nothing where the tools are not there.
pub(super) fn browser(script: &str, daemon: &TestDaemon) -> Option<Browser> {
    browser_at(script, &[daemon])
}

/// The same with a link to each of the nodes.
pub(super) fn browser_at(script: &str, daemons: &[&TestDaemon]) -> Option<Browser> {
    let modules = std::env::var_os("AGENTCRAFT_TEST_CACHE")
        .map(|cache| PathBuf::from(cache).join("node-dashboard/node_modules"))
        .filter(|modules| modules.join("playwright-core").exists());
    let Some(modules) = modules else {
        println!("skipped: ./test installs the packages of tests/node/dashboard.json");
        return None;
    };
    let Some(chromium) = CHROMIUM.iter().find(|path| PathBuf::from(path).exists()) else {
        println!("skipped: ./test installs Chromium");
        return None;
    };
    let links = daemons.iter().map(|daemon| link(daemon));
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/dashboard")
        .join(script);
    let mut child = Command::new("node")
        .arg(script)
        .args(links)
        .env("DASHBOARD_MODULES", modules)
        .env("DASHBOARD_CHROMIUM", chromium)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    Some(Browser {
        input: child.stdin.take().unwrap(),
        lines: output.lines(),
        child,
    })
}

impl Browser {
    /// Reads its steps to the end and does what it asks for. A step that failed fails the test.
    pub(super) fn finish(&mut self, mut act: impl FnMut(&str)) {
        self.finish_answering(|demand| {
            act(demand);
            "done".to_owned()
        });
    }

    /// The same, where what it asks for is answered.
    pub(super) fn finish_answering(&mut self, mut act: impl FnMut(&str) -> String) {
        let mut steps = Vec::new();
        for line in self.lines.by_ref() {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if let Some(demand) = line["demand"].as_str() {
                writeln!(self.input, "{}", act(demand)).unwrap();
            } else if let Some(failed) = line["failed"].as_str() {
                let step = line["step"].as_str().unwrap_or("the script");
                panic!("{step}: {failed}\nafter: {steps:#?}");
            } else {
                steps.extend(line["step"].as_str().map(str::to_owned));
            }
        }
        assert!(self.child.wait().unwrap().success(), "after {steps:#?}");
        assert!(!steps.is_empty());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        // It closes its browser when it is asked to end; a kill would leave the browser behind.
        testkit::kill(self.child.id(), "TERM");
        let _ = self.child.wait();
    }
}
