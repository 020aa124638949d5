//! The floor under every word: the agent as our own child, whose lines we read from its pipe.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::agent::Order;
use super::arrivals::Arrivals;
use super::chunk::{Chunk, Moment};

/// The agent without a daemon; it ends with its owner.
#[derive(Debug)]
pub(super) struct Bare {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: String,
    line: Vec<u8>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    update: Update<'a>,
}

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(borrow)]
    content: Content<'a>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl Bare {
    pub(super) fn start() -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("could not find our own program")?;
        let mut child = Command::new(program)
            .args(["bench", "--turn-agent"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the agent")?;
        let input = child.stdin.take().context("the agent has no input")?;
        let output = child.stdout.take().context("the agent has no output")?;
        let mut bare = Self {
            child,
            input,
            output: BufReader::new(output),
            session: String::new(),
            line: Vec::new(),
        };
        bare.request("initialize", &json!({"protocolVersion": 1}))?;
        bare.receive()?;
        bare.request("session/new", &json!({"cwd": "/", "mcpServers": []}))?;
        bare.receive()?;
        let answer: Value =
            serde_json::from_slice(&bare.line).context("the agent's answer is not JSON")?;
        let session = answer["result"]["sessionId"].as_str();
        bare.session = session.context("the agent opened no session")?.to_owned();
        Ok(bare)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has the agent say what is ordered, and takes its lines until the turn is over.
    pub(super) fn turn(&mut self, order: Order) -> anyhow::Result<Arrivals> {
        let prompt = json!([{"type": "text", "text": order.prompt()}]);
        let params = json!({"sessionId": self.session, "prompt": prompt});
        self.request("session/prompt", &params)?;
        let mut arrivals = Arrivals::default();
        loop {
            self.receive()?;
            if !Chunk::ends(&self.line) {
                return Ok(arrivals);
            }
            arrivals.push(&self.line, Moment::now());
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> anyhow::Result<()> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.input
            .write_all(format!("{request}\n").as_bytes())
            .context("could not ask the agent")
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        self.line.clear();
        self.output
            .read_until(b'\n', &mut self.line)
            .context("could not read a line of the agent")?;
        ensure!(self.line.ends_with(b"\n"), "the agent ended");
        Ok(())
    }
}

/// How long each word was under way, in microseconds.
pub(super) fn delays(arrivals: &Arrivals) -> anyhow::Result<Vec<f64>> {
    let delay = |(line, came_at): (&[u8], Moment)| {
        let line: Line<'_> =
            serde_json::from_slice(line).context("a line of the agent is no message")?;
        let chunk = Chunk::parse(&line.params.update.content.text)?;
        Ok(came_at.microseconds_since(chunk.said_at))
    };
    arrivals.iter().map(delay).collect()
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may be gone already.
        let _ = self.child.wait();
    }
}
