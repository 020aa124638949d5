//! The same requests over one and over many connections, on servers in turn.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};

use super::client::Http;
use crate::bench::figure::{Figure, Goal};
use crate::bench::samples::Samples;

/// A lone client, a small team, and a busy machine's worth.
pub(in crate::bench) const CONNECTIONS: [usize; 3] = [1, 8, 32];
/// How much is asked.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Effort {
    /// They alternate between the servers, so that a busy moment of the machine hits all.
    pub(in crate::bench) rounds: usize,
    /// In each round. Fewer than a node lets one caller ask at once, which is 400; each round has a caller of its own.
    pub(in crate::bench) requests: usize,
}

/// What a run of a few seconds affords.
const USUAL: Effort = Effort {
    rounds: 5,
    requests: 320,
};
/// More threads than this would compete with the server for the cores of a small machine.
const CLIENT_THREADS_MAX: usize = 2;

/// At least as fast as the server that others wrote for the same protocol.
const REFERENCE_GOAL: f64 = 1.0;

/// A server, and what to ask it.
pub(in crate::bench) struct Target<'a> {
    pub(in crate::bench) address: SocketAddr,
    /// Makes the request of a round.
    pub(in crate::bench) request: Box<dyn FnMut() -> anyhow::Result<Vec<u8>> + 'a>,
    /// What a right answer contains; empty where any answer is right.
    pub(in crate::bench) proof: &'static [u8],
}

/// What a server did under load.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Load {
    /// Answers per second, the median of the rounds.
    pub(in crate::bench) rate: f64,
    /// Of single answers, in microseconds.
    pub(in crate::bench) median_us: f64,
    pub(in crate::bench) p99_us: f64,
}

impl Load {
    /// How many requests a round has.
    pub(in crate::bench) const RUNS_PER_ROUND: usize = USUAL.requests;

    /// Loads one target, and gives the rate of each round.
    pub(in crate::bench) fn rounds(
        mut target: Target<'_>,
        connections: usize,
    ) -> anyhow::Result<Vec<f64>> {
        let mut rates = Vec::new();
        for _ in 0..USUAL.rounds {
            let request = (target.request)()?;
            let round = Round {
                request: &request,
                proof: target.proof,
                requests: USUAL.requests,
            };
            rates.push(round.run(target.address, connections)?.0);
        }
        Ok(rates)
    }

    /// Loads every target in turn with so many connections.
    pub(in crate::bench) fn of(
        targets: &mut [Target<'_>],
        connections: usize,
    ) -> anyhow::Result<Vec<Self>> {
        Self::by(USUAL, targets, connections)
    }

    /// The same, with another effort.
    pub(in crate::bench) fn by(
        effort: Effort,
        targets: &mut [Target<'_>],
        connections: usize,
    ) -> anyhow::Result<Vec<Self>> {
        let mut rates = vec![Vec::new(); targets.len()];
        let mut times = rates.clone();
        for _ in 0..effort.rounds {
            for (index, target) in targets.iter_mut().enumerate() {
                let request = (target.request)()?;
                let round = Round {
                    request: &request,
                    proof: target.proof,
                    requests: effort.requests,
                };
                let (rate, taken) = round
                    .run(target.address, connections)
                    .with_context(|| format!("could not load {}", target.address))?;
                rates[index].push(rate);
                times[index].extend(taken);
            }
        }
        let loads = rates.into_iter().zip(times).map(|(rates, times)| {
            let times = Samples::new(times)?;
            Ok(Self {
                rate: Samples::new(rates)?.median(),
                median_us: times.median(),
                p99_us: times.p99(),
            })
        });
        loads.collect()
    }
}

impl Load {
    /// Our load beside the bare responder's, and beside the reference's where there is one; in the order they were loaded.
    pub(in crate::bench) fn figures(
        what: &str,
        connections: usize,
        loads: &[Self],
        reference: &str,
    ) -> Vec<Figure> {
        let [ours, floor, rest @ ..] = loads else {
            return Vec::new();
        };
        let over = match connections {
            1 => "over one connection".to_owned(),
            many => format!("over {many} connections"),
        };
        let bare = "bare responder";
        let mut figures = vec![
            Figure::new(format!("{what} {over}"), ours.rate, "/s").beside(bare, floor.rate),
            Figure::new(format!("{what} {over}, median"), ours.median_us, "us")
                .beside(bare, floor.median_us),
            Figure::new(format!("{what} {over}, p99"), ours.p99_us, "us")
                .beside(bare, floor.p99_us),
        ];
        for theirs in rest {
            figures.push(
                Figure::new(format!("{what} {over}"), ours.rate, "/s")
                    .beside(reference, theirs.rate)
                    .goal(Goal::RatioAtLeast(REFERENCE_GOAL)),
            );
            figures.push(
                Figure::new(format!("{what} {over}, p99"), ours.p99_us, "us")
                    .beside(reference, theirs.p99_us),
            );
        }
        figures
    }
}

#[derive(Clone, Copy)]
struct Round<'a> {
    request: &'a [u8],
    proof: &'static [u8],
    requests: usize,
}

impl Round<'_> {
    /// The rate of answers, and how many microseconds each took.
    fn run(self, address: SocketAddr, connections: usize) -> anyhow::Result<(f64, Vec<f64>)> {
        let opened: anyhow::Result<Vec<Http>> =
            (0..connections).map(|_| Http::connect(address)).collect();
        let mut opened = opened?;
        let turns = self.requests / connections;
        let per_thread = connections.div_ceil(CLIENT_THREADS_MAX);
        let start = Instant::now();
        let times = thread::scope(|scope| {
            let threads: Vec<_> = opened
                .chunks_mut(per_thread)
                .map(|share| scope.spawn(move || self.ask_all(share, turns)))
                .collect();
            let mut times = Vec::new();
            for thread in threads {
                let joined = thread.join().map_err(|_| anyhow!("a client panicked"))?;
                times.extend(joined?);
            }
            anyhow::Ok(times)
        })?;
        let answers = f64::from(u32::try_from(times.len())?);
        let rate = answers / start.elapsed().as_secs_f64();
        let microseconds = times.iter().map(|time| time.as_secs_f64() * 1e6);
        Ok((rate, microseconds.collect()))
    }

    /// Asks on every connection, then waits for all answers, so many times.
    fn ask_all(self, connections: &mut [Http], turns: usize) -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(turns * connections.len());
        for _ in 0..turns {
            let mut starts = Vec::with_capacity(connections.len());
            for connection in connections.iter_mut() {
                starts.push(Instant::now());
                connection.send(self.request)?;
            }
            for (connection, start) in connections.iter_mut().zip(starts) {
                let answer = connection.receive()?;
                times.push(start.elapsed());
                let proof = self.proof;
                ensure!(
                    proof.is_empty() || answer.windows(proof.len()).any(|part| part == proof),
                    "the answer is wrong: {}",
                    String::from_utf8_lossy(answer)
                );
            }
        }
        Ok(times)
    }
}
