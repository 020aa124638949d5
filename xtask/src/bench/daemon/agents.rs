//! What agents cost while they do nothing: memory, and the time to make and to list them, by how many there are.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;

use super::connection::{Connection, request};
use super::cores::Pinned;
use super::node::{Daemon, sleeper};
use crate::bench::context::Home;
use crate::bench::echo::Echo;
use crate::bench::figure::{Figure, Goal};
use crate::bench::samples::Samples;

/// How many agents there are; the cost of one must not grow from the first to the last.
const POPULATIONS: [usize; 3] = [10, 100, 1000];
/// Each round creates an agent in every population and destroys it, so that a busy moment hits all.
const CREATE_ROUNDS: usize = 100;
const LIST_ROUNDS: usize = 100;
/// An idle daemon is a guest on somebody's laptop.
const IDLE_GOAL_MIB: f64 = 20.0;
/// What still counts as flat, given the noise of a machine.
const FLAT_GOAL: f64 = 1.5;
const KIB_PER_MIB: f64 = 1024.0;

/// A daemon with so many agents, and a server that echoes lists of the same length.
#[derive(Debug)]
struct Population {
    size: usize,
    connection: Connection,
    echo: Connection,
    echo_server: Echo,
    daemon: Daemon,
}

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut populations = Vec::new();
    for size in POPULATIONS {
        let daemon = Daemon::start(binary)?;
        let before = daemon.resident_kib()?;
        daemon.create_sleepers(size)?;
        let after = daemon.resident_kib()?;
        if size == POPULATIONS[POPULATIONS.len() - 1] {
            figures.extend(memory(size, before, after));
        }
        populations.push(Population::new(daemon, size)?);
    }
    figures.extend(creations(&mut populations)?);
    figures.extend(lists(&mut populations)?);
    Ok(figures)
}

impl Population {
    fn new(daemon: Daemon, size: usize) -> anyhow::Result<Self> {
        let mut connection = daemon.connect()?;
        let length = connection.exchange(&list_request())?.len();
        let echo_server = Echo::start(length)?;
        Ok(Self {
            size,
            connection,
            echo: echo_server.connect()?,
            echo_server,
            daemon,
        })
    }
}

fn memory(size: usize, before: f64, after: f64) -> Vec<Figure> {
    vec![
        Figure::new("memory, idle", before / KIB_PER_MIB, "MiB").goal(Goal::AtMost(IDLE_GOAL_MIB)),
        Figure::new(format!("memory, {size} agents"), after / KIB_PER_MIB, "MiB")
            .beside("idle", before / KIB_PER_MIB),
        Figure::new("memory per agent", (after - before) / count(size), "KiB"),
    ]
}

fn creations(populations: &mut [Population]) -> anyhow::Result<Vec<Figure>> {
    let home = Home::new()?;
    let mut floor = Vec::new();
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); populations.len()];
    let name = "newcomer";
    for _ in 0..CREATE_ROUNDS {
        for (population, times) in populations.iter_mut().zip(&mut times) {
            let connection = &mut population.connection;
            times.push(connection.timed("agent.create", &sleeper(name))?.1);
            connection.call("agent.destroy", &json!({"name": name}))?;
        }
        floor.push(folder_with_file(&home.path().join(name))?);
    }
    let floor = Samples::microseconds(&floor)?.median();
    let medians = medians(&times)?;
    let mut figures = Vec::new();
    for (population, median) in populations.iter().zip(&medians) {
        let name = format!("agent.create at {}, median", population.size);
        figures.push(Figure::new(name, *median, "us").beside("folder with a file", floor));
    }
    figures.extend(flat("agent.create", &medians));
    Ok(figures)
}

fn lists(populations: &mut [Population]) -> anyhow::Result<Vec<Figure>> {
    let request = list_request();
    let pids: Vec<u32> = populations
        .iter()
        .flat_map(|population| [population.daemon.pid(), population.echo_server.pid()])
        .collect();
    let _pinned = Pinned::together(&pids)?;
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); populations.len()];
    let mut floors = times.clone();
    for _ in 0..LIST_ROUNDS {
        for (index, population) in populations.iter_mut().enumerate() {
            times[index].extend(population.connection.exchanges(&request, 1)?);
            floors[index].extend(population.echo.exchanges(&request, 1)?);
        }
    }
    let (medians, floors) = (medians(&times)?, medians(&floors)?);
    let mut figures = Vec::new();
    let mut per_agent = Vec::new();
    for (index, population) in populations.iter().enumerate() {
        let agents = count(population.size);
        per_agent.push(medians[index] / agents);
        let name = format!("agent.list of {}, per agent", population.size);
        figures.push(
            Figure::new(name, per_agent[index], "us")
                .beside("echo of the list", floors[index] / agents),
        );
    }
    figures.extend(flat("agent.list", &per_agent));
    Ok(figures)
}

/// The cost per agent of the largest population beside that of the smallest.
fn flat(what: &str, costs: &[f64]) -> Option<Figure> {
    let (first, last) = (costs.first()?, costs.last()?);
    let [smallest, .., largest] = POPULATIONS;
    let name = format!("{what} per agent at {largest}");
    let figure = Figure::new(name, *last, "us").beside(format!("at {smallest}"), *first);
    Some(figure.goal(Goal::RatioAtMost(FLAT_GOAL)))
}

fn medians(times: &[Vec<Duration>]) -> anyhow::Result<Vec<f64>> {
    let samples = times.iter().map(|times| Samples::microseconds(times));
    samples
        .map(|samples| samples.map(|samples| samples.median()))
        .collect()
}

/// The least that a workspace can be: a folder, and a file in it that appears whole.
fn folder_with_file(folder: &Path) -> anyhow::Result<Duration> {
    let start = Instant::now();
    fs::create_dir(folder).context("could not make a folder")?;
    fs::write(folder.join("temporary"), "{}\n").context("could not write a file")?;
    fs::rename(folder.join("temporary"), folder.join("file")).context("could not rename a file")?;
    let duration = start.elapsed();
    fs::remove_dir_all(folder).context("could not remove a folder")?;
    Ok(duration)
}

fn list_request() -> Vec<u8> {
    request("agent.list", &json!({}))
}

fn count(size: usize) -> f64 {
    f64::from(u32::try_from(size).unwrap_or(u32::MAX))
}
