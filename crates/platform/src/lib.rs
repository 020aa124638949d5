//! The machine: processes, groups, the guardian, confined files, tasks.
//!
//! Linux is the first platform (pidfd, `/proc`, openat2); elsewhere the same API works with weaker means.
//! Blocking functions are plain `fn`: async callers run them through [`Tasks::spawn_blocking`].

pub mod bell;
pub mod command;
pub mod confined;
pub mod crash;
pub mod environment;
pub mod files;
pub mod guardian;
pub mod owner;
pub mod pid;
pub mod process;
mod recent;
pub mod sandbox;
mod snapshot;
pub mod system;
pub mod tasks;
pub mod usage;

#[cfg(test)]
mod test_support;

pub use confined::ConfinedDir;
pub use environment::base_environment;
pub use guardian::Guardian;
pub use owner::{Owner, OwnerScope, OwnerTag};
pub use pid::ProcessRef;
pub use process::{Exit, Group, Pipes, Spawn, SpawnError, Stream};
pub use sandbox::Sandbox;
pub use tasks::{Drained, Tasks};
