//! A blocking client of HTTP/1.1 on one connection that stays open: as little as a client can do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

/// No request of a benchmark takes this long; without a limit a server that hangs would hang us.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// More than any answer of a benchmark.
const BODY_MAX: usize = 16 * 1024 * 1024;
/// Lines of a head, as the strictest servers count them.
const HEAD_LINES_MAX: usize = 100;

#[derive(Debug)]
pub(in crate::bench) struct Http {
    reader: BufReader<TcpStream>,
    body: Vec<u8>,
}

/// What the head of an answer says of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Bytes(usize),
    Chunks,
}

/// A request as bytes; `headers` are whole lines with their ends.
pub(in crate::bench) fn post(path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

impl Http {
    pub(in crate::bench) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)
            .with_context(|| format!("could not connect to {address}"))?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(ANSWER_LIMIT)))
            .context("could not prepare a connection")?;
        Ok(Self {
            reader: BufReader::new(stream),
            body: Vec::new(),
        })
    }

    pub(in crate::bench) fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.reader
            .get_mut()
            .write_all(request)
            .context("could not send a request")
    }

    /// The body of the next answer, which must be a success.
    pub(in crate::bench) fn receive(&mut self) -> anyhow::Result<&[u8]> {
        let (status, length) = self.head()?;
        self.body.clear();
        match length {
            Length::Bytes(length) => self.take(length)?,
            Length::Chunks => while self.chunk()? > 0 {},
        }
        ensure!(
            (200..300).contains(&status),
            "the server answered {status}: {}",
            String::from_utf8_lossy(&self.body)
        );
        Ok(&self.body)
    }

    pub(in crate::bench) fn exchange(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        self.send(request)?;
        self.receive()
    }

    /// How long the first event of a stream took, and the whole of it.
    pub(in crate::bench) fn stream(
        &mut self,
        request: &[u8],
    ) -> anyhow::Result<(Duration, Duration)> {
        let start = Instant::now();
        self.send(request)?;
        let (status, length) = self.head()?;
        ensure!(
            status == 200 && length == Length::Chunks,
            "the server answered {status} without a stream"
        );
        self.body.clear();
        let mut first = None;
        while self.chunk()? > 0 {
            let whole = self.body.windows(2).any(|pair| pair == b"\n\n")
                || self.body.windows(4).any(|four| four == b"\r\n\r\n");
            if first.is_none() && whole {
                first = Some(start.elapsed());
            }
        }
        let first = first.context("a stream ended without an event")?;
        Ok((first, start.elapsed()))
    }

    fn head(&mut self) -> anyhow::Result<(u16, Length)> {
        let first = self.line()?;
        let status = first
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("the server sent no answer: {first:?}"))?;
        let mut length = Length::Bytes(0);
        for _ in 0..HEAD_LINES_MAX {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                return Ok((status, length));
            }
            match line
                .split_once(':')
                .map(|(name, value)| (name, value.trim()))
            {
                Some(("content-length", value)) => {
                    length = Length::Bytes(value.parse().context("a length is no number")?);
                }
                Some(("transfer-encoding", "chunked")) => length = Length::Chunks,
                _ => {}
            }
        }
        bail!("the head of an answer has more than {HEAD_LINES_MAX} lines");
    }

    /// Adds a chunk to the body; gives its length, zero for the last.
    fn chunk(&mut self) -> anyhow::Result<usize> {
        let line = self.line()?;
        let length = usize::from_str_radix(&line, 16)
            .with_context(|| format!("a chunk has no length: {line:?}"))?;
        self.take(length)?;
        ensure!(self.line()?.is_empty(), "a chunk is longer than it says");
        Ok(length)
    }

    fn take(&mut self, length: usize) -> anyhow::Result<()> {
        let start = self.body.len();
        ensure!(start + length <= BODY_MAX, "an answer is too long");
        self.body.resize(start + length, 0);
        self.reader
            .read_exact(&mut self.body[start..])
            .context("could not read an answer")
    }

    /// A line without its end.
    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.reader
            .read_line(&mut line)
            .context("could not read an answer")?;
        ensure!(line.ends_with('\n'), "the server closed the connection");
        Ok(line.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn answered(answer: &'static [u8]) -> Http {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let http = Http::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        thread::spawn(move || stream.write_all(answer));
        http
    }

    #[test]
    fn answers_are_read_by_length_and_by_chunks() {
        let mut http = answered(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi\
              HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
        );
        assert_eq!(http.receive().unwrap(), b"hi");
        assert_eq!(http.receive().unwrap(), b"abcd");
        assert!(http.receive().is_err(), "closed");
    }

    #[test]
    fn a_refusal_is_an_error() {
        let mut http = answered(b"HTTP/1.1 429 No\r\nContent-Length: 4\r\n\r\nslow");
        let refused = http.receive().unwrap_err().to_string();
        assert!(
            refused.contains("429") && refused.contains("slow"),
            "{refused}"
        );
    }
}
