//! Agents that start and stop, beside their bare program started and killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;

use super::connection::{Connection, request, result_of};
use super::node::{Daemon, SLEEP, sleeper_name};
use crate::bench::figure::Figure;
use crate::bench::samples::Samples;

/// Each round starts and stops an agent and its bare program, so that a busy moment hits both.
const ROUNDS: usize = 100;
const WARM_UP_ROUNDS: usize = 5;
/// Agents that start and stop at once.
const CROWD: usize = 100;
const CROWD_ROUNDS: usize = 5;

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let daemon = Daemon::start(binary)?;
    daemon.create_sleepers(CROWD)?;
    let mut connection = daemon.connect()?;
    let mut figures = one(&mut connection)?;
    figures.extend(crowd(&mut connection)?);
    Ok(figures)
}

fn one(connection: &mut Connection) -> anyhow::Result<Vec<Figure>> {
    let params = json!({"name": sleeper_name(0)});
    let (mut starts, mut stops, mut both) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bare_starts, mut bare_stops, mut bare_both) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP_ROUNDS + ROUNDS {
        let start = connection.timed("agent.start", &params)?.1;
        let stop = connection.timed("agent.stop", &params)?.1;
        let (bare_start, bare_stop) = bare(1)?;
        if round >= WARM_UP_ROUNDS {
            starts.push(start);
            stops.push(stop);
            both.push(start + stop);
            bare_starts.push(bare_start);
            bare_stops.push(bare_stop);
            bare_both.push(bare_start + bare_stop);
        }
    }
    Ok(vec![
        figure("agent.start, median", &starts, "spawn", &bare_starts)?,
        figure("agent.stop, median", &stops, "kill and wait", &bare_stops)?,
        figure(
            "agent.start and stop, median",
            &both,
            "spawn, kill, wait",
            &bare_both,
        )?,
    ])
}

fn crowd(connection: &mut Connection) -> anyhow::Result<Vec<Figure>> {
    let (mut starts, mut stops) = (Vec::new(), Vec::new());
    let (mut bare_starts, mut bare_stops) = (Vec::new(), Vec::new());
    for _ in 0..CROWD_ROUNDS {
        starts.push(all(connection, "agent.start")?);
        stops.push(all(connection, "agent.stop")?);
        let (bare_start, bare_stop) = bare(CROWD)?;
        bare_starts.push(bare_start);
        bare_stops.push(bare_stop);
    }
    let name = |what: &str| format!("{CROWD} agents {what} in parallel");
    Ok(vec![
        figure(&name("started"), &starts, "spawn", &bare_starts)?,
        figure(&name("stopped"), &stops, "kill and wait", &bare_stops)?,
    ])
}

/// How long it takes until every agent of the crowd has answered, all asked at once.
fn all(connection: &mut Connection, method: &str) -> anyhow::Result<Duration> {
    let requests: Vec<u8> = (0..CROWD)
        .flat_map(|number| request(method, &json!({"name": sleeper_name(number)})))
        .collect();
    let mut answers = Vec::with_capacity(CROWD);
    let start = Instant::now();
    connection.send(&requests)?;
    for _ in 0..CROWD {
        answers.push(connection.receive()?.to_vec());
    }
    let duration = start.elapsed();
    for answer in &answers {
        result_of(answer).with_context(|| format!("could not call {method}"))?;
    }
    Ok(duration)
}

/// The program itself, started so many times and then killed.
fn bare(count: usize) -> anyhow::Result<(Duration, Duration)> {
    let (program, argument) = SLEEP;
    let mut children = Bare(Vec::with_capacity(count));
    let start = Instant::now();
    for _ in 0..count {
        let child = Command::new(program)
            .arg(argument)
            .stdin(Stdio::null())
            .spawn();
        children
            .0
            .push(child.with_context(|| format!("could not start {program}"))?);
    }
    let started = start.elapsed();
    children.end();
    Ok((started, start.elapsed() - started))
}

/// Processes that end with their owner.
struct Bare(Vec<Child>);

impl Bare {
    fn end(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill(); // It may be gone already.
        }
        for mut child in self.0.drain(..) {
            let _ = child.wait();
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.end();
    }
}

fn figure(
    name: &str,
    ours: &[Duration],
    beside: &str,
    floor: &[Duration],
) -> anyhow::Result<Figure> {
    let ours = Samples::milliseconds(ours)?.median();
    Ok(Figure::new(name, ours, "ms").beside(beside, Samples::milliseconds(floor)?.median()))
}
