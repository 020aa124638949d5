//! Offices: the relay that lends the tools of many computers to an agent, its computer and its agent side.

pub mod agent;
mod audit;
mod caller;
mod clock;
pub mod computer;
mod convert;
mod link;
mod progress;
pub mod server;

pub use audit::{Audit, Refused};
pub use caller::{Authenticator, Caller};
pub use link::{LinkConfig, LinkError, Standing};
pub use progress::Listener;

#[cfg(test)]
mod tests;
