//! A server that answers, and a raw end to write bytes into and read lines from.

use std::time::Duration;

use jsonrpc::{Connection, ErrorObject, Incoming, Limits, Peer, Received};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

/// Longer than anything here takes; a test that reaches it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("this should not hang")
}

/// Two connections joined by pipes of `capacity` bytes.
pub(crate) fn pair(capacity: usize, limits: Limits) -> ((Peer, Incoming), (Peer, Incoming)) {
    let (left, right) = tokio::io::duplex(capacity);
    (open(left, limits), open(right, limits))
}

pub(crate) fn open(stream: DuplexStream, limits: Limits) -> (Peer, Incoming) {
    let (reader, writer) = tokio::io::split(stream);
    Connection::new(reader, writer, limits)
}

/// The far end of a connection, by hand.
pub(crate) struct Wire {
    pub(crate) lines: BufReader<ReadHalf<DuplexStream>>,
    pub(crate) writer: WriteHalf<DuplexStream>,
}

impl Wire {
    pub(crate) fn new(capacity: usize, limits: Limits) -> (Wire, Peer, Incoming) {
        let (near, far) = tokio::io::duplex(capacity);
        let (peer, incoming) = open(near, limits);
        let (reader, writer) = tokio::io::split(far);
        (
            Wire {
                lines: BufReader::new(reader),
                writer,
            },
            peer,
            incoming,
        )
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        soon(self.writer.write_all(bytes.as_ref())).await.unwrap();
    }

    /// The next line, or an empty text at the end.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        soon(self.lines.read_line(&mut line)).await.unwrap();
        line.trim_end().to_owned()
    }
}

/// Answers `echo` with its params and anything else with an error, until the end.
pub(crate) async fn serve(mut incoming: Incoming) {
    while let Some(received) = incoming.recv().await {
        if let Received::Request(request) = received {
            answer(request).await;
        }
    }
}

pub(crate) async fn answer(request: jsonrpc::Request) {
    // A peer that left is not this server's trouble.
    let _ = match (request.method.as_str(), request.params) {
        ("echo", params) => request.responder.reply(&params).await,
        ("ping", _) => request.responder.reply("pong").await,
        (method, _) => {
            request
                .responder
                .fail(ErrorObject::method_not_found(method))
                .await
        }
    };
}
