//! A stream of server-sent events, read as its bytes come.

/// One event; more than that is not something a run tells.
const EVENT_MAX: usize = 32 * 1024 * 1024;

/// What one event carries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SseEvent {
    pub(super) id: Option<String>,
    pub(super) data: String,
}

#[derive(Debug, Default)]
pub(super) struct Parser {
    bytes: Vec<u8>,
    event: SseEvent,
    has_data: bool,
}

impl Parser {
    /// Takes in what came; the error says what is wrong with it.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.bytes.len() + bytes.len() + self.event.data.len() > EVENT_MAX {
            return Err(format!("an event is longer than {EVENT_MAX} bytes"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The next whole event, if there is one.
    pub(super) fn next(&mut self) -> Option<SseEvent> {
        let mut at = 0;
        let mut found = None;
        while let Some(length) = self.bytes[at..].iter().position(|byte| *byte == b'\n') {
            let line = self.bytes[at..at + length].to_vec();
            at += length + 1;
            let line =
                String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
            if line.is_empty() && self.has_data {
                self.has_data = false;
                found = Some(std::mem::take(&mut self.event));
                break;
            }
            self.field(&line);
        }
        self.bytes.drain(..at);
        found
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            "id" => self.event.id = Some(value.to_owned()),
            _ => {} // Comments keep the connection alive; other fields repeat what the data says.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chunks: &[&str]) -> Vec<(Option<String>, String)> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for chunk in chunks {
            parser.push(chunk.as_bytes()).unwrap();
            while let Some(event) = parser.next() {
                events.push((event.id, event.data));
            }
        }
        events
    }

    #[test]
    fn any_cut_of_the_bytes_gives_the_same_events() {
        let text = ":\n\nid: 1\nevent: run.created\ndata: {\"a\":\ndata: 1}\n\r\ndata:x\r\n\r\n";
        let whole = read(&[text]);
        let expected = [
            (Some("1".to_owned()), "{\"a\":\n1}".to_owned()),
            (None, "x".to_owned()),
        ];
        assert_eq!(whole, expected);
        for cut in 0..text.len() {
            assert_eq!(
                read(&[&text[..cut], &text[cut..]]),
                expected,
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn an_event_that_is_not_finished_is_not_told() {
        assert_eq!(read(&["data: x\n"]), []);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::default();
        assert!(parser.push(&vec![b'x'; EVENT_MAX + 1]).is_err());
    }
}
