//! The released implementation's dialect: camelCase messages by POST, events by SSE, and its daemon's HTTP API.

mod daemon;
mod event;
mod http;
mod message;

pub use daemon::{
    ContinueRequest, DelegateAnswer, DelegateRequest, DelegationFailure, DelegationRecord,
    DelegationResult, DelegationRow, ErrorAnswer, Health, Resource, ResourceSource, Round,
    Snapshot, SnapshotMode, SnapshotPolicy, SnapshotStatus, SourceEnvironment, Task,
};
pub use event::{Event, Progress};
pub use http::{
    CancelAnswer, Ok, ResultAnswer, ResultStatus, RunningDelegation, StatusAnswer, ack_url,
    cancel_url, events_url, result_url, status_url,
};
pub use message::{
    Accept, Auth, Chunked, Close, Constraints, Continue, Endpoint, Environment, Error, GitAuth,
    Handle, Invite, Lease, Message, ProposedLease, Requirements, SandboxProfile, SshCredential,
    Start, WorkDir, delegation_id,
};

#[cfg(test)]
#[path = "released_tests.rs"]
mod tests;
