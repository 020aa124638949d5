//! One session with very many events: how fast they come while they happen, and afterwards, from the store.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;

use super::agent::Order;
use super::bare::Bare;
use super::stage::{Stage, TALKER};
use super::watcher::Watcher;
use crate::bench::figure::Figure;
use crate::bench::samples::Samples;

const ORDER: Order = Order {
    chunks: 100_000,
    pace: Duration::ZERO,
};
/// How often the daemon's memory is looked at while it sends: often enough to see a page of events come and go.
const LOOK_EVERY: usize = 500;
/// Events of a page of the history.
const PAGE: usize = 1000;
const PAGE_ROUNDS: usize = 20;
const KIB_PER_MIB: f64 = 1024.0;

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let mut stage = Stage::new(binary)?;
    stage.start_agent(TALKER, TALKER)?;
    let session = stage.session(TALKER)?;
    let before = stage.daemon.resident_kib()?;
    let mut figures = vec![live(&mut stage, &session)?];
    let after = stage.daemon.resident_kib()?;
    figures.push(
        Figure::new("memory after 100000 events", after / KIB_PER_MIB, "MiB")
            .beside("before", before / KIB_PER_MIB),
    );
    // What the first daemon had grown to would hide what the reading takes.
    stage.restart(binary)?;
    figures.extend(again(&stage, &session)?);
    figures.extend(pages(&mut stage, &session)?);
    Ok(figures)
}

fn live(stage: &mut Stage, session: &str) -> anyhow::Result<Figure> {
    let mut watcher = Watcher::connect(&stage.daemon)?;
    watcher.attach(session)?;
    let start = Instant::now();
    stage.order(session, ORDER)?;
    let arrivals = watcher.collect(1, |_| Ok(()))?;
    let ours = rate(start.elapsed());
    stage.finished()?;
    watcher.check(&arrivals, ORDER.chunks)?;
    let mut bare = Bare::start()?;
    let start = Instant::now();
    bare.turn(ORDER)?;
    let floor = rate(start.elapsed());
    let name = format!("{} events as they happen", ORDER.chunks);
    Ok(Figure::new(name, ours, "/s").beside("bare pipe", floor))
}

/// Attaches from the first event on.
fn again(stage: &Stage, session: &str) -> anyhow::Result<Vec<Figure>> {
    let before = stage.daemon.resident_kib()?;
    let mut largest = before;
    let mut watcher = Watcher::connect(&stage.daemon)?;
    let start = Instant::now();
    watcher.ask(session)?;
    let arrivals = watcher.collect(1, |count| {
        if count.is_multiple_of(LOOK_EVERY) {
            largest = largest.max(stage.daemon.resident_kib()?);
        }
        Ok(())
    })?;
    let took = start.elapsed();
    watcher.check(&arrivals, ORDER.chunks)?;
    Ok(vec![
        Figure::new(
            format!("attach from the first of {}", ORDER.chunks),
            took.as_secs_f64() * 1000.0,
            "ms",
        ),
        Figure::new("the same as a rate", rate(took), "/s"),
        Figure::new(
            "memory while it lasts, at most",
            largest / KIB_PER_MIB,
            "MiB",
        )
        .beside("before", before / KIB_PER_MIB),
    ])
}

fn pages(stage: &mut Stage, session: &str) -> anyhow::Result<Vec<Figure>> {
    let last = ORDER.chunks + 2; // The begin and the end of the turn are events too.
    let page = u32::try_from(PAGE)?;
    let places = [
        ("first", 1),
        ("middle", last / 2),
        ("last", last - page + 1),
    ];
    let mut figures = Vec::new();
    for (place, from) in places {
        let params = json!({"sessionId": session, "fromSeq": from, "limit": PAGE});
        let mut times = Vec::new();
        for _ in 0..PAGE_ROUNDS {
            let (events, time) = stage.control().timed("session.events", &params)?;
            let count = events.as_array().map_or(0, Vec::len);
            ensure!(count == PAGE, "a page had {count} events");
            times.push(time);
        }
        let median = Samples::milliseconds(&times)?.median();
        let name = format!("page of {PAGE} events, {place}, median");
        figures.push(Figure::new(name, median, "ms"));
    }
    Ok(figures)
}

fn rate(duration: Duration) -> f64 {
    f64::from(ORDER.chunks) / duration.as_secs_f64()
}
