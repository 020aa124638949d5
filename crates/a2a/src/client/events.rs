//! Updates of a task as they come over a stream of server-sent events.

use reqwest::Response;
use serde_json::Value;
use wire::a2a::{Binding, StreamResponse, Version, v03};

use super::{Client, ClientError, connection::refusal};

/// The longest event.
const EVENT_MAX: usize = 16 * 1024 * 1024;

/// A stream of updates.
#[derive(Debug)]
pub struct Updates {
    response: Response,
    client: Client,
    lines: Lines,
}

impl Updates {
    pub(super) fn new(response: Response, client: Client) -> Self {
        Self {
            response,
            client,
            lines: Lines::default(),
        }
    }

    /// The next update, or nothing when the agent has closed the stream.
    pub async fn next(&mut self) -> Result<Option<StreamResponse>, ClientError> {
        loop {
            if let Some(data) = self.lines.event() {
                return self.read(&data).map(Some);
            }
            let chunk = self.response.chunk().await;
            let chunk = chunk.map_err(|error| self.client.unreachable(&error))?;
            let Some(chunk) = chunk else {
                return self.lines.end().map(|data| self.read(&data)).transpose();
            };
            if self.lines.take(&chunk) == Room::None {
                let what = format!("an event is longer than {EVENT_MAX} bytes");
                return Err(self.client.strange(what));
            }
        }
    }

    fn read(&self, data: &str) -> Result<StreamResponse, ClientError> {
        let unreadable = |error: &dyn std::error::Error| self.client.unreadable(error);
        let value: Value = serde_json::from_str(data).map_err(|error| unreadable(&error))?;
        if let Some(refused) = refusal(&value) {
            return Err(refused);
        }
        let update = match self.client.binding() {
            Binding::HttpJson => value,
            Binding::JsonRpc => value.get("result").cloned().unwrap_or_default(),
        };
        match self.client.version() {
            Version::V1 => serde_json::from_value(update).map_err(|error| unreadable(&error)),
            Version::V03 => v03::read_stream_response(&update).map_err(|error| unreadable(&error)),
        }
    }
}

/// Whether more fits.
#[derive(Debug, PartialEq, Eq)]
enum Room {
    Some,
    None,
}

/// Bytes of a stream, and the data of the event that is being read.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    data: Option<String>,
}

impl Lines {
    fn take(&mut self, chunk: &[u8]) -> Room {
        let held = self.bytes.len() + self.data.as_ref().map_or(0, String::len);
        if held + chunk.len() > EVENT_MAX {
            return Room::None;
        }
        self.bytes.extend_from_slice(chunk);
        Room::Some
    }

    /// The data of the next event that is there whole.
    fn event(&mut self) -> Option<String> {
        let mut begin = 0;
        let mut event = None;
        while let Some(length) = self.bytes[begin..].iter().position(|byte| *byte == b'\n') {
            let line = &self.bytes[begin..begin + length];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            begin += length + 1;
            if line.is_empty() {
                event = self.data.take();
                if event.is_some() {
                    break;
                }
            } else {
                Self::line(&mut self.data, line);
            }
        }
        self.bytes.drain(..begin);
        event
    }

    /// What is left when the stream ends: some end without an empty line.
    fn end(&mut self) -> Option<String> {
        if !self.bytes.is_empty() {
            self.bytes.extend_from_slice(b"\n");
        }
        self.bytes.extend_from_slice(b"\n");
        self.event()
    }

    fn line(data: &mut Option<String>, line: &[u8]) {
        let Some(value) = line.strip_prefix(b"data:") else {
            return; // A comment, or a field that means nothing here.
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = String::from_utf8_lossy(value);
        match data {
            Some(data) => {
                data.push('\n');
                data.push_str(&text);
            }
            None => *data = Some(text.into_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(stream: &str, cut: usize) -> Vec<String> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for chunk in stream.as_bytes().chunks(cut) {
            assert_eq!(lines.take(chunk), Room::Some);
            while let Some(event) = lines.event() {
                found.push(event);
            }
        }
        found.extend(lines.end());
        found
    }

    #[test]
    fn events_are_read_however_the_bytes_are_cut() {
        let stream = ": hello\r\n\r\nid: 1\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata: lines\n\n\ndata: last";
        for cut in 1..stream.len() {
            assert_eq!(events(stream, cut), ["one", "two\nlines", "last"], "{cut}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(&vec![b'x'; EVENT_MAX]), Room::Some);
        assert_eq!(lines.take(b"x"), Room::None);
    }
}
