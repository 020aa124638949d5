//! Packets that nobody would send on purpose, beside members who go on with their work.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{FutureExt, SinkExt, StreamExt};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_tungstenite::{connect_async, tungstenite::Message};
use tokio_util::sync::CancellationToken;
use wire::smcp::Profile::Shipped;

use super::support::{FakeTools, Office, SOON, computer_config, params, until_seated};
use crate::{
    agent::{Agent, Call},
    computer::Computer,
    server::Holds,
};

/// What the allocator may keep for itself.
const GROWTH_MAX_MIB: u64 = 32;

/// Those who send nonsense at the same time.
const SENDERS: u64 = 4;

const EVENTS: [&str; 12] = [
    "server:join_office",
    "server:leave_office",
    "server:list_room",
    "server:tool_call_cancel",
    "server:update_config",
    "client:tool_call",
    "client:get_tools",
    "client:get_config",
    "client:get_blob",
    "client:put_blob",
    "notify:enter_office",
    "client:made_up",
];

const BODIES: [&str; 12] = [
    r#"{"role":"computer","name":"pc","office_id":"o"}"#,
    r#"{"role":"agent","name":"ann","office_id":"o"}"#,
    r#"{"role":"computer","name":"fuzz","office_id":"o"}"#,
    r#"{"role":"computer","name":"fuzz","office_id":"p"}"#,
    r#"{"computer":"pc","agent":"ann","req_id":"1","tool_name":"one__say","params":{},"timeout":1}"#,
    r#"{"computer":"fuzz","agent":"fuzz","req_id":"1"}"#,
    r#"{"agent":"ann","req_id":"1","office_id":"o"}"#,
    r#"{"office_id":"o"}"#,
    r#"{"computer":"pc"}"#,
    r#"[[[[[[[[[[[[[[[[{"a":[]}]]]]]]]]]]]]]]]]"#,
    r#"{"_placeholder":true,"num":0}"#,
    "null",
];

/// The same numbers for the same seed, so that a failure can be seen again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, max: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(max.max(1)).unwrap()).unwrap()
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }

    fn packet(&mut self) -> String {
        let (event, body, id) = (self.pick(&EVENTS), self.pick(&BODIES), self.below(50));
        let id = [String::new(), id.to_string()][self.below(2)].clone();
        let mut packet = match self.below(12) {
            0 => "2".to_owned(),
            1 => format!("43/smcp,{id}[{body}]"),
            2 => format!("45{}-/smcp,{id}[\"{event}\",{body}]", self.below(4)),
            3 => "41/smcp,".to_owned(),
            4 => format!("40/smcp,{body}"),
            5 => format!("42{id}[\"{event}\"]"),
            _ => format!("42/smcp,{id}[\"{event}\",{body}]"),
        };
        if self.below(2) == 0 {
            self.spoil(&mut packet);
        }
        packet
    }

    fn spoil(&mut self, packet: &mut String) {
        let mut letters: Vec<char> = packet.chars().collect();
        for _ in 0..=self.below(6) {
            let at = self.below(letters.len());
            match self.below(4) {
                0 => letters.truncate(at),
                1 if at < letters.len() => drop(letters.remove(at)),
                2 => letters.insert(at, char::from(u8::try_from(self.below(128)).unwrap())),
                _ => letters.extend_from_within(at..),
            }
        }
        *packet = letters.into_iter().take(4096).collect();
    }

    fn bytes(&mut self) -> Vec<u8> {
        let count = self.below(300);
        (0..count)
            .map(|_| u8::try_from(self.below(256)).unwrap())
            .collect()
    }
}

/// One connection of nonsense. Whatever the server does about it is right, as long as it does something.
async fn talk_nonsense(address: SocketAddr, random: &mut Random) {
    match random.below(6) {
        0 => drop(exchange(address, &random.bytes()).await),
        1 => {
            let body = [random.packet(), random.packet()].join("\u{1e}");
            let request = format!(
                "POST /socket.io/?EIO=4&transport=polling&sid={} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                random.below(9),
                body.len()
            );
            exchange(address, request.as_bytes()).await;
        }
        _ => over_websocket(address, random).await.unwrap_or_default(),
    }
}

async fn exchange(address: SocketAddr, request: &[u8]) -> Option<()> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(request).await.ok()?;
    stream.shutdown().await.ok()?;
    let mut answer = Vec::new();
    let answered = timeout(SOON, stream.read_to_end(&mut answer)).await;
    assert!(answered.is_ok(), "the server never ends the connection");
    Some(())
}

