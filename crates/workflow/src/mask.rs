//! Takes secrets out of what is shown, sent or logged, also when a value is split over two writes.
//!
//! Values of variables whose names say that they are secret become `***`. Long ones are found anywhere; one under eight
//! characters only where it stands alone, since it may be an ordinary word. JSON goes through [`Mask::frame`], which
//! changes strings and never the frame around them; what has a type of its own is masked field by field, since a short value
//! may be one of the words that the frame itself is made of.

use std::sync::Arc;

use serde_json::Value;

/// What is shown instead.
const SHOWN: &str = "***";

/// From this length on a value is found anywhere; shorter ones would cut ordinary words to pieces.
const LONG_MIN: usize = 8;

/// A single character says nothing that could be kept secret.
const LENGTH_MIN: usize = 2;

/// Words that stand everywhere, whatever variable holds them.
const ORDINARY: [&str; 6] = ["true", "false", "null", "none", "yes", "no"];

/// Parts of names that make a variable secret.
pub const SECRET_NAMES: [&str; 4] = ["SECRET_", "API_KEY", "PASSWORD", "TOKEN"];

/// Whether a variable of this name holds a secret: the name begins or ends with one of the parts, or has it as words.
pub fn is_secret_name(name: &str, parts: &[impl AsRef<str>]) -> bool {
    let name = name.to_uppercase();
    parts.iter().any(|part| {
        let part = part.as_ref().to_uppercase();
        let core = part.trim_matches('_');
        if core.is_empty() {
            return false;
        }
        let as_words = format!("_{name}_").contains(&format!("_{core}_"));
        name.starts_with(&part) || name.ends_with(core) || as_words
    })
}

/// The values to take out. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Mask {
    /// The longest first, so that a value inside another does not leave its rest behind.
    values: Arc<[String]>,
    /// First bytes of the values.
    starts: Arc<[u8]>,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Mask({} values)", self.values.len())
    }
}

impl Mask {
    /// A mask of these values.
    pub fn of_values(values: impl IntoIterator<Item = String>) -> Self {
        let mut all: Vec<String> = Vec::new();
        for value in values {
            // Programs print keys line by line, and JSON writes them with escapes.
            all.extend(value.lines().map(|line| line.trim().to_owned()));
            let escaped = Value::String(value.clone()).to_string();
            all.push(escaped[1..escaped.len() - 1].to_owned());
            all.push(value.trim().to_owned());
            all.push(value);
        }
        let is_ordinary =
            |value: &str| ORDINARY.iter().any(|word| word.eq_ignore_ascii_case(value));
        all.retain(|value| value.chars().count() >= LENGTH_MIN && !is_ordinary(value));
        all.sort_by(|left, right| right.len().cmp(&left.len()).then(left.cmp(right)));
        all.dedup();
        let mut starts: Vec<u8> = all
            .iter()
            .filter_map(|value| value.bytes().next())
            .collect();
        starts.sort_unstable();
        starts.dedup();
        Self {
            values: all.into(),
            starts: starts.into(),
        }
    }

    /// A mask of the variables whose names say that they are secret.
    pub fn of_variables<'a>(
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
        parts: &[impl AsRef<str>],
    ) -> Self {
        let secret = variables
            .into_iter()
            .filter(|(name, _)| is_secret_name(name, parts));
        Self::of_values(secret.map(|(_, value)| value.to_owned()))
    }

    /// Everything that either takes out.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        if self.is_empty() || self == other {
            return other.clone();
        }
        Self::of_values(self.values.iter().chain(other.values.iter()).cloned())
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A whole text.
    pub fn text(&self, text: &str) -> String {
        let mut stream = self.stream();
        let mut out = stream.push(text);
        out.push_str(&stream.finish());
        out
    }

    /// Everything a text holds inside a JSON value: strings, keys, and numbers that are a long value.
    pub fn json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.json(item)).collect()),
            Value::Object(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, value)| (self.text(key), self.json(value)))
                    .collect(),
            ),
            Value::Number(number) => {
                let shown = number.to_string();
                let is_secret = shown.len() >= LONG_MIN && self.values.contains(&shown);
                if is_secret {
                    Value::String(SHOWN.to_owned())
                } else {
                    value.clone()
                }
            }
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }

    /// A frame of a protocol. What is not JSON is taken as text.
    pub fn frame(&self, frame: &str) -> String {
        if self.is_empty() {
            return frame.to_owned();
        }
        match serde_json::from_str::<Value>(frame) {
            Ok(value) => {
                let masked = self.json(&value);
                // An untouched frame keeps its bytes: order of keys, spelling of numbers.
                if masked == value {
                    frame.to_owned()
                } else {
                    masked.to_string()
                }
            }
            Err(_) => self.text(frame),
        }
    }

    /// For a text that comes in pieces.
    pub fn stream(&self) -> MaskStream {
        MaskStream {
            mask: self.clone(),
            held: String::new(),
            before: None,
        }
    }
}

/// A text on its way. Holds back at most the beginning of a value.
#[derive(Debug)]
pub struct MaskStream {
    mask: Mask,
    held: String,
    /// The last character that went before what is held.
    before: Option<char>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    MayCome,
    No,
}

impl MaskStream {
    /// The part that can be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        if self.mask.is_empty() {
            return piece.to_owned();
        }
        self.held.push_str(piece);
        self.release(More::MayCome)
    }

    /// What was held back, at the end of the text.
    pub fn finish(&mut self) -> String {
        self.release(More::No)
    }

    fn release(&mut self, more: More) -> String {
        let text = std::mem::take(&mut self.held);
        let mut out = String::with_capacity(text.len());
        let mut index = 0;
        while let Some(character) = text[index..].chars().next() {
            let rest = &text[index..];
            match self.found(rest, more) {
                Found::Value(length) => {
                    out.push_str(SHOWN);
                    self.before = rest[..length].chars().next_back();
                    index += length;
                }
                Found::Perhaps => {
                    rest.clone_into(&mut self.held);
                    return out;
                }
                Found::Nothing => {
                    out.push(character);
                    self.before = Some(character);
                    index += character.len_utf8();
                }
            }
        }
        out
    }

    fn found(&self, rest: &str, more: More) -> Found {
        let Some(first) = rest.bytes().next() else {
            return Found::Nothing;
        };
        if self.mask.starts.binary_search(&first).is_err() {
            return Found::Nothing;
        }
        for value in self.mask.values.iter() {
            let is_long = value.len() >= LONG_MIN;
            if !is_long && self.before.is_some_and(is_of_word) {
                continue;
            }
            if rest.len() < value.len() {
                if more == More::MayCome && value.starts_with(rest) {
                    return Found::Perhaps;
                }
                continue;
            }
            let Some(after) = rest.strip_prefix(value.as_str()) else {
                continue;
            };
            if is_long {
                return Found::Value(value.len());
            }
            match after.chars().next() {
                Some(next) if is_of_word(next) => {}
                Some(_) => return Found::Value(value.len()),
                None if more == More::MayCome => return Found::Perhaps,
                None => return Found::Value(value.len()),
            }
        }
        Found::Nothing
    }
}

enum Found {
    Value(usize),
    /// The text ends in the middle of what may be a value.
    Perhaps,
    Nothing,
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
#[path = "mask_tests.rs"]
mod tests;
