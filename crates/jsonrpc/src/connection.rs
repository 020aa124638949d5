//! The connection over a reader and a writer: no tasks of its own, both directions, bounded.
//!
//! `Incoming` belongs to the one loop that reads; `Peer` is cloned to whoever sends. They share
//! the outbox (what is to be written) and the table of calls (who waits for which answer).

mod calls;
mod incoming;
mod limits;
mod open;
mod outbox;
mod peer;
mod responder;

pub use incoming::{Incoming, Received, Request};
pub use limits::{CALLS_MAX, Limits, OUTBOX_MAX};
pub use open::{Connection, ReplyToMalformed};
pub use peer::{CANCEL_METHOD, Peer};
pub use responder::Responder;
