//! An SSH server that offers SFTP below one folder and nothing else, under a lease; and the mount of such a folder.
//!
//! `server` and `connection` speak SSH, `worker` carries bytes to a thread, `conversation` performs SFTP requests on
//! the files of a `view`. `mount` is the other side, which uses the system's sshfs.

mod audit;
mod connection;
mod conversation;
mod export;
mod guard;
mod keys;
mod links;
pub mod mount;
mod protocol;
mod quota;
mod server;
#[cfg(test)]
mod tests;
mod view;
mod worker;

pub use audit::{Act, Record, Touched, Usage};
pub use export::{Access, Export, Grant};
pub use keys::{Credential, HostKey, KeyError, KeyFailure};
pub use quota::QuotaHit;
pub use server::{BindError, ExportError, Server};
pub use view::WORKSPACE;
