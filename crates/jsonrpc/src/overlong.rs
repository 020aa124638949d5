//! What can be told of a line that was too long to be read: its beginning and its end are kept, and most writers put the
//! id and the method into one of them.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::Id;

/// Bytes kept of either end: an id, a method and the beginning of the params fit many times over.
pub(crate) const END_MAX: usize = 4 * 1024;

/// The first and the last bytes of a line over the ceiling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    pub head: Bytes,
    pub tail: Bytes,
}

/// What kind of message a line seems to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seems {
    Request,
    Response,
    Unknown,
}

/// A member of the message; its value where it is short and complete.
type Member = (String, Option<String>);

impl Ends {
    pub(crate) fn of(line: &[u8]) -> Ends {
        let tail = line.len().saturating_sub(END_MAX);
        Ends {
            head: Bytes::copy_from_slice(&line[..line.len().min(END_MAX)]),
            tail: Bytes::copy_from_slice(&line[tail..]),
        }
    }

    /// What the line seems to be, and the one id that it has.
    pub(crate) fn read(&self) -> (Seems, Option<Id>) {
        let mut members = first_members(&self.head);
        if members.is_empty() {
            return (Seems::Unknown, None); // It is no object.
        }
        members.extend(last_members(&self.tail));
        let has = |name: &str| members.iter().any(|(known, _)| known == name);
        let seems = match (has("method"), has("result") || has("error")) {
            (true, false) => Seems::Request,
            (false, true) => Seems::Response,
            (true, true) | (false, false) => Seems::Unknown,
        };
        let ids = members.iter().filter(|(name, _)| name == "id");
        let mut ids: Vec<_> = ids.map(|(_, text)| text).collect();
        ids.dedup(); // The ends of a line that is short overlap.
        let id = match ids.as_slice() {
            [Some(text)] => Id::from_json(text),
            _ => None,
        };
        (seems, id)
    }
}

/// The members at the beginning of an object, up to the first whose value does not end here.
fn first_members(head: &[u8]) -> Vec<Member> {
    let mut members = Vec::new();
    let Some(mut rest) = head.trim_ascii_start().strip_prefix(b"{") else {
        return members;
    };
    while let Some((name, after)) = next_value(rest) {
        let Ok(name) = serde_json::from_str::<String>(name) else {
            break;
        };
        let Some(value) = after.trim_ascii_start().strip_prefix(b":") else {
            break;
        };
        let Some((text, after)) = next_value(value) else {
            members.push((name, None));
            break;
        };
        members.push((name, Some(text.to_owned())));
        match after.trim_ascii_start().strip_prefix(b",") {
            Some(next) => rest = next,
            None => break,
        }
    }
    members
}

/// The value that the text begins with and what comes after it; nothing if it may go on beyond the text.
fn next_value(text: &[u8]) -> Option<(&str, &[u8])> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>();
    let value = values.next()?.ok()?;
    let after = text.get(values.byte_offset()..)?;
    (!after.is_empty()).then(|| (value.get(), after))
}

/// The members at the end of an object, from the last one back to the first that does not begin here.
fn last_members(tail: &[u8]) -> Vec<Member> {
    let mut members = Vec::new();
    let Some(mut rest) = tail.trim_ascii_end().strip_suffix(b"}") else {
        return members;
    };
    while let Some((value, before)) = last_value(rest) {
        let Some(before) = before.trim_ascii_end().strip_suffix(b":") else {
            break;
        };
        let Some((name, before)) = last_scalar(before) else {
            break;
        };
        let Ok(name) = serde_json::from_str::<String>(name) else {
            break;
        };
        // Behind a comma it is a member; behind a backslash it would be the end of a text.
        let Some(before) = before.trim_ascii_end().strip_suffix(b",") else {
            break;
        };
        members.push((name, Some(value.to_owned())));
        rest = before;
    }
    members
}

