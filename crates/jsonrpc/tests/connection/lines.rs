//! Malformed lines, raw lines, and many lines in one read.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use jsonrpc::{Connection, Id, LINE_MAX, Limits, MalformedKind, Received, SendError};
use tokio::io::AsyncWrite;

use crate::support::{Wire, answer, serve, soon};

const PING: &str = "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}\n";
const PONG: &str = r#"{"jsonrpc":"2.0","id":9,"result":"pong"}"#;

#[tokio::test]
async fn malformed_lines_are_answered_and_the_loop_goes_on() {
    let (mut wire, _peer, incoming) = Wire::new(4096, Limits::default());
    tokio::spawn(serve(incoming));
    for (line, expected) in [
        (
            "nonsense",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"#,
        ),
        (
            "[]",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#,
        ),
        (
            r#"{"jsonrpc":"1.0","id":"a","method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32600,"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1e2,"method":"m","params":1}"#,
            r#"{"jsonrpc":"2.0","id":1e2,"error":{"code":-32600,"#,
        ),
    ] {
        wire.write(format!("{line}\r\n")).await;
        let answer = wire.line().await;
        assert!(answer.starts_with(expected), "{line} was answered {answer}");
        wire.write(PING).await;
        assert_eq!(wire.line().await, PONG);
    }
}

#[tokio::test]
async fn malformed_lines_are_shown_to_the_owner() {
    let limits = Limits {
        line_max: 50,
        ..Limits::default()
    };
    let (mut wire, _peer, mut incoming) = Wire::new(4096, limits);
    wire.write(format!(
        "bad\n{}\n{{\"id\":1,\"result\":1}}\n",
        "x".repeat(51)
    ))
    .await;
    for expected in [
        (MalformedKind::Parse, true, "bad"),
        (MalformedKind::TooLong, true, ""),
        (MalformedKind::Response, false, r#"{"id":1,"result":1}"#),
    ] {
        let Some(Received::Malformed {
            malformed,
            answered,
            raw,
        }) = soon(incoming.recv()).await
        else {
            panic!("{expected:?}")
        };
        assert_eq!(
            (malformed.kind, answered, std::str::from_utf8(&raw).unwrap()),
            expected
        );
    }
}

#[tokio::test]
async fn a_line_of_ten_mebibytes_is_answered_and_one_byte_more_is_refused() {
    let (mut wire, _peer, incoming) = Wire::new(1 << 20, Limits::default());
    tokio::spawn(serve(incoming));
    let (head, tail) = (
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[""#,
        "\"]}",
    );
    for (length, expected) in [
        (
            LINE_MAX,
            r#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#.to_owned(),
        ),
        (
            LINE_MAX + 1,
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32600,"message":"line is longer than {LINE_MAX} bytes"}}}}"#
            ),
        ),
    ] {
        let filler = "x".repeat(length - head.len() - tail.len());
        wire.write(format!("{head}{filler}{tail}\n")).await;
        assert_eq!(wire.line().await, expected);
        wire.write(PING).await;
        assert_eq!(wire.line().await, PONG);
    }
}

#[tokio::test]
async fn whoever_waits_for_an_answer_that_is_too_long_is_told_so_and_the_next_one_comes() {
    let (mut wire, peer, incoming) = Wire::new(1 << 20, Limits::default());
    tokio::spawn(serve(incoming));
    let waiting = tokio::spawn(peer.call("m", &()));
    let asked = wire.line().await;
    assert_eq!(asked, r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
    let filler = "x".repeat(LINE_MAX);
    wire.write(format!(
        "{{\"jsonrpc\":\"2.0\",\"result\":\"{filler}\",\"id\":1}}\n"
    ))
    .await;
    let told = waiting.await.unwrap();
    let words = format!("{told:?}");
    assert!(words.contains("line is longer"), "{words}");
    wire.write(PING).await;
    assert_eq!(wire.line().await, PONG);
}

#[tokio::test]
async fn raw_lines_pass_unchanged_both_ways() {
    let (mut wire, peer, mut incoming) = Wire::new(
        4096,
        Limits {
            line_max: 99,
            ..Limits::default()
        },
    );
    let line = r#"{ "id":"a", "method":"m","jsonrpc":"2.0", "extra":1}"#;
    wire.write(format!("{line}\r\n")).await;
    let Some(Received::Request(request)) = soon(incoming.recv()).await else {
        panic!()
    };
    assert_eq!(request.raw, line);
    assert_eq!(request.responder.into_id(), Id::from("a"));
    peer.send_line(request.raw).await.unwrap();
    peer.send_line("{}\n").await.unwrap();
    assert_eq!(wire.line().await, line);
    assert_eq!(wire.line().await, "{}");
    for bad in ["", "\n", " ", "a\nb", "a\n\n"] {
        assert!(
            matches!(peer.send_line(bad).await, Err(SendError::NotALine)),
            "{bad:?}"
        );
    }
    let long = peer.send_line("x".repeat(100)).await;
    assert!(
        matches!(
            long,
            Err(SendError::TooLong {
                length: 100,
                line_max: 99
            })
        ),
        "{long:?}"
    );
    assert!(matches!(peer.notify("m", &1).await, Err(SendError::Params)));
}

/// Counts writes and flushes, and takes everything.
struct Counter(Arc<AtomicUsize>);

impl AsyncWrite for Counter {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Ok(bytes.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn answers_to_lines_of_one_read_share_a_write() {
    let writes = Arc::new(AtomicUsize::new(0));
    let input = io::Cursor::new(PING.repeat(100));
    let (_peer, mut incoming) =
        Connection::new(input, Counter(Arc::clone(&writes)), Limits::default());
    let mut answered = 0;
    while let Some(Received::Request(request)) = soon(incoming.recv()).await {
        answer(request).await;
        answered += 1;
    }
    assert_eq!((answered, writes.load(Ordering::Relaxed)), (100, 1));
}

#[tokio::test]
async fn an_answer_held_back_goes_out_before_the_reader_waits() {
    let (mut wire, _peer, mut incoming) = Wire::new(4096, Limits::default());
    wire.write(PING.repeat(2)).await;
    let Some(Received::Request(first)) = soon(incoming.recv()).await else {
        panic!()
    };
    first.responder.reply("pong").await.unwrap();
    let Some(Received::Request(_second)) = soon(incoming.recv()).await else {
        panic!()
    };
    // The second is not answered, and the reader goes to wait for a third.
    tokio::select! {
        biased;
        received = incoming.recv() => panic!("{received:?}"),
        line = wire.line() => assert_eq!(line, PONG),
    }
}
