//! The daemon's JSON-RPC socket: the server in front of the engine, and the client that commands use.
//!
//! The table of methods is `wire::daemon::METHODS`; `handlers` has one entry for each.

mod attachments;
mod client;
mod convert;
mod editor;
mod error;
mod handlers;
mod lending;
mod listener;
mod params;
mod proxies;
mod server;

pub use client::{CallError, Client, ConnectError, Incoming, Message, Outgoing};
pub use editor::{EditorAsks, EditorFolder, EditorLink, ServeEditor};
pub use lending::{Lender, LendingAnswer, LendingCall, LendingParameters, LendingRefusal};
pub use listener::{BindError, Listener};
pub use proxies::Proxies;
pub use server::{Service, serve};
