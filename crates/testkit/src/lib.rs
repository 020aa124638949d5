//! What tests share: a daemon of their own in a temporary home, its command line, its socket, and its processes.
//!
//! Everything here panics when it fails, as tests do.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

mod client;
mod daemon;
mod processes;
mod scripted;

pub use client::{RawClient, RemoteError};
pub use daemon::{Builder, Output, TestDaemon, eventually};
pub use processes::{kill, marked_processes, zombie_or_gone};

/// How long a test waits for what should happen at once, on a machine that may be busy with other tests.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
