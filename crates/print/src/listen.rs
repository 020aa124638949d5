//! Listening to a program: what it prints becomes events of the session, each as it comes.

use std::{io, sync::Arc, time::Duration};

use domain::turn::{Dialect, EventKind, Raw, Stop};
use engine::SessionSink;
use platform::Tasks;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::Instant,
};

use crate::{
    changes::Changes,
    line::{LINE_BYTES_MAX, Line, Lines},
    program::{Findings, Reader},
    sessions::{Sessions, is_id},
};

/// What is read of a text at a time: small enough to be shown at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// How much of a line that is not JSON is kept for the words of a failure.
const STRAY_CHARS_MAX: usize = 500;

/// How long a program may go on after it has said how the turn went: some have something running that keeps them from ending.
pub(crate) const LINGER_MAX: Duration = Duration::from_secs(5);

/// How the listening ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The stream has ended, and nothing was said of how the turn went.
    Over,
    /// The stream has ended, and all is said.
    Done,
    /// All is said, and the stream does not end.
    Lingers,
}

/// Hears one turn.
pub(crate) struct Listener {
    sink: SessionSink,
    ear: Ear,
    memory: Remember,
    changes: Changes,
    /// Whether the agent has done anything yet.
    begun: bool,
    /// What the program said of how the turn went.
    stop: Option<Stop>,
    /// When it said so, or went on after it.
    said_at: Option<Instant>,
    /// The last line that was not JSON: often the only words about what is wrong.
    stray: Option<String>,
}

/// How the output is understood.
pub(crate) enum Ear {
    Lines(Box<dyn Reader>),
    Text,
}

/// Where the program's own id of the conversation is kept.
pub(crate) struct Remember {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) tasks: Tasks,
    /// Our id of the conversation.
    pub(crate) id: String,
}

/// What is known when the program has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    /// What the program said of how the turn went.
    pub(crate) stop: Option<Stop>,
    /// How it went if the program ended well and did not say it.
    pub(crate) silent_stop: Option<Stop>,
    pub(crate) stray: Option<String>,
}

impl Listener {
    pub(crate) fn new(sink: SessionSink, ear: Ear, memory: Remember) -> Self {
        Self {
            sink,
            ear,
            memory,
            changes: Changes::default(),
            begun: false,
            stop: None,
            said_at: None,
            stray: None,
        }
    }

    /// Hears everything until the stream ends, or all is said.
    pub(crate) async fn listen(&mut self, source: impl AsyncRead + Unpin) -> Silence {
        let heard = match self.ear {
            Ear::Lines(_) => self.lines(Lines::new(source)).await,
            Ear::Text => self.text(source).await.map(|()| Silence::Over),
        };
        heard.unwrap_or_else(|error| {
            tracing::debug!(%error, "the output of a program broke off");
            Silence::Over
        })
    }

    pub(crate) fn heard(self) -> Heard {
        let silent_stop = match &self.ear {
            Ear::Lines(reader) => reader.silent_stop(),
            Ear::Text => Some(Stop::EndTurn),
        };
        Heard {
            stop: self.stop,
            silent_stop,
            stray: self.stray,
        }
    }

    async fn lines<R: AsyncRead + Unpin>(&mut self, mut lines: Lines<R>) -> io::Result<Silence> {
        let mut session = None;
        loop {
            let next = match self.said_at {
                None => lines.next().await,
                Some(at) => match tokio::time::timeout_at(at + LINGER_MAX, lines.next()).await {
                    Ok(next) => next,
                    Err(_) => return Ok(Silence::Lingers),
                },
            };
            let Some(line) = next? else {
                return Ok(match self.stop {
                    Some(_) => Silence::Done,
                    None => Silence::Over,
                });
            };
            let heard = match line {
                Line::Whole(line) => self.line(line),
                Line::TooLong => {
                    let text = format!(
                        "a line of more than {} MiB was left out",
                        LINE_BYTES_MAX / (1024 * 1024)
                    );
                    self.sink.emit(EventKind::Notice { text }, None);
                    None
                }
            };
            session = heard.or(session);
            // Before the agent has done anything there is nothing to go on with, and some programs keep nothing.
            if self.begun
                && let Some(id) = session.take()
            {
                self.learn(id).await;
            }
            self.sink.room().await;
        }
    }

