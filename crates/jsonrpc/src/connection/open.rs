//! Puts the parts of a connection together.

use std::sync::Arc;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};

use super::{Incoming, Limits, Peer, calls::Calls, outbox::Outbox};
use crate::{ErrorObject, Malformed};

/// What the peer is told of a line of its own that is no message.
pub type ReplyToMalformed = fn(&Malformed) -> Option<ErrorObject>;

/// A connection is its two halves; this names the act of making them.
#[derive(Debug)]
pub struct Connection;

impl Connection {
    /// Starts speaking JSON-RPC over a reader and a writer. Nothing is spawned: reading, and
    /// writing what did not fit at once, happen while [`Incoming::recv`] is awaited.
    #[expect(
        clippy::new_ret_no_self,
        reason = "a connection is held as its two halves"
    )]
    pub fn new<R, W>(reader: R, writer: W, limits: Limits) -> (Peer, Incoming)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Connection::with_reply_to_malformed(reader, writer, limits, |malformed| {
            Some(malformed.error.clone())
        })
    }

    /// As [`Connection::new`], with a say in how lines that are no message are answered: `reply`
    /// may add to the error, or give nothing to stay silent.
    pub fn with_reply_to_malformed<R, W>(
        reader: R,
        writer: W,
        limits: Limits,
        reply: ReplyToMalformed,
    ) -> (Peer, Incoming)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let shared = Arc::new(Shared {
            outbox: Outbox::new(Box::new(writer), limits.outbox_max),
            calls: Calls::new(limits.calls_max),
            closed: watch::Sender::new(false),
            limits,
            reply_to_malformed: reply,
        });
        (
            Peer::new(Arc::clone(&shared)),
            Incoming::new(Box::new(reader), shared),
        )
    }
}

/// What the two halves and every responder hold together.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) outbox: Outbox,
    pub(super) calls: Calls,
    pub(super) closed: watch::Sender<bool>,
    pub(super) limits: Limits,
    pub(super) reply_to_malformed: ReplyToMalformed,
}

impl Shared {
    /// No more input will come: nobody's answer can arrive, and new sends are refused.
    pub(super) fn end_input(&self) {
        self.outbox.end_input();
        self.calls.close();
        self.closed.send_replace(true);
    }
}
