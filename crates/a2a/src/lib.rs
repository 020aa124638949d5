//! A2A 1.0 and 0.3: every public agent as an A2A agent, and other parties' A2A agents as agents here.
//!
//! The face is [`router`], the driver is [`driver`], and [`client`] is what the driver and others speak through. A task is a
//! turn of a session; what the protocol calls a context is a session. Protocols that ride on A2A plug in as [`Extension`]s.

mod calls;
mod card;
pub mod client;
mod clock;
mod config;
mod context;
mod convert;
mod driver;
mod error;
mod extension;
mod face;
mod feed;
mod listing;
mod operations;
mod perform;
mod push;
mod record;
mod render;
mod request;
mod rest;
mod rpc;
mod run;
mod server;
mod stream;

// The scripted agent of the tests is shared with an example, which knows this crate by its name.
#[cfg(test)]
extern crate self as a2a;
#[cfg(test)]
mod tests;

pub use config::{A2aConfig, BaseUrl, Extensions, PublicAgents, PushPolicy};
pub use convert::prompt;
pub use driver::driver;
pub use extension::{AWCP_URI, DeclineWorkspaces, Extension, ExtensionCall, ExtensionFuture};
pub use run::PASSED_ON;
pub use server::{is_card_path, router};
