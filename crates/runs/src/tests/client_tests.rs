//! The client against servers that break off, and against certificates.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivateKeyDer},
};

use wire::hex;

use crate::client::{self, Client, ClientError, PeerAddress};

fn client(url: String, fingerprint: Option<String>) -> Client {
    Client::new(PeerAddress {
        url,
        token: Some("act_secret".to_owned()),
        fingerprint,
    })
    .unwrap()
}

/// Reads one request's head and gives it back.
async fn request(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).await.unwrap() == 0 {
            break;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_after_the_last_event_and_the_run_is_begun_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = async {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrun-id: r1\r\nconnection: close\r\n\r\n";
        let mut heads = Vec::new();
        for events in [
            "id: 1\ndata: {\"type\":\"run.created\"}\n\nid: 2\ndata: {\"type\":\"run.in-pro",
            "id: 2\ndata: {\"type\":\"run.in-progress\"}\n\nid: 3\ndata: {\"type\":\"run.completed\"}\n\n",
        ] {
            let (mut stream, _) = listener.accept().await.unwrap();
            heads.push(request(&mut stream).await);
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(events.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
        heads
    };
    let following = async {
        let client = client(url, None);
        let create = client::prompt(None, "x");
        let mut stream = client
            .run(&create, &["desk".to_owned()], None)
            .await
            .unwrap();
        let mut kinds = Vec::new();
        while let Some(event) = stream.next().await.unwrap() {
            kinds.push(event.kind);
        }
        kinds
    };
    let (heads, kinds) = tokio::join!(server, following);
    assert_eq!(kinds, ["run.created", "run.in-progress", "run.completed"]);
    assert!(heads[0].starts_with("post /runs "), "{}", heads[0]);
    assert!(
        heads[0].contains("x-agentcraft-call-chain: desk"),
        "{}",
        heads[0]
    );
    assert!(heads[1].starts_with("get /runs/r1/events "), "{}", heads[1]);
    assert!(heads[1].contains("last-event-id: 1"), "{}", heads[1]);
}

#[tokio::test]
async fn only_the_certificate_that_a_peer_is_known_by_is_believed() {
    let made = rcgen::generate_simple_self_signed(vec!["somebody.example".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let right = format!("sha256:{}", hex(&Sha256::digest(&certificate)));
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let server = async {
        let mut heard = 0;
        for _ in 0..2 {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            if request(&mut stream).await.contains("act_secret") {
                heard += 1;
            }
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            let _ = stream.write_all(answer.as_bytes()).await; // The client may have left.
            let _ = stream.shutdown().await;
        }
        heard
    };
    let asking = async {
        let wrong = format!("sha256:{}", "0".repeat(64));
        let refused = client(url.clone(), Some(wrong)).ping().await;
        let known = client(url, Some(right)).ping().await;
        (refused, known)
    };
    let (heard, (refused, known)) = tokio::join!(server, asking);
    assert!(
        matches!(refused, Err(ClientError::Unreachable { .. })),
        "{refused:?}"
    );
    known.unwrap();
    assert_eq!(heard, 1, "a stranger never hears the token");
}

#[test]
fn an_address_that_is_none_is_refused_in_words() {
    for (url, fingerprint) in [
        ("node.example", None),
        ("https://node.example", Some("abc")),
    ] {
        let made = Client::new(PeerAddress {
            url: url.to_owned(),
            token: None,
            fingerprint: fingerprint.map(str::to_owned),
        });
        assert!(matches!(made, Err(ClientError::Address { .. })), "{url}");
    }
}

#[tokio::test]
async fn a_run_whose_stream_was_forgotten_is_told_by_what_became_of_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = async {
        let head = |kind: &str| {
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nrun-id: r1\r\nconnection: close\r\n\r\n"
            )
        };
        let run = r#"{"run_id":"r1","agent_name":"a","session_id":"s","status":"failed","output":[],"created_at":"2026-01-01T00:00:00Z"}"#;
        for (kind, body) in [
            (
                "text/event-stream",
                "id: 23\ndata: {\"type\":\"run.in-progress\"}\n\n",
            ),
            ("text/event-stream", ""),
            ("application/json", run),
        ] {
            let (mut stream, _) = listener.accept().await.unwrap();
            request(&mut stream).await;
            stream.write_all(head(kind).as_bytes()).await.unwrap();
            stream.write_all(body.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    };
    let following = async {
        let create = client::prompt(None, "x");
        let client = client(url, None);
        let mut stream = client.run(&create, &[], None).await.unwrap();
        let mut kinds = Vec::new();
        while let Some(event) = stream.next().await.unwrap() {
            kinds.push(event.kind);
        }
        kinds
    };
    let ((), kinds) = tokio::join!(server, following);
    assert_eq!(kinds, ["run.in-progress", "run.failed"]);
}
