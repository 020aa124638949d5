//! An example of a crate that serves its face by itself, with an agent in its own process; it ends with its owner.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use super::{Effort, Http, Load, Reference, Target, post};
use crate::bench::figure::{Figure, Goal};
use crate::bench::samples::Samples;

/// What does nothing else stands in the same process, on the same web framework.
const BARE_PATH: &str = "/bare";
const BARE_NAME: &str = "bare axum handler";

/// Both are fast, so that fewer would be over before they have begun.
const EFFORT: Effort = Effort {
    rounds: 5,
    requests: 1024,
};

/// How much of the bare handler's rate a face should reach.
const BARE_GOAL: f64 = 0.5;

/// Streams that are timed one after the other.
const STREAMS: usize = 100;

/// The server that others wrote for the same protocol.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Other {
    pub(in crate::bench) name: &'static str,
    /// How many times its rate the face should reach.
    pub(in crate::bench) goal: f64,
}

/// A server with the face, the agent and the bare handler.
#[derive(Debug)]
pub(in crate::bench) struct Face {
    child: Child,
    address: SocketAddr,
    /// Where the face answers, with what headers, and what a right answer contains.
    pub(in crate::bench) path: &'static str,
    pub(in crate::bench) headers: &'static str,
    pub(in crate::bench) proof: &'static [u8],
    pub(in crate::bench) other: Other,
}

impl Face {
    pub(in crate::bench) fn start(
        program: &Path,
        (path, headers): (&'static str, &'static str),
        proof: &'static [u8],
        other: Other,
    ) -> anyhow::Result<Self> {
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
        Ok(Self {
            child,
            address,
            path,
            headers,
            proof,
            other,
        })
    }

    pub(in crate::bench) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(in crate::bench) fn connect(&self) -> anyhow::Result<Http> {
        Http::connect(self.address)
    }

    pub(in crate::bench) fn request(&self, body: &str) -> Vec<u8> {
        post(self.path, self.headers, body)
    }

    /// The rate of requests over so many connections; `theirs` is the reference's.
    pub(in crate::bench) fn loads(
        &self,
        body: &str,
        connections: usize,
        theirs: Option<&Load>,
    ) -> anyhow::Result<Vec<Figure>> {
        let target = |path: &'static str| Target {
            address: self.address,
            request: Box::new({
                let request = post(path, self.headers, body);
                move || Ok(request.clone())
            }),
            proof: self.proof,
        };
        let mut targets = [target(self.path), target(BARE_PATH)];
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
                .beside(self.other.name, theirs.rate)
                .goal(Goal::RatioAtLeast(self.other.goal))
        }));
        figures.push(
            Figure::new(format!("{name}, p99"), ours.p99_us, "us").beside(BARE_NAME, bare.p99_us),
        );
        Ok(figures)
    }

    /// From the request to the first event of its stream; `theirs` is the same request of the reference.
    pub(in crate::bench) fn streams(
        &self,
        body: &str,
        reference: Option<(&Reference, &[u8])>,
    ) -> anyhow::Result<Vec<Figure>> {
        let (mut ours, request) = (self.connect()?, self.request(body));
        let mut theirs = reference
            .map(|(reference, request)| anyhow::Ok((Http::connect(reference.address())?, request)))
            .transpose()?;
        let (mut firsts, mut their_firsts) = (Vec::new(), Vec::new());
        for _ in 0..STREAMS {
            firsts.push(ours.stream(&request)?.0);
            if let Some((theirs, request)) = &mut theirs {
                their_firsts.push(theirs.stream(request)?.0);
            }
        }
        let name = "first event of a stream in the face's process";
        let figure = Figure::new(name, Samples::microseconds(&firsts)?.median(), "us");
        Ok(vec![match &theirs {
            None => figure,
            Some(_) => figure
                .beside(
                    self.other.name,
                    Samples::microseconds(&their_firsts)?.median(),
                )
                .goal(Goal::RatioAtMost(1.0)),
        }])
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait(); // It has been asked to end.
    }
}
