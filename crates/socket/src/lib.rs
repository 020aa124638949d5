//! The daemon's JSON-RPC socket: the server in front of the engine, and the client that commands use.
//!
//! The table of methods is `wire::daemon::METHODS`; `handlers` has one entry for each.

mod attachments;
mod client;
mod convert;
mod error;
mod handlers;
mod listener;
mod params;
mod server;

pub use client::{CallError, Client, ConnectError, Incoming, Message, Outgoing};
pub use listener::{BindError, Listener};
pub use server::{Service, serve};
