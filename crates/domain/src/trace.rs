//! One id for everything that follows from one request, across faces and nodes: the trace id of W3C Trace Context.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The header that carries it between nodes.
pub const TRACEPARENT: &str = "traceparent";

/// What belongs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Trace(u128);

/// What was given is no trace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a trace id is 32 lower-case hex digits, not all zero")]
pub struct NoTrace;

impl Trace {
    /// A new one, from a random number.
    pub fn new(random: u128) -> Self {
        Self(random.max(1))
    }

    /// Reads the header; what is malformed is as good as nothing, as its specification wants it.
    pub fn of_traceparent(header: &str) -> Option<Self> {
        let mut fields = header.trim().split('-');
        let (version, trace, parent) = (fields.next()?, fields.next()?, fields.next()?);
        let flags = fields.next()?;
        let digits = |field: &str, length| field.len() == length && is_hex(field);
        // Later versions may have more fields, this one has not.
        let is_whole = version != "00" || fields.next().is_none();
        let is_right = digits(version, 2)
            && version != "ff"
            && digits(parent, 16)
            && parent.bytes().any(|digit| digit != b'0')
            && digits(flags, 2)
            && is_whole;
        Self::try_from(trace.to_owned()).ok().filter(|_| is_right)
    }

    /// The header for a request that follows; `span` tells requests of one trace apart.
    pub fn traceparent(self, span: u64) -> String {
        format!("00-{self}-{:016x}-01", span.max(1))
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl TryFrom<String> for Trace {
    type Error = NoTrace;

    fn try_from(text: String) -> Result<Self, NoTrace> {
        if text.len() != 32 || !is_hex(&text) {
            return Err(NoTrace);
        }
        let number = u128::from_str_radix(&text, 16).map_err(|_| NoTrace)?;
        if number == 0 {
            return Err(NoTrace);
        }
        Ok(Self(number))
    }
}

impl From<Trace> for String {
    fn from(trace: Trace) -> Self {
        trace.to_string()
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn the_header_is_read_as_its_specification_says() {
        let read = |header: String| Trace::of_traceparent(&header).map(|trace| trace.to_string());
        let parent = "00f067aa0ba902b7";
        let cases = [
            (format!("00-{ID}-{parent}-01"), true),
            (format!(" 00-{ID}-{parent}-00 "), true),
            (format!("01-{ID}-{parent}-01-more"), true),
            (format!("00-{ID}-{parent}-01-more"), false),
            (format!("ff-{ID}-{parent}-01"), false),
            (format!("00-{}-{parent}-01", "0".repeat(32)), false),
            (format!("00-{ID}-{}-01", "0".repeat(16)), false),
            (format!("00-{}-{parent}-01", ID.to_uppercase()), false),
            (format!("00-{ID}-{parent}"), false),
            (String::new(), false),
        ];
        for (header, is_right) in cases {
            let expected = is_right.then(|| ID.to_owned());
            assert_eq!(read(header.clone()), expected, "{header:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let trace = Trace::new(7);
        assert_eq!(Trace::of_traceparent(&trace.traceparent(0)), Some(trace));
        assert_ne!(Trace::new(0).to_string(), "0".repeat(32));
        let json = serde_json::to_string(&trace).unwrap();
        assert_eq!(serde_json::from_str::<Trace>(&json).unwrap(), trace);
    }
}
