//! The Agent Client Protocol: the driver of agents that speak it, and the bridge between an editor and one of them.
//!
//! [`connect`] shakes hands with a started process and gives an `engine::Driver`. One task owns the reading (`client`);
//! what the agent tells goes to the session it names (`sessions`, `convert`), what it asks for is carried out beside it
//! (`requests`: permissions, questions, files, terminals). [`lease`] is the other side: an agent for editors, in front of
//! any agent of the engine. What is not understood is kept word for word, never refused.

mod asking;
pub mod bridge;
mod client;
mod command;
mod convert;
mod driver;
mod elicitation;
mod failure;
mod files;
mod grants;
mod handshake;
pub mod lease;
mod lenders;
mod lenient;
mod members;
mod modes;
mod opening;
mod permission;
mod relay;
mod requests;
mod sessions;
mod terminal;
mod tools;

#[cfg(test)]
mod tests;

pub use driver::connect;
