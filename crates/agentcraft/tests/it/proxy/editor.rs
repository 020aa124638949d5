//! An editor as the proxy sees it: pipes, lines of ACP, and a permission that is always given once.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
};

use serde_json::{Value, json};
use testkit::{Output, TestDaemon};

pub(crate) struct Editor {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
    /// How often the agent asked.
    pub(crate) permissions: usize,
    /// What is chosen when it asks.
    pub(crate) choice: &'static str,
    /// What else the agent asked for, and what it is answered with.
    pub(crate) act: fn(&Value) -> Option<Value>,
    pub(crate) capabilities: Value,
}

impl Editor {
    pub(crate) fn open(daemon: &TestDaemon, arguments: &[&str]) -> Self {
        Self::run(daemon.command(&[&["proxy"], arguments].concat()))
    }

    pub(crate) fn run(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            next_id: 1,
            permissions: 0,
            choice: "allow_once",
            act: |_| None,
            capabilities: json!({}),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.write(format!("{message}\n").as_bytes());
    }

    /// Asks and waits for the answer; with it comes everything that was told meanwhile.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> (Value, Value) {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Asks; the answer is waited for later.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(json!({"id": id, "method": method, "params": params}));
        id
    }

    /// What is told next, without an answer to anything.
    pub(crate) fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(
            self.stdout.read_line(&mut line).unwrap() > 0,
            "the agent is gone"
        );
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Asks for what is refused, and gives the words.
    pub(crate) fn refusal(&mut self, method: &str, params: Value) -> (i64, String) {
        let id = self.ask(method, params);
        let error = self.outcome(&json!(id)).0.unwrap_err();
        let words = error["message"].as_str().unwrap().to_owned();
        (error["code"].as_i64().unwrap(), words)
    }

    pub(crate) fn answer(&mut self, id: u64) -> (Value, Value) {
        let (outcome, updates) = self.outcome(&json!(id));
        let result = outcome.unwrap_or_else(|error| panic!("{error}"));
        (result, Value::Array(updates))
    }

    /// The result or the error of a request, and everything else that came before it. What the agent asks meanwhile is
    /// answered.
    pub(crate) fn outcome(&mut self, id: &Value) -> (Result<Value, Value>, Vec<Value>) {
        let mut updates = Vec::new();
        loop {
            let message = self.next();
            if message["method"] == "session/request_permission" {
                self.permissions += 1;
                let options = message["params"]["options"].as_array().unwrap();
                let once = options
                    .iter()
                    .find(|option| option["kind"] == self.choice)
                    .unwrap();
                let outcome = json!({"outcome": "selected", "optionId": once["optionId"]});
                self.send(json!({"id": message["id"], "result": {"outcome": outcome}}));
            } else if message.get("method").is_some() && message.get("id").is_some() {
                let answer = match (self.act)(&message) {
                    Some(result) => json!({"id": message["id"], "result": result}),
                    None => {
                        json!({"id": message["id"], "error": {"code": -32601, "message": "not here"}})
                    }
                };
                self.send(answer);
                updates.push(message);
            } else if message.get("method").is_none() && message["id"] == *id {
                let outcome = match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
                return (outcome, updates);
            } else {
                updates.push(message);
            }
        }
    }

    pub(crate) fn initialize(&mut self) {
        let (answer, _) = self.call(
            "initialize",
            json!({"protocolVersion": 1, "clientCapabilities": self.capabilities}),
        );
        assert_eq!(answer["protocolVersion"], 1);
    }

    /// A new session.
    pub(crate) fn begin(&mut self, cwd: &str) -> String {
        if self.next_id == 1 {
            self.initialize();
        }
        let (answer, _) = self.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        answer["sessionId"].as_str().unwrap().to_owned()
    }

    /// An earlier session, and what is told of it.
    pub(crate) fn load(&mut self, session: &str) -> Value {
        if self.next_id == 1 {
            self.initialize();
        }
        let params = json!({"sessionId": session, "cwd": "/home/me", "mcpServers": []});
        self.call("session/load", params).1
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> (Value, Value) {
        let prompt = json!([{"type": "text", "text": text}]);
        self.call(
            "session/prompt",
            json!({"sessionId": session, "prompt": prompt}),
        )
    }

    /// Closes the input.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Closes the input and waits for the end.
    pub(crate) fn close(mut self) -> Output {
        self.hang_up();
        self.wait()
    }

    /// Waits for the end.
    pub(crate) fn wait(mut self) -> Output {
        let mut stdout = Vec::new();
        self.stdout.read_to_end(&mut stdout).unwrap();
        let mut stderr = String::new();
        if let Some(mut words) = self.child.stderr.take() {
            words.read_to_string(&mut stderr).unwrap();
        }
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Output {
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr,
            code,
        }
    }

    /// Sends everything, closes the input, and gives all that came back.
    pub(crate) fn exchange(mut self, bytes: &[u8]) -> (Vec<u8>, Output) {
        let mut stdin = self.stdin.take().unwrap();
        let bytes = bytes.to_vec();
        let writing = thread::spawn(move || stdin.write_all(&bytes));
        let mut returned = Vec::new();
        self.stdout.read_to_end(&mut returned).unwrap();
        writing.join().unwrap().unwrap();
        (returned, self.wait())
    }
}
