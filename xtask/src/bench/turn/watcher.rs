//! A client that is attached to sessions and checks what it is sent: no event may be missing, doubled or out of place.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::arrivals::Arrivals;
use super::chunk::{Chunk, Moment};
use crate::bench::daemon::{Connection, Daemon, request};

/// The kind of the last event of a turn.
const TURN_ENDED: &str = "turn-ended";

#[derive(Debug)]
pub(super) struct Watcher {
    connection: Connection,
    sessions: BTreeMap<String, Progress>,
}

/// What has to come next in a session.
#[derive(Debug)]
struct Progress {
    seq: u64,
    number: u32,
}

/// What an event means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Word(Chunk),
    TurnEnded { words: u32 },
    Other,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    session_id: &'a str,
    #[serde(borrow)]
    event: Event<'a>,
}

#[derive(Deserialize)]
struct Event<'a> {
    seq: u64,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
}

impl Watcher {
    pub(super) fn connect(daemon: &Daemon) -> anyhow::Result<Self> {
        Ok(Self {
            connection: daemon.connect()?,
            sessions: BTreeMap::new(),
        })
    }

    /// Asks for every event of a session from the first on; the answer is heard among them.
    pub(super) fn ask(&mut self, session: &str) -> anyhow::Result<()> {
        self.sessions
            .insert(session.to_owned(), Progress { seq: 1, number: 0 });
        let params = json!({"sessionId": session, "fromSeq": 1});
        self.connection.send(&request("session.attach", &params))
    }

    /// Attaches to a session in which nothing has happened yet.
    pub(super) fn attach(&mut self, session: &str) -> anyhow::Result<()> {
        self.ask(session)?;
        let answer = read(self.connection.receive()?)?;
        ensure!(
            answer.params.is_none(),
            "a session without a turn has events"
        );
        Ok(())
    }

    /// Takes lines until so many turns have ended; `look` is told after each how many there are.
    pub(super) fn collect(
        &mut self,
        turns: usize,
        mut look: impl FnMut(usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<Arrivals> {
        let mut arrivals = Arrivals::default();
        let mut ended = 0;
        while ended < turns {
            let line = self.connection.receive()?;
            arrivals.push(line, Moment::now());
            if !Chunk::ends(line) {
                let event = read(line)?.params.map(|params| params.event.kind);
                ended += usize::from(event == Some(TURN_ENDED));
            }
            look(arrivals.len())?;
        }
        Ok(arrivals)
    }

    /// Checks that everything came and is at its place, with so many words in every turn; gives how long each word was
    /// under way, in microseconds.
    pub(super) fn check(&mut self, arrivals: &Arrivals, chunks: u32) -> anyhow::Result<Vec<f64>> {
        let mut delays = Vec::with_capacity(arrivals.len());
        for (line, came_at) in arrivals.iter() {
            let Some(Params { session_id, event }) = read(line)?.params else {
                continue; // The answer to a request.
            };
            let progress = self.sessions.get_mut(session_id);
            let progress = progress.with_context(|| format!("nobody asked for {session_id}"))?;
            match progress.step(&event)? {
                Step::Word(chunk) => delays.push(came_at.microseconds_since(chunk.said_at)),
                Step::TurnEnded { words } => ensure!(
                    words == chunks,
                    "a turn ended after {words} of {chunks} words"
                ),
                Step::Other => {}
            }
        }
        Ok(delays)
    }
}

/// A message of the daemon; a refusal is an error.
fn read(line: &[u8]) -> anyhow::Result<Line<'_>> {
    let read: Line<'_> = serde_json::from_slice(line).with_context(|| {
        let text = String::from_utf8_lossy(line);
        format!("the daemon sent what is no message: {text}")
    })?;
    match read.error {
        Some(error) => bail!("the daemon refused: {error}"),
        None => Ok(read),
    }
}

impl Progress {
    fn step(&mut self, event: &Event<'_>) -> anyhow::Result<Step> {
        ensure!(
            event.seq == self.seq,
            "event {} came where {} was due",
            event.seq,
            self.seq
        );
        self.seq += 1;
        match (event.kind, &event.text) {
            ("turn-started", _) => {
                self.number = 0;
                Ok(Step::Other)
            }
            ("text", Some(text)) => {
                let chunk = Chunk::parse(text)?;
                ensure!(
                    chunk.number == self.number,
                    "word {} came where {} was due",
                    chunk.number,
                    self.number
                );
                self.number += 1;
                Ok(Step::Word(chunk))
            }
            (TURN_ENDED, _) => Ok(Step::TurnEnded { words: self.number }),
            _ => Ok(Step::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(progress: &mut Progress, seq: u64, number: u32) -> anyhow::Result<Step> {
        let event = Event {
            seq,
            kind: "text",
            text: Some(Cow::Owned(format!("{number} 5\n"))),
        };
        progress.step(&event)
    }

    #[test]
    fn an_event_that_is_missing_or_doubled_is_an_error() {
        let mut progress = Progress { seq: 1, number: 0 };
        assert!(matches!(step(&mut progress, 1, 0).unwrap(), Step::Word(_)));
        assert!(step(&mut progress, 1, 1).is_err(), "doubled");
        assert!(step(&mut progress, 3, 1).is_err(), "missing");
        assert!(step(&mut progress, 2, 2).is_err(), "another word");
    }
}
