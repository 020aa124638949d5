//! What stands before the text of a Markdown file, between two lines of dashes.

use serde_json::{Map, Value};

use crate::document::{self, Format};

/// The fields that a file says of itself, and its text. A file without them, or with some that cannot be read, says none.
pub fn front_matter(file: &str) -> (Value, &str) {
    let nothing = || Value::Object(Map::new());
    let file = file.strip_prefix('\u{feff}').unwrap_or(file);
    let Some(rest) = after_dashes(file) else {
        return (nothing(), file);
    };
    let mut from = 0;
    while let Some(line) = rest[from..].split_inclusive('\n').next() {
        if let Some(text) = after_dashes(&rest[from..]) {
            let fields = document::parse(&rest[..from], Format::Yaml).ok();
            let fields = fields.filter(Value::is_object).unwrap_or_else(nothing);
            return (fields, text);
        }
        from += line.len();
    }
    (nothing(), file)
}

/// What follows a line of three dashes, if there is one here.
fn after_dashes(text: &str) -> Option<&str> {
    let line = text.split_inclusive('\n').next()?;
    (line.trim_end() == "---").then(|| &text[line.len()..])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_and_text_are_told_apart() {
        for (file, fields, text) in [
            (
                "---\na: 1\nb: x\n---\ntext\n---\n",
                json!({"a": 1, "b": "x"}),
                "text\n---\n",
            ),
            ("---\r\na: 1\r\n---\r\ntext", json!({"a": 1}), "text"),
            ("\u{feff}---\na: 1\n---", json!({"a": 1}), ""),
            ("---\n---\ntext", json!({}), "text"),
            ("---\n[1\n---\ntext", json!({}), "text"),
            ("---\na: 1\n", json!({}), "---\na: 1\n"),
            ("text", json!({}), "text"),
            ("", json!({}), ""),
        ] {
            assert_eq!(front_matter(file), (fields, text), "{file:?}");
        }
    }
}
