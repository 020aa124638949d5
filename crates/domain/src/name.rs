//! The alphabet of names: agents, templates, components and offices are called `[A-Za-z0-9][A-Za-z0-9_-]{0,62}`.
//!
//! A `Name` is safe as a path segment, a URL segment and a table key, so it is checked once, where it comes in.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest name, in characters: what a DNS label holds, since names travel in service instances too.
pub const NAME_MAX: usize = 63;

/// A checked name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a name must not be empty")]
    Empty,
    #[error("a name has at most {NAME_MAX} characters, this one has {length}")]
    TooLong { length: usize },
    #[error("a name begins with a letter or a digit, not with {found:?}")]
    BadStart { found: char },
    #[error("a name holds letters, digits, `_` and `-` only, not {found:?}")]
    BadCharacter { found: char },
}

impl Name {
    /// Checks `text` against the alphabet.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let first = text.chars().next().ok_or(NameError::Empty)?;
        let length = text.chars().count();
        if length > NAME_MAX {
            return Err(NameError::TooLong { length });
        }
        if !first.is_ascii_alphanumeric() {
            return Err(NameError::BadStart { found: first });
        }
        match text
            .chars()
            .find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')))
        {
            Some(found) => Err(NameError::BadCharacter { found }),
            None => Ok(Self(text.into())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_alphabet_pass() {
        for text in [
            "a",
            "A1",
            "code-review",
            "x_y-Z9",
            "0day",
            &"n".repeat(NAME_MAX),
        ] {
            assert_eq!(Name::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn everything_else_is_refused_in_words() {
        let long = "n".repeat(300);
        let cases: &[(&str, &str)] = &[
            ("", "a name must not be empty"),
            (
                "../evil",
                "a name begins with a letter or a digit, not with '.'",
            ),
            (
                "-rf",
                "a name begins with a letter or a digit, not with '-'",
            ),
            (
                "a/b",
                "a name holds letters, digits, `_` and `-` only, not '/'",
            ),
            (
                "a\nb",
                "a name holds letters, digits, `_` and `-` only, not '\\n'",
            ),
            (
                "a\0",
                "a name holds letters, digits, `_` and `-` only, not '\\0'",
            ),
            ("é", "a name begins with a letter or a digit, not with 'é'"),
            (
                "a b",
                "a name holds letters, digits, `_` and `-` only, not ' '",
            ),
            (&long, "a name has at most 63 characters, this one has 300"),
        ];
        for (text, words) in cases {
            assert_eq!(
                Name::parse(text).unwrap_err().to_string(),
                *words,
                "{text:?}"
            );
        }
    }
}
