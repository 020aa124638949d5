//! Round trips over a Unix socket: a bare echo of bytes beside a call and its answer.

use std::time::{Duration, Instant};

use jsonrpc::{Connection, Limits, Received};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

const ROUNDS: u32 = 20_000;
const PING: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::print_stdout,
    reason = "the numbers are the point of the program"
)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for _ in 0..3 {
        let echo = bare_echo().await? / ROUNDS;
        let served = served_ping().await? / ROUNDS;
        let called = called_ping().await? / ROUNDS;
        println!("echo {echo:?}, served ping {served:?}, call of a ping {called:?}");
    }
    Ok(())
}

async fn bare_echo() -> Result<Duration, Box<dyn std::error::Error>> {
    let (near, mut far) = UnixStream::pair()?;
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = far.read(&mut buffer).await {
            if far.write_all(&buffer[..length]).await.is_err() {
                break;
            }
        }
    });
    round_trips(near).await
}

/// The server is a connection, the client writes and reads bytes.
async fn served_ping() -> Result<Duration, Box<dyn std::error::Error>> {
    let (near, far) = UnixStream::pair()?;
    tokio::spawn(serve(far));
    round_trips(near).await
}

async fn called_ping() -> Result<Duration, Box<dyn std::error::Error>> {
    let (near, far) = UnixStream::pair()?;
    tokio::spawn(serve(far));
    let (reader, writer) = near.into_split();
    let (peer, mut incoming) = Connection::new(reader, writer, Limits::default());
    let start = Instant::now();
    for _ in 0..ROUNDS {
        tokio::select! {
            answer = peer.call("ping", &()) => { answer?; }
            received = incoming.recv() => return Err(format!("unexpected: {received:?}").into()),
        }
    }
    Ok(start.elapsed())
}

async fn round_trips(mut stream: UnixStream) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut buffer = [0; 4096];
    let start = Instant::now();
    for _ in 0..ROUNDS {
        stream.write_all(PING).await?;
        if stream.read(&mut buffer).await? == 0 {
            return Err("the server left".into());
        }
    }
    Ok(start.elapsed())
}

async fn serve(stream: UnixStream) {
    let (reader, writer) = stream.into_split();
    let (_peer, mut incoming) = Connection::new(reader, writer, Limits::default());
    while let Some(received) = incoming.recv().await {
        if let Received::Request(request) = received
            && request.responder.reply("pong").await.is_err()
        {
            break;
        }
    }
}
