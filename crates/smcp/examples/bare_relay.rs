//! The least that a relay of Socket.IO can do with the library that ours is built on: no rules, no names, no limits.
//!
//! The benchmark of offices runs it beside ours. It prints its address, lets the last computer of an office answer the
//! calls of everybody in it, answers `echo` itself, and ends with its standard input.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a tool of the benchmarks, with the habits of tests"
)]

use std::{
    collections::HashMap,
    io::Read,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::serve::ListenerExt;
use serde_json::{Value, json};
use socketioxide::{
    SocketIo,
    extract::{AckSender, Event, SocketRef, TryData},
};
use tokio::net::TcpListener;

/// Longer than any call of a benchmark.
const TIMEOUT: Duration = Duration::from_secs(60);

/// As many packets wait for a reader as in ours.
const UNREAD_MAX: usize = 2048;

#[derive(Default)]
struct Offices {
    computers: HashMap<String, SocketRef>,
    members: HashMap<String, String>,
}

#[tokio::main]
async fn main() {
    let (layer, io) = SocketIo::builder()
        .max_buffer_size(UNREAD_MAX)
        .build_layer();
    let offices: Arc<Mutex<Offices>> = Arc::default();
    io.ns("/smcp", move |socket: SocketRef| {
        let offices = Arc::clone(&offices);
        socket.on_fallback(
            move |socket: SocketRef,
                  Event(event): Event,
                  TryData(body): TryData<Value>,
                  ack: AckSender| {
                receive(&offices, &socket, &event, body.unwrap_or_default(), ack);
                async {}
            },
        );
        async {}
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new()); // Whatever it is, it is the end.
        std::process::exit(0);
    });
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    let router = axum::Router::new().layer(layer);
    axum::serve(listener, router).await.unwrap();
}

fn receive(
    offices: &Arc<Mutex<Offices>>,
    socket: &SocketRef,
    event: &str,
    body: Value,
    ack: AckSender,
) {
    let mut offices = offices.lock().unwrap();
    let id = socket.id.to_string();
    match event {
        "server:join_office" => {
            let office = body["office_id"].as_str().unwrap_or_default().to_owned();
            if body["role"] == "computer" {
                offices.computers.insert(office.clone(), socket.clone());
            }
            offices.members.insert(id, office);
            ack.send(&(true, Value::Null)).unwrap();
        }
        "client:tool_call" => {
            let office = offices.members.get(&id);
            let computer = office.and_then(|office| offices.computers.get(office));
            let computer = computer.cloned().unwrap();
            tokio::spawn(async move {
                let asked = computer
                    .timeout(TIMEOUT)
                    .emit_with_ack::<_, Value>("client:tool_call", &body);
                let answer = asked.unwrap().await.unwrap();
                ack.send(&answer).unwrap();
            });
        }
        _ => ack.send(&json!({"text": "done"})).unwrap(),
    }
}
