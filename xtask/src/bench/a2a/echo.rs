//! The face by itself: messages to an agent in its own process that says them back, beside a bare handler of the same web
//! framework in the same process, and beside the SDK's server, whose agent does the same in its process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{PROOF, REFERENCE_NAME, REFERENCE_PATH, VERSION};
use crate::bench::daemon::resident_kib;
use crate::bench::figure::{Figure, Goal};
use crate::bench::http::{Effort, Http, Load, Reference, Target, post};
use crate::bench::samples::Samples;

/// Where the face answers, and where the bare handler does.
const FACE_PATH: &str = "/a2a/1.0/tck";
const BARE_PATH: &str = "/bare";
const BARE_NAME: &str = "bare axum handler";

/// Both are fast, so that fewer would be over before they have begun.
const EFFORT: Effort = Effort {
    rounds: 5,
    requests: 1024,
};

/// How much of the bare handler's rate the face should reach, and how many times the reference's.
const BARE_GOAL: f64 = 0.5;
const REFERENCE_GOAL: f64 = 50.0;

/// Streams that are timed one after the other.
const STREAMS: usize = 100;

/// Tasks that wait for an answer, whose memory is counted.
const IDLE: u32 = 1000;

/// The server with the face, the agent and the bare handler; it ends with its owner.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    pub(super) fn start(program: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("could not start {}", program.display()))?;
        let output = child.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .context("could not read the server's address")?;
        let address = line.trim().strip_prefix("http://").unwrap_or_default();
        let address = address.parse();
        let address = address.with_context(|| format!("{line:?} is no address"))?;
        Ok(Self { child, address })
    }

    /// The rate of messages over so many connections; `theirs` is the reference's.
    pub(super) fn loads(
        &self,
        connections: usize,
        theirs: Option<&Load>,
    ) -> anyhow::Result<Vec<Figure>> {
        let body = body("SendMessage", "say echo");
        let target = |path: &'static str| Target {
            address: self.address,
            request: Box::new({
                let request = post(path, VERSION, &body);
                move || Ok(request.clone())
            }),
            proof: PROOF,
        };
        let mut targets = [target(FACE_PATH), target(BARE_PATH)];
        let loads = Load::by(EFFORT, &mut targets, connections)?;
        let [ours, bare] = loads.as_slice() else {
            anyhow::bail!("two servers were loaded");
        };
        let name = format!("echo in the face's process, {connections} at once");
        let mut figures = vec![
            Figure::new(name.as_str(), ours.rate, "/s")
                .beside(BARE_NAME, bare.rate)
                .goal(Goal::RatioAtLeast(BARE_GOAL)),
        ];
        figures.extend(theirs.map(|theirs| {
            Figure::new(name.as_str(), ours.rate, "/s")
                .beside(REFERENCE_NAME, theirs.rate)
                .goal(Goal::RatioAtLeast(REFERENCE_GOAL))
        }));
        figures.push(
            Figure::new(format!("{name}, p99"), ours.p99_us, "us").beside(BARE_NAME, bare.p99_us),
        );
        Ok(figures)
    }

    /// From the request to the first event of its stream.
    pub(super) fn streams(&self, reference: Option<&Reference>) -> anyhow::Result<Vec<Figure>> {
        let body = body("SendStreamingMessage", "say echo");
        let mut ours = Http::connect(self.address)?;
        let mut theirs = reference
            .map(|reference| Http::connect(reference.address()))
            .transpose()?;
        let (mut firsts, mut their_firsts) = (Vec::new(), Vec::new());
        for _ in 0..STREAMS {
            firsts.push(ours.stream(&post(FACE_PATH, VERSION, &body))?.0);
            if let Some(theirs) = &mut theirs {
                their_firsts.push(theirs.stream(&post(REFERENCE_PATH, VERSION, &body))?.0);
            }
        }
        let name = "first event of a stream in the face's process";
        let figure = Figure::new(name, Samples::microseconds(&firsts)?.median(), "us");
        Ok(vec![match &theirs {
            None => figure,
            Some(_) => figure
                .beside(
                    REFERENCE_NAME,
                    Samples::microseconds(&their_firsts)?.median(),
                )
                .goal(Goal::RatioAtMost(1.0)),
        }])
    }

    /// What a task costs that waits for its client.
    pub(super) fn idle(&self) -> anyhow::Result<Figure> {
        let mut http = Http::connect(self.address)?;
        let request = post(FACE_PATH, VERSION, &body("SendMessage", "ask more?"));
        // What the first ones take is the process's, not theirs.
        for _ in 0..IDLE / 10 {
            http.exchange(&request)?;
        }
        let before = resident_kib(self.child.id())?;
        for _ in 0..IDLE {
            let answer: Value = serde_json::from_slice(http.exchange(&request)?)
                .context("the answer is not JSON")?;
            let state = &answer["result"]["task"]["status"]["state"];
            ensure!(state == "TASK_STATE_INPUT_REQUIRED", "the task is {state}");
        }
        let after = resident_kib(self.child.id())?;
        let each = (after - before) / f64::from(IDLE);
        Ok(Figure::new(
            "memory of a task that waits, with its session",
            each,
            "KiB",
        ))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait(); // It has been asked to end.
    }
}

/// Without a context, so that every message begins a conversation of its own.
fn body(method: &str, words: &str) -> String {
    let message =
        json!({ "messageId": "tck-bench", "role": "ROLE_USER", "parts": [{ "text": words }] });
    let params = json!({ "message": message });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}
