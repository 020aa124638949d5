//! The built-in agent: an ACP agent without a model, without a network, inside our own binary.
//!
//! It speaks the Agent Client Protocol v1 by lines like any other agent, does what simple commands tell it, and asks
//! before it changes anything. Samples and tests use it, and newcomers meet it first. `commands` is the list of what
//! it understands; `serve` is the connection, `turn` the life of one prompt.

mod archive;
mod commands;
mod history;
mod methods;
mod serve;
mod session;
mod tool;
mod turn;
mod updates;
mod words;
mod workspace;
pub use serve::{Options, ServeError, run, serve};
