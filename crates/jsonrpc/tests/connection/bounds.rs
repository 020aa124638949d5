//! A peer that never reads: nothing grows, nothing blocks that need not, and room comes back.

use std::time::Duration;

use jsonrpc::{Limits, Received, SendError};

use crate::support::{Wire, serve, soon};

const SMALL: Limits = Limits {
    line_max: 1000,
    outbox_max: 2000,
    calls_max: 4,
};

/// Sends notifications until the outbox is full; returns how many it took.
fn fill(peer: &jsonrpc::Peer) -> usize {
    for sent in 0..1000 {
        match peer.try_notify("n", &[sent]) {
            Ok(()) => {}
            Err(SendError::Full) => return sent,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("the outbox never fills");
}

#[tokio::test]
async fn the_outbox_is_bounded_and_what_it_took_arrives_in_order() {
    let (mut wire, peer, incoming) = Wire::new(100, SMALL);
    let taken = fill(&peer);
    assert!(taken < 60, "{taken} lines of 40 bytes are over 2000");
    tokio::spawn(serve(incoming));
    for number in 0..taken {
        let expected = format!(r#"{{"jsonrpc":"2.0","method":"n","params":[{number}]}}"#);
        assert_eq!(wire.line().await, expected);
    }
    soon(peer.flush()).await.unwrap();
    peer.try_notify("again", &()).unwrap();
}

#[tokio::test]
async fn reading_goes_on_while_the_peer_does_not_read() {
    let (mut wire, peer, mut incoming) = Wire::new(100, SMALL);
    fill(&peer);
    for round in 0..50 {
        wire.write(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"m{round}\"}}\n"))
            .await;
        let Some(Received::Notification { method, .. }) = soon(incoming.recv()).await else {
            panic!()
        };
        assert_eq!(method, format!("m{round}"));
        wire.write("garbage\n").await;
        match soon(incoming.recv()).await {
            Some(Received::Malformed { answered, .. }) => assert!(!answered),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_send_that_waits_for_room_needs_no_reader_of_ours() {
    let (mut wire, peer, incoming) = Wire::new(100, SMALL);
    let taken = fill(&peer);
    // Nobody awaits recv: the one who waits drives the writing itself.
    let rest = tokio::spawn({
        let peer = peer.clone();
        async move {
            peer.notify("last", &()).await.unwrap();
            peer.flush().await.unwrap();
        }
    });
    for _ in 0..taken {
        assert!(wire.line().await.contains("\"n\""));
    }
    assert!(wire.line().await.contains("\"last\""));
    soon(rest).await.unwrap();
    drop(incoming);
}

#[tokio::test]
async fn a_line_larger_than_the_outbox_is_sent_when_nothing_else_waits() {
    let limits = Limits {
        outbox_max: 10,
        ..Limits::default()
    };
    let (mut wire, peer, incoming) = Wire::new(16, limits);
    tokio::spawn(serve(incoming));
    let text = "x".repeat(5000);
    let sends = tokio::spawn(async move {
        for _ in 0..3 {
            peer.notify("m", &[&text]).await.unwrap();
        }
    });
    for _ in 0..3 {
        assert!(wire.line().await.len() > 5000);
    }
    soon(sends).await.unwrap();
}

#[tokio::test]
async fn many_waiters_all_get_their_turn() {
    let (mut wire, peer, incoming) = Wire::new(
        64,
        Limits {
            outbox_max: 100,
            ..SMALL
        },
    );
    tokio::spawn(serve(incoming));
    let mut sends = tokio::task::JoinSet::new();
    for number in 0..200 {
        sends.spawn(peer.notify("n", &[number]));
    }
    for _ in 0..200 {
        assert!(wire.line().await.contains("\"n\""));
    }
    while let Some(sent) = soon(sends.join_next()).await {
        sent.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_peer_that_leaves_even_owed_answers_unread_is_cut_off() {
    let (mut wire, peer, mut incoming) = Wire::new(4096, SMALL);
    fill(&peer);
    let id = "i".repeat(900);
    let mut dropped = 0;
    let ended = soon(async {
        loop {
            wire.write(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"m\"}}\n"
            ))
            .await;
            match incoming.recv().await {
                Some(Received::Request(request)) => drop(request),
                Some(other) => panic!("{other:?}"),
                None => break incoming.take_error(),
            }
            dropped += 1;
            if dropped > 5000 {
                break None;
            }
        }
    })
    .await;
    assert_eq!(ended.unwrap().to_string(), "the peer does not read");
    assert!(
        dropped > 500,
        "the reserve holds more than {dropped} answers"
    );
    assert!(peer.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_reply_given_up_while_waiting_for_room_still_answers_once() {
    let (mut wire, peer, mut incoming) = Wire::new(100, SMALL);
    let taken = fill(&peer);
    wire.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n")
        .await;
    let Some(Received::Request(request)) = soon(incoming.recv()).await else {
        panic!()
    };
    let text = "x".repeat(500);
    let reply = tokio::time::timeout(Duration::from_secs(1), request.responder.reply(&text)).await;
    assert!(reply.is_err());
    tokio::spawn(serve(incoming));
    for _ in 0..taken {
        wire.line().await;
    }
    assert!(
        wire.line()
            .await
            .starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603"#)
    );
}
