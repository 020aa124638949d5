//! What the agent says: a number, and the moment it was said by the clock that all processes share.

use std::io::{self, Write};

use anyhow::Context as _;
use rustix::time::{ClockId, clock_gettime};

const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

/// One word of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) struct Chunk {
    /// Counts the words of a turn from zero.
    pub(in crate::bench) number: u32,
    pub(in crate::bench) said_at: Moment,
}

/// Nanoseconds of the monotonic clock, which is the same in every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::bench) struct Moment(i64);

impl Moment {
    pub(in crate::bench) fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        Self(now.tv_sec * NANOSECONDS_PER_SECOND + now.tv_nsec)
    }

    pub(in crate::bench) fn microseconds_since(self, earlier: Self) -> f64 {
        let nanoseconds = i32::try_from(self.0 - earlier.0).unwrap_or(i32::MAX);
        f64::from(nanoseconds) / 1000.0
    }
}

impl Chunk {
    /// As it stands in a JSON text.
    pub(super) fn write_to(self, line: &mut Vec<u8>) -> io::Result<()> {
        write!(line, r"{} {}\n", self.number, self.said_at.0)
    }

    /// Whether a line that carries a text ends like one that carries a chunk: the same without reading all of it.
    pub(super) fn ends(line: &[u8]) -> bool {
        let line = line.trim_ascii_end();
        let text = line.iter().rposition(|byte| *byte != b'}');
        text.is_some_and(|quote| line[..=quote].ends_with(br#"\n""#))
    }

    pub(in crate::bench) fn parse(text: &str) -> anyhow::Result<Self> {
        let read = || {
            let (number, said_at) = text.trim_end().split_once(' ')?;
            Some(Self {
                number: number.parse().ok()?,
                said_at: Moment(said_at.parse().ok()?),
            })
        };
        read().with_context(|| format!("the agent never said {text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_read_as_it_was_written() {
        let chunk = Chunk {
            number: 7,
            said_at: Moment::now(),
        };
        let mut line = br#"{"a":{"text":""#.to_vec();
        chunk.write_to(&mut line).unwrap();
        line.extend_from_slice(b"\"}}\n");
        assert!(Chunk::ends(&line));
        assert!(!Chunk::ends(b"{\"a\":{\"text\":\"hello\"}}\n"));
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        let text = value["a"]["text"].as_str().unwrap();
        assert_eq!(Chunk::parse(text).unwrap(), chunk);
        assert!(Chunk::parse("hello").is_err());
    }

    #[test]
    fn the_clock_does_not_go_back() {
        let earlier = Moment::now();
        assert!(Moment::now().microseconds_since(earlier) >= 0.0);
    }
}
