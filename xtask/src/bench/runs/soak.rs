//! Runs without a pause: whether the thousandth costs what the first did, and what the daemon holds afterwards.

use std::time::{Duration, Instant};

use crate::bench::figure::{Figure, Goal};
use crate::bench::http::{Load, Node, Target};
use crate::bench::samples::Samples;

/// A small team.
const CONNECTIONS: usize = 8;
/// Rounds at either end that are compared, by their medians.
const ENDS: usize = 5;
/// How much slower the last rounds may be.
const SLOWER: f64 = 0.85;
/// How much the daemon may hold after it.
const MEMORY_MAX_MIB: f64 = 40.0;
const KIB_PER_MIB: f64 = 1024.0;

/// Loads the node for so long.
pub(super) fn soak(
    node: &mut Node,
    length: Duration,
    body: &str,
    proof: &'static [u8],
) -> anyhow::Result<Vec<Figure>> {
    let before = node.stage.daemon.resident_kib()? / KIB_PER_MIB;
    let (mut rates, start) = (Vec::new(), Instant::now());
    while start.elapsed() < length || rates.len() < 2 * ENDS {
        let target = Target {
            address: node.address,
            request: Box::new(|| node.request("/runs", "", body)),
            proof,
        };
        rates.extend(Load::rounds(target, CONNECTIONS)?);
    }
    let runs = rates.len() * Load::RUNS_PER_ROUND;
    let median = |rates: &[f64]| Samples::new(rates.to_vec()).map(|samples| samples.median());
    let (first, last) = (
        median(&rates[..ENDS])?,
        median(&rates[rates.len() - ENDS..])?,
    );
    let after = node.stage.daemon.resident_kib()? / KIB_PER_MIB;
    Ok(vec![
        Figure::new(format!("runs, the last of {runs}"), last, "/s")
            .beside("the first", first)
            .goal(Goal::RatioAtLeast(SLOWER)),
        Figure::new(format!("memory of the daemon after {runs}"), after, "MiB")
            .beside("before", before)
            .goal(Goal::AtMost(MEMORY_MAX_MIB)),
    ])
}
