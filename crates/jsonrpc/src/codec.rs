//! From bytes to lines, without IO: finds newlines, holds the partial line, enforces the ceiling.
//!
//! Each byte is searched once, however the input is cut. The decoder holds at most one partial
//! line and the chunk that was pushed last; of a line over the ceiling only the ends are kept.

use bytes::Bytes;

use crate::{Ends, overlong::END_MAX};

/// Ceiling of a line in bytes, newline excluded: room for a file or an image in one message, and
/// little enough that one connection cannot exhaust the machine.
pub const LINE_MAX: usize = 10 * 1024 * 1024;

/// From this size a line takes the decoder's buffer along instead of being copied out of it; the
/// copy is cheaper below, because the buffer then stays.
const TAKE_BUFFER_FROM: usize = 256 * 1024;

/// What the decoder found next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A line that is not blank, without its line end.
    Line(Bytes),
    /// A line went over the ceiling; said once per line, at its end.
    TooLong(Ends),
}

/// Cuts a stream of bytes into lines.
///
/// Push a chunk, then pull frames until there are none; the memory bound (ceiling plus one chunk)
/// holds for callers that do.
///
/// ```
/// use jsonrpc::{Decoder, Frame};
///
/// let mut decoder = Decoder::new(4);
/// decoder.push(b"one\r\n\nfive5\ntw");
/// assert_eq!(decoder.next_frame(), Some(Frame::Line("one".into())));
/// assert!(matches!(decoder.next_frame(), Some(Frame::TooLong(_))));
/// assert_eq!(decoder.next_frame(), None);
/// decoder.push(b"o");
/// assert_eq!(decoder.finish(), Some(Frame::Line("two".into())));
/// ```
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Where the line being read begins; what is before has been handed out.
    start: usize,
    /// Up to where newlines have been searched.
    scanned: usize,
    /// A newline found ahead of `start` and not yet used.
    newline: Option<usize>,
    line_max: usize,
    /// What is kept of a line over the ceiling, until its newline.
    overlong: Option<Overlong>,
}

#[derive(Debug, Default)]
struct Overlong {
    head: Vec<u8>,
    /// The last bytes so far, and one more for half of a line end.
    tail: Vec<u8>,
    length: usize,
}

impl Overlong {
    fn go_on(&mut self, bytes: &[u8]) {
        let missing = END_MAX.saturating_sub(self.head.len());
        self.head
            .extend_from_slice(&bytes[..bytes.len().min(missing)]);
        let kept = bytes.len().saturating_sub(END_MAX + 1);
        self.tail.extend_from_slice(&bytes[kept..]);
        let surplus = self.tail.len().saturating_sub(END_MAX + 1);
        self.tail.drain(..surplus);
        self.length = self.length.saturating_add(bytes.len());
    }

    fn end(mut self) -> Frame {
        if self.tail.last() == Some(&b'\r') {
            self.tail.pop();
            self.head.truncate(self.length - 1);
        }
        let surplus = self.tail.len().saturating_sub(END_MAX);
        Frame::TooLong(Ends {
            head: self.head.into(),
            tail: Bytes::from(self.tail).slice(surplus..),
        })
    }
}

impl Decoder {
    pub fn new(line_max: usize) -> Decoder {
        Decoder {
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            newline: None,
            line_max,
            overlong: None,
        }
    }

    /// Adds bytes to the end of the input.
    pub fn push(&mut self, bytes: &[u8]) {
        self.drop_consumed();
        let needed = self.buffer.len() + bytes.len();
        if needed > self.buffer.capacity() {
            // Doubling keeps the copying linear; the ceiling keeps it from overshooting.
            let ceiling = self.line_max.saturating_add(bytes.len());
            let capacity = (self.buffer.capacity() * 2).min(ceiling).max(needed);
            self.buffer.reserve_exact(capacity - self.buffer.len());
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame of the input so far; `None` until more is pushed.
    pub fn next_frame(&mut self) -> Option<Frame> {
        while let Some(newline) = self.find_newline() {
            let line = self.start..newline;
            if let Some(mut overlong) = self.overlong.take() {
                overlong.go_on(&self.buffer[line]);
                self.consume(newline + 1);
                return Some(overlong.end());
            }
            if let Some(frame) = self.cut(line, newline + 1) {
                return Some(frame);
            }
        }
        let partial = self.buffer.get(self.start..).unwrap_or_default();
        if let Some(overlong) = &mut self.overlong {
            overlong.go_on(partial);
            self.consume(self.buffer.len());
            return None;
        }
        let return_at_end = usize::from(partial.last() == Some(&b'\r'));
        // A line end of two bytes may have arrived by half; it does not count as content.
        if partial.len() - return_at_end > self.line_max {
            let mut overlong = Overlong::default();
            overlong.go_on(partial);
            self.overlong = Some(overlong);
            self.consume(self.buffer.len());
            self.drop_consumed();
        }
        None
    }

    /// What is left when the input ends: a last line without a newline counts. Pull frames first.
    pub fn finish(&mut self) -> Option<Frame> {
        let end = self.buffer.len();
        if let Some(mut overlong) = self.overlong.take() {
            overlong.go_on(&self.buffer[self.start..]);
            self.consume(end);
            return Some(overlong.end());
        }
        if self.start == end {
            return None;
        }
        self.cut(self.start..end, end)
    }

    /// Whether a complete line is waiting, so that `next_frame` has work without another push.
    pub fn has_line(&mut self) -> bool {
        self.find_newline().is_some()
    }

    /// Bytes of memory held.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    fn find_newline(&mut self) -> Option<usize> {
        if self.newline.is_none() {
            let unscanned = self.buffer.get(self.scanned..).unwrap_or_default();
            let found = memchr::memchr(b'\n', unscanned);
            self.newline = found.map(|offset| self.scanned + offset);
            self.scanned = self
                .newline
                .map_or(self.buffer.len(), |newline| newline + 1);
        }
        self.newline
    }

    /// Takes a line out, and its end with it; blank lines give nothing.
    fn cut(&mut self, mut line: std::ops::Range<usize>, next: usize) -> Option<Frame> {
        if self.buffer[line.clone()].last() == Some(&b'\r') {
            line.end -= 1;
        }
        let frame = if line.len() > self.line_max {
            Some(Frame::TooLong(Ends::of(&self.buffer[line])))
        } else if self.buffer[line.clone()].trim_ascii().is_empty() {
            None
        } else if line.len() >= TAKE_BUFFER_FROM {
            let rest = self.buffer[next..].to_vec();
            let taken = std::mem::replace(&mut self.buffer, rest);
            self.scanned -= next;
            self.start = 0;
            self.newline = None;
            return Some(Frame::Line(Bytes::from(taken).slice(line)));
        } else {
            Some(Frame::Line(Bytes::copy_from_slice(&self.buffer[line])))
        };
        self.consume(next);
        frame
    }

    fn consume(&mut self, next: usize) {
        self.start = next;
        self.scanned = self.scanned.max(next);
        self.newline = None;
    }

    /// Moves the partial line to the front, and lets go of a buffer that a huge line had grown.
    fn drop_consumed(&mut self) {
        if self.start == 0 {
            return;
        }
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.newline = self.newline.map(|newline| newline - self.start);
        self.start = 0;
        if self.buffer.capacity() > TAKE_BUFFER_FROM && self.buffer.len() < TAKE_BUFFER_FROM / 4 {
            self.buffer.shrink_to(TAKE_BUFFER_FROM / 4);
        }
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
