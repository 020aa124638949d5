//! The product against real counterparts: real daemons in homes of their own, real processes, real sockets.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]
#![expect(clippy::print_stdout, reason = "A test that is left out says why.")]

mod bare;
mod contract;
mod crash;
mod dashboard;
mod delegation;
mod install;
mod lifecycle;
mod matrix;
mod mcp;
mod metrics;
mod network;
mod network_peers;
mod office;
mod proxy;
mod real_agents;
mod scale;
mod sessions;
mod socket;
mod targets;
mod terminal;
mod tour;
mod trace;
mod workflow;
mod workspace;

use testkit::Builder;

/// A daemon to be: the binary of this build in a new home.
fn node() -> Builder {
    Builder::new(env!("CARGO_BIN_EXE_agentcraft"))
}
