//! A Socket.IO client over a WebSocket, in a few lines: it joins an office, asks, and answers.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::mem;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::packet::{self, Packet};

/// No call of a benchmark takes this long; without a limit a relay that hangs would hang us.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// More than any message of a benchmark.
const FRAME_MAX: u64 = 1024 * 1024;
/// The relay speaks two profiles; this is the one of the released server.
const TARGET: &str = "/socket.io/?EIO=4&transport=websocket&a2c_version=0.4.0";
/// Thousands of members may be there at once.
const BUFFER: usize = 1024;
/// The frame of a ping, which no other frame holds: it is not ASCII.
const PING: [u8; 3] = [0x81, 1, b'2'];
const TEXT: u8 = 1;
const CLOSE: u8 = 8;

#[derive(Debug)]
pub(super) struct Member {
    reader: BufReader<TcpStream>,
    last_id: u64,
    /// The last bytes that a member at rest has passed over.
    end: Vec<u8>,
}

/// The connection of a member that somebody else holds.
#[derive(Debug)]
pub(super) struct Leash(TcpStream);

impl Drop for Leash {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both); // The relay may have closed it already.
    }
}

impl Member {
    /// Connects and shows a token.
    pub(super) fn connect(address: SocketAddr, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)
            .with_context(|| format!("could not connect to {address}"))?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(ANSWER_LIMIT)))
            .context("could not prepare a connection")?;
        let mut member = Self {
            reader: BufReader::with_capacity(BUFFER, stream),
            last_id: 0,
            end: Vec::new(),
        };
        member.upgrade(address)?;
        member.say(&format!("40/smcp,{}", json!({"token": token})))?;
        loop {
            match member.hear()? {
                Packet::Opened => return Ok(member),
                Packet::Refused(why) => bail!("the relay refused us: {why}"),
                Packet::Ask { .. } | Packet::Answer { .. } | Packet::Other => {}
            }
        }
    }

    fn upgrade(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        let request = format!(
            "GET {TARGET} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        let stream = self.reader.get_mut();
        stream
            .write_all(request.as_bytes())
            .context("could not ask for a WebSocket")?;
        let mut first = String::new();
        self.reader
            .read_line(&mut first)
            .context("could not read the relay's answer")?;
        ensure!(first.contains(" 101 "), "the relay answered {first:?}");
        let mut line = first;
        while !line.trim_end().is_empty() {
            line.clear();
            let read = self.reader.read_line(&mut line);
            ensure!(
                read.context("could not read the relay's answer")? > 0,
                "the relay left"
            );
        }
        Ok(())
    }

    pub(super) fn join(&mut self, role: &str, name: &str, office: &str) -> anyhow::Result<()> {
        let body = json!({"role": role, "name": name, "office_id": office});
        let id = self.ask("server:join_office", &body)?;
        let (answered, answer) = self.answer()?;
        ensure!(
            answered == id && answer.starts_with("[true"),
            "the relay did not let {name} in: {answer}"
        );
        Ok(())
    }

    /// Sends an event that is answered; gives its id.
    pub(super) fn ask(&mut self, event: &str, body: &Value) -> anyhow::Result<u64> {
        self.last_id += 1;
        let id = self.last_id;
        self.say(&format!("42/smcp,{id}{}", json!([event, body])))?;
        Ok(id)
    }

    /// The next answer: to what, and the JSON of it.
    pub(super) fn answer(&mut self) -> anyhow::Result<(u64, String)> {
        loop {
            match self.hear()? {
                Packet::Answer { id, json } => return Ok((id, json)),
                Packet::Ask { .. } | Packet::Opened | Packet::Refused(_) | Packet::Other => {}
            }
        }
    }

    /// What ends the connection from another thread when it is dropped.
    pub(super) fn leash(&self) -> anyhow::Result<Leash> {
        let stream = self.reader.get_ref().try_clone();
        Ok(Leash(stream.context("could not share a connection")?))
    }

    /// Answers every call until the connection ends.
    pub(super) fn answer_calls(&mut self) -> anyhow::Result<()> {
        let result = json!([{"content": [{"type": "text", "text": "done"}], "isError": false}]);
        loop {
            if let Packet::Ask { id } = self.hear()? {
                self.say(&format!("43/smcp,{id}{result}"))?;
            }
        }
    }

    /// From now on it only looks, and never waits.
    pub(super) fn rest(&mut self) -> anyhow::Result<()> {
        let stream = self.reader.get_ref();
        stream
            .set_nonblocking(true)
            .context("could not prepare a connection")
    }

    /// Answers pings and passes over everything else that has come. For a member at rest.
    pub(super) fn look(&mut self) -> anyhow::Result<()> {
        loop {
            let heard = match self.reader.fill_buf() {
                Ok([]) => bail!("the relay closed the connection"),
                Ok(bytes) => bytes.to_vec(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("could not read from the relay"),
            };
            self.reader.consume(heard.len());
            // A ping may have come in two pieces.
            let heard = [mem::take(&mut self.end), heard].concat();
            if heard.windows(PING.len()).any(|bytes| bytes == PING) {
                self.say("3")?;
            } else {
                self.end = heard[heard.len().saturating_sub(PING.len() - 1)..].to_vec();
            }
        }
    }

    /// The next packet; pings are answered on the way.
    fn hear(&mut self) -> anyhow::Result<Packet> {
        loop {
            let text = self.frame()?;
            if text == "2" {
                self.say("3")?;
                continue;
            }
            return Ok(packet::read(&text));
        }
    }

    /// The next text; frames of other kinds are passed over.
    fn frame(&mut self) -> anyhow::Result<String> {
        loop {
            let mut head = [0; 2];
            self.fill(&mut head)?;
            let kind = head[0] & 0x0f;
            let length = match head[1] & 0x7f {
                126 => {
                    let mut bytes = [0; 2];
                    self.fill(&mut bytes)?;
                    u64::from(u16::from_be_bytes(bytes))
                }
                127 => {
                    let mut bytes = [0; 8];
                    self.fill(&mut bytes)?;
                    u64::from_be_bytes(bytes)
                }
                length => u64::from(length),
            };
            ensure!(length <= FRAME_MAX, "a frame is too long");
            let mut payload = vec![0; usize::try_from(length)?];
            self.fill(&mut payload)?;
            match kind {
                TEXT => return String::from_utf8(payload).context("a frame is no text"),
                CLOSE => bail!("the relay closed the connection"),
                _ => {}
            }
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> anyhow::Result<()> {
        self.reader
            .read_exact(bytes)
            .context("could not read from the relay")
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        self.reader
            .get_mut()
            .write_all(&packet::frame(text)?)
            .context("could not write to the relay")
    }
}
