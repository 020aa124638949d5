//! The Agent Client Protocol: the driver of agents that speak it, and the bridge between an editor and one of them.
//!
//! [`connect`] shakes hands with a started process and gives an `engine::Driver`. One task owns the reading (`client`);
//! what the agent tells goes to the session it names (`sessions`, `convert`), what it asks for is carried out beside it
//! (`requests`: permissions, questions, files, terminals). What is not understood is kept word for word, never refused.

pub mod bridge;
mod client;
mod convert;
mod driver;
mod elicitation;
mod failure;
mod files;
mod grants;
mod handshake;
mod permission;
mod requests;
mod sessions;
mod terminal;
mod tools;

#[cfg(test)]
mod tests;

pub use driver::connect;
