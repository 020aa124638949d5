//! What an agent's words cost on their way through the daemon to a client, beside a reader that has the agent's pipe
//! for itself.

mod agent;
mod arrivals;
mod bare;
mod chunk;
mod crowd;
mod idle;
mod latency;
mod long;
mod stage;
mod watcher;

pub(super) use agent::{Order, serve as serve_agent};
pub(super) use chunk::{Chunk, Moment};
pub(super) use crowd::cpu_seconds;
pub(super) use stage::{BUILTIN, Stage, TALKER, ourselves, write_template};

use super::context::Context;
use super::daemon::load;
use super::figure::Figure;

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let binary = context.release_binary()?;
    let mut figures: Vec<Figure> = load().into_iter().collect();
    figures.extend(latency::run(binary)?);
    figures.extend(long::run(binary)?);
    figures.extend(crowd::run(binary)?);
    figures.extend(idle::run(binary)?);
    Ok(figures)
}
