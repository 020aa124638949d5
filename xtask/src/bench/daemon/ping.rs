//! The smallest request there is, beside a server that only echoes: one at a time, and as many as there can be.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use serde_json::json;

use super::connection::{Connection, request};
use super::cores::Pinned;
use super::node::Daemon;
use crate::bench::echo::Echo;
use crate::bench::figure::{Figure, Goal};
use crate::bench::samples::Samples;

/// Rounds alternate between the two servers, so that a busy moment of the machine hits both.
const ROUNDS: usize = 100;
const EXCHANGES_PER_ROUND: usize = 200;
const WARM_UP: usize = 2000;
/// One round of asking as fast as one can.
const BURST: Duration = Duration::from_millis(300);
const BURST_ROUNDS: usize = 7;
/// Connections of the bursts: a lone client, and a busy machine's worth.
const CONNECTIONS: [usize; 2] = [1, 32];
/// More threads than this would compete with the server for the cores of a small machine.
const CLIENT_THREADS_MAX: usize = 2;
/// A runtime, JSON and a table of methods cost something above a bare echo; twice and a half is still out of sight.
const RATIO_GOAL: f64 = 2.5;

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let daemon = Daemon::start(binary)?;
    let ping = request("daemon.ping", &json!({}));
    let length = daemon.connect()?.exchange(&ping)?.len();
    let echo = Echo::start(length)?;
    let pids = [daemon.pid(), echo.pid()];
    let exchanges = |placement| round_trips(placement, &daemon, &echo, &ping);
    let goal = Goal::RatioAtMost(RATIO_GOAL);
    let mut figures = Vec::new();
    {
        let _pinned = Pinned::together(&pids)?;
        let [median, p99] = exchanges("on one core")?;
        figures.extend([median.goal(goal), p99]);
    }
    if let Some(_pinned) = Pinned::apart(&pids)? {
        let [median, p99] = exchanges("across cores")?;
        figures.extend([median.goal(goal), p99]);
    }
    // Without a goal: where the kernel puts one of the two on the client's core and not the other, it decides the ratio.
    figures.extend(exchanges("wherever they run")?);
    for connections in CONNECTIONS {
        figures.push(bursts(&daemon, &echo, &ping, connections)?);
    }
    Ok(figures)
}

fn round_trips(
    placement: &str,
    daemon: &Daemon,
    echo: &Echo,
    ping: &[u8],
) -> anyhow::Result<[Figure; 2]> {
    let (mut ours, mut floor) = (daemon.connect()?, echo.connect()?);
    ours.exchanges(ping, WARM_UP)?;
    floor.exchanges(ping, WARM_UP)?;
    let (mut our_times, mut floor_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        our_times.extend(ours.exchanges(ping, EXCHANGES_PER_ROUND)?);
        floor_times.extend(floor.exchanges(ping, EXCHANGES_PER_ROUND)?);
    }
    let ours = Samples::microseconds(&our_times)?;
    let floor = Samples::microseconds(&floor_times)?;
    Ok([
        Figure::new(format!("ping {placement}, median"), ours.median(), "us")
            .beside("echo", floor.median()),
        Figure::new(format!("ping {placement}, p99"), ours.p99(), "us").beside("echo", floor.p99()),
    ])
}

fn bursts(daemon: &Daemon, echo: &Echo, ping: &[u8], connections: usize) -> anyhow::Result<Figure> {
    let open = |connect: &dyn Fn() -> anyhow::Result<Connection>| {
        let opened: anyhow::Result<Vec<Connection>> = (0..connections).map(|_| connect()).collect();
        opened
    };
    let mut ours = open(&|| daemon.connect())?;
    let mut floor = open(&|| echo.connect())?;
    let (mut our_rates, mut floor_rates) = (Vec::new(), Vec::new());
    for _ in 0..BURST_ROUNDS {
        our_rates.push(burst(&mut ours, ping)?);
        floor_rates.push(burst(&mut floor, ping)?);
    }
    let name = format!("pings over {connections} connections");
    let figure = Figure::new(name, Samples::new(our_rates)?.median(), "/s");
    Ok(figure.beside("echo", Samples::new(floor_rates)?.median()))
}

/// Answers per second, with one request under way on each connection.
fn burst(connections: &mut [Connection], ping: &[u8]) -> anyhow::Result<f64> {
    let per_thread = connections.len().div_ceil(CLIENT_THREADS_MAX);
    let start = Instant::now();
    let answered = thread::scope(|scope| {
        let threads: Vec<_> = connections
            .chunks_mut(per_thread)
            .map(|share| scope.spawn(move || ask_all(share, ping, start + BURST)))
            .collect();
        let mut answered = 0;
        for thread in threads {
            let joined = thread.join().map_err(|_| anyhow!("a client panicked"))?;
            answered += joined.context("a client failed")?;
        }
        anyhow::Ok(answered)
    })?;
    Ok(f64::from(answered) / start.elapsed().as_secs_f64())
}

fn ask_all(connections: &mut [Connection], ping: &[u8], until: Instant) -> anyhow::Result<u32> {
    let mut answered = 0;
    while Instant::now() < until {
        for connection in connections.iter_mut() {
            connection.send(ping)?;
        }
        for connection in connections.iter_mut() {
            connection.receive()?;
            answered += 1;
        }
    }
    Ok(answered)
}
