//! A connection in two halves, for clients that read what the daemon sends by itself while they ask for more.
//!
//! Nothing here waits for a particular answer: the one who sends keeps the id, the one who reads hands everything on.

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::net::UnixStream,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{ANSWER_MAX, AnswerError, CallError, Client, remote, write_request};

/// What the halves say they were doing when the connection is lost.
const LISTENING: &str = "listening to the daemon";

/// The half that sends requests.
#[derive(Debug)]
pub struct Outgoing {
    stream: UnixStream,
    next_id: u64,
}

/// The half that reads everything the daemon sends.
#[derive(Debug)]
pub struct Incoming {
    reader: BufReader<UnixStream>,
}

/// One line of the daemon.
#[derive(Debug)]
pub enum Message {
    /// The answer to the request of this id.
    Answer {
        id: u64,
        result: Result<Box<RawValue>, CallError>,
    },
    /// Something that nobody asked for, such as an event of a session.
    Notification {
        method: String,
        params: Box<RawValue>,
    },
}

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<Box<RawValue>>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<AnswerError>,
}

impl Client {
    /// Takes the connection apart. Reading waits as long as it takes, since a conversation may be silent for hours.
    pub fn split(self) -> Result<(Outgoing, Incoming), CallError> {
        let broken = |source| CallError::Exchange {
            method: LISTENING.to_owned(),
            source,
        };
        let stream = self.reader.get_ref().try_clone().map_err(broken)?;
        stream.set_read_timeout(None).map_err(broken)?;
        let outgoing = Outgoing {
            stream,
            next_id: self.next_id,
        };
        let incoming = Incoming {
            reader: self.reader,
        };
        Ok((outgoing, incoming))
    }
}

impl Outgoing {
    /// Sends a request; the answer comes to [`Incoming`] under the id that is returned.
    pub fn send(&mut self, method: &str, params: &impl Serialize) -> Result<u64, CallError> {
        let id = self.next_id;
        self.next_id += 1;
        write_request(&mut self.stream, id, method, params)?;
        Ok(id)
    }

    /// Ends the connection, also for the half that reads.
    pub fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both); // It may be closed already.
    }
}

impl Incoming {
    /// Waits for the next message; an error means that there will be none.
    pub fn next_message(&mut self) -> Result<Message, CallError> {
        loop {
            let line = self.line()?;
            let line = serde_json::from_slice(&line).map_err(|source| CallError::Unreadable {
                method: LISTENING.to_owned(),
                source,
            })?;
            if let Some(message) = message(line)? {
                return Ok(message);
            }
        }
    }

    fn line(&mut self) -> Result<Vec<u8>, CallError> {
        let mut line = Vec::new();
        let read = self
            .reader
            .by_ref()
            .take(ANSWER_MAX)
            .read_until(b'\n', &mut line);
        match read {
            Ok(_) if line.ends_with(b"\n") => Ok(line),
            Ok(_) => Err(CallError::Closed {
                method: LISTENING.to_owned(),
            }),
            Err(source) => Err(CallError::Exchange {
                method: LISTENING.to_owned(),
                source,
            }),
        }
    }
}

/// Nothing for a line that is neither an answer to us nor a notification.
fn message(line: Line) -> Result<Option<Message>, CallError> {
    let id = line.id.as_ref().and_then(Value::as_u64);
    Ok(match (id, line.method, line.error) {
        (None, Some(method), None) => Some(Message::Notification {
            method,
            params: line.params.unwrap_or_else(null),
        }),
        (Some(id), None, Some(error)) => Some(Message::Answer {
            id,
            result: Err(remote(error)),
        }),
        (Some(id), None, None) => Some(Message::Answer {
            id,
            result: Ok(line.result.unwrap_or_else(null)),
        }),
        // An error without an id speaks of a line the daemon could not read; it was ours.
        (None, None, Some(error)) => return Err(remote(error)),
        _ => None,
    })
}

fn null() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn answers_and_notifications_are_told_apart() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut incoming = Incoming {
            reader: BufReader::new(ours),
        };
        theirs
            .write_all(
                concat!(
                    r#"{"jsonrpc":"2.0","method":"session.event","params":{"a":1}}"#,
                    "\n",
                    r#"{"jsonrpc":"2.0","id":"other","result":1}"#,
                    "\n",
                    r#"{"jsonrpc":"2.0","id":3,"result":[2]}"#,
                    "\n",
                    r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32000,"message":"no"}}"#,
                    "\n",
                )
                .as_bytes(),
            )
            .unwrap();
        drop(theirs);
        let mut told = Vec::new();
        let ended = loop {
            match incoming.next_message() {
                Ok(Message::Notification { method, params }) => {
                    told.push(format!("{method} {params}"));
                }
                Ok(Message::Answer { id, result }) => {
                    let result = result.map_err(|error| error.to_string());
                    told.push(format!("{id} {:?}", result.map(|it| it.get().to_owned())));
                }
                Err(error) => break error,
            }
        };
        let expected = [
            r#"session.event {"a":1}"#,
            r#"3 Ok("[2]")"#,
            r#"4 Err("no")"#,
        ];
        assert_eq!(told, expected);
        assert!(matches!(ended, CallError::Closed { .. }));
    }
}
