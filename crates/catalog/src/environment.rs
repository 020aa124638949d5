//! Which variables of the daemon's environment a program may see: exact names, or everything under a prefix.

use std::fmt;

use serde::{Serialize, Serializer};

/// `NAME`, or `PREFIX_*`. Never everything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EnvironmentPattern {
    Exact(String),
    Prefix(String),
}

impl EnvironmentPattern {
    /// `None` when `text` is neither a variable's name nor one followed by `*`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('*') {
            Some(prefix) if is_variable_name(prefix) => Some(Self::Prefix(prefix.to_owned())),
            None if is_variable_name(text) => Some(Self::Exact(text.to_owned())),
            Some(_) | None => None,
        }
    }

    pub fn matches(&self, variable: &str) -> bool {
        match self {
            Self::Exact(name) => variable == name,
            Self::Prefix(prefix) => variable.starts_with(prefix),
        }
    }
}

impl fmt::Display for EnvironmentPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => formatter.write_str(name),
            Self::Prefix(prefix) => write!(formatter, "{prefix}*"),
        }
    }
}

impl Serialize for EnvironmentPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether every shell and every system takes `text` as a variable's name.
pub fn is_variable_name(text: &str) -> bool {
    let starts_well = text
        .chars()
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    starts_well
        && text
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || character == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_a_name_or_a_prefix_and_never_everything() {
        let cases = [
            ("GH_TOKEN", "GH_TOKEN", true),
            ("GH_TOKEN", "GH_TOKEN_2", false),
            ("OPENAI_*", "OPENAI_API_KEY", true),
            ("OPENAI_*", "XOPENAI_API_KEY", false),
        ];
        for (pattern, variable, expected) in cases {
            let parsed = EnvironmentPattern::parse(pattern).unwrap();
            assert_eq!(parsed.matches(variable), expected, "{pattern} {variable}");
            assert_eq!(parsed.to_string(), pattern);
        }
        for refused in ["", "*", "A=B", "1X", "A*B", "A B", "Ä"] {
            assert_eq!(EnvironmentPattern::parse(refused), None, "{refused}");
        }
    }
}
