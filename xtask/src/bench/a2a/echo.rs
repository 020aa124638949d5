//! The face by itself: messages to an agent in its own process that says them back, beside a bare handler of the same web
//! framework in the same process, and beside the SDK's server, whose agent does the same in its process.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{PROOF, REFERENCE_NAME, REFERENCE_PATH, VERSION};
use crate::bench::daemon::resident_kib;
use crate::bench::figure::Figure;
use crate::bench::http::{Face, Load, Other, Reference, post};

/// Where the face answers.
const FACE_PATH: &str = "/a2a/1.0/tck";

/// How many times the reference's rate the face should reach.
const REFERENCE_GOAL: f64 = 50.0;

/// Tasks that wait for an answer, whose memory is counted.
const IDLE: u32 = 1000;

/// The server with the face, the agent and the bare handler.
#[derive(Debug)]
pub(super) struct Server(Face);

impl Server {
    pub(super) fn start(program: &Path) -> anyhow::Result<Self> {
        let other = Other {
            name: REFERENCE_NAME,
            goal: REFERENCE_GOAL,
        };
        Face::start(program, (FACE_PATH, VERSION), PROOF, other).map(Self)
    }

    /// The rate of messages over so many connections; `theirs` is the reference's.
    pub(super) fn loads(
        &self,
        connections: usize,
        theirs: Option<&Load>,
    ) -> anyhow::Result<Vec<Figure>> {
        let body = body("SendMessage", "say echo");
        self.0.loads(&body, connections, theirs)
    }

    /// From the request to the first event of its stream.
    pub(super) fn streams(&self, reference: Option<&Reference>) -> anyhow::Result<Vec<Figure>> {
        let body = body("SendStreamingMessage", "say echo");
        let theirs = post(REFERENCE_PATH, VERSION, &body);
        let reference = reference.map(|reference| (reference, theirs.as_slice()));
        self.0.streams(&body, reference)
    }

    /// What a task costs that waits for its client.
    pub(super) fn idle(&self) -> anyhow::Result<Figure> {
        let mut http = self.0.connect()?;
        let request = self.0.request(&body("SendMessage", "ask more?"));
        // What the first ones take is the process's, not theirs.
        for _ in 0..IDLE / 10 {
            http.exchange(&request)?;
        }
        let before = resident_kib(self.0.pid())?;
        for _ in 0..IDLE {
            let answer: Value = serde_json::from_slice(http.exchange(&request)?)
                .context("the answer is not JSON")?;
            let state = &answer["result"]["task"]["status"]["state"];
            ensure!(state == "TASK_STATE_INPUT_REQUIRED", "the task is {state}");
        }
        let after = resident_kib(self.0.pid())?;
        let each = (after - before) / f64::from(IDLE);
        Ok(Figure::new(
            "memory of a task that waits, with its session",
            each,
            "KiB",
        ))
    }
}

/// Without a context, so that every message begins a conversation of its own.
fn body(method: &str, words: &str) -> String {
    let message =
        json!({ "messageId": "tck-bench", "role": "ROLE_USER", "parts": [{ "text": words }] });
    let params = json!({ "message": message });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}
