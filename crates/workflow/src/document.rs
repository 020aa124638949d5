//! From the text of a file to a tree in which every value knows its place; hostile YAML is refused.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use crate::problem::{Code, Problem, Severity};

/// No workflow nests deeper than a dozen levels; the bound keeps the reader's recursion, which is costly with places, safe.
const DEPTH_MAX: usize = 24;

/// Far beyond any real workflow, and an expansion of aliases reaches it quickly.
const NODES_MAX: usize = 200_000;

/// Aliases are for a few repeated blocks; a bomb needs them nested.
const REPLAYED_EVENTS_MAX: usize = 20_000;

/// Bytes of text that aliases may copy; a bomb of long strings stays small in events.
const ANCHOR_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A syntax error may quote the file; one line on a terminal is enough of it.
const MESSAGE_MAX: usize = 300;

/// Where something is in the file, counted from one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Yaml,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Yaml {
    Null,
    Bool(bool),
    /// With its spelling, since a version written `1.10` is text to whoever asks for text.
    Number(Number, String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    pub(crate) key: String,
    pub(crate) value: Node,
}

/// Reads one document. The size of `text` is the caller's to bound.
pub(crate) fn parse(text: &str) -> Result<Node, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_documents: 1,
            max_nodes: NODES_MAX,
            max_recorded_anchor_bytes: ANCHOR_BYTES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPLAYED_EVENTS_MAX,
        },
        // `on` and `no` are words, as in every other format of ours.
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    let raw: Spanned<Raw> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let location = error.location();
            let place = Place {
                line: location.map_or(1, |location| location.line()),
                column: location.map_or(1, |location| location.column()),
            };
            syntax_problem(place, &error)
        })?;
    Ok(node(raw, text))
}

fn syntax_problem(place: Place, error: &serde_saphyr::Error) -> Problem {
    use serde_saphyr::budget::BudgetBreach;
    let message = match error.without_snippet() {
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
            message.chars().take(MESSAGE_MAX).collect()
        }
    };
    Problem {
        code: Code::YamlSyntax,
        severity: Severity::Error,
        line: place.line,
        column: place.column,
        message: format!("not valid YAML: {message}"),
        hint: None,
    }
}

fn place_of(location: serde_saphyr::Location) -> Place {
    Place {
        line: location.line(),
        column: location.column(),
    }
}

fn node(raw: Spanned<Raw>, text: &str) -> Node {
    let place = place_of(raw.referenced);
    let spelling = || {
        let span = raw.defined.span();
        let start = usize::try_from(span.byte_offset()?).ok()?;
        let length = usize::try_from(span.byte_len()?).ok()?;
        text.get(start..start.checked_add(length)?)
            .map(|spelled| spelled.trim().to_owned())
    };
    let value = match raw.value {
        Raw::Null => Yaml::Null,
        Raw::Bool(value) => Yaml::Bool(value),
        Raw::Number(number) => {
            let spelled = spelling().filter(|spelled| spelled.parse::<f64>().is_ok());
            let spelled = spelled.unwrap_or_else(|| number.to_string());
            Yaml::Number(number, spelled)
        }
        Raw::Text(value) => Yaml::Text(value),
        Raw::List(items) => Yaml::List(items.into_iter().map(|item| node(item, text)).collect()),
        Raw::Map(entries) => Yaml::Map(
            entries
                .into_iter()
                .map(|(key, value)| {
                    let value = node(value, text);
                    // A merged key has no place of its own.
                    let own = place_of(key.referenced);
                    Entry {
                        place: if own.line > 0 { own } else { value.place },
                        key: key.value,
                        value,
                    }
                })
                .collect(),
        ),
    };
    Node { place, value }
}

impl Node {
    /// The value without its places.
    pub(crate) fn to_json(&self) -> Value {
        match &self.value {
            Yaml::Null => Value::Null,
            Yaml::Bool(value) => Value::Bool(*value),
            Yaml::Number(number, _) => Value::Number(number.clone()),
            Yaml::Text(text) => Value::String(text.clone()),
            Yaml::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Yaml::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.to_json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}

enum Raw {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text, a number, true, false, null, a list or a mapping")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Number(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Raw, E> {
        Number::from_f64(value)
            .map(Raw::Number)
            .ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<Spanned<String>>()? {
            entries.push((key, access.next_value()?));
        }
        Ok(Raw::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(node: &Node) -> &[Entry] {
        let Yaml::Map(entries) = &node.value else {
            panic!("not a mapping: {node:?}");
        };
        entries
    }

    #[test]
    fn keys_and_values_know_their_places() {
        let node = parse("a: 1\nlist:\n  - x\n  - {b: two}\n").unwrap();
        let found = entries(&node);
        assert_eq!(found[0].place, Place { line: 1, column: 1 });
        assert_eq!(found[0].value.place, Place { line: 1, column: 4 });
        let Yaml::List(items) = &found[1].value.value else {
            panic!();
        };
        assert_eq!(items[0].place, Place { line: 3, column: 5 });
        let inner = &entries(&items[1])[0];
        assert_eq!(inner.place, Place { line: 4, column: 6 });
        assert_eq!(inner.value.place, Place { line: 4, column: 9 });
    }

    #[test]
    fn numbers_keep_their_spelling() {
        let node = parse("version: 1.10\nport: 007\nbig: 30\n").unwrap();
        let spelled: Vec<_> = entries(&node)
            .iter()
            .map(|entry| match &entry.value.value {
                Yaml::Number(_, spelled) | Yaml::Text(spelled) => spelled.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(spelled, ["1.10", "007", "30"]);
    }

    #[test]
    fn syntax_errors_name_their_line() {
        for (text, line) in [
            ("a: 1\nb: [1\nc: 2\n", 3),
            ("a: 1\na: 2\n", 2),
            ("a: b: c\n", 1),
        ] {
            let problem = parse(text).unwrap_err();
            assert_eq!(problem.line, line, "{text:?}: {problem}");
            assert_eq!(problem.code, Code::YamlSyntax);
            assert!(!problem.message.contains('\n'), "{problem}");
        }
    }

    #[test]
    fn hostile_documents_are_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let items = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        let cases = [
            bomb,
            "[".repeat(100_000),
            "- ".repeat(5_000),
            "--- 1\n--- 2\n".to_owned(),
            "a: !shell rm\n".to_owned(),
            "a: .inf\n".to_owned(),
            "a: &a [*a]\n".to_owned(),
        ];
        for text in cases {
            let shown: String = text.chars().take(40).collect();
            assert!(parse(&text).is_err(), "{shown}");
        }
    }
}
