//! Paths inside a workspace as templates write them: relative, downward only, one spelling.

use std::fmt;

use serde::{Serialize, Serializer};

/// The longest path Linux accepts in one call; a longer one could not be created.
const PATH_BYTES_MAX: usize = 4096;

/// The record of an agent at the root of its workspace; a template must not forge it.
const RECORD_FILE: &str = ".agentcraft.json";

/// A path below a workspace: `a/b.txt`. Never absolute, never upward, never empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelativePath(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelativePathError {
    #[error("a path must not be empty")]
    Empty,
    #[error("a path must be relative to the workspace")]
    Absolute,
    #[error("a path must not climb with `..`")]
    Upward,
    #[error("a path is written with `/` and holds no control characters")]
    BadCharacter,
    #[error("a path has at most {PATH_BYTES_MAX} bytes")]
    TooLong,
    #[error("`{RECORD_FILE}` is written by AgentCraft itself")]
    Record,
}

impl RelativePath {
    /// Checks `text` and drops `.` and empty segments.
    pub fn parse(text: &str) -> Result<Self, RelativePathError> {
        if text.len() > PATH_BYTES_MAX {
            return Err(RelativePathError::TooLong);
        }
        if text.contains('\\') || text.chars().any(char::is_control) {
            return Err(RelativePathError::BadCharacter);
        }
        let has_drive = text.as_bytes().get(1) == Some(&b':');
        if text.starts_with(['/', '~']) || has_drive {
            return Err(RelativePathError::Absolute);
        }
        let segments: Vec<&str> = text
            .split('/')
            .filter(|segment| !matches!(*segment, "" | "."))
            .collect();
        if segments.contains(&"..") {
            return Err(RelativePathError::Upward);
        }
        match segments.first() {
            None => Err(RelativePathError::Empty),
            // A file system that ignores case would take another spelling for the same file.
            Some(first) if first.eq_ignore_ascii_case(RECORD_FILE) => {
                Err(RelativePathError::Record)
            }
            Some(_) => Ok(Self(segments.join("/"))),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl AsRef<str> for RelativePath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Serialize for RelativePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_downward_paths_pass_and_have_one_spelling() {
        use RelativePathError::{Absolute, BadCharacter, Empty, Record, TooLong, Upward};
        let long = "a/".repeat(3000);
        let cases = [
            ("src/main.rs", Ok("src/main.rs")),
            ("./a//b/./c/", Ok("a/b/c")),
            ("..a/b..", Ok("..a/b..")),
            ("a/.agentcraft.json", Ok("a/.agentcraft.json")),
            ("", Err(Empty)),
            ("./", Err(Empty)),
            ("/etc/passwd", Err(Absolute)),
            ("~/x", Err(Absolute)),
            ("C:/x", Err(Absolute)),
            ("..", Err(Upward)),
            ("a/../../b", Err(Upward)),
            ("a\\..\\b", Err(BadCharacter)),
            ("a\0b", Err(BadCharacter)),
            ("a\nb", Err(BadCharacter)),
            ("./.AgentCraft.json", Err(Record)),
            (long.as_str(), Err(TooLong)),
        ];
        for (text, expected) in cases {
            let parsed = RelativePath::parse(text);
            assert_eq!(
                parsed.as_ref().map(RelativePath::as_str),
                expected.as_ref().copied(),
                "{text}"
            );
        }
    }
}
