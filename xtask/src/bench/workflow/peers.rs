//! What else runs commands one after the other or at once: a loop of our own, and builders that may be installed.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::{COMMAND, Shape};
use crate::bench::context::Home;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    Make,
    Just,
}

impl Peer {
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Make => "make",
            Self::Just => "just",
        }
    }

    /// The command that does the same steps, or why there is none.
    pub(super) fn prepare(
        self,
        home: &Home,
        shape: Shape,
        steps: usize,
    ) -> anyhow::Result<Result<Command, String>> {
        let asked = Command::new(self.program())
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if asked.is_err() {
            return Ok(Err(format!("{} is not installed", self.program())));
        }
        if (self, shape) == (Self::Just, Shape::Parallel) {
            return Ok(Err("just runs recipes one after the other".to_owned()));
        }
        let path = home
            .path()
            .join(format!("{}-{}", self.program(), shape.word()));
        let text = match self {
            Self::Make => makefile(steps),
            Self::Just => justfile(steps),
        };
        fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))?;
        let mut command = home.command(Path::new(self.program()));
        match self {
            Self::Make => {
                let jobs = if shape == Shape::Parallel { steps } else { 1 };
                command.arg(format!("-j{jobs}")).arg("-f").arg(&path);
            }
            Self::Just => {
                command.arg("--justfile").arg(&path).arg("all");
            }
        }
        Ok(Ok(command))
    }
}

fn makefile(steps: usize) -> String {
    let names = names(steps);
    let mut text = format!(".PHONY: all {names}\nall: {names}\n");
    for number in 0..steps {
        // Written with its shell, because a command without one would be started without one.
        let _ = write!(text, "step-{number}:\n\t@sh -c {COMMAND}\n"); // A text takes everything.
    }
    text
}

fn justfile(steps: usize) -> String {
    let mut text = format!("all: {}\n", names(steps));
    for number in 0..steps {
        let _ = write!(text, "step-{number}:\n    @{COMMAND}\n"); // As above.
    }
    text
}

fn names(steps: usize) -> String {
    let names: Vec<String> = (0..steps).map(|number| format!("step-{number}")).collect();
    names.join(" ")
}

/// Milliseconds of the same commands one after the other, with nothing around them.
pub(in crate::bench) fn bare_sequence(home: &Home, steps: usize) -> anyhow::Result<f64> {
    let start = Instant::now();
    for _ in 0..steps {
        finish(spawn(home)?)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1000.0)
}

/// Milliseconds of the same commands all at once.
pub(super) fn bare_parallel(home: &Home, steps: usize) -> anyhow::Result<f64> {
    let start = Instant::now();
    let children: anyhow::Result<Vec<Child>> = (0..steps).map(|_| spawn(home)).collect();
    for child in children? {
        finish(child)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1000.0)
}

fn spawn(home: &Home) -> anyhow::Result<Child> {
    let mut command = home.command(Path::new("/bin/sh"));
    command.args(["-c", COMMAND]);
    command.spawn().context("could not start a shell")
}

fn finish(mut child: Child) -> anyhow::Result<()> {
    let status = child.wait().context("could not wait for a shell")?;
    ensure!(status.success(), "a shell ended with {status}");
    Ok(())
}
