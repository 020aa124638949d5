//! Connections without a token: they have few places, for a short time, and keep no member from its work.

use std::{net::SocketAddr, time::Duration};

use domain::office::Role::{Agent, Computer};
use futures_util::StreamExt;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, client_async, connect_async,
    tungstenite::{self, http::StatusCode},
};
use wire::smcp::Profile::Seed;

use super::support::{Office, SOON};
use crate::server::OfficeConfig;

type Silent = WebSocketStream<MaybeTlsStream<TcpStream>>;

fn url(address: SocketAddr, more: &str) -> String {
    format!("ws://{address}/socket.io/?EIO=4&transport=websocket{more}")
}

/// Opens a connection and says nothing; or what the server says instead.
async fn silent(address: SocketAddr, more: &str) -> Result<Silent, StatusCode> {
    match connect_async(url(address, more)).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(refusal)) => Err(refusal.status()),
        Err(error) => panic!("{error}"),
    }
}

async fn few_guests(hello_timeout: Duration) -> Office {
    let config = OfficeConfig {
        guests_max: 48,
        guests_of_address_max: 32,
        hello_timeout,
        ..OfficeConfig::default()
    };
    Office::with(config, "127.0.0.1:0").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_silent_connections_keep_nobody_from_working() {
    let office = few_guests(Duration::from_secs(600)).await;
    let agent = office.member(Seed, Agent, "ann", "o").await;
    let computer = office.member(Seed, Computer, "pc", "o").await;
    computer.always("client:tool_call", Some(json!({"content": []})));
    let mut held = Vec::new();
    for _ in 0..2000 {
        match silent(office.address, "").await {
            Ok(socket) => held.push(socket),
            Err(status) => assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE),
        }
    }
    assert_eq!(held.len(), 32);
    let call = json!({"computer": "pc", "tool_name": "t", "req_id": "r"});
    let answer = agent.ask("client:tool_call", call).await;
    assert_eq!(answer, json!({"content": []}));
    // Those of another address still come in.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let stream = socket.connect(office.address).await.unwrap();
    let other = client_async(url(office.address, ""), stream).await;
    assert!(other.is_ok(), "{:?}", other.err());
    office.stop().await;
}

#[tokio::test]
async fn a_silent_connection_is_closed_and_its_place_is_free_again() {
    let office = few_guests(Duration::from_millis(200)).await;
    let mut held = Vec::new();
    for _ in 0..32 {
        held.push(silent(office.address, "").await.unwrap());
    }
    for mut socket in held {
        // It is told its session, and then it is closed.
        let closed = timeout(SOON, async {
            while let Some(Ok(_)) = socket.next().await {}
        });
        assert!(closed.await.is_ok(), "it is still open");
    }
    let again = timeout(SOON, async {
        while silent(office.address, "").await.is_err() {}
    });
    assert!(again.await.is_ok(), "no place is ever free again");
    office.stop().await;
}

#[tokio::test]
async fn whoever_shows_a_token_takes_no_place_of_a_guest() {
    let office = few_guests(Duration::from_secs(600)).await;
    let mut members = Vec::new();
    for n in 0..100 {
        members.push(office.member(Seed, Computer, &format!("pc{n}"), "o").await);
    }
    assert_eq!(office.server.seats().len(), 100);
    assert!(silent(office.address, "").await.is_ok());
    office.stop().await;
}

#[tokio::test]
async fn a_session_that_polls_cannot_be_many_connections() {
    let office = few_guests(Duration::from_secs(600)).await;
    let mut stream = TcpStream::connect(office.address).await.unwrap();
    let open =
        "GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(open.as_bytes()).await.unwrap();
    let mut opened = String::new();
    stream.read_to_string(&mut opened).await.unwrap();
    let (_, rest) = opened.split_once("\"sid\":\"").unwrap();
    let (session, _) = rest.split_once('"').unwrap();
    let more = format!("&sid={session}");
    let _first = silent(office.address, &more).await.unwrap();
    for _ in 0..50 {
        let second = silent(office.address, &more).await;
        assert_eq!(second.err(), Some(StatusCode::BAD_REQUEST));
    }
    office.stop().await;
}
