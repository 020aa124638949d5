//! The id of a request: a number or a string, written back exactly as it was read.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Number, value::RawValue};

/// Names one request, chosen by the side that sent it.
///
/// The two sides choose independently, so the same id may be in use in both directions at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Id {
    /// A number that [`Number`] writes as it was read; all 64-bit integers are.
    Number(Number),
    /// A number whose spelling [`Number`] would change (`1e3`, `1.50`, more than 64 bits), as its
    /// JSON text. Only a peer makes these.
    NumberText(Box<str>),
    String(String),
}

impl Id {
    /// Reads an id from its JSON text; `None` if it is neither a number nor a string.
    pub fn from_json(text: &str) -> Option<Id> {
        let text = text.trim_ascii();
        match text.as_bytes().first()? {
            b'"' => serde_json::from_str(text).ok().map(Id::String),
            b'-' | b'0'..=b'9' => match serde_json::from_str::<Number>(text) {
                Ok(number) if number.to_string() == text => Some(Id::Number(number)),
                // RawValue checks the grammar without the range, so 1e999 is a number here too.
                Ok(_) | Err(_) => serde_json::from_str::<&RawValue>(text)
                    .ok()
                    .map(|raw| Id::NumberText(raw.get().into())),
            },
            _ => None,
        }
    }

    /// The id as an unsigned integer, which is what [`From<u64>`](Id#impl-From<u64>-for-Id) makes.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Id::Number(number) => number.as_u64(),
            Id::NumberText(_) | Id::String(_) => None,
        }
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Id {
        Id::Number(number.into())
    }
}

impl From<String> for Id {
    fn from(text: String) -> Id {
        Id::String(text)
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Id {
        Id::String(text.to_owned())
    }
}

/// The JSON text of the id, so a string comes with its quotes.
impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Number(number) => number.fmt(formatter),
            Id::NumberText(text) => formatter.write_str(text),
            Id::String(text) => {
                let quoted = serde_json::to_string(text).map_err(|_| fmt::Error)?;
                formatter.write_str(&quoted)
            }
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Id::Number(number) => number.serialize(serializer),
            Id::NumberText(text) => {
                let raw: &RawValue =
                    serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
                raw.serialize(serializer)
            }
            Id::String(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Id {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Id::from_json(raw.get())
            .ok_or_else(|| serde::de::Error::custom("an id is a number or a string"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_id_is_written_back_as_it_was_read() {
        for text in [
            "0",
            "-1",
            "18446744073709551615",
            "-9223372036854775808",
            "1.5",
            "1.50",
            "1e3",
            "-0",
            "1e999",
            "123456789012345678901234567890",
            r#""""#,
            r#""a b""#,
            r#""\"\\""#,
            r#""é""#,
        ] {
            let id = Id::from_json(text).unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(serde_json::to_string(&id).unwrap(), text);
            assert_eq!(serde_json::from_str::<Id>(text).unwrap(), id);
        }
    }

    #[test]
    fn what_is_neither_number_nor_string_is_no_id() {
        for text in [
            "",
            "null",
            "true",
            "{}",
            "[1]",
            "1x",
            "-",
            "01",
            r#""open"#,
            r#""\ud800""#,
        ] {
            assert_eq!(Id::from_json(text), None, "{text}");
        }
        assert!(serde_json::from_str::<Id>("null").is_err());
    }

    #[test]
    fn ids_are_made_from_plain_values() {
        assert_eq!(Id::from(7).as_u64(), Some(7));
        assert_eq!(Id::from("a"), Id::from("a".to_owned()));
        assert_eq!(Id::from("7").as_u64(), None);
        assert_eq!(Id::from_json("7.0").unwrap().as_u64(), None);
    }
}
