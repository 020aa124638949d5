//! Reading JSON in which half of a character is written: programs that cut text between the two halves of an emoji send it,
//! and nobody who only passes it on notices.

use std::borrow::Cow;

use serde_json::Value;

/// How a half is written: `\ud83d`.
const ESCAPE: usize = 6;

/// The value; a half of a character in it is read as the mark for one that is missing.
pub(crate) fn value(text: &str) -> Option<Value> {
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&whole(text)))
        .ok()
}

/// The text with every half that has no other half replaced.
fn whole(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = text[at..].find('\\') {
        let here = at + found;
        let next = match (half(text, here), half(text, here + ESCAPE)) {
            (Some(Half::First), Some(Half::Second)) => here + 2 * ESCAPE,
            (Some(_), _) => {
                out.push_str(&text[copied..here]);
                out.push_str("\\ufffd");
                copied = here + ESCAPE;
                copied
            }
            // An escaped backslash is no beginning of another escape.
            (None, _) => here + 1 + text[here + 1..].chars().next().map_or(0, char::len_utf8),
        };
        at = next.min(text.len());
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

#[derive(Clone, Copy)]
enum Half {
    First,
    Second,
}

/// Which half of a character is written at that place, if one is.
fn half(text: &str, at: usize) -> Option<Half> {
    let digits = text.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
    match u32::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Half::First),
        0xdc00..=0xdfff => Some(Half::Second),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_half_becomes_a_mark_and_everything_else_stays() {
        for (text, read) in [
            (r#"{"a":"x \ud83d"}"#, json!({ "a": "x \u{fffd}" })),
            (r#"["\ude00y"]"#, json!(["\u{fffd}y"])),
            (r#"["\ud83d\ud83d\ude00"]"#, json!(["\u{fffd}\u{1f600}"])),
            (r#"["\\ud83d", "\ud83d"]"#, json!(["\\ud83d", "\u{fffd}"])),
            (r#"["é\ud83d\n"]"#, json!(["é\u{fffd}\n"])),
        ] {
            assert_eq!(value(text), Some(read), "{text}");
        }
        for text in ["", "[\"\\", "[\"\\u", "{"] {
            assert_eq!(value(text), None, "{text}");
        }
    }
}
