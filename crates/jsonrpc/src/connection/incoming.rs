//! The reading half: the loop that owns the connection reads, routes answers to their callers,
//! answers malformed lines, and drives what is still to be written.

use std::{
    fmt,
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, ReadBuf};

use super::{Responder, open::Shared, outbox::Claim};
use crate::{
    CallError, Decoder, ErrorObject, Frame, Id, Malformed, MalformedKind, Message,
    encode::error_line,
};

/// Bytes asked for in one read: what a socket commonly holds, so a burst costs one system call.
const READ_CHUNK: usize = 64 * 1024;

/// Bytes still read after the writing has failed: about what a socket holds of what the peer sent
/// before. A peer that goes on sending is not listened to for ever.
const TAIL_MAX: usize = 1024 * 1024;

/// A request of the peer, and the duty to answer it.
#[derive(Debug)]
pub struct Request {
    pub method: String,
    pub params: Option<Box<RawValue>>,
    pub responder: Responder,
    /// The line as it came, without its line end.
    pub raw: Bytes,
}

/// What came in. `raw` is always the line as it came, without its line end.
#[derive(Debug)]
pub enum Received {
    Request(Request),
    Notification {
        method: String,
        params: Option<Box<RawValue>>,
        raw: Bytes,
    },
    /// A response no call waits for: to a raw request, to a forgotten call, or (without an id) to
    /// a line of ours that the peer could not read.
    Response {
        id: Option<Id>,
        outcome: Result<Box<RawValue>, ErrorObject>,
        raw: Bytes,
    },
    /// A line that is no message, for the log; nothing is left to do about it. It was answered
    /// unless it was a bad response or the outbox is full. `raw` is empty for a line too long.
    Malformed {
        malformed: Malformed,
        answered: bool,
        raw: Bytes,
    },
}

/// The one reader of a connection. Dropping it closes the connection.
///
/// Keep the time between two `recv` short and do slow work in other tasks: meanwhile nothing is
/// read, and answers to requests that arrived together with unread ones may be held back to
/// share a write. Awaiting a reply inside the loop is fine while the peer reads. If the peer stops
/// reading until we read, and the outbox is full, such a loop and the peer wait for each other;
/// a loop that must survive this answers from another task or with `select!`.
pub struct Incoming {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    chunk: Box<[u8]>,
    decoder: Decoder,
    shared: Arc<Shared>,
    state: State,
    failure: Option<io::Error>,
    /// Bytes read since the writing failed.
    tail: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// The input is over; lines already decoded are still handed out.
    Ending,
    Ended,
}

impl Incoming {
    pub(super) fn new(reader: Box<dyn AsyncRead + Send + Unpin>, shared: Arc<Shared>) -> Incoming {
        Incoming {
            reader,
            chunk: vec![0; READ_CHUNK].into_boxed_slice(),
            decoder: Decoder::new(shared.limits.line_max),
            shared,
            state: State::Reading,
            failure: None,
            tail: 0,
        }
    }

    /// The next message; `None` once the connection has ended and everything read before was
    /// handed out. Nothing is lost if the future is dropped.
    pub async fn recv(&mut self) -> Option<Received> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// [`recv`](Incoming::recv) for hand-written futures.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Received>> {
        loop {
            while let Some(frame) = self.decoder.next_frame() {
                // As long as lines remain, answers gather; the last one takes them along.
                self.shared.outbox.cork(self.decoder.has_line());
                if let Some(received) = self.route(frame) {
                    return Poll::Ready(Some(received));
                }
            }
            self.shared.outbox.poll_writing(context.waker());
            match self.state {
                State::Reading => ready!(self.poll_read(context)),
                State::Ending => {
                    self.state = State::Ended;
                    self.shared.end_input();
                }
                State::Ended => return Poll::Ready(None),
            }
        }
    }

    /// The error that ended the connection, in reading or in writing; `None` if the peer just
    /// closed it.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.failure
            .take()
            .or_else(|| self.shared.outbox.take_failure())
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut buffer = ReadBuf::new(&mut self.chunk);
        match Pin::new(&mut self.reader).poll_read(context, &mut buffer) {
            Poll::Ready(Ok(())) => match buffer.filled() {
                [] => {
                    self.state = State::Ending;
                    // A last line may come without its newline and is handled all the same.
                    self.decoder.push(b"\n");
                }
                bytes => {
                    self.decoder.push(bytes);
                    if self.shared.outbox.is_closed() {
                        self.tail += bytes.len();
                        if self.tail > TAIL_MAX {
                            self.state = State::Ending;
                        }
                    }
                }
            },
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Poll::Ready(Err(error)) => {
                self.failure = Some(error);
                self.state = State::Ending;
            }
            // What the peer sent before the writing failed has been read by now.
            Poll::Pending if self.shared.outbox.is_closed() => self.state = State::Ending,
            Poll::Pending => return Poll::Pending,
        }
        Poll::Ready(())
    }

    /// Handles a frame, or hands it out.
    fn route(&mut self, frame: Frame) -> Option<Received> {
        let (parsed, raw) = match frame {
            Frame::Line(line) => (Message::parse(&line), line),
            Frame::TooLong(ends) => (
                Err(Malformed::too_long(self.shared.limits.line_max, &ends)),
                Bytes::new(),
            ),
        };
        match parsed {
            Ok(Message::Request { id, method, params }) => {
                let responder = Responder::new(Arc::clone(&self.shared), id);
                Some(Received::Request(Request {
                    method,
                    params,
                    responder,
                    raw,
                }))
            }
            Ok(Message::Notification { method, params }) => Some(Received::Notification {
                method,
                params,
                raw,
            }),
            Ok(Message::Response { id, outcome }) => {
                match id.as_ref().and_then(|id| self.shared.calls.waits_for(id)) {
                    Some(call) => {
                        self.shared
                            .calls
                            .answer(call, outcome.map_err(CallError::Remote));
                        None
                    }
                    None => Some(Received::Response { id, outcome, raw }),
                }
            }
            Err(malformed) => Some(self.refuse(malformed, raw)),
        }
    }

    fn refuse(&self, malformed: Malformed, raw: Bytes) -> Received {
        let call = match malformed.kind {
            MalformedKind::Response | MalformedKind::Bare => malformed.id.as_ref(),
            MalformedKind::Parse | MalformedKind::TooLong | MalformedKind::Request => None,
        };
        let call = call.and_then(|id| self.shared.calls.waits_for(id));
        let answered = match (malformed.kind, call) {
            (_, Some(call)) => {
                let error = CallError::Malformed(malformed.error.clone());
                self.shared.calls.answer(call, Err(error));
                false
            }
            (MalformedKind::Response, None) => false,
            (
                MalformedKind::Parse
                | MalformedKind::TooLong
                | MalformedKind::Request
                | MalformedKind::Bare,
                None,
            ) => {
                match (self.shared.reply_to_malformed)(&malformed) {
                    Some(error) => {
                        let line = error_line(malformed.id.as_ref(), &error);
                        // Waiting for room here would let a peer that does not read stop our reading.
                        self.shared.outbox.try_send(line, Claim::Answer).is_ok()
                    }
                    None => false,
                }
            }
        };
        Received::Malformed {
            malformed,
            answered,
            raw,
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.shared.end_input();
        self.shared.outbox.close();
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Incoming")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
