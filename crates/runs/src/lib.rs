//! The runs API: agents over HTTP with sessions, awaits and an exchange, and the driver for a peer's agent.
//!
//! It speaks the Agent Communication Protocol as standard clients know it, and its extension for agents on a local
//! network, from one model. A run is a turn in a session of the engine; what the turn asks, the run awaits.

mod awaits;
mod begin;
mod beside;
pub mod client;
mod config;
mod create;
mod deliver;
mod error;
mod exchange;
mod history;
mod log;
mod manifest;
mod node;
mod peer;
mod prompt;
mod record;
mod resources;
mod router;
mod sessions;
mod story;
mod stream;
mod task;

#[cfg(test)]
mod tests;

pub use config::{
    ANSWER, Capabilities, Dropbox, ExchangeConfig, Place, PublicAgents, RunsConfig, S3,
    SESSION_TTL, WORK,
};
pub use exchange::{Exchange, ExchangeError};
pub use node::{OpenError, Runs};
pub use peer::PeerDriver;
