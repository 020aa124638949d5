//! An editor as small as one can be: it starts an agent as a program, writes requests and reads lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::turn::{Chunk, Moment, Order};

/// No answer of a benchmark takes this long; without a limit an agent that hangs would hang us.
const ANSWER_LIMIT: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};
/// Longer than the graces a proxy gives its agent.
const END_LIMIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_micros(500);

/// The other end is killed with its owner unless it was left properly.
#[derive(Debug)]
pub(super) struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    last_id: u64,
}

impl Editor {
    /// Starts the command as an agent.
    pub(super) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not start {command:?}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the agent has no output")?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
            line: Vec::new(),
            last_id: 0,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the agent's input is closed")?;
        input
            .write_all(bytes)
            .context("could not write to the agent")
    }

    /// Writes a request; gives its id.
    pub(super) fn send(&mut self, method: &str, params: &Value) -> anyhow::Result<u64> {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(format!("{request}\n").as_bytes())?;
        Ok(id)
    }

    /// The next line, with its end.
    pub(super) fn receive(&mut self) -> anyhow::Result<&[u8]> {
        self.line.clear();
        if self.output.buffer().is_empty() {
            let mut wait = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
            let ready =
                poll(&mut wait, Some(&ANSWER_LIMIT)).context("could not wait for a line")?;
            ensure!(ready > 0, "the agent was silent for {ANSWER_LIMIT:?}");
        }
        self.output
            .read_until(b'\n', &mut self.line)
            .context("could not read a line of the agent")?;
        ensure!(self.line.ends_with(b"\n"), "the agent ended");
        Ok(&self.line)
    }

    /// The next message.
    pub(super) fn message(&mut self) -> anyhow::Result<Value> {
        let line = self.receive()?;
        serde_json::from_slice(line).with_context(|| {
            let text = String::from_utf8_lossy(line);
            format!("the agent sent what is no message: {text}")
        })
    }

    /// Calls a method that must succeed; what is said meanwhile is not heard.
    pub(super) fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let id = self.send(method, params)?;
        loop {
            let mut message = self.message()?;
            if !is_answer(&message, id) {
                continue;
            }
            match message.get_mut("result") {
                Some(result) => return Ok(result.take()),
                None => bail!("the agent refused {method}: {message}"),
            }
        }
    }

    pub(super) fn initialize(&mut self) -> anyhow::Result<()> {
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
        self.call("initialize", &params).map(drop)
    }

    /// A new session in a folder; gives its id.
    pub(super) fn session(&mut self, cwd: &str) -> anyhow::Result<String> {
        let params = json!({"cwd": cwd, "mcpServers": []});
        let created = self.call("session/new", &params)?;
        let session = created["sessionId"].as_str();
        Ok(session.context("the agent opened no session")?.to_owned())
    }

    /// Has the agent say what is ordered; gives how long each word was under way, in microseconds.
    pub(super) fn turn(&mut self, session: &str, order: Order) -> anyhow::Result<Vec<f64>> {
        self.turn_of(session, &order.prompt(), order)
    }

    /// As above, where the order goes through somebody who is told more.
    pub(super) fn turn_of(
        &mut self,
        session: &str,
        text: &str,
        order: Order,
    ) -> anyhow::Result<Vec<f64>> {
        let id = self.send("session/prompt", &prompt(session, text))?;
        let mut delays = Vec::new();
        loop {
            self.receive()?;
            let came_at = Moment::now();
            let message: Value =
                serde_json::from_slice(&self.line).context("a line of the agent is no message")?;
            if is_answer(&message, id) {
                ensure!(
                    message["result"]["stopReason"] == "end_turn",
                    "a turn ended otherwise: {message}"
                );
                break;
            }
            let update = &message["params"]["update"];
            if update["sessionUpdate"] == "agent_message_chunk" {
                let text = update["content"]["text"].as_str().unwrap_or_default();
                delays.push(came_at.microseconds_since(Chunk::parse(text)?.said_at));
            }
        }
        ensure!(
            delays.len() == usize::try_from(order.chunks)?,
            "{} of {} words came",
            delays.len(),
            order.chunks
        );
        Ok(delays)
    }

    /// Closes the agent's input and waits until the agent is gone.
    pub(super) fn leave(mut self) -> anyhow::Result<()> {
        drop(self.input.take());
        let deadline = Instant::now() + END_LIMIT;
        while self
            .child
            .try_wait()
            .context("could not look at the agent")?
            .is_none()
        {
            ensure!(
                Instant::now() < deadline,
                "the agent did not end within {END_LIMIT:?}"
            );
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill(); // It may be gone already.
        let _ = self.child.wait();
    }
}

/// The params of a prompt of one text.
pub(super) fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

pub(super) fn is_answer(message: &Value, id: u64) -> bool {
    message.get("method").is_none() && message["id"] == id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_from_what_is_said_meanwhile() {
        // `cat` sends our own request back, which has a method and is therefore no answer.
        let mut editor = Editor::start(&mut Command::new("cat")).unwrap();
        let id = editor.send("x", &json!({})).unwrap();
        assert!(!is_answer(&editor.message().unwrap(), id));
        editor.write(b"{\"id\":1,\"result\":{}}\n").unwrap();
        assert!(is_answer(&editor.message().unwrap(), id));
        editor.leave().unwrap();
    }
}
