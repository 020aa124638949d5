//! An agent as small as one can be: it speaks ACP, and a prompt tells it how many words to say at which pace.

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::chunk::{Chunk, Moment};

/// What a prompt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) struct Order {
    pub(in crate::bench) chunks: u32,
    /// From one chunk to the next; zero is as fast as possible.
    pub(in crate::bench) pace: Duration,
}

impl Order {
    pub(in crate::bench) fn prompt(self) -> String {
        format!("{} {}", self.chunks, self.pace.as_micros())
    }

    fn parse(prompt: &str) -> Option<Self> {
        let (chunks, pace) = prompt.split_once(' ')?;
        Some(Self {
            chunks: chunks.parse().ok()?,
            pace: Duration::from_micros(pace.parse().ok()?),
        })
    }
}

/// Answers on the standard streams until the input ends.
pub(in crate::bench) fn serve() -> anyhow::Result<()> {
    let mut sessions = 0_u32;
    for line in io::stdin().lines() {
        let line = line.context("could not read a request")?;
        let message: Value = serde_json::from_str(&line).context("a request is not JSON")?;
        let Some(id) = message.get("id").cloned() else {
            continue; // A notification wants nothing.
        };
        let params = &message["params"];
        match message["method"].as_str() {
            Some("initialize") => say(&answer(&id, &json!({"protocolVersion": 1})))?,
            Some("session/new") => {
                sessions += 1;
                let session = format!("words-{sessions}");
                say(&answer(&id, &json!({"sessionId": session})))?;
            }
            Some("session/prompt") => {
                let prompt = params["prompt"][0]["text"].as_str().unwrap_or_default();
                let order = Order::parse(prompt).context("a prompt is no order")?;
                let session = params["sessionId"].to_string();
                thread::spawn(move || turn(&id, &session, order));
            }
            _ => say(&refusal(&id))?,
        }
    }
    Ok(())
}

/// Says what was ordered; `session` is JSON.
fn turn(id: &Value, session: &str, order: Order) -> anyhow::Result<()> {
    let before = format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{session},"update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":""#
    );
    let mut line = Vec::new();
    let start = Instant::now();
    for number in 0..order.chunks {
        if !order.pace.is_zero() {
            let due = start + order.pace * number;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let said_at = Moment::now();
        line.clear();
        line.extend_from_slice(before.as_bytes());
        Chunk { number, said_at }
            .write_to(&mut line)
            .context("could not make a line")?;
        line.extend_from_slice(b"\"}}}}\n");
        write(&line)?;
    }
    say(&answer(id, &json!({"stopReason": "end_turn"})))
}

fn answer(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn refusal(id: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})
        .to_string()
}

fn say(line: &str) -> anyhow::Result<()> {
    write(format!("{line}\n").as_bytes())
}

/// One line in one write.
fn write(line: &[u8]) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    output
        .write_all(line)
        .and_then(|()| output.flush())
        .context("could not say a line")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_prompted() {
        let order = Order {
            chunks: 200,
            pace: Duration::from_millis(20),
        };
        assert_eq!(Order::parse(&order.prompt()), Some(order));
        assert_eq!(Order::parse("hello"), None);
    }
}
