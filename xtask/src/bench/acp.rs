//! What it costs an editor to have its agent through us: the bridge beside a bare pipe, the lease beside the bridge.

mod bytes;
mod crowd;
mod latency;
mod start;

pub(super) use bytes::serve_sink;

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::context::{Context, Home};
use super::daemon::load;
use super::figure::Figure;

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let binary = context.release_binary()?;
    let mut figures: Vec<Figure> = load().into_iter().collect();
    figures.extend(latency::run(binary)?);
    figures.extend(bytes::run(binary)?);
    figures.extend(start::run(binary)?);
    figures.extend(crowd::run(binary)?);
    Ok(figures)
}

/// How a proxy serves its editor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Lease,
}

/// The command that an editor starts instead of the agent.
fn proxy(home: &Home, binary: &Path, agent: &str, way: Way) -> Command {
    let mut command = home.command(binary);
    command.args(["proxy", agent]);
    if way == Way::Lease {
        command.arg("--lease");
    }
    command
}

/// The agent without us.
fn bare_agent() -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("could not find our own program")?;
    let mut command = Command::new(program);
    command.args(["bench", "--turn-agent"]);
    Ok(command)
}
