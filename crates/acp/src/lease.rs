//! The Session Lease: an ACP agent for an editor, in front of an agent that the engine keeps.
//!
//! [`serve`] speaks to one editor. Its sessions are the engine's, so they have a history, a policy and other clients, and
//! go on when the editor leaves. What agent and editor say in words that have no meaning here passes through unchanged,
//! but for the ids of sessions: events carry the agent's own frames (`frames`), requests of either side that are not
//! understood go to the other (`face`, `room`). An agent that speaks no ACP is put into its words.

mod asks;
mod error;
mod face;
mod frames;
mod hello;
mod line;
mod listing;
mod opening;
mod room;
mod servers;

pub use face::{Asks, Editor, Folder, serve};
