//! From the text of a file to a JSON value: JSON or YAML, the same value from either, with hostile input refused.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::problem::{Problem, Severity};

/// No file of ours nests deeper than a dozen levels; the bound keeps recursion over the value safe.
const DEPTH_MAX: usize = 64;

/// A file this size is far beyond any real component, and an expansion of aliases reaches it quickly.
const YAML_NODES_MAX: usize = 100_000;

/// Aliases are for a few repeated blocks; a bomb needs them nested, so few replayed events are enough.
const YAML_REPLAYED_EVENTS_MAX: usize = 10_000;

/// Bytes of text that aliases may copy; a bomb of long strings stays small in events.
const YAML_ANCHOR_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A syntax error may quote the file; one line on a terminal is enough of it.
const MESSAGE_MAX: usize = 300;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    Json,
    Yaml,
}

impl Format {
    /// By the extension of a file's name; `None` for a file that is not ours to read.
    pub fn from_path(path: &str) -> Option<Self> {
        let name = path.rsplit(['/', '\\']).next()?;
        let (stem, extension) = name.rsplit_once('.')?;
        if stem.is_empty() {
            return None;
        }
        match extension.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// Reads one document. The size of `text` is the caller's to bound.
pub(crate) fn parse(text: &str, format: Format) -> Result<Value, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value = match format {
        Format::Json => parse_json(text)?,
        Format::Yaml => parse_yaml(text)?,
    };
    if is_deeper_than(&value, DEPTH_MAX) {
        return Err(whole_file(format!("nests deeper than {DEPTH_MAX} levels")));
    }
    Ok(value)
}

fn parse_json(text: &str) -> Result<Value, Problem> {
    if text.trim().is_empty() {
        return Err(whole_file("the file is empty".to_owned()));
    }
    let strict: Strict = serde_json::from_str(text).map_err(|error| {
        let full = error.to_string();
        let message = full
            .rsplit_once(" at line ")
            .map_or(full.as_str(), |(message, _)| message);
        Problem {
            line: Some(error.line() as u64),
            column: Some(error.column() as u64),
            ..whole_file(format!("not valid JSON: {message}"))
        }
    })?;
    Ok(strict.0)
}

fn parse_yaml(text: &str) -> Result<Value, Problem> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_documents: 1,
            max_nodes: YAML_NODES_MAX,
            max_recorded_anchor_bytes: YAML_ANCHOR_BYTES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: YAML_REPLAYED_EVENTS_MAX,
        },
        // `on` and `no` are words in JSON, so they are words here.
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    let strict: Strict = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let location = error.location();
        let message = yaml_message(&error);
        Problem {
            line: location.map(|location| location.line()),
            column: location.map(|location| location.column()),
            ..whole_file(format!("not valid YAML: {message}"))
        }
    })?;
    Ok(strict.0)
}

/// The reader's own words speak of its options and of Rust, so the usual cases get words for people.
fn yaml_message(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::budget::BudgetBreach;
    match error.without_snippet() {
        serde_saphyr::Error::Budget { breach, .. } => match breach {
            BudgetBreach::Depth { .. } => format!("nests deeper than {DEPTH_MAX} levels"),
            BudgetBreach::Documents { .. } => "holds more than one document".to_owned(),
            _ => "too large or too complex".to_owned(),
        },
        other => {
            let full = other.render_with_formatter(&serde_saphyr::UserMessageFormatter);
            let first = full.lines().next().unwrap_or_default();
            let message = first
                .rsplit_once(" at line ")
                .map_or(first, |(text, _)| text);
            message.to_owned()
        }
    }
}

fn whole_file(message: String) -> Problem {
    Problem {
        path: String::new(),
        message: message.chars().take(MESSAGE_MAX).collect(),
        severity: Severity::Error,
        line: None,
        column: None,
    }
}

fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let mut inner = match value {
        Value::Array(items) => Box::new(items.iter()) as Box<dyn Iterator<Item = &Value>>,
        Value::Object(entries) => Box::new(entries.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return false,
    };
    levels == 0 || inner.any(|value| is_deeper_than(value, levels - 1))
}

