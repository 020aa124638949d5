//! What may happen: names, time, and the rules of everything that lives, as pure values and state machines.
//!
//! Nothing here reads a clock, a file or a random number; whoever performs the effects passes them in.

pub mod chain;
pub mod delegation;
pub mod lifecycle;
mod name;
pub mod office;
pub mod permission;
pub mod run;
pub mod session;
pub mod target;
mod time;
mod trace;
pub mod turn;

pub use name::{NAME_MAX, Name, NameError};
pub use time::Timestamp;
pub use trace::{NoTrace, TRACEPARENT, Trace};
