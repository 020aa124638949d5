//! How much later a client has a word than a reader of the agent's pipe would have it.

use std::path::Path;
use std::time::Duration;

use super::agent::Order;
use super::bare::{self, Bare};
use super::stage::{Stage, TALKER};
use super::watcher::Watcher;
use crate::bench::daemon::Pinned;
use crate::bench::figure::{Figure, Goal};
use crate::bench::samples::Samples;

/// Rounds alternate between the two ways, so that a busy moment of the machine hits both.
const ROUNDS: usize = 10;
/// A calm agent: each word finds everybody waiting for it.
const ORDER: Order = Order {
    chunks: 200,
    pace: Duration::from_millis(2),
};
const WARM_UP: Order = Order {
    chunks: 2000,
    pace: Duration::ZERO,
};
/// What nobody can see, and what leaves room for a thousand words a second many times over.
const ADDED_GOAL_US: f64 = 100.0;

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let mut stage = Stage::new(binary)?;
    let agent = stage.start_agent(TALKER, TALKER)?;
    let mut pipe = Bare::start()?;
    let session = stage.session(TALKER)?;
    let mut watcher = Watcher::connect(&stage.daemon)?;
    watcher.attach(&session)?;
    let pids = [stage.daemon.pid(), agent, pipe.pid()];
    let mut measure = |placement| {
        let mut through = |order: Order| {
            stage.order(&session, order)?;
            let arrivals = watcher.collect(1, |_| Ok(()))?;
            stage.finished()?;
            watcher.check(&arrivals, order.chunks)
        };
        through(WARM_UP)?;
        pipe.turn(WARM_UP)?;
        let (mut ours, mut floor) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.extend(through(ORDER)?);
            floor.extend(bare::delays(&pipe.turn(ORDER)?)?);
        }
        figures(placement, ours, floor)
    };
    let mut figures = Vec::new();
    {
        let _pinned = Pinned::together(&pids)?;
        figures.extend(measure("on one core")?);
    }
    if let Some(_pinned) = Pinned::apart(&pids)? {
        figures.extend(measure("across cores")?);
    }
    Ok(figures)
}

fn figures(placement: &str, ours: Vec<f64>, floor: Vec<f64>) -> anyhow::Result<Vec<Figure>> {
    let (ours, floor) = (Samples::new(ours)?, Samples::new(floor)?);
    let percentiles = [
        ("median", ours.median(), floor.median()),
        ("p95", ours.p95(), floor.p95()),
        ("p99", ours.p99(), floor.p99()),
    ];
    let mut figures: Vec<Figure> = percentiles
        .iter()
        .map(|(which, ours, floor)| {
            Figure::new(format!("word {placement}, {which}"), *ours, "us")
                .beside("bare pipe", *floor)
        })
        .collect();
    let added = ours.median() - floor.median();
    let name = format!("added to a word {placement}, median");
    figures.push(Figure::new(name, added, "us").goal(Goal::AtMost(ADDED_GOAL_US)));
    Ok(figures)
}
