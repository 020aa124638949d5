//! `daemon.*`, and the parameters that many methods share.

use serde::{Deserialize, Serialize};

/// No parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// Parameters that only name something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameParams {
    pub name: String,
}

/// It was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Success {
    pub success: bool,
}

/// `daemon.shutdown`: accepted; the connection closes when the daemon is gone.
pub type ShutdownResult = Success;

/// `daemon.ping`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PingResult {
    pub version: String,
    /// Seconds since the daemon was ready.
    pub uptime: f64,
    /// How many agents there are.
    pub agents: usize,
    /// The daemon's process.
    #[serde(default)]
    pub pid: u32,
    /// How many requests of this connection are still being worked on, so that a client knows that waiting is worth it.
    #[serde(default)]
    pub working: usize,
    /// Where the daemon keeps its things.
    #[serde(default)]
    pub home: String,
}
