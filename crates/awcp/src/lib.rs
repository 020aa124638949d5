//! Lending a workspace: the host's and the remote's side of a delegation, over any carrier and data plane.
//!
//! The machines in `domain` decide; `host` and `remote` own one of them per delegation, keep it and act. `messages` is
//! what peers say, `router` the way for archives and commands, `driver` lending as an agent.

mod asker;
mod blocking;
mod calls;
mod clock;
mod config;
mod conversation;
mod convert;
mod delegations;
mod driver;
mod error;
mod git;
mod host;
mod ignored;
mod kept;
mod lent_repository;
mod messages;
mod node;
mod peer;
mod reach;
mod record;
mod released;
mod remote;
mod request;
mod rounds;
mod router;
mod shadow;
mod snapshots;
mod spool;
mod step;
mod survey;
#[cfg(test)]
mod tests;

pub use calls::{CHAIN_KEY, Calls, Entered};
pub use config::{AwcpConfig, KnownPeer, KnownPeers, Reach, SandboxConfig, SftpConfig};
pub use delegations::{Create, Delegations, INVITE_RIGHT, RIGHT, Secrets};
pub use driver::Lending;
pub use error::DelegationError;
pub use peer::PeerError;
pub use reach::Origin;
pub use record::{DelegationView, Keeping, LogLine, Side, Snapshot, SnapshotStatus};
pub use released::released_router;
pub use request::CreateRequest;
pub use router::{owner_router, peer_router, router, wait_limit};
pub use shadow::{AuditReport, ChangedFile};