/// A JSON value that refuses a key written twice, which plain JSON readers resolve in silence.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text, a number, true, false, null, a list or a mapping")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if entries.contains_key(&key) {
                let shown = crate::problem::quoted(&key);
                return Err(de::Error::custom(format!(
                    "the key {shown} is written twice"
                )));
            }
            let Strict(value) = access.next_value()?;
            entries.insert(key, value);
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_extension_decides_the_format() {
        let cases = [
            ("a.json", Some(Format::Json)),
            ("templates/a.YAML", Some(Format::Yaml)),
            ("x/y.yml", Some(Format::Yaml)),
            ("notes.md", None),
            (".json", None),
            ("json", None),
            ("a.json/b", None),
        ];
        for (path, expected) in cases {
            assert_eq!(Format::from_path(path), expected, "{path}");
        }
    }

    #[test]
    fn json_and_yaml_give_the_same_value() {
        let cases = [
            (
                r#"{"a": 1, "b": [true, null, "x"]}"#,
                "a: 1\nb: [true, null, x]\n",
            ),
            (
                r#"{"version": "1.2.3", "n": -4, "f": 1.5}"#,
                "version: 1.2.3\nn: -4\nf: 1.5\n",
            ),
            (r#"{"on": "yes", "off": "no"}"#, "on: yes\noff: no\n"),
            (r#"{"text": "one\ntwo\n"}"#, "text: |\n  one\n  two\n"),
            (
                r#"{"a": {"b": "x"}, "c": {"b": "x"}}"#,
                "a: &same {b: x}\nc: *same\n",
            ),
        ];
        for (json, yaml) in cases {
            let from_json = parse(json, Format::Json).unwrap();
            assert_eq!(from_json, parse(yaml, Format::Yaml).unwrap(), "{yaml}");
            assert_eq!(from_json, parse(json, Format::Yaml).unwrap(), "{json}");
        }
        assert_eq!(parse("\u{feff}{}", Format::Json).unwrap(), json!({}));
    }

    #[test]
    fn syntax_errors_name_their_line() {
        let cases = [
            (Format::Json, "{\n  \"a\": 1,\n}", 3),
            (Format::Json, "{\n  \"a\": 1,\n  \"a\": 2}", 3),
            (Format::Yaml, "a: 1\nb: [1\nc: 2\n", 3),
            (Format::Yaml, "a: 1\na: 2\n", 2),
        ];
        for (format, text, line) in cases {
            let problem = parse(text, format).unwrap_err();
            assert_eq!(problem.line, Some(line), "{text:?}: {problem}");
            assert_eq!(problem.severity, Severity::Error);
            assert!(!problem.message.contains('\n'), "{problem}");
        }
    }

    #[test]
    fn hostile_documents_are_refused_quickly() {
        let bomb = {
            let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
            for level in 1..9 {
                let before = level - 1;
                let items = vec![format!("*a{before}"); 10].join(", ");
                text.push_str(&format!("a{level}: &a{level} [{items}]\n"));
            }
            text
        };
        let long = "y".repeat(100_000);
        let strings = format!(
            "s: &s \"{long}\\n\"\nl: &l [{}]\nm: [{}]\n",
            vec!["*s"; 100].join(", "),
            vec!["*l"; 90].join(", ")
        );
        let cases = [
            (Format::Yaml, bomb),
            (Format::Yaml, strings),
            (Format::Yaml, "[".repeat(100_000)),
            (Format::Yaml, "- ".repeat(5_000)),
            (Format::Yaml, "--- 1\n--- 2\n".to_owned()),
            (Format::Yaml, "a: !shell rm\n".to_owned()),
            (Format::Yaml, "a: .inf\n".to_owned()),
            (Format::Yaml, "a: &a [*a]\n".to_owned()),
            (Format::Json, "[".repeat(100_000)),
            (
                Format::Json,
                format!("{}{}", "[".repeat(100), "]".repeat(100)),
            ),
            (Format::Json, String::new()),
        ];
        for (format, text) in cases {
            let shown: String = text.chars().take(40).collect();
            assert!(parse(&text, format).is_err(), "{shown}");
        }
    }
}
