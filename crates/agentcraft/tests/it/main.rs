//! The product against real counterparts: real daemons in homes of their own, real processes, real sockets.

mod contract;
mod crash;
mod lifecycle;
mod scale;
mod sessions;
mod socket;
mod workspace;

use testkit::Builder;

/// A daemon to be: the binary of this build in a new home.
fn node() -> Builder {
    Builder::new(env!("CARGO_BIN_EXE_agentcraft"))
}
