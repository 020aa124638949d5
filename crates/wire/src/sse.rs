//! Server-sent events: bytes in as they come, whole events out. It owns the framing and nothing of what events mean.

/// The largest event that is taken: a tool's result may carry a picture, and nothing sensible is larger.
pub const EVENT_MAX: usize = 32 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `message` when the stream does not say.
    pub name: String,
    pub data: String,
    /// Its own id, where it gave one: the last of them is what a client repeats when it comes back.
    pub id: Option<String>,
}

/// An event larger than [`EVENT_MAX`]; the stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

/// Cuts a stream into events.
#[derive(Debug, Default)]
pub struct Decoder {
    line: Vec<u8>,
    /// A line that ended with a carriage return may be followed by its newline in the next chunk.
    after_return: bool,
    name: String,
    data: String,
    has_data: bool,
    id: Option<String>,
}

impl Decoder {
    /// Takes the next bytes and gives the events that are whole now.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        for &byte in bytes {
            let is_second_half = std::mem::take(&mut self.after_return) && byte == b'\n';
            if is_second_half {
                continue;
            }
            if byte == b'\n' || byte == b'\r' {
                self.after_return = byte == b'\r';
                let line = std::mem::take(&mut self.line);
                events.extend(self.end_line(&line));
            } else {
                self.line.push(byte);
            }
            if self.line.len() + self.data.len() > EVENT_MAX {
                return Err(TooLarge);
            }
        }
        Ok(events)
    }

    /// The event that the end of the stream makes whole: some streams end without an empty line.
    pub fn finish(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            // A line that is not empty never ends an event.
            let _ = self.end_line(&line);
        }
        self.end_event()
    }

    fn end_line(&mut self, line: &[u8]) -> Option<Event> {
        if line.is_empty() {
            return self.end_event();
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = match line.split_once(':') {
            Some((field, value)) => (field, value.strip_prefix(' ').unwrap_or(value)),
            None => (&*line, ""),
        };
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            _ => {} // Comments, `retry`, and fields of the future.
        }
        None
    }

    fn end_event(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        let id = self.id.take();
        std::mem::take(&mut self.has_data).then(|| Event {
            name: if name.is_empty() {
                "message".to_owned()
            } else {
                name
            },
            data,
            id,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str, id: Option<&str>) -> Event {
        Event {
            name: name.to_owned(),
            data: data.to_owned(),
            id: id.map(str::to_owned),
        }
    }

    const STREAM: &str = ": hello\n\nevent: a\r\ndata: one\r\ndata:two\r\nid: 7\r\n\r\ndata: é\n\nevent: empty\n\ndata\n\n";

    fn expected() -> Vec<Event> {
        vec![
            event("a", "one\ntwo", Some("7")),
            event("message", "é", None),
            event("message", "", None),
        ]
    }

    #[test]
    fn events_come_out_whole_wherever_the_stream_is_cut() {
        for at in 0..STREAM.len() {
            let mut decoder = Decoder::default();
            let (head, tail) = STREAM.as_bytes().split_at(at);
            let mut events = decoder.push(head).unwrap();
            events.extend(decoder.push(tail).unwrap());
            assert_eq!(events, expected(), "cut at {at}");
        }
    }

    #[test]
    fn the_end_of_a_stream_ends_its_last_event() {
        let mut decoder = Decoder::default();
        assert_eq!(
            decoder.push(b"data: one\n\ndata: la"),
            Ok(vec![event("message", "one", None)])
        );
        assert_eq!(decoder.push(b"st"), Ok(Vec::new()));
        assert_eq!(decoder.finish(), Some(event("message", "last", None)));
        assert_eq!(decoder.finish(), None);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut decoder = Decoder::default();
        let chunk = vec![b'x'; EVENT_MAX];
        assert_eq!(decoder.push(&chunk), Ok(Vec::new()));
        assert_eq!(decoder.push(b"x"), Err(TooLarge));
    }
}
