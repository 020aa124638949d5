//! A client of the daemon's socket for commands: blocking, without a runtime, so that a command starts in a millisecond.
//!
//! It waits ten seconds for an answer, then asks the daemon whether it is still working on it, and goes on waiting as
//! long as the daemon says so.

mod duplex;

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use wire::daemon::{ErrorData, PingResult};

pub use duplex::{Incoming, Message, Outgoing};

/// How long an answer may take before the daemon is asked whether it is still working on it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest answer: the ceiling of a line on the socket is the daemon's own, and lists can be long.
const ANSWER_MAX: u64 = 64 * 1024 * 1024;

/// The method that tells whether the daemon lives and works.
const PING: &str = "daemon.ping";

/// One connection to the daemon.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    reader: BufReader<UnixStream>,
    next_id: u64,
}

/// The daemon could not be reached.
#[derive(Debug, thiserror::Error)]
#[error("could not connect to the daemon at {}", socket.display())]
pub struct ConnectError {
    pub socket: PathBuf,
    pub source: io::Error,
}

/// A call that gave no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The daemon answered with an error.
    #[error("{message}")]
    Remote {
        code: i64,
        message: String,
        data: Option<ErrorData>,
    },
    #[error("the daemon closed the connection during {method}")]
    Closed { method: String },
    #[error("nothing answers at {} (waited for {method})", socket.display())]
    Silent { method: String, socket: PathBuf },
    #[error("could not exchange {method} with the daemon")]
    Exchange { method: String, source: io::Error },
    #[error("could not read the daemon's answer to {method}")]
    Unreadable {
        method: String,
        source: serde_json::Error,
    },
}

#[derive(serde::Deserialize)]
struct Answer<'a> {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<AnswerError>,
}

#[derive(serde::Deserialize)]
struct AnswerError {
    code: i64,
    message: String,
    #[serde(default)]
    data: Option<Value>,
}

