//! Socket.IO packets of one namespace, inside Engine.IO messages: reading and writing, without IO.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use wire::smcp::NAMESPACE;

/// Attachments of one packet: nobody in an office sends any, so a few are enough to be polite.
const ATTACHMENTS_MAX: usize = 64;

/// What arrives.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Packet {
    /// The namespace is open.
    Connect,
    ConnectError(Value),
    Disconnect,
    Event {
        id: Option<u64>,
        name: String,
        body: Value,
    },
    Ack {
        id: u64,
        args: Vec<Value>,
    },
    /// The attachments of this packet follow.
    Incomplete(Incomplete),
    /// Something for another namespace, or nothing we know.
    Other,
}

/// A packet that waits for its attachments.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Incomplete {
    missing: usize,
    attachments: Vec<String>,
    is_ack: bool,
    id: Option<u64>,
    args: Vec<Value>,
}

impl Incomplete {
    /// Takes one attachment; a packet when it was the last.
    pub(super) fn attach(mut self, bytes: &[u8]) -> Packet {
        self.attachments.push(STANDARD.encode(bytes));
        self.missing -= 1;
        if self.missing > 0 {
            return Packet::Incomplete(self);
        }
        for argument in &mut self.args {
            fill(argument, &self.attachments);
        }
        complete(self.is_ack, self.id, self.args)
    }
}

/// Replaces placeholders by their attachment, as Base64: JSON has no other place for bytes.
fn fill(value: &mut Value, attachments: &[String]) {
    match value {
        Value::Object(fields) if fields.get("_placeholder") == Some(&json!(true)) => {
            let number = fields.get("num").and_then(Value::as_u64);
            let index = number.and_then(|number| usize::try_from(number).ok());
            *value = json!(index.and_then(|index| attachments.get(index)));
        }
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| fill(field, attachments)),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, attachments)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Reads the text after Engine.IO's `4`.
pub(super) fn read(text: &str) -> Packet {
    parse(text).unwrap_or(Packet::Other)
}

fn parse(text: &str) -> Option<Packet> {
    let kind = text.chars().next()?;
    let mut rest = text.get(1..)?;
    let mut missing = 0;
    if matches!(kind, '5' | '6') {
        let (count, after) = rest.split_once('-')?;
        missing = count
            .parse()
            .ok()
            .filter(|count| *count <= ATTACHMENTS_MAX)?;
        rest = after;
    }
    rest = rest.strip_prefix(NAMESPACE)?;
    rest = rest.strip_prefix(',').unwrap_or(rest);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (id, data) = rest.split_at(digits);
    let id: Option<u64> = id.parse().ok();
    let data: Option<Value> = match data {
        "" => None,
        data => Some(serde_json::from_str(data).ok()?),
    };
    let args = || match &data {
        Some(Value::Array(args)) => Some(args.clone()),
        _ => None,
    };
    match kind {
        '0' => Some(Packet::Connect),
        '1' => Some(Packet::Disconnect),
        '4' => Some(Packet::ConnectError(data.unwrap_or_default())),
        '2' => Some(complete(false, id, args()?)),
        '3' => Some(complete(true, id, args()?)),
        '5' | '6' => {
            let args = args()?;
            let is_ack = kind == '6';
            if missing == 0 {
                return Some(complete(is_ack, id, args));
            }
            Some(Packet::Incomplete(Incomplete {
                missing,
                attachments: Vec::new(),
                is_ack,
                id,
                args,
            }))
        }
        _ => None,
    }
}

fn complete(is_ack: bool, id: Option<u64>, args: Vec<Value>) -> Packet {
    match (is_ack, id) {
        (true, Some(id)) => Packet::Ack { id, args },
        (true, None) => Packet::Other,
        (false, id) => {
            let mut args = args.into_iter();
            match args.next() {
                Some(Value::String(name)) => Packet::Event {
                    id,
                    name,
                    body: args.next().unwrap_or_default(),
                },
                _ => Packet::Other,
            }
        }
    }
}

/// Opens the namespace.
pub(super) fn connect(auth: &Value) -> String {
    format!("40{NAMESPACE},{auth}")
}

pub(super) fn event(id: Option<u64>, name: &str, body: &Value) -> String {
    let id = id.map(|id| id.to_string()).unwrap_or_default();
    format!("42{NAMESPACE},{id}{}", json!([name, body]))
}

pub(super) fn ack(id: u64, body: &Value) -> String {
    format!("43{NAMESPACE},{id}{}", json!([body]))
}

pub(super) fn disconnect() -> String {
    format!("41{NAMESPACE},")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_our_namespace_are_read() {
        let event = |id, name: &str, body| Packet::Event {
            id,
            name: name.to_owned(),
            body,
        };
        for (text, packet) in [
            ("0/smcp,{\"sid\":\"x\"}", Packet::Connect),
            ("1/smcp,", Packet::Disconnect),
            (
                "4/smcp,{\"message\":\"no\"}",
                Packet::ConnectError(json!({"message": "no"})),
            ),
            (
                "2/smcp,[\"e\",{\"a\":1}]",
                event(None, "e", json!({"a": 1})),
            ),
            ("2/smcp,17[\"e\"]", event(Some(17), "e", Value::Null)),
            (
                "3/smcp,5[true,null]",
                Packet::Ack {
                    id: 5,
                    args: vec![json!(true), Value::Null],
                },
            ),
        ] {
            assert_eq!(read(text), packet, "{text}");
        }
    }

    #[test]
    fn what_is_not_for_us_or_broken_is_no_packet() {
        for text in [
            "",
            "2",
            "2[\"e\"]",
            "2/other,[\"e\"]",
            "2/smcp,[",
            "2/smcp,{}",
            "2/smcp,[1]",
            "3/smcp,[]",
            "9/smcp,",
            "5/smcp,[\"e\"]",
            "59999-/smcp,[\"e\"]",
            "é",
        ] {
            assert_eq!(read(text), Packet::Other, "{text}");
        }
    }

    #[test]
    fn attachments_become_base64() {
        let text = "52-/smcp,3[\"e\",{\"a\":{\"_placeholder\":true,\"num\":1},\"b\":[{\"_placeholder\":true,\"num\":0}]}]";
        let Packet::Incomplete(packet) = read(text) else {
            panic!("it waits for two attachments")
        };
        let Packet::Incomplete(packet) = packet.attach(b"zero") else {
            panic!("it waits for one more")
        };
        assert_eq!(
            packet.attach(b"one"),
            Packet::Event {
                id: Some(3),
                name: "e".to_owned(),
                body: json!({"a": "b25l", "b": ["emVybw=="]}),
            }
        );
    }

    #[test]
    fn what_we_write_we_can_read() {
        let body = json!({"k": "v\u{1e}\n"});
        assert_eq!(
            read(&event(Some(1), "e", &body)[1..]),
            Packet::Event {
                id: Some(1),
                name: "e".to_owned(),
                body: body.clone()
            }
        );
        assert_eq!(
            read(&ack(9, &body)[1..]),
            Packet::Ack {
                id: 9,
                args: vec![body]
            }
        );
        assert_eq!(read(&connect(&json!({}))[1..]), Packet::Connect);
        assert_eq!(read(&disconnect()[1..]), Packet::Disconnect);
    }
}
