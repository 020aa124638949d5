//! The life of one agent as a machine: what may follow what, and what must be done about it.
//!
//! It owns the states, the restart rules and the table of moves. Launching, ending and watching processes, and keeping
//! the record, are effects performed by the task that owns the machine.

mod machine;
mod restart;
mod state;

pub use machine::Lifecycle;
pub use restart::{RESTARTS_MAX, STABLE_AFTER, backoff};
pub use state::{Effect, Force, Goal, Input, Refusal, Restart, State};

use serde::{Deserialize, Serialize};

/// How an agent is launched, and what its exit means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchMode {
    /// Started by hand; an exit is the end of it.
    Direct,
    /// Kept in the background for other programs; an exit is the end of it.
    AcpBackground,
    /// A service: restarted after a crash and after a restart of the daemon.
    AcpService,
    /// Does one thing; may be destroyed when it exits.
    OneShot,
}

impl LaunchMode {
    /// Every mode, as written in files and on the wire.
    pub const ALL: [(&'static str, Self); 4] = [
        ("direct", Self::Direct),
        ("acp-background", Self::AcpBackground),
        ("acp-service", Self::AcpService),
        ("one-shot", Self::OneShot),
    ];

    /// The policy an agent of this mode has unless told otherwise.
    pub fn default_policy(self) -> WorkspacePolicy {
        match self {
            Self::OneShot => WorkspacePolicy::Ephemeral,
            Self::Direct | Self::AcpBackground | Self::AcpService => WorkspacePolicy::Persistent,
        }
    }
}

/// Whether the workspace outlives its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkspacePolicy {
    Persistent,
    Ephemeral,
}

impl WorkspacePolicy {
    /// Every policy, as written in files and on the wire.
    pub const ALL: [(&'static str, Self); 2] = [
        ("persistent", Self::Persistent),
        ("ephemeral", Self::Ephemeral),
    ];
}

/// Who started the process, and so who may end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ownership {
    /// We did.
    Managed,
    /// A client did and told us.
    External,
}

/// A process, safe against reuse of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// The kernel's start time of that process, in its own ticks.
    pub started: u64,
}

/// What is known of a process that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// It was not our child, so nobody told us how it ended.
    Unknown,
}

impl Exit {
    /// Whether the process ended by itself and said all was well.
    pub fn is_clean(self) -> bool {
        self == Self::Code(0)
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("gone"),
        }
    }
}

/// What anybody sees of a state: the words of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Created,
    Starting,
    Running,
    Stopping,
    Stopped,
    Error,
    Crashed,
}

impl Status {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Error => "error",
            Self::Crashed => "crashed",
        }
    }
}
