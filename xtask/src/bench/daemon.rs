//! What the daemon costs, each figure beside the least that the same work could cost on this machine in the same run.

mod agents;
mod connection;
mod cores;
mod node;
mod ping;
mod processes;
mod start;

pub(super) use connection::{Connection, request, result_of};
pub(super) use cores::Pinned;
pub(super) use node::{Daemon, resident_kib};

use std::fs;

use super::context::Context;
use super::figure::Figure;

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let binary = context.release_binary()?;
    let mut figures: Vec<Figure> = load().into_iter().collect();
    figures.extend(ping::run(binary)?);
    figures.extend(start::run(binary)?);
    figures.extend(agents::run(binary)?);
    figures.extend(processes::run(binary)?);
    Ok(figures)
}

/// How busy the machine was before we began; figures of a busy machine say little.
pub(super) fn load() -> Option<Figure> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let load = text.split(' ').next()?.parse().ok()?;
    Some(Figure::new("load of the machine before", load, "tasks"))
}
