//! What members and requests are called: any readable text, within bounds.

use std::{fmt, sync::Arc};

/// The longest name of a member, in bytes: it is shown in lists and repeated in every notice.
pub const MEMBER_NAME_MAX: usize = 128;

/// The longest request id, in bytes: room for a UUID with a prefix.
pub const REQUEST_ID_MAX: usize = 128;

/// What an agent or a computer calls itself; it is unique within its office, for its role.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberName(Arc<str>);

/// What an agent calls a request.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(Arc<str>);

/// Why a text names neither a member nor a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberNameError {
    #[error("it must not be empty")]
    Empty,
    #[error("it has at most {max} bytes, this one has {length}")]
    TooLong { length: usize, max: usize },
    #[error("it holds no control characters")]
    Control,
}

impl MemberName {
    pub fn parse(text: &str) -> Result<Self, MemberNameError> {
        check(text, MEMBER_NAME_MAX).map(|()| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RequestId {
    pub fn parse(text: &str) -> Result<Self, MemberNameError> {
        check(text, REQUEST_ID_MAX).map(|()| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

fn check(text: &str, max: usize) -> Result<(), MemberNameError> {
    if text.is_empty() {
        return Err(MemberNameError::Empty);
    }
    if text.len() > max {
        return Err(MemberNameError::TooLong {
            length: text.len(),
            max,
        });
    }
    if text.chars().any(char::is_control) {
        return Err(MemberNameError::Control);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable_text_within_bounds() {
        for good in ["pc", "Ana's laptop", "电脑", &"n".repeat(MEMBER_NAME_MAX)] {
            assert_eq!(MemberName::parse(good).unwrap().as_str(), good);
        }
        let long = "n".repeat(MEMBER_NAME_MAX + 1);
        for (bad, words) in [
            ("", "it must not be empty"),
            ("a\nb", "it holds no control characters"),
            (long.as_str(), "it has at most 128 bytes, this one has 129"),
        ] {
            assert_eq!(MemberName::parse(bad).unwrap_err().to_string(), words);
        }
    }
}
