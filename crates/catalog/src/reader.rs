//! Walks a JSON value and collects every problem on the way, instead of stopping at the first.
//!
//! A `Node` is a value with its path; a `Mapping` remembers which keys were asked for, so that the keys nobody asked
//! for can be named at the end. `None` from a reading method means that the problem has been reported.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use domain::Name;
use serde_json::{Map, Value};

use crate::path::RelativePath;
use crate::problem::{Problems, quoted, suggestion};

#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) value: &'a Value,
    path: String,
    problems: &'a Problems,
}

impl<'a> Node<'a> {
    pub(crate) fn root(value: &'a Value, problems: &'a Problems) -> Self {
        Self {
            value,
            path: String::new(),
            problems,
        }
    }

    pub(crate) fn error(&self, message: impl Into<String>) {
        self.problems.error(&self.path, message);
    }

    pub(crate) fn warning(&self, message: impl Into<String>) {
        self.problems.warning(&self.path, message);
    }

    pub(crate) fn mapping(&self) -> Option<Mapping<'a>> {
        match self.value {
            Value::Object(entries) => Some(Mapping {
                entries,
                path: self.path.clone(),
                problems: self.problems,
                known: RefCell::default(),
            }),
            other => self.wrong_kind("a mapping", other),
        }
    }

    pub(crate) fn list(&self) -> Option<Vec<Node<'a>>> {
        match self.value {
            Value::Array(items) => Some(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, value)| Node {
                        value,
                        path: format!("{}[{index}]", self.path),
                        problems: self.problems,
                    })
                    .collect(),
            ),
            other => self.wrong_kind("a list", other),
        }
    }

    pub(crate) fn text(&self) -> Option<&'a str> {
        match self.value {
            Value::String(text) => Some(text),
            other => self.wrong_kind("text", other),
        }
    }

    pub(crate) fn some_text(&self) -> Option<&'a str> {
        let text = self.text()?;
        if text.trim().is_empty() {
            self.error("must not be empty");
            return None;
        }
        Some(text)
    }

    /// A word the operating system takes as an argument or a program: it cannot hold a NUL.
    pub(crate) fn argument(&self) -> Option<&'a str> {
        let text = self.text()?;
        if text.contains('\0') {
            self.error("must not hold a NUL character");
            return None;
        }
        Some(text)
    }

    pub(crate) fn program(&self) -> Option<&'a str> {
        self.some_text()?;
        self.argument()
    }

    pub(crate) fn name(&self) -> Option<Name> {
        let text = self.text()?;
        Name::parse(text)
            .map_err(|error| self.error(format!("{} is not a name: {error}", quoted(text))))
            .ok()
    }

    pub(crate) fn relative_path(&self) -> Option<RelativePath> {
        let text = self.text()?;
        RelativePath::parse(text)
            .map_err(|error| self.error(format!("{} is refused: {error}", quoted(text))))
            .ok()
    }

    pub(crate) fn integer(&self, least: u64, most: u64) -> Option<u64> {
        let Value::Number(number) = self.value else {
            return self.wrong_kind("a whole number", self.value);
        };
        match number.as_u64() {
            Some(integer) if (least..=most).contains(&integer) => Some(integer),
            _ => {
                self.error(format!(
                    "must be a whole number from {least} to {most}, but is {number}"
                ));
                None
            }
        }
    }

    pub(crate) fn choice<T: Copy>(&self, choices: &[(&'static str, T)]) -> Option<T> {
        let written = self.text()?;
        let found = choices.iter().find(|(word, _)| *word == written);
        if found.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.error(format!(
                "{} is not one of {}{}",
                quoted(written),
                words.join(", "),
                suggestion(written, words.iter().copied())
            ));
        }
        found.map(|(_, choice)| *choice)
    }

    /// Reads every item with `read`; an item that fails has reported why and is left out.
    pub(crate) fn list_of<T>(&self, read: impl Fn(&Node<'a>) -> Option<T>) -> Vec<T> {
        let items = self.list().unwrap_or_default();
        items.iter().filter_map(read).collect()
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        self.list_of(|item| item.argument().map(str::to_owned))
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.list_of(|item| item.some_text().map(str::to_owned))
    }

    /// Names in their order; one listed twice is reported and kept once.
    pub(crate) fn names(&self) -> Vec<Name> {
        let mut names: Vec<Name> = Vec::new();
        let mut seen = BTreeSet::new();
        for item in self.list().unwrap_or_default() {
            let Some(name) = item.name() else { continue };
            if seen.insert(name.clone()) {
                names.push(name);
            } else {
                item.warning(format!("{name:?} is listed twice"));
            }
        }
        names
    }

    pub(crate) fn text_map(&self) -> BTreeMap<String, String> {
        self.entries()
            .filter_map(|(key, node)| Some((key.to_owned(), node.text()?.to_owned())))
            .collect()
    }

    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let read = |(key, node): (&str, Node<'a>)| {
            if !crate::environment::is_variable_name(key) {
                node.error(format!("{} is not the name of a variable", quoted(key)));
                return None;
            }
            Some((key.to_owned(), node.argument()?.to_owned()))
        };
        self.entries().filter_map(read).collect()
    }

    fn entries(&self) -> impl Iterator<Item = (&'a str, Node<'a>)> + use<'a> {
        let mapping = self.mapping();
        let entries = mapping.as_ref().map(|mapping| mapping.entries);
        let (path, problems) = (self.path.clone(), self.problems);
        entries.into_iter().flatten().map(move |(key, value)| {
            let path = joined(&path, key);
            let node = Node {
                value,
                path,
                problems,
            };
            (key.as_str(), node)
        })
    }

    fn wrong_kind<T>(&self, expected: &str, found: &Value) -> Option<T> {
        let (found, hint) = match found {
            Value::Null => ("empty", ""),
            Value::Bool(_) => ("true or false", "; put it in quotes"),
            Value::Number(_) => ("a number", "; put it in quotes"),
            Value::String(_) => ("text", ""),
            Value::Array(_) => ("a list", ""),
            Value::Object(_) => ("a mapping", ""),
        };
        let hint = if expected == "text" { hint } else { "" };
        self.error(format!("must be {expected}, but is {found}{hint}"));
        None
    }
}

