//! How a connection ends, and what everyone who holds a part of it learns.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use jsonrpc::{CallError, Connection, Limits, Received, SendError};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use crate::support::{Wire, pair, soon};

const PING: &str = r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#;

#[tokio::test]
async fn the_end_of_input_fails_calls_and_later_sends() {
    let (mut wire, peer, mut incoming) = Wire::new(4096, Limits::default());
    let call = tokio::spawn(peer.call("m", &()));
    let closed = tokio::spawn({
        let peer = peer.clone();
        async move { peer.closed().await }
    });
    wire.line().await;
    assert!(!peer.is_closed());
    drop(wire);
    assert!(soon(incoming.recv()).await.is_none());
    assert!(soon(incoming.recv()).await.is_none());
    assert!(incoming.take_error().is_none());
    assert!(matches!(soon(call).await.unwrap(), Err(CallError::Closed)));
    soon(closed).await.unwrap();
    assert!(matches!(peer.call("m", &()).await, Err(CallError::Closed)));
    assert!(matches!(
        peer.notify("m", &()).await,
        Err(SendError::Closed)
    ));
    assert!(matches!(peer.try_notify("m", &()), Err(SendError::Closed)));
    drop(incoming);
    assert!(matches!(peer.send_line("{}").await, Err(SendError::Closed)));
    assert!(matches!(peer.flush().await, Err(SendError::Closed)));
}

#[tokio::test]
async fn lines_before_the_end_are_handed_out_and_the_last_needs_no_newline() {
    let (mut wire, _peer, mut incoming) = Wire::new(4096, Limits::default());
    wire.write(format!("{PING}\n\n{PING}")).await;
    wire.writer.shutdown().await.unwrap();
    let mut requests = Vec::new();
    while let Some(received) = soon(incoming.recv()).await {
        let Received::Request(request) = received else {
            panic!("{received:?}")
        };
        requests.push(request);
    }
    assert_eq!(requests.len(), 2);
    // The peer closed its sending side and still reads its answers.
    for request in requests {
        request.responder.reply("late").await.unwrap();
        assert_eq!(
            wire.line().await,
            r#"{"jsonrpc":"2.0","id":9,"result":"late"}"#
        );
    }
    drop(incoming);
    assert_eq!(wire.line().await, "");
}

#[tokio::test]
async fn dropping_incoming_closes_the_connection_for_everyone() {
    let ((left, left_in), (_right, mut right_in)) = pair(4096, Limits::default());
    let call = tokio::spawn(left.call("m", &()));
    let Some(Received::Request(request)) = soon(right_in.recv()).await else {
        panic!()
    };
    left.notify("last words", &()).await.unwrap();
    drop(left_in);
    assert!(matches!(soon(call).await.unwrap(), Err(CallError::Closed)));
    assert!(matches!(
        soon(right_in.recv()).await,
        Some(Received::Notification { .. })
    ));
    assert!(soon(right_in.recv()).await.is_none());
    drop(right_in);
    assert!(matches!(
        request.responder.reply(&1).await,
        Err(SendError::Closed)
    ));
}

#[tokio::test]
async fn a_sender_waiting_for_room_learns_of_the_end() {
    let limits = Limits {
        outbox_max: 10,
        ..Limits::default()
    };
    let (wire, peer, incoming) = Wire::new(10, limits);
    peer.notify("first", &()).await.unwrap();
    let waiting = tokio::spawn(peer.notify("second", &()));
    let flushing = tokio::spawn({
        let peer = peer.clone();
        async move { peer.flush().await }
    });
    tokio::task::yield_now().await;
    drop(incoming);
    assert!(matches!(
        soon(waiting).await.unwrap(),
        Err(SendError::Closed)
    ));
    assert!(matches!(
        soon(flushing).await.unwrap(),
        Err(SendError::Closed)
    ));
    drop(wire);
}

/// Gives one line, then whatever `after` says.
struct Script {
    line: Option<&'static [u8]>,
    after: After,
}

#[derive(Clone, Copy)]
enum After {
    Wait,
    Fail,
}

impl AsyncRead for Script {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match (self.line.take(), self.after) {
            (Some(line), _) => {
                buffer.put_slice(line);
                Poll::Ready(Ok(()))
            }
            (None, After::Wait) => Poll::Pending,
            (None, After::Fail) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }
}

const NOTE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\nrest";

#[tokio::test]
async fn a_read_error_ends_the_connection_after_what_was_read() {
    let script = Script {
        line: Some(NOTE),
        after: After::Fail,
    };
    let (_peer, mut incoming) = Connection::new(script, tokio::io::sink(), Limits::default());
    assert!(matches!(
        soon(incoming.recv()).await,
        Some(Received::Notification { .. })
    ));
    assert!(soon(incoming.recv()).await.is_none());
    assert_eq!(
        incoming.take_error().unwrap().kind(),
        io::ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn a_write_error_ends_the_connection_after_what_was_sent() {
    let (writer, reader) = tokio::io::duplex(10);
    drop(reader);
    let script = Script {
        line: Some(NOTE),
        after: After::Wait,
    };
    let (peer, mut incoming) = Connection::new(script, writer, Limits::default());
    // The send itself may have been queued when the writer failed.
    let _ = peer.notify("m", &()).await;
    assert!(matches!(
        peer.notify("m", &()).await,
        Err(SendError::Closed)
    ));
    assert!(matches!(
        soon(incoming.recv()).await,
        Some(Received::Notification { .. })
    ));
    assert!(soon(incoming.recv()).await.is_none());
    assert_eq!(
        incoming.take_error().unwrap().kind(),
        io::ErrorKind::BrokenPipe
    );
    assert!(format!("{peer:?} {incoming:?}").contains("Ended"));
}
