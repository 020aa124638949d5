//! JSON-RPC 2.0 by lines: a codec without IO, and (feature `tokio`) a connection over it.
//!
#![doc = include_str!("../README.md")]

mod codec;
#[cfg(feature = "tokio")]
mod connection;
mod encode;
#[cfg(feature = "tokio")]
mod error;
mod error_object;
mod id;
mod message;
mod overlong;
mod parse;

pub use codec::{Decoder, Frame, LINE_MAX};
#[cfg(feature = "tokio")]
pub use connection::{
    CALLS_MAX, CANCEL_METHOD, Connection, Incoming, Limits, OUTBOX_MAX, Peer, Received,
    ReplyToMalformed, Request, Responder,
};
#[cfg(feature = "tokio")]
pub use error::{CallError, SendError};
pub use error_object::{
    ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
    REQUEST_CANCELLED,
};
pub use id::Id;
pub use message::Message;
pub use overlong::Ends;
pub use parse::{Malformed, MalformedKind};
