//! What a run of a workflow costs above its commands: beside a bare loop, and beside the builders that are installed.

mod files;
mod peers;
mod scale;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::context::{Context, Home};
use super::daemon::{load, resident_kib};
use super::figure::{Figure, Goal};
use super::samples::Samples;
pub(super) use files::write_many;
pub(super) use peers::bare_sequence;
use peers::{Peer, bare_parallel};

/// Steps of the short runs.
const STEPS: usize = 100;
/// Whole runs, of which the median counts.
const ROUNDS: usize = 5;
/// What every step does: a shell that ends at once.
const COMMAND: &str = "true";
/// Writing every move down and guarding every process may cost half of what the bare spawns do.
const BARE_GOAL: f64 = 1.5;
/// Somebody who changes from a builder loses nothing.
const BUILDER_GOAL: f64 = 1.0;
/// The setting under which every move is on the disk before it is acted on.
const POWER: &str = "durability = \"power\"\n";

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let binary = context.release_binary()?;
    let mut figures: Vec<Figure> = load().into_iter().collect();
    figures.extend(short_runs(binary)?);
    figures.extend(scale::many_files(binary)?);
    figures.extend(scale::many_steps(binary)?);
    Ok(figures)
}

/// How steps follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Sequence,
    Parallel,
}

impl Shape {
    fn word(self) -> &'static str {
        match self {
            Self::Sequence => "sequential",
            Self::Parallel => "parallel",
        }
    }
}

fn short_runs(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let (home, safe) = (Home::new()?, Home::new()?);
    fs::write(safe.path().join("config.toml"), POWER).context("could not write config.toml")?;
    let mut figures = Vec::new();
    for shape in [Shape::Sequence, Shape::Parallel] {
        let file = files::write(&home, shape, STEPS)?;
        let mut peers = Vec::new();
        for peer in [Peer::Make, Peer::Just] {
            match peer.prepare(&home, shape, STEPS)? {
                Ok(command) => peers.push((peer, command, Vec::new())),
                Err(why) => {
                    let name = format!("{STEPS} {} steps beside {}", shape.word(), peer.program());
                    figures.push(Figure::left_out(name, why));
                }
            }
        }
        let (mut ours, mut slow, mut bare) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(milliseconds(&mut workflow_run(&home, binary, &file))?);
            slow.push(milliseconds(&mut workflow_run(&safe, binary, &file))?);
            bare.push(match shape {
                Shape::Sequence => bare_sequence(&home, STEPS)?,
                Shape::Parallel => bare_parallel(&home, STEPS)?,
            });
            for (_, command, times) in &mut peers {
                times.push(milliseconds(command)?);
            }
        }
        let name = format!("{STEPS} {} steps", shape.word());
        let (ours, bare) = (Samples::new(ours)?.median(), Samples::new(bare)?.median());
        let beside_bare = Figure::new(&name, ours, "ms").beside("bare spawns", bare);
        figures.push(match shape {
            Shape::Sequence => beside_bare.goal(Goal::RatioAtMost(BARE_GOAL)),
            Shape::Parallel => beside_bare,
        });
        let slow = Samples::new(slow)?.median();
        let name_of_safe = format!("{name}, safe against power loss");
        figures.push(Figure::new(name_of_safe, slow, "ms").beside("bare spawns", bare));
        for (peer, _, times) in peers {
            let times = Samples::new(times)?.median();
            let figure = Figure::new(&name, ours, "ms").beside(peer.program(), times);
            figures.push(match peer {
                Peer::Make => figure,
                Peer::Just => figure.goal(Goal::RatioAtMost(BUILDER_GOAL)),
            });
        }
    }
    Ok(figures)
}

fn workflow_run(home: &Home, binary: &Path, file: &Path) -> Command {
    let mut command = home.command(binary);
    command.args(["workflow", "run"]).arg(file);
    command
}

/// How long a command takes that must succeed.
fn milliseconds(command: &mut Command) -> anyhow::Result<f64> {
    let start = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("could not start {command:?}"))?;
    let duration = start.elapsed();
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(duration.as_secs_f64() * 1000.0)
}

/// The most memory that a command which must succeed has at a time, in KiB, as far as looking often finds it.
fn peak_kib(command: &mut Command) -> anyhow::Result<f64> {
    const LOOK_AGAIN: Duration = Duration::from_millis(5);
    let mut child = command
        .spawn()
        .with_context(|| format!("could not start {command:?}"))?;
    let mut peak: f64 = 0.0;
    loop {
        if let Some(status) = child.try_wait().context("could not look at a command")? {
            ensure!(status.success(), "{command:?} ended with {status}");
            return Ok(peak);
        }
        // In its last moment it has no memory to tell of.
        peak = peak.max(resident_kib(child.id()).unwrap_or(0.0));
        thread::sleep(LOOK_AGAIN);
    }
}
