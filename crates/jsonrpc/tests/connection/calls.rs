//! Calls and their answers, in both directions at once.

use jsonrpc::{CallError, ErrorObject, INTERNAL_ERROR, Id, Limits, METHOD_NOT_FOUND, Received};
use proptest::prelude::*;

use crate::support::{Wire, answer, pair, serve, soon};

#[tokio::test]
async fn a_call_gets_its_result_or_its_error() {
    let ((peer, incoming), (_, server)) = pair(64, Limits::default());
    tokio::spawn(serve(incoming));
    tokio::spawn(serve(server));
    let result = soon(peer.call("echo", &["a\nb"])).await.unwrap();
    assert_eq!(result.get(), r#"["a\nb"]"#);
    let none = soon(peer.call("echo", &())).await.unwrap();
    assert_eq!(none.get(), "null");
    match soon(peer.call("nothing", &())).await {
        Err(CallError::Remote(error)) => assert_eq!(error.code, METHOD_NOT_FOUND),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_same_ids_in_both_directions_do_not_collide() {
    let ((left, left_in), (right, right_in)) = pair(256, Limits::default());
    tokio::spawn(serve(left_in));
    tokio::spawn(serve(right_in));
    assert_eq!(left.fresh_id(), right.fresh_id());
    for round in 0..50 {
        let (one, two) = soon(async {
            tokio::join!(left.call("echo", &["l", "r"]), right.call("echo", &[round]))
        })
        .await;
        assert_eq!(one.unwrap().get(), r#"["l","r"]"#);
        assert_eq!(two.unwrap().get(), format!("[{round}]"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn interleaved_calls_both_ways_each_get_their_own_answer(
        capacity in 1_usize..500,
        from_left in prop::collection::vec(".{0,40}", 0..30),
        from_right in prop::collection::vec(".{0,40}", 0..30),
        outbox_max in 1_usize..2000,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let limits = Limits { outbox_max, ..Limits::default() };
            let ((left, left_in), (right, right_in)) = pair(capacity, limits);
            for mut incoming in [left_in, right_in] {
                tokio::spawn(async move {
                    while let Some(received) = incoming.recv().await {
                        let Received::Request(request) = received else { panic!("{received:?}") };
                        tokio::spawn(answer(request));
                    }
                });
            }
            let mut calls = tokio::task::JoinSet::new();
            for (peer, texts) in [(&left, from_left), (&right, from_right)] {
                for text in texts {
                    let call = peer.call("echo", &[&text]);
                    calls.spawn(async move { (text, call.await) });
                }
            }
            soon(async {
                while let Some(done) = calls.join_next().await {
                    let (text, result) = done.unwrap();
                    let echoed: Vec<String> = serde_json::from_str(result.unwrap().get()).unwrap();
                    assert_eq!(echoed, [text]);
                }
            }).await;
        });
    }
}

#[tokio::test]
async fn one_task_can_call_and_receive() {
    let ((peer, mut incoming), (_, server)) = pair(64, Limits::default());
    tokio::spawn(serve(server));
    let result = soon(async {
        tokio::select! {
            result = peer.call("ping", &()) => result,
            received = incoming.recv() => panic!("{received:?}"),
        }
    })
    .await;
    assert_eq!(result.unwrap().get(), r#""pong""#);
}

#[tokio::test]
async fn a_dropped_call_is_forgotten_and_its_late_answer_surfaces() {
    let (mut wire, peer, mut incoming) = Wire::new(
        4096,
        Limits {
            calls_max: 1,
            ..Limits::default()
        },
    );
    let call = tokio::spawn(peer.call("slow", &()));
    assert_eq!(
        wire.line().await,
        r#"{"jsonrpc":"2.0","id":1,"method":"slow"}"#
    );
    let second = peer.call("more", &()).await;
    assert!(
        matches!(second, Err(CallError::TooManyCalls { calls_max: 1 })),
        "{second:?}"
    );
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    wire.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":5}\n")
        .await;
    match soon(incoming.recv()).await {
        Some(Received::Response {
            id,
            outcome: Ok(result),
            ..
        }) => {
            assert_eq!((id, result.get()), (Some(Id::from(1)), "5"));
        }
        other => panic!("{other:?}"),
    }
    // The place in the table is free again.
    tokio::spawn(peer.call("again", &()));
    assert_eq!(
        wire.line().await,
        r#"{"jsonrpc":"2.0","id":3,"method":"again"}"#
    );
}

#[tokio::test]
async fn a_dropped_call_with_cancel_tells_the_peer_unless_it_was_answered() {
    let (mut wire, peer, incoming) = Wire::new(4096, Limits::default());
    tokio::spawn(serve(incoming));
    let call = tokio::spawn(peer.call_with_cancel("slow", &()));
    wire.line().await;
    call.abort();
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
    assert_eq!(wire.line().await, cancel);

    let call = tokio::spawn(peer.call_with_cancel("quick", &()));
    wire.line().await;
    wire.write("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":5}\n")
        .await;
    assert_eq!(soon(call).await.unwrap().unwrap().get(), "5");
    peer.notify("after", &()).await.unwrap();
    assert_eq!(wire.line().await, r#"{"jsonrpc":"2.0","method":"after"}"#);
    drop(peer.call_with_cancel("never polled", &()));
    peer.notify("last", &()).await.unwrap();
    assert_eq!(wire.line().await, r#"{"jsonrpc":"2.0","method":"last"}"#);
}

#[tokio::test]
async fn a_dropped_responder_answers_with_an_internal_error() {
    let ((peer, incoming), (_, mut server)) = pair(4096, Limits::default());
    tokio::spawn(serve(incoming));
    let call = tokio::spawn(peer.call("m", &()));
    let Some(Received::Request(request)) = soon(server.recv()).await else {
        panic!()
    };
    assert_eq!(request.responder.id(), &Id::from(1));
    drop(request);
    match soon(call).await.unwrap() {
        Err(CallError::Remote(error)) => assert_eq!(error.code, INTERNAL_ERROR),
        other => panic!("{other:?}"),
    }
    // So does a reply that is never awaited.
    let call = tokio::spawn(peer.call("m", &()));
    let Some(Received::Request(request)) = soon(server.recv()).await else {
        panic!()
    };
    drop(request.responder.reply(&1));
    assert!(matches!(
        soon(call).await.unwrap(),
        Err(CallError::Remote(_))
    ));
}

#[tokio::test]
async fn an_answer_that_cannot_be_sent_becomes_an_internal_error() {
    let limits = Limits {
        line_max: 200,
        ..Limits::default()
    };
    let (mut wire, _peer, mut incoming) = Wire::new(4096, limits);
    wire.write("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\"}\n".repeat(3))
        .await;
    let mut responders = Vec::new();
    for _ in 0..3 {
        let Some(Received::Request(request)) = soon(incoming.recv()).await else {
            panic!()
        };
        responders.push(request.responder);
    }
    let [first, second, third] = responders.try_into().unwrap();
    assert!(first.reply(&"x".repeat(300)).await.is_err());
    assert!(wire.line().await.contains("the ceiling is 200"));
    assert!(
        second
            .reply(&std::collections::HashMap::from([(vec![1], 1)]))
            .await
            .is_err()
    );
    assert!(wire.line().await.contains("-32603"));
    third
        .fail(ErrorObject::new(7, "y".repeat(300)))
        .await
        .unwrap();
    assert!(wire.line().await.contains(r#""code":7"#));
}

#[tokio::test]
async fn a_malformed_answer_fails_its_call() {
    let (mut wire, peer, incoming) = Wire::new(4096, Limits::default());
    tokio::spawn(serve(incoming));
    // The second is told from a bad request by the call that waits for it.
    for (id, rest) in [(1, r#","error":"no""#), (2, "")] {
        let call = tokio::spawn(peer.call("m", &()));
        wire.line().await;
        wire.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id}{rest}}}\n"))
            .await;
        let result = soon(call).await.unwrap();
        assert!(matches!(result, Err(CallError::Malformed(_))), "{result:?}");
    }
}
