//! The client's lines on their way to the library, which answers a request that it cannot read without the request's id, or
//! not at all. Those become requests that it can read and that nobody serves, so that the client is told why.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use jsonrpc::{Decoder, Frame, Id, LINE_MAX, Malformed, MalformedKind, Message};
use serde_json::{Value, json, value::to_raw_value};
use tokio::io::{AsyncRead, ReadBuf};

/// What a request is called that cannot be carried out; its params say why.
pub(crate) const UNREADABLE: &str = "agentcraft/unreadable";

/// Bytes asked for in one read: what a pipe holds.
const CHUNK: usize = 64 * 1024;

/// Reads lines, and gives them in a form that the library understands.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    chunk: Box<[u8]>,
    decoder: Decoder,
    line: Vec<u8>,
    /// How much of the line has been given.
    given: usize,
    ended: bool,
}

impl<R> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader,
            chunk: vec![0; CHUNK].into_boxed_slice(),
            decoder: Decoder::new(LINE_MAX),
            line: Vec::new(),
            given: 0,
            ended: false,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.given < this.line.len() {
                let rest = &this.line[this.given..];
                let length = rest.len().min(buffer.remaining());
                buffer.put_slice(&rest[..length]);
                this.given += length;
                return Poll::Ready(Ok(()));
            }
            if let Some(frame) = this.decoder.next_frame() {
                this.line = legible(frame);
                this.given = 0;
                continue;
            }
            if this.ended {
                return Poll::Ready(Ok(()));
            }
            let mut read = ReadBuf::new(&mut this.chunk);
            ready!(Pin::new(&mut this.reader).poll_read(context, &mut read))?;
            match read.filled() {
                [] => {
                    this.ended = true;
                    this.decoder.push(b"\n"); // The last line may come without its end.
                }
                bytes => this.decoder.push(bytes),
            }
        }
    }
}

/// The line as it is, or a request in its place that is answered with its id.
fn legible(frame: Frame) -> Vec<u8> {
    let (line, parsed) = match frame {
        Frame::Line(line) => {
            let parsed = Message::parse(&line);
            (line, parsed)
        }
        Frame::TooLong(ends) => (ends.head.clone(), Err(Malformed::too_long(LINE_MAX, &ends))),
    };
    match parsed {
        // No method here takes a list; without its params one that needs some is refused.
        Ok(Message::Request {
            id,
            method,
            params: Some(params),
        }) if params.get().starts_with('[') => {
            let params = None;
            Message::Request { id, method, params }.encode()
        }
        // The library reads everything as values, which may not be nested without end.
        Ok(Message::Request { id, .. }) => match serde_json::from_slice::<Value>(&line) {
            Ok(_) => [&line, b"\n".as_slice()].concat(),
            Err(error) => unreadable(id, &format!("the params cannot be read: {error}")),
        },
        Err(Malformed {
            kind: MalformedKind::Request | MalformedKind::TooLong,
            id: Some(id),
            error,
        }) => unreadable(id, &error.message),
        Ok(_) | Err(_) => [&line, b"\n".as_slice()].concat(),
    }
}

fn unreadable(id: Id, why: &str) -> Vec<u8> {
    Message::Request {
        id,
        method: UNREADABLE.to_owned(),
        params: to_raw_value(&json!({ "why": why })).ok(),
    }
    .encode()
}
