//! MCP: the daemon's agents as tools and resources for other agents.
//!
//! The server is a client of the daemon's socket. It keeps no state of its own: every call opens a connection, so a
//! daemon that was restarted is simply found again, and what a call has begun ends with it.

mod asking;
mod caller;
mod client;
mod daemon;
mod event;
mod failure;
mod http;
mod leftovers;
mod lines;
mod node;
mod office;
mod progress;
mod resources;
mod server;
mod settled;
mod sight;
mod tools;
mod transcript;
mod turn;
mod visits;

pub use client::{LoginError, Logins, login, tool_sources};
pub use http::router;
pub use office::{Hosts, OfficeFace, office_router, serve_office, serve_office_stdio};
pub use server::{Config, ServeError, serve, serve_stdio};
