//! Random bytes and mutated lines, for as many seconds as JSONRPC_FUZZ_SECONDS says: nothing
//! panics, and a good line afterwards is answered.

use std::{
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use jsonrpc::{Decoder, Frame, Limits, Message};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use crate::support::{PATIENCE, Wire, serve};

const VALID: [&str; 6] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":[1,2.5e3,"\u00e9\n"]}}"#,
    r#"{"jsonrpc":"2.0","method":"note","params":[null,true,{}]}"#,
    r#"{"jsonrpc":"2.0","id":"x","result":{"deep":[[[[]]]]}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m","data":1}}"#,
    r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
    r#"{"id":123456789012345678901234567890,"method":"ping","jsonrpc":"2.0"}"#,
];

/// A ceiling small enough that random input goes over it.
const LIMITS: Limits = Limits {
    line_max: 2000,
    outbox_max: 1 << 20,
    calls_max: 4,
};

/// Xorshift: enough chance for this, and its seed repeats a failure.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Pure noise, or valid lines with some bytes changed, removed or doubled.
    fn input(&mut self) -> Vec<u8> {
        if self.below(3) == 0 {
            let length = self.below(5000);
            return (0..length).map(|_| self.next() as u8).collect();
        }
        let mut input = Vec::new();
        for _ in 0..=self.below(8) {
            let mut line = VALID[self.below(VALID.len())].as_bytes().to_vec();
            for _ in 0..self.below(4) {
                let at = self.below(line.len());
                match self.below(4) {
                    0 => line[at] = self.next() as u8,
                    1 => line[at] = b"{}[]\",:0\\\n\r"[self.below(11)],
                    2 => drop(line.drain(at..)),
                    _ => line.extend_from_within(at..),
                }
                if line.is_empty() {
                    line.push(b'{');
                }
            }
            input.extend_from_slice(&line);
            input.push(b'\n');
        }
        input
    }
}

fn duration() -> Duration {
    let seconds = std::env::var("JSONRPC_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

fn seed() -> u64 {
    let seed = RandomState::new().hash_one(0) | 1;
    println!("seed {seed}");
    seed
}

#[test]
fn the_codec_takes_any_bytes_and_still_finds_the_next_line() {
    let mut chance = Chance(seed());
    let until = Instant::now() + duration();
    let mut decoder = Decoder::new(LIMITS.line_max);
    while Instant::now() < until {
        let mut input = chance.input();
        input.extend_from_slice(b"\nlast\n");
        let mut last = None;
        while !input.is_empty() {
            let rest = input.split_off(chance.below(input.len()) + 1);
            decoder.push(&std::mem::replace(&mut input, rest));
            while let Some(frame) = decoder.next_frame() {
                if let Frame::Line(line) = &frame
                    && let Ok(message) = Message::parse(line)
                {
                    let encoded = message.encode();
                    let again = Message::parse(&encoded).unwrap();
                    assert_eq!(again.encode(), encoded);
                    // A return between tokens is written as a space, so only then may texts differ.
                    assert!(again == message || line.contains(&b'\r'), "{message:?}");
                }
                last = Some(frame);
            }
        }
        assert_eq!(last, Some(Frame::Line("last".into())));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_takes_any_bytes_and_still_answers_a_ping() {
    let mut chance = Chance(seed());
    let until = Instant::now() + duration();
    let (wire, _peer, incoming) = Wire::new(512, LIMITS);
    let server = tokio::spawn(serve(incoming));
    let Wire {
        mut lines,
        mut writer,
    } = wire;
    let mut round = 0_u64;
    while Instant::now() < until {
        round += 1;
        let mut input = chance.input();
        input.extend_from_slice(
            format!("\n{{\"jsonrpc\":\"2.0\",\"id\":\"ping {round}\",\"method\":\"ping\"}}\n")
                .as_bytes(),
        );
        let pong = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"ping {round}\",\"result\":\"pong\"}}\n");
        let write = async { writer.write_all(&input).await.unwrap() };
        let read = async {
            let mut line = String::new();
            while line != pong {
                line.clear();
                assert_ne!(
                    lines.read_line(&mut line).await.unwrap(),
                    0,
                    "the server left"
                );
            }
        };
        tokio::time::timeout(PATIENCE, async { tokio::join!(write, read) })
            .await
            .expect("the ping is answered");
    }
    drop((lines, writer));
    server.await.unwrap();
}
