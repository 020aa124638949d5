//! Tests of the paths and their rights.

use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use engine::{Caller, Rights, TokenId};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tower::ServiceExt;

use super::*;
use crate::{
    pairing::Limits,
    peer::{Origin, Paired},
    peers::{Sighting, stranger},
    test_support::{FakePeer, Manner, TestNode},
};

async fn ask(
    node: &TestNode,
    caller: Option<Caller>,
    method: &str,
    path: &str,
    body: Value,
) -> (StatusCode, Value) {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .body(Body::from(body.to_string()))
        .unwrap();
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    let response = node.lan.router().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20)
        .await
        .unwrap();
    (
        status,
        serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    )
}

#[tokio::test]
async fn the_paths_list_add_show_ping_and_remove_peers() {
    let node = TestNode::plain().await;
    let peer = FakePeer::start("nova9", &[("radio", "电台")], Manner::Does("ok")).await;
    let owner = || Some(Caller::owner());
    let (status, added) = ask(&node, owner(), "POST", "/peers", json!({ "url": peer.url })).await;
    assert_eq!(
        (status, &added["alias"]),
        (StatusCode::CREATED, &json!("nova9"))
    );
    let (_, all) = ask(&node, owner(), "GET", "/peers", Value::Null).await;
    assert_eq!(all["peers"][0]["id"], json!(peer.id));
    let (_, shown) = ask(&node, owner(), "GET", "/peers/nova9", Value::Null).await;
    assert_eq!(
        (&shown["status"], &shown["capabilities"][0]["id"]),
        (&json!("online"), &json!("radio"))
    );
    let (_, ping) = ask(&node, owner(), "POST", "/peers/nova9/ping", Value::Null).await;
    assert!(ping["millis"].is_number());
    let (status, intent) = ask(
        &node,
        owner(),
        "POST",
        "/intents",
        json!({ "text": "放电台" }),
    )
    .await;
    assert_eq!(
        (status, &intent["legs"][0]["text"]),
        (StatusCode::OK, &json!("ok"))
    );
    let (status, error) = ask(
        &node,
        owner(),
        "POST",
        "/intents",
        json!({ "text": "烤蛋糕" }),
    )
    .await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!("no_capability"))
    );
    let (status, _) = ask(&node, owner(), "DELETE", "/peers/nova9", Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (status, _) = ask(&node, owner(), "GET", "/peers/nova9", Value::Null).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn only_who_may_rule_peers_uses_the_paths_and_only_pairing_is_open() {
    let node = TestNode::plain().await;
    let paths = [
        ("GET", "/peers"),
        ("POST", "/peers"),
        ("DELETE", "/peers/x"),
        ("GET", "/peers/x"),
        ("POST", "/peers/x/ping"),
        ("POST", "/peers/x/unpair"),
        ("POST", "/intents"),
        ("GET", "/intents/x"),
        ("POST", "/intents/x/answer"),
        ("GET", "/pair"),
        ("POST", "/pair"),
        ("POST", "/pair/accept"),
        ("POST", "/pair/refuse"),
        ("GET", "/pair/asked/x"),
    ];
    let peer = Caller {
        name: "peer".to_owned(),
        rights: Rights::Only(BTreeSet::from(["runs".to_owned()])),
    };
    for (method, path) in paths {
        let (status, _) = ask(&node, None, method, path, Value::Null).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}");
        let (status, _) = ask(&node, Some(peer.clone()), method, path, Value::Null).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}");
    }
    let (status, _) = ask(&node, None, "POST", "/pair/requests", json!({})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (status, _) = ask(
        &node,
        None,
        "POST",
        "/pair/requests/x",
        json!({ "nonce": "y" }),
    )
    .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let large = json!({ "name": "x".repeat(100_000) });
    let (status, error) = ask(&node, None, "POST", "/pair/requests", large).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(error["error"]["code"], "body_too_large");
    let (status, error) = ask(&node, None, "PUT", "/pair/requests", json!({})).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(error["error"]["code"], "invalid_input");
}

#[tokio::test]
async fn a_peer_is_known_by_its_token_and_not_by_what_it_is_called() {
    let node = TestNode::plain().await;
    let peers = node.lan.peers();
    let paired = |token: &str| Paired {
        token_id: token.to_owned(),
        rights: BTreeSet::from(["runs".to_owned()]),
        at: 0,
        limits: Limits {
            per_minute: Some(1),
            ..Limits::default()
        },
    };
    let real = stranger(
        "real",
        "desk",
        "http://127.0.0.1:1".to_owned(),
        Origin::Added,
    );
    peers.ensure(real).await.unwrap();
    let change = peers.change("real", |peer| peer.pairing = Some(paired("t-1")));
    change.await.unwrap();
    let liar = Sighting {
        agent_id: "peer-desk".to_owned(),
        name: "desk".to_owned(),
        version: None,
        url: "http://127.0.0.1:2".to_owned(),
    };
    peers.sighted(liar).await;
    let face = Router::new().route("/runs", axum::routing::post(async || "begun"));
    let face = node.lan.guard(face);
    let post = |name: &str, token: Option<&str>| {
        let caller = Caller {
            name: name.to_owned(),
            rights: Rights::Only(BTreeSet::from(["runs".to_owned()])),
        };
        let mut request = Request::post("/runs").body(Body::empty()).unwrap();
        request.extensions_mut().insert(caller);
        if let Some(token) = token {
            request.extensions_mut().insert(TokenId(token.to_owned()));
        }
        let face = face.clone();
        async move { face.oneshot(request).await.unwrap().status() }
    };
    assert_eq!(post("peer:desk", Some("t-1")).await, StatusCode::OK);
    let limited = post("peer:whatever", Some("t-1")).await;
    assert_eq!(limited, StatusCode::TOO_MANY_REQUESTS);
    for (name, token) in [("peer:desk", None), ("peer:desk", Some("t-2"))] {
        assert_eq!(post(name, token).await, StatusCode::FORBIDDEN, "{token:?}");
    }
    assert_eq!(post("bot", Some("t-9")).await, StatusCode::OK);
    node.lan.pairing().end("desk").await.unwrap();
    let ended = post("peer:desk", Some("t-1")).await;
    assert_eq!(ended, StatusCode::FORBIDDEN);
    assert_eq!(*node.grants.revoked.lock().unwrap(), ["t-1"]);
}
