//! Socket.IO packets as texts, and texts as WebSocket frames, without IO.

/// What arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    Opened,
    Refused(String),
    /// An event that wants an answer.
    Ask {
        id: u64,
    },
    Answer {
        id: u64,
        json: String,
    },
    /// A handshake, an event that wants no answer, or nothing we know.
    Other,
}

pub(super) fn read(text: &str) -> Packet {
    let Some((kind, rest)) = text.split_once("/smcp,") else {
        return Packet::Other;
    };
    let digits = rest.find(|letter: char| !letter.is_ascii_digit());
    let (id, json) = rest.split_at(digits.unwrap_or(rest.len()));
    match (kind, id.parse()) {
        ("40", _) => Packet::Opened,
        ("44", _) => Packet::Refused(rest.to_owned()),
        ("42", Ok(id)) => Packet::Ask { id },
        ("43", Ok(id)) => Packet::Answer {
            id,
            json: json.to_owned(),
        },
        _ => Packet::Other,
    }
}

/// A text as a client sends it. The mask that clients must use is zero, so that the text stays as it is.
pub(super) fn frame(text: &str) -> Result<Vec<u8>, std::num::TryFromIntError> {
    let mut frame = vec![0x81];
    match u8::try_from(text.len()) {
        Ok(length) if length < 126 => frame.push(0x80 | length),
        _ => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&u16::try_from(text.len())?.to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text.as_bytes());
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_told_apart() {
        let cases = [
            ("0{\"sid\":\"x\"}", Packet::Other),
            ("40/smcp,{\"sid\":\"x\"}", Packet::Opened),
            ("42/smcp,[\"notify:x\",{}]", Packet::Other),
            (
                "42/smcp,17[\"client:tool_call\",{}]",
                Packet::Ask { id: 17 },
            ),
        ];
        for (text, packet) in cases {
            assert_eq!(read(text), packet, "{text}");
        }
        let answer = Packet::Answer {
            id: 3,
            json: "[true,null]".to_owned(),
        };
        assert_eq!(read("43/smcp,3[true,null]"), answer);
    }

    #[test]
    fn frames_carry_their_length() {
        assert_eq!(frame("2").unwrap(), [0x81, 0x81, 0, 0, 0, 0, b'2']);
        let long = frame(&"x".repeat(300)).unwrap();
        assert_eq!(long[..4], [0x81, 0xfe, 1, 44]);
        assert_eq!(long.len(), 8 + 300);
        assert!(frame(&"x".repeat(70_000)).is_err());
    }
}
