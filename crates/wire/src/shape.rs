//! The shape of a JSON text, looked at before anybody reads it: a few bytes of `[` are many of memory once they are values.

use std::fmt;

/// How deep a text may nest. What keeps it puts a few levels around it, and readers stop at 128.
pub const DEPTH_MAX: usize = 64;

/// How many values a text may have: each takes some hundred bytes once it is read, whatever it says.
pub const VALUES_MAX: usize = 100_000;

/// Why a text is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadShape {
    TooDeep,
    TooMany,
}

impl fmt::Display for BadShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep => write!(f, "it nests deeper than {DEPTH_MAX} levels"),
            Self::TooMany => write!(f, "it has more than {VALUES_MAX} values"),
        }
    }
}

impl std::error::Error for BadShape {}

/// Looks at a text that may be JSON; whether it is, its reader finds out.
pub fn check(text: &[u8]) -> Result<(), BadShape> {
    let (mut depth, mut values) = (0_usize, 1_usize);
    let (mut in_text, mut escaped) = (false, false);
    for byte in text {
        match (in_text, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_text = !in_text,
            (true, _) => {}
            (false, b'[' | b'{') => {
                depth += 1;
                values += 1;
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            (false, b',') => values += 1,
            (false, _) => {}
        }
        if depth > DEPTH_MAX {
            return Err(BadShape::TooDeep);
        }
        if values > VALUES_MAX {
            return Err(BadShape::TooMany);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    #[test]
    fn a_text_nests_and_lists_only_so_much() {
        assert_eq!(check(nested(DEPTH_MAX).as_bytes()), Ok(()));
        let deeper = nested(DEPTH_MAX + 1);
        assert_eq!(check(deeper.as_bytes()), Err(BadShape::TooDeep));
        let many = format!("[{}1]", "1,".repeat(VALUES_MAX));
        assert_eq!(check(many.as_bytes()), Err(BadShape::TooMany));
        // Side by side is not deep.
        let wide = format!("[{}1]", "[],".repeat(1000));
        assert_eq!(check(wide.as_bytes()), Ok(()));
    }

    #[test]
    fn what_stands_in_a_string_is_no_structure() {
        let brackets = "[,".repeat(VALUES_MAX);
        assert_eq!(
            check(format!(r#"{{"a\"{brackets}": "\\"}}"#).as_bytes()),
            Ok(())
        );
    }
}
