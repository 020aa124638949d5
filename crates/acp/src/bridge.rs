//! The Direct Bridge: what an editor writes is carried to an agent as it is, but for the folder that its sessions work in.
//!
//! `folders` finds that one value in the stream and changes no other byte; `carry` moves the bytes. The other direction
//! needs neither: the agent is given the editor's own pipe to write to.

mod carry;
mod folders;
#[cfg(test)]
mod folders_tests;

pub use carry::{Carried, carry, wait_until_stuck, write_all};
pub use folders::{FolderRewriter, Folders};