/// The value that the text ends with, and what comes before it.
fn last_value(text: &[u8]) -> Option<(&str, &[u8])> {
    let text = text.trim_ascii_end();
    let opening = match text.last()? {
        b'}' => b'{',
        b']' => b'[',
        _ => return last_scalar(text),
    };
    // The shortest end that is a value: anything shorter begins within it, and has an end too many.
    let begins = (0..text.len()).rev().filter(|at| text[*at] == opening);
    let mut ends = begins.map(|at| text.split_at(at));
    ends.find_map(|(before, value)| {
        let value = std::str::from_utf8(value).ok()?;
        serde_json::from_str::<&RawValue>(value).ok()?;
        Some((value, before))
    })
}

/// The number, word or text without escapes that the text ends with, and what comes before it.
fn last_scalar(text: &[u8]) -> Option<(&str, &[u8])> {
    let text = text.trim_ascii_end();
    let begin = match text.split_last()? {
        (b'"', inner) => inner.iter().rposition(|byte| *byte == b'"')?,
        _ => {
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
            text.iter().rposition(|byte| !plain(byte))? + 1
        }
    };
    let (before, scalar) = text.split_at(begin);
    let scalar = std::str::from_utf8(scalar).ok()?;
    serde_json::from_str::<&RawValue>(scalar).ok()?;
    Some((scalar, before))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(begin: &str, end: &str) -> (Seems, Option<Id>) {
        let line = format!("{begin}{}{end}", "x".repeat(3 * END_MAX));
        Ends::of(line.as_bytes()).read()
    }

    #[test]
    fn the_id_is_found_at_either_end() {
        let cases = [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"t":""#,
                r#""}}"#,
                Seems::Request,
            ),
            (
                r#" { "params":[{"a":{}},""#,
                "\"] , \"method\" : \"m\", \"id\":7, \"jsonrpc\":\"2.0\" }\r",
                Seems::Request,
            ),
            (
                r#"{"method":"m","params":{"t":""#,
                r#""},"id":7}"#,
                Seems::Request,
            ),
            (
                r#"{"id":7,"result":{"t":""#,
                r#""},"jsonrpc":"2.0"}"#,
                Seems::Response,
            ),
            (
                r#"{"jsonrpc":"2.0","result":{"t":""#,
                r#""},"id":7,"_meta":{"a":[1,{"b":"}{"}],"id":8}}"#,
                Seems::Response,
            ),
            (
                r#"{"params":{"t":""#,
                r#""},"id":7,"method":"m","x":[],"y":{}}"#,
                Seems::Request,
            ),
            (
                r#"{"error":{"code":1,"message":""#,
                r#""},"id":7}"#,
                Seems::Response,
            ),
        ];
        for (begin, end, seems) in cases {
            assert_eq!(
                read(begin, end),
                (seems, Some(Id::from(7))),
                "{begin} {end}"
            );
        }
        let text = read(r#"{"id":"é\n","method":"m","params":[""#, r#""]}"#);
        assert_eq!(text, (Seems::Request, Some(Id::from("é\n"))));
    }

    #[test]
    fn what_is_not_certain_is_no_id() {
        let cases = [
            ("", "", Seems::Unknown),
            ("no json ", r#","id":7,"method":"m"}"#, Seems::Unknown),
            (
                r#"[{"id":7,"method":"m","params":""#,
                r#""}]"#,
                Seems::Unknown,
            ),
            (r#"{"method":"m","params":{"t":""#, r#""}}"#, Seems::Request),
            (
                r#"{"method":"m","params":{"id":7,"t":""#,
                r#"","id":8}}"#,
                Seems::Request,
            ),
            (r#"{"method":"m","t":""#, r#",\"id":7}"#, Seems::Request),
            (
                r#"{"id":7,"method":"m","t":""#,
                r#"","id":8}"#,
                Seems::Request,
            ),
            (
                r#"{"id":7,"method":"m","error":{},"t":""#,
                r#""}"#,
                Seems::Unknown,
            ),
            (r#"{"method":"m","params":""#, "", Seems::Request),
        ];
        for (begin, end, seems) in cases {
            let (seen, id) = read(begin, end);
            let id = id.filter(|_| seen != Seems::Unknown);
            assert_eq!((seen, id), (seems, None), "{begin} {end}");
        }
        let cut = format!("{}{}", r#"{"method":"m","id":"#, "7".repeat(3 * END_MAX));
        assert_eq!(Ends::of(cut.as_bytes()).read(), (Seems::Request, None));
    }
}
