//! A client of the socket that shares no code with the product: lines of JSON, as anybody would write it.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
};

use serde_json::{Value, json};

use crate::PATIENCE;

/// One connection.
#[derive(Debug)]
pub struct RawClient {
    reader: BufReader<UnixStream>,
    next_id: u64,
}

/// An error as it came over the wire.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteError {
    pub code: i64,
    pub message: String,
    pub data: Value,
}

impl RawClient {
    pub fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket)
            .unwrap_or_else(|error| panic!("connect {}: {error}", socket.display()));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            reader: BufReader::new(stream),
            next_id: 1,
        }
    }

    /// Calls a method and gives its result or its error.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, RemoteError> {
        let id = self.next_id;
        self.next_id += 1;
        self.send_line(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        loop {
            let answer = self.receive();
            if answer["id"] != json!(id) {
                continue;
            }
            return outcome(&answer);
        }
    }

    /// Calls a method that must succeed.
    pub fn ok(&mut self, method: &str, params: Value) -> Value {
        self.call(method, params.clone())
            .unwrap_or_else(|error| panic!("{method} {params}: {error:?}"))
    }

    /// Calls a method; nothing if the daemon died meanwhile.
    pub fn call_if_alive(
        &mut self,
        method: &str,
        params: Value,
    ) -> Option<Result<Value, RemoteError>> {
        let id = self.next_id;
        self.next_id += 1;
        let line =
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        self.reader
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
            .ok()?;
        loop {
            let answer = self.try_receive()?;
            if answer["id"] == json!(id) {
                return Some(outcome(&answer));
            }
        }
    }

    /// Sends a line as it is.
    pub fn send_line(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// The next line.
    pub fn receive(&mut self) -> Value {
        self.try_receive()
            .expect("the daemon closed the connection")
    }

    /// The next line, or nothing if the daemon closed the connection.
    pub fn try_receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => {
                Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("read from the daemon: {error}"),
        }
    }
}

fn outcome(answer: &Value) -> Result<Value, RemoteError> {
    match answer.get("error") {
        Some(error) => Err(RemoteError {
            code: error["code"].as_i64().unwrap(),
            message: error["message"].as_str().unwrap().to_owned(),
            data: error.get("data").cloned().unwrap_or(Value::Null),
        }),
        None => Ok(answer["result"].clone()),
    }
}