    /// Returns the program's id of the conversation, if the line has it.
    fn line(&mut self, line: Vec<u8>) -> Option<String> {
        let Ear::Lines(reader) = &mut self.ear else {
            return None;
        };
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if line.is_empty() {
            return None;
        }
        let value = match serde_json::from_str::<Value>(line) {
            Ok(value) if value.is_object() => value,
            _ => {
                let stray: String = line.chars().take(STRAY_CHARS_MAX).collect();
                tracing::debug!(line = stray, "a program printed a line that is not JSON");
                self.stray = Some(stray);
                return None;
            }
        };
        let mut findings = Findings::default();
        reader.read(&value, &mut findings);
        let Findings {
            mut events,
            session,
            stop,
            comes_again,
        } = findings;
        if events.is_empty() && comes_again {
            return session;
        }
        if events.is_empty() {
            let name = value["type"].as_str().unwrap_or("unnamed").to_owned();
            events.push(EventKind::Other { name });
        }
        let goes_on = stop.is_some() || events.iter().any(is_progress);
        self.begun |= goes_on;
        self.stop = stop.or(self.stop.take());
        if goes_on {
            self.said_at = self.stop.is_some().then(Instant::now);
        }
        // The line goes with the first of its events only, so that it is there once.
        let mut raw = Some(Raw {
            dialect: Dialect::Print,
            frame: line.into(),
        });
        for event in events {
            self.sink.emit(self.changes.keep(event), raw.take());
        }
        session
    }

    async fn learn(&self, program_id: String) {
        let Remember {
            sessions,
            tasks,
            id,
        } = &self.memory;
        if !is_id(&program_id) {
            tracing::warn!(session = %id, "a program's id of a conversation cannot be an argument");
            return;
        }
        if !sessions.learn(id, &program_id) {
            return;
        }
        let (sessions, id) = (Arc::clone(sessions), id.clone());
        let kept = tasks.spawn_blocking(move |_| sessions.keep(&id, &program_id));
        let _ = kept.await; // It fails only when the runtime goes away.
    }

    async fn text(&mut self, mut source: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut begun = Vec::new();
        loop {
            let length = source.read(&mut chunk).await?;
            begun.extend_from_slice(&chunk[..length]);
            let mut text = take_text(&mut begun);
            if length == 0 && !begun.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER); // It ended within a character.
            }
            if !text.is_empty() {
                self.sink.emit(EventKind::Text { text }, None);
            }
            if length == 0 {
                return Ok(());
            }
            self.sink.room().await;
        }
    }
}

fn is_progress(event: &EventKind) -> bool {
    matches!(
        event,
        EventKind::Text { .. } | EventKind::Thought { .. } | EventKind::ToolCall(_)
    )
}

/// Takes the whole characters; what may be the beginning of one stays.
fn take_text(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut rest = bytes.as_slice();
    while let Err(error) = std::str::from_utf8(rest) {
        let (whole, after) = rest.split_at(error.valid_up_to());
        text.push_str(&String::from_utf8_lossy(whole));
        rest = after;
        let Some(length) = error.error_len() else {
            *bytes = rest.to_vec();
            return text;
        };
        text.push(char::REPLACEMENT_CHARACTER);
        rest = &rest[length..];
    }
    text.push_str(&String::from_utf8_lossy(rest));
    bytes.clear();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_comes_in_two_parts_is_whole() {
        let mut bytes = "aé".as_bytes()[..2].to_vec();
        assert_eq!(take_text(&mut bytes), "a");
        bytes.push("é".as_bytes()[1]);
        assert_eq!(take_text(&mut bytes), "é");
        assert!(bytes.is_empty());
        let mut bytes = b"a\xffb".to_vec();
        assert_eq!(take_text(&mut bytes), "a\u{fffd}b");
    }
}