async fn over_websocket(address: SocketAddr, random: &mut Random) -> Option<()> {
    let version = ["", "&a2c_version=0.4.0", "&a2c_version=0.4.9"];
    let version = random.pick(&version);
    let url = format!("ws://{address}/socket.io/?EIO=4&transport=websocket{version}");
    let (mut socket, _) = connect_async(url).await.ok()?;
    if random.below(5) > 0 {
        let hello = Message::text("40/smcp,{\"token\":\"t-fuzz\"}");
        socket.send(hello).await.ok()?;
    }
    for _ in 0..random.below(60) {
        let message = match random.below(10) {
            0 => Message::binary(random.bytes()),
            _ => Message::text(random.packet()),
        };
        socket.send(message).await.ok()?;
        while let Some(heard) = socket.next().now_or_never() {
            heard?.ok()?;
        }
    }
    if random.below(2) == 0 {
        socket.close(None).await.ok()?;
    }
    Some(()) // Otherwise the line is cut.
}

/// Members at work while others send nonsense, until those have had enough.
async fn work_beside_nonsense(
    office: &Office,
    has_enough: impl Fn(usize) -> bool + Send + Sync + 'static,
) {
    let tools = FakeTools::new();
    let config = computer_config(office.link(Shipped, "pc", "o"));
    let members = platform::Tasks::new();
    let computer = Computer::start(config, tools, &members);
    computer.joined().await.unwrap();
    let (agent, _listening) = Agent::start(office.link(Shipped, "ann", "o"), &members);
    agent.joined().await.unwrap();
    let (address, has_enough) = (office.address, Arc::new(has_enough));
    let is_over = Arc::new(AtomicBool::new(false));
    let sending: Vec<_> = (1..=SENDERS)
        .map(|sender| {
            let has_enough = Arc::clone(&has_enough);
            tokio::spawn(async move {
                let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ sender);
                let mut rounds = 0;
                while !has_enough(rounds) {
                    talk_nonsense(address, &mut random).await;
                    rounds += 1;
                }
            })
        })
        .collect();
    let over = Arc::clone(&is_over);
    let watching = tokio::spawn(async move {
        for sender in sending {
            sender.await.unwrap();
        }
        over.store(true, Ordering::SeqCst);
    });
    let never = CancellationToken::new();
    let mut calls = 0;
    while !is_over.load(Ordering::SeqCst) || calls == 0 {
        calls += 1;
        let call = Call::new("pc", "one__say", params(json!({ "n": calls })), SOON);
        let result = agent.call(&call, &never).await;
        let result = result.unwrap_or_else(|error| panic!("call {calls}: {error}"));
        let said = format!("{{\"n\":{calls}}}");
        assert_eq!(result.content[0]["text"], said, "call {calls}");
    }
    watching.await.unwrap();
    until_seated(office, 2).await;
    assert_eq!(members.drain(SOON).await, platform::Drained::Clean);
    until_seated(office, 0).await;
}

/// What this process holds in memory, which is the server, and those who talk to it.
fn resident_mib() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4 / 1024
}

/// Nothing of those who have gone is kept, and the memory is what it was.
async fn check_nothing_is_kept(office: &Office, before_mib: u64) {
    let mut changes = office.server.changes();
    let is_empty = || office.server.holds() == Holds::default();
    // The last of them may just be closing.
    let emptied = async { while !is_empty() && changes.changed().await.is_ok() {} };
    let emptied = timeout(SOON, emptied).await;
    assert!(emptied.is_ok(), "{:?}", office.server.holds());
    let after_mib = resident_mib();
    assert!(
        after_mib <= before_mib + GROWTH_MAX_MIB,
        "{before_mib} MiB have become {after_mib} MiB"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_harms_nobody_at_work_and_leaves_nothing_behind() {
    let office = Office::forgetful().await;
    work_beside_nonsense(&office, |rounds| rounds == 25).await;
    let before = resident_mib();
    work_beside_nonsense(&office, |rounds| rounds == 50).await;
    check_nothing_is_kept(&office, before).await;
    office.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: a minute of nonsense"]
async fn fuzz_of_packets_for_a_minute_loses_no_call_and_no_memory() {
    let office = Office::forgetful().await;
    // By then as many connections are forgotten as come.
    let warm = Instant::now() + Duration::from_secs(20);
    work_beside_nonsense(&office, move |_| Instant::now() > warm).await;
    let before = resident_mib();
    let end = Instant::now() + Duration::from_secs(60);
    work_beside_nonsense(&office, move |_| Instant::now() > end).await;
    check_nothing_is_kept(&office, before).await;
    office.stop().await;
}
