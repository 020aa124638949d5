//! What a run of a workflow costs above its commands: beside a bare loop, and beside the builders that are installed.

mod files;
mod peers;
mod scale;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::context::{Context, Home};
use super::daemon::load;
use super::figure::Figure;
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
    let home = Home::new()?;
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
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(milliseconds(&mut workflow_run(&home, binary, &file))?);
            bare.push(match shape {
                Shape::Sequence => bare_sequence(&home, STEPS)?,
                Shape::Parallel => bare_parallel(&home, STEPS)?,
            });
            for (_, command, times) in &mut peers {
                times.push(milliseconds(command)?);
            }
        }
        let name = format!("{STEPS} {} steps", shape.word());
        let ours = Samples::new(ours)?.median();
        figures.push(
            Figure::new(&name, ours, "ms").beside("bare spawns", Samples::new(bare)?.median()),
        );
        for (peer, _, times) in peers {
            let times = Samples::new(times)?.median();
            figures.push(Figure::new(&name, ours, "ms").beside(peer.program(), times));
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