#[derive(Debug)]
pub(crate) struct Mapping<'a> {
    pub(crate) entries: &'a Map<String, Value>,
    path: String,
    problems: &'a Problems,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Mapping<'a> {
    pub(crate) fn required(&self, key: &'static str) -> Option<Node<'a>> {
        let node = self.optional(key);
        if node.is_none() {
            self.missing(key, "is missing");
        }
        node
    }

    /// A key without a value (`key:` in YAML, `null` in JSON) counts as absent.
    pub(crate) fn optional(&self, key: &'static str) -> Option<Node<'a>> {
        self.known.borrow_mut().push(key);
        let value = self.entries.get(key).filter(|value| !value.is_null())?;
        Some(Node {
            value,
            path: joined(&self.path, key),
            problems: self.problems,
        })
    }

    pub(crate) fn missing(&self, key: &str, message: &str) {
        self.problems.error(&joined(&self.path, key), message);
    }

    pub(crate) fn warning(&self, key: &str, message: &str) {
        self.problems.warning(&joined(&self.path, key), message);
    }

    pub(crate) fn description(&self) -> Option<String> {
        Some(self.optional("description")?.text()?.to_owned())
    }

    /// Names the keys nobody asked for. Called last.
    pub(crate) fn report_unknown_keys(self) {
        let known = self.known.into_inner();
        for key in self.entries.keys() {
            if known.contains(&key.as_str()) {
                continue;
            }
            let near = if self.problems.is_full() {
                String::new()
            } else {
                suggestion(key, known.iter().copied())
            };
            let message = format!("is not a known key and is ignored{near}");
            self.problems.warning(&joined(&self.path, key), message);
        }
    }
}

fn joined(path: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && key.len() <= 64
        && key.chars().all(|character| {
            character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '$')
        });
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{}]", quoted(key)),
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
