//! Lines of a stream, each of a bounded length, as they come.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// The longest line that is kept: a tool's output of some megabytes fits, a program gone mad does not fill the memory.
pub(crate) const LINE_BYTES_MAX: usize = 10 * 1024 * 1024;

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// It was longer than the bound, and is left out.
    TooLong,
}

/// Reads lines. `next` may be dropped and called again without losing anything.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    source: BufReader<R>,
    begun: Vec<u8>,
    too_long: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self {
            source: BufReader::with_capacity(64 * 1024, source),
            begun: Vec::new(),
            too_long: false,
        }
    }

    /// The next line; the last one needs no end. `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let chunk = self.source.fill_buf().await?;
            let (part, used, ended) = match chunk.iter().position(|byte| *byte == b'\n') {
                Some(end) => (&chunk[..end], end + 1, true),
                None => (chunk, chunk.len(), chunk.is_empty()),
            };
            if self.begun.len() + part.len() > LINE_BYTES_MAX {
                self.too_long = true;
                self.begun = Vec::new();
            }
            if !self.too_long {
                self.begun.extend_from_slice(part);
            }
            self.source.consume(used);
            let nothing_left = used == 0 && self.begun.is_empty() && !self.too_long;
            if nothing_left {
                return Ok(None);
            }
            if ended {
                let line = std::mem::take(&mut self.begun);
                let too_long = std::mem::take(&mut self.too_long);
                return Ok(Some(if too_long {
                    Line::TooLong
                } else {
                    Line::Whole(line)
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8]) -> Vec<Line> {
        let mut lines = Lines::new(bytes);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        all
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_come_without_their_ends_and_the_last_needs_none() {
        assert_eq!(all(b"").await, []);
        assert_eq!(all(b"\n").await, [whole("")]);
        assert_eq!(all(b"a\n\nb").await, [whole("a"), whole(""), whole("b")]);
    }

    #[tokio::test]
    async fn a_line_beyond_the_bound_is_left_out_and_the_next_is_read() {
        let mut bytes = vec![b'x'; LINE_BYTES_MAX];
        bytes.push(b'\n');
        bytes.extend(vec![b'y'; LINE_BYTES_MAX + 1]);
        bytes.extend_from_slice(b"\nafter");
        let lines = all(&bytes).await;
        assert!(matches!(&lines[0], Line::Whole(line) if line.len() == LINE_BYTES_MAX));
        assert_eq!(lines[1..], [Line::TooLong, whole("after")]);
    }
}
