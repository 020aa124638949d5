//! Lending a workspace: the host and the remote as two machines over one model.
//!
//! Both survive lost, repeated, late and reordered messages and a crash between any two steps. Whoever owns a machine
//! stores it before it performs the effects, in their order: each is finished before the next begins, except those
//! that say they come back as an input. An effect that is told to stop something returns when that has stopped.

mod admission;
mod failure;
mod host;
mod locks;
mod remote;
mod terms;

#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
mod table_tests;

pub use admission::{Admission, Admitted, Preflight, SIZE_MAX, Size, SizeMax};
pub use failure::{Code, Failure};
pub use host::{Host, HostEffect, HostInput};
pub use locks::{LOCK_QUEUE_MAX, LockDecision, LockError, Locks};
pub use remote::{Remote, RemoteEffect, RemoteInput};
pub use terms::{
    Acceptance, Access, Agreement, Cleanup, DelegationId, Ending, Grant, Hold, Offer, Phase,
    Rejected, Report, Sandbox, Transport, Waits,
};
