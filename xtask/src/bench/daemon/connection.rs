//! A blocking client of lines: as little as a client can do, so that the server is what is measured.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

/// Takes the list of a thousand agents in a few reads.
const READ_MAX: usize = 256 * 1024;
/// No request of a benchmark takes this long; without a limit a daemon that hangs would hang us.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(in crate::bench) struct Connection {
    reader: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl Connection {
    pub(in crate::bench) fn open(socket: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("could not connect to {}", socket.display()))?;
        stream
            .set_read_timeout(Some(ANSWER_LIMIT))
            .context("could not limit the wait for answers")?;
        Ok(Self::new(stream))
    }

    pub(in crate::bench) fn new(stream: UnixStream) -> Self {
        Self {
            reader: BufReader::with_capacity(READ_MAX, stream),
            line: Vec::new(),
        }
    }

    pub(in crate::bench) fn send(&mut self, lines: &[u8]) -> anyhow::Result<()> {
        self.reader
            .get_mut()
            .write_all(lines)
            .context("could not send a request")
    }

    /// The next line, with its end.
    pub(in crate::bench) fn receive(&mut self) -> anyhow::Result<&[u8]> {
        self.line.clear();
        self.reader
            .read_until(b'\n', &mut self.line)
            .context("could not read an answer")?;
        ensure!(
            self.line.ends_with(b"\n"),
            "the server closed the connection"
        );
        Ok(&self.line)
    }

    /// Sends a line and waits for one.
    pub(in crate::bench) fn exchange(&mut self, line: &[u8]) -> anyhow::Result<&[u8]> {
        self.send(line)?;
        self.receive()
    }

    /// How long each of `count` exchanges of the same line took, one after the other.
    pub(in crate::bench) fn exchanges(
        &mut self,
        line: &[u8],
        count: usize,
    ) -> anyhow::Result<Vec<Duration>> {
        let mut durations = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            self.exchange(line)?;
            durations.push(start.elapsed());
        }
        Ok(durations)
    }

    /// Calls a method that must succeed.
    pub(in crate::bench) fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.timed(method, params).map(|(result, _)| result)
    }

    /// Calls a method that must succeed, and says how long its answer took, without our own work on it.
    pub(in crate::bench) fn timed(
        &mut self,
        method: &str,
        params: &Value,
    ) -> anyhow::Result<(Value, Duration)> {
        let request = request(method, params);
        let start = Instant::now();
        let answer = self.exchange(&request)?;
        let duration = start.elapsed();
        let result = result_of(answer).with_context(|| format!("could not call {method}"))?;
        Ok((result, duration))
    }
}

/// A request as a line.
pub(in crate::bench) fn request(method: &str, params: &Value) -> Vec<u8> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    format!("{request}\n").into_bytes()
}

/// What a successful answer says.
pub(in crate::bench) fn result_of(line: &[u8]) -> anyhow::Result<Value> {
    let mut answer: Value = serde_json::from_slice(line).context("an answer is not JSON")?;
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => bail!("the daemon refused: {answer}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_error_and_a_result_is_taken_out() {
        let refused = result_of(br#"{"id":1,"error":{"code":-32003}}"#).unwrap_err();
        assert!(refused.to_string().contains("-32003"), "{refused}");
        assert_eq!(
            result_of(br#"{"id":1,"result":{"a":1}}"#).unwrap(),
            json!({"a": 1})
        );
    }

    #[test]
    fn a_server_that_leaves_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut connection = Connection::new(ours);
        drop(theirs);
        assert!(connection.receive().is_err());
    }
}