impl Client {
    /// Connects to the daemon at `socket`.
    pub fn connect(socket: &Path) -> Result<Self, ConnectError> {
        let connect = || {
            let stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        match connect() {
            Ok(stream) => Ok(Self {
                socket: socket.to_owned(),
                reader: BufReader::new(stream),
                next_id: 1,
            }),
            Err(source) => Err(ConnectError {
                socket: socket.to_owned(),
                source,
            }),
        }
    }

    /// Where the daemon listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The bare connection, for a protocol other than ours, and what has been read of it already.
    pub fn into_stream(self) -> Result<(UnixStream, Vec<u8>), CallError> {
        let early = self.reader.buffer().to_vec();
        let stream = self.reader.into_inner();
        let unset = stream.set_read_timeout(None);
        unset.map_err(|source| CallError::Exchange {
            method: "another protocol".to_owned(),
            source,
        })?;
        Ok((stream, early))
    }

    /// Calls a method and waits for its answer, however long the daemon works on it.
    pub fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, CallError> {
        let id = self.send(method, params)?;
        loop {
            match self.receive(method)? {
                Some(line) => {
                    if let Some(result) = read_answer(method, id, &line)? {
                        return Ok(result);
                    }
                }
                None if method == PING => return Err(self.silent(method)),
                None => {
                    if let Some(line) = self.ask_whether_working(method, id)? {
                        return read_answer(method, id, &line)?.ok_or_else(|| self.silent(method));
                    }
                }
            }
        }
    }

    fn silent(&self, method: &str) -> CallError {
        CallError::Silent {
            method: method.to_owned(),
            socket: self.socket.clone(),
        }
    }

    /// Pings on the same connection. The answer to `waiting` may overtake the ping's; then it is returned.
    fn ask_whether_working(
        &mut self,
        method: &str,
        waiting: u64,
    ) -> Result<Option<String>, CallError> {
        let ping = self.send(PING, &wire::daemon::Empty {})?;
        let mut overtaken = None;
        loop {
            let line = self.receive(method)?.ok_or_else(|| self.silent(method))?;
            if let Some(answer) = read_answer::<PingResult>(PING, ping, &line)? {
                return match overtaken {
                    Some(line) => Ok(Some(line)),
                    None if answer.working > 0 => Ok(None),
                    None => Err(self.silent(method)),
                };
            }
            if answers(&line, waiting) {
                overtaken = Some(line);
            }
        }
    }

    fn send(&mut self, method: &str, params: &impl Serialize) -> Result<u64, CallError> {
        let id = self.next_id;
        self.next_id += 1;
        match write_request(self.reader.get_mut(), id, method, params) {
            Ok(()) => Ok(id),
            // A daemon that turns us away says why before it closes.
            Err(error) => match self.receive(method) {
                Ok(Some(line)) => match read_answer::<Value>(method, id, &line) {
                    Err(why @ CallError::Remote { .. }) => Err(why),
                    _ => Err(error),
                },
                _ => Err(error),
            },
        }
    }

    /// The next line, or nothing if none came within the patience.
    fn receive(&mut self, method: &str) -> Result<Option<String>, CallError> {
        let mut line = Vec::new();
        loop {
            match self
                .reader
                .by_ref()
                .take(ANSWER_MAX)
                .read_until(b'\n', &mut line)
            {
                Ok(0) => {
                    return Err(CallError::Closed {
                        method: method.to_owned(),
                    });
                }
                Ok(_) if line.ends_with(b"\n") => break,
                Ok(_) => {
                    return Err(CallError::Closed {
                        method: method.to_owned(),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) && line.is_empty() => return Ok(None),
                // The rest of a line that has begun to come is on its way.
                Err(error) if is_timeout(&error) => {}
                Err(source) => {
                    return Err(CallError::Exchange {
                        method: method.to_owned(),
                        source,
                    });
                }
            }
        }
        String::from_utf8(line)
            .map(Some)
            .map_err(|_| CallError::Closed {
                method: method.to_owned(),
            })
    }
}

fn write_request(
    stream: &mut UnixStream,
    id: u64,
    method: &str,
    params: &impl Serialize,
) -> Result<(), CallError> {
    #[derive(Serialize)]
    struct Request<'a, P> {
        jsonrpc: &'static str,
        id: u64,
        method: &'a str,
        params: &'a P,
    }
    let request = Request {
        jsonrpc: "2.0",
        id,
        method,
        params,
    };
    let mut line = serde_json::to_vec(&request).map_err(|source| CallError::Unreadable {
        method: method.to_owned(),
        source,
    })?;
    line.push(b'\n');
    stream
        .write_all(&line)
        .map_err(|source| CallError::Exchange {
            method: method.to_owned(),
            source,
        })
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn answers(line: &str, id: u64) -> bool {
    serde_json::from_str::<Answer<'_>>(line)
        .is_ok_and(|answer| answer.id.and_then(|id| id.as_u64()) == Some(id))
}

/// The result in `line` if it answers request `id`; notifications and other answers are passed over.
fn read_answer<R: DeserializeOwned>(
    method: &str,
    id: u64,
    line: &str,
) -> Result<Option<R>, CallError> {
    let unreadable = |source| CallError::Unreadable {
        method: method.to_owned(),
        source,
    };
    let answer: Answer<'_> = serde_json::from_str(line).map_err(unreadable)?;
    let (result, error) = (answer.result, answer.error);
    match answer.id {
        Some(Value::Number(number)) if number.as_u64() == Some(id) => {}
        // An error without an id speaks of a line the daemon could not read; it was ours.
        None if error.is_some() => {}
        _ => return Ok(None),
    }
    if let Some(error) = error {
        return Err(remote(error));
    }
    serde_json::from_str(result.map_or("null", RawValue::get))
        .map(Some)
        .map_err(unreadable)
}

fn remote(error: AnswerError) -> CallError {
    CallError::Remote {
        code: error.code,
        message: error.message,
        data: error
            .data
            .and_then(|data| serde_json::from_value(data).ok()),
    }
}
