//! Model endpoints as agents: the driver that speaks to an OpenAI-compatible server and runs its tools.
//!
//! A turn is a loop: the model answers, asks for tools, is given what they said, and goes on until it has nothing more
//! to ask. Files are touched below the workspace only; every act beside reading asks for permission first.

mod conversation;
mod driver;
mod request;
mod servers;
mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod toolbox;
mod tools;
mod turn;

pub use driver::{Memory, driver};
