//! Whole processes: a command that asks the daemon, and the daemon from nothing to its first answer.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::node::Daemon;
use crate::bench::context::Home;
use crate::bench::figure::{Figure, Goal};
use crate::bench::samples::Samples;

/// What a program costs that does nothing.
const NOTHING: &str = "/bin/true";
/// Enough for a steady median of something that takes milliseconds.
const COMMAND_RUNS: usize = 200;
const WARM_UP_RUNS: usize = 10;
/// Agents that the command lists: a screen of them.
const LISTED: usize = 10;
const COLD_STARTS: usize = 21;
/// Below what a person sees, so that a command may start the daemon without saying so.
const COLD_START_GOAL_MS: f64 = 60.0;

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    Ok(vec![command(binary)?, cold_start(binary)?])
}

fn command(binary: &Path) -> anyhow::Result<Figure> {
    let daemon = Daemon::start(binary)?;
    daemon.create_sleepers(LISTED)?;
    let (mut ours, mut nothing) = (Vec::new(), Vec::new());
    for run in 0..WARM_UP_RUNS + COMMAND_RUNS {
        let mut list = daemon.home().command(binary);
        let listing = whole(list.args(["agent", "list"]))?;
        let doing_nothing = whole(&mut daemon.home().command(Path::new(NOTHING)))?;
        if run >= WARM_UP_RUNS {
            ours.push(listing);
            nothing.push(doing_nothing);
        }
    }
    let name = format!("command `agent list` of {LISTED}, median");
    Ok(
        Figure::new(name, Samples::milliseconds(&ours)?.median(), "ms")
            .beside(NOTHING, Samples::milliseconds(&nothing)?.median()),
    )
}

fn cold_start(binary: &Path) -> anyhow::Result<Figure> {
    let (mut ours, mut nothing) = (Vec::new(), Vec::new());
    for _ in 0..COLD_STARTS {
        let home = Home::new()?;
        nothing.push(whole(&mut home.command(Path::new(NOTHING)))?);
        let start = Instant::now();
        let daemon = Daemon::start_in(binary, home)?;
        ours.push(start.elapsed());
        drop(daemon);
    }
    let ours = Samples::milliseconds(&ours)?;
    Ok(Figure::new(
        "cold start to the first answer, median",
        ours.median(),
        "ms",
    )
    .beside(NOTHING, Samples::milliseconds(&nothing)?.median())
    .goal(Goal::AtMost(COLD_START_GOAL_MS)))
}

/// From start to exit.
fn whole(command: &mut Command) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("could not start {command:?}"))?;
    let duration = start.elapsed();
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(duration)
}
