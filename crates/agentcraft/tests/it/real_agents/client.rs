//! A client with the patience that real agents need, which keeps the events it is sent while it waits for an answer.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use serde_json::{Value, json};
use testkit::TestDaemon;

/// The slowest of them takes ten seconds for its first words on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct Client {
    stream: BufReader<UnixStream>,
    next: u64,
    pub(super) events: Vec<Value>,
}

impl Client {
    pub(super) fn connect(daemon: &TestDaemon) -> Self {
        let stream = UnixStream::connect(daemon.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream: BufReader::new(stream),
            next: 1,
            events: Vec::new(),
        }
    }

    /// Sends a request; its answer is awaited later.
    pub(super) fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.stream.get_mut(), "{line}").unwrap();
        id
    }

    /// The answer to a request: its result, or its error.
    pub(super) fn answer(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            let mut message = self.receive();
            if message["id"] == json!(id) {
                return match message.get_mut("error") {
                    Some(error) => Err(error.take()),
                    None => Ok(message["result"].take()),
                };
            }
        }
    }

    pub(super) fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send(method, params);
        self.answer(id)
    }

    pub(super) fn ok(&mut self, method: &str, params: Value) -> Value {
        self.call(method, params)
            .unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Reads until there is an event of one of these types.
    pub(super) fn until(&mut self, kinds: &[&str]) {
        let wanted = |event: &Value| kinds.iter().any(|kind| event["type"] == *kind);
        while !self.events.iter().any(wanted) {
            self.receive();
        }
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        let length = self.stream.read_line(&mut line).unwrap();
        assert_ne!(length, 0, "the daemon closed the connection");
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["method"] == "session.event" {
            self.events.push(message["params"]["event"].clone());
        }
        message
    }
}
