//! Very many calls: none is lost, a burst is answered whole, and the server holds what it held.

use std::thread;

use anyhow::{Context as _, anyhow};

use super::server::Server;
use super::{CALLS_PER_ROUND, Desk};
use crate::bench::daemon::resident_kib;
use crate::bench::figure::{Figure, Goal};

/// Two hundred offices, one after the other, for each minute that the benchmarks may go on.
const DESKS_PER_MINUTE: u32 = 200;
/// Without any minute it is only tried.
const DESKS_MIN: u32 = 4;
const IN_FLIGHT: usize = 32;
/// The server takes 512 requests of one connection at once.
const BURST_DESKS: u32 = 4;
const BURST_EACH: usize = 500;
/// After so many offices whatever the server keeps for repetitions is full.
const WARM_DESKS: u32 = 20;
/// How much more it may hold in the end.
const GROWTH_MAX: f64 = 1.1;
const KIB_PER_MIB: f64 = 1024.0;

pub(super) fn run(server: &Server, minutes: u32) -> anyhow::Result<Vec<Figure>> {
    let (mut answered, mut warm) = (0, 0.0);
    let desks = (DESKS_PER_MINUTE * minutes).max(DESKS_MIN);
    for number in 0..desks {
        let mut desk = Desk::open(server.address, &server.token, 10_000 + number)?;
        let calls = desk.calls(IN_FLIGHT, CALLS_PER_ROUND);
        answered += calls.context("a call was lost")?.len();
        if number + 1 == WARM_DESKS.min(desks) {
            warm = resident_kib(server.pid())? / KIB_PER_MIB;
        }
    }
    let after = resident_kib(server.pid())? / KIB_PER_MIB;
    let asked = usize::try_from(desks)? * CALLS_PER_ROUND;
    let lost = f64::from(u32::try_from(asked - answered)?);
    let unanswered = asked_at_once(server)?;
    let burst = BURST_EACH * usize::try_from(BURST_DESKS)?;
    Ok(vec![
        Figure::new(format!("lost of {asked} calls"), lost, "calls").goal(Goal::AtMost(0.0)),
        Figure::new(
            format!("lost of a burst of {burst} calls"),
            unanswered,
            "calls",
        )
        .goal(Goal::AtMost(0.0)),
        Figure::new(
            format!("memory of the server after {asked} calls"),
            after,
            "MiB",
        )
        .beside(
            format!(
                "after {}",
                usize::try_from(WARM_DESKS.min(desks))? * CALLS_PER_ROUND
            ),
            warm,
        )
        .goal(Goal::RatioAtMost(GROWTH_MAX)),
    ])
}

/// How many calls of a burst have no right answer.
fn asked_at_once(server: &Server) -> anyhow::Result<f64> {
    let desks: anyhow::Result<Vec<Desk>> = (0..BURST_DESKS)
        .map(|number| Desk::open(server.address, &server.token, 90_000 + number))
        .collect();
    let answered: anyhow::Result<Vec<usize>> = thread::scope(|scope| {
        let threads: Vec<_> = desks?
            .into_iter()
            .map(|mut desk| scope.spawn(move || desk.calls(BURST_EACH, BURST_EACH)))
            .collect();
        let counts = threads.into_iter().map(|thread| {
            let times = thread.join().map_err(|_| anyhow!("an agent panicked"))?;
            Ok(times.context("a burst was not answered")?.len())
        });
        counts.collect()
    });
    let answered: usize = answered?.iter().sum();
    let asked = BURST_EACH * usize::try_from(BURST_DESKS)?;
    Ok(f64::from(u32::try_from(asked - answered)?))
}
