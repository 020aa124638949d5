//! How long the command takes to start and end, beside a program that does nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::context::{Context, Home};
use super::figure::{Figure, Goal};
use super::samples::Samples;

/// Enough for a steady p99, and over in seconds.
const RUNS: usize = 300;
/// Fills the page cache before anything counts.
const WARM_UP_RUNS: usize = 20;
/// A person does not notice a tenth of a second; a script that calls us often notices a fifth of that.
const START_GOAL_MS: f64 = 20.0;

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let binary = context.release_binary()?;
    let home = Home::new()?;
    let ours = measure(&home, binary, &["--version"])?;
    let nothing = measure(&home, Path::new("/bin/true"), &[])?;
    let beside = "/bin/true";
    Ok(vec![
        Figure::new("start, median", ours.median(), "ms")
            .beside(beside, nothing.median())
            .goal(Goal::AtMost(START_GOAL_MS)),
        Figure::new("start, p95", ours.p95(), "ms").beside(beside, nothing.p95()),
        Figure::new("start, p99", ours.p99(), "ms").beside(beside, nothing.p99()),
    ])
}

fn measure(home: &Home, program: &Path, arguments: &[&str]) -> anyhow::Result<Samples> {
    let mut durations: Vec<Duration> = Vec::with_capacity(RUNS);
    for run in 0..WARM_UP_RUNS + RUNS {
        let mut command = home.command(program);
        command.args(arguments);
        let start = Instant::now();
        let status = command
            .status()
            .with_context(|| format!("could not start {command:?}"))?;
        let duration = start.elapsed();
        ensure!(status.success(), "{command:?} ended with {status}");
        if run >= WARM_UP_RUNS {
            durations.push(duration);
        }
    }
    Samples::milliseconds(&durations)
}
