//! From a description to a process, with the session and the entry at the guardian made between its birth and its exec.
//!
//! A plain fork copies the page tables of the whole daemon for a child that drops them at once, which costs more than a small
//! command takes to run. So on Linux the child borrows our memory until its exec, as in `posix_spawn`, while the thread that
//! started it waits.

#[cfg(target_os = "linux")]
mod borrowed;
#[cfg(not(target_os = "linux"))]
mod copied;

use std::os::fd::OwnedFd;

/// A child that has reached its program, with our ends of its piped streams.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) pid: u32,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
}

#[cfg(target_os = "linux")]
pub(super) use borrowed::launch;
#[cfg(not(target_os = "linux"))]
pub(super) use copied::launch;
