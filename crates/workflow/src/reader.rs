//! Walks the tree of a file and collects every problem on the way, instead of stopping at the first.
//!
//! A `Mapping` remembers which keys were asked for, so that those nobody asked for can be named at the end. `None` from a
//! reading method means that the problem has been reported.

use std::cell::{Cell, RefCell};

use serde_json::{Map, Value};

use crate::document::{Entry, Node, Place, Yaml};
use crate::problem::{Code, Problem, Severity, nearest, quoted};

/// A file that is wrong from top to bottom needs no longer list to be mended.
const PROBLEMS_MAX: usize = 500;

/// Every problem found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    problems: RefCell<Vec<Problem>>,
    errors: Cell<usize>,
}

impl Findings {
    pub(crate) fn error(&self, place: Place, code: Code, message: impl Into<String>) {
        self.add(place, code, Severity::Error, message.into(), None);
    }

    pub(crate) fn warning(&self, place: Place, code: Code, message: impl Into<String>) {
        self.add(place, code, Severity::Warning, message.into(), None);
    }

    pub(crate) fn add(
        &self,
        place: Place,
        code: Code,
        severity: Severity,
        message: String,
        hint: Option<String>,
    ) {
        if severity == Severity::Error {
            self.errors.set(self.errors.get() + 1);
        }
        let mut problems = self.problems.borrow_mut();
        if problems.len() < PROBLEMS_MAX {
            problems.push(Problem {
                code,
                severity,
                line: place.line,
                column: place.column,
                message,
                hint,
            });
        }
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors.get() > 0
    }

    /// In the order of the file.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems.dedup();
        problems
    }
}

impl Node {
    pub(crate) fn is_null(&self) -> bool {
        self.value == Yaml::Null
    }

    fn wrong_kind<T>(&self, findings: &Findings, expected: &str) -> Option<T> {
        let found = match &self.value {
            Yaml::Null => "empty",
            Yaml::Bool(_) => "true or false",
            Yaml::Number(..) => "a number",
            Yaml::Text(_) => "text",
            Yaml::List(_) => "a list",
            Yaml::Map(_) => "a mapping",
        };
        findings.error(
            self.place,
            Code::WrongType,
            format!("must be {expected}, but is {found}"),
        );
        None
    }

    /// Text; a number or a truth value is taken as it is spelled.
    pub(crate) fn text(&self, findings: &Findings) -> Option<String> {
        match &self.value {
            Yaml::Text(text) => Some(text.clone()),
            Yaml::Number(_, spelled) => Some(spelled.clone()),
            Yaml::Bool(value) => Some(value.to_string()),
            Yaml::Null | Yaml::List(_) | Yaml::Map(_) => self.wrong_kind(findings, "text"),
        }
    }

    pub(crate) fn list(&self, findings: &Findings) -> Option<&[Node]> {
        match &self.value {
            Yaml::List(items) => Some(items),
            Yaml::Null | Yaml::Bool(_) | Yaml::Number(..) | Yaml::Text(_) | Yaml::Map(_) => {
                self.wrong_kind(findings, "a list")
            }
        }
    }

    pub(crate) fn texts(&self, findings: &Findings) -> Vec<(Place, String)> {
        self.list(findings)
            .unwrap_or_default()
            .iter()
            .filter_map(|item| Some((item.place, item.text(findings)?)))
            .collect()
    }

    pub(crate) fn boolean(&self, findings: &Findings) -> Option<bool> {
        match &self.value {
            Yaml::Bool(value) => Some(*value),
            // Older YAML readers take these words; files that rely on it exist.
            Yaml::Text(text) => match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "true" => Some(true),
                "no" | "off" | "false" => Some(false),
                _ => self.wrong_kind(findings, "true or false"),
            },
            Yaml::Null | Yaml::Number(..) | Yaml::List(_) | Yaml::Map(_) => {
                self.wrong_kind(findings, "true or false")
            }
        }
    }

    pub(crate) fn integer(&self, findings: &Findings, least: i64, most: i64) -> Option<i64> {
        let number = match &self.value {
            Yaml::Number(number, _) => number.as_i64(),
            Yaml::Text(text) => text.trim().parse().ok(),
            Yaml::Null | Yaml::Bool(_) | Yaml::List(_) | Yaml::Map(_) => None,
        };
        let Some(number) = number else {
            return self.wrong_kind(findings, "a whole number");
        };
        if !(least..=most).contains(&number) {
            findings.error(
                self.place,
                Code::InvalidValue,
                format!("must be from {least} to {most}, but is {number}"),
            );
            return None;
        }
        Some(number)
    }

    pub(crate) fn decimal(&self, findings: &Findings, least: f64, most: f64) -> Option<f64> {
        let Yaml::Number(number, _) = &self.value else {
            return self.wrong_kind(findings, "a number");
        };
        let number = number.as_f64().unwrap_or(f64::NAN);
        if !(least..=most).contains(&number) {
            findings.error(
                self.place,
                Code::InvalidValue,
                format!("must be from {least} to {most}, but is {number}"),
            );
            return None;
        }
        Some(number)
    }

    pub(crate) fn choice<T: Copy>(
        &self,
        findings: &Findings,
        choices: &[(&'static str, T)],
    ) -> Option<T> {
        let written = self.text(findings)?;
        let found = choices
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(written.trim()));
        if found.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            let hint = nearest(&written, words.iter().copied())
                .map(|word| format!("did you mean {word}?"));
            findings.add(
                self.place,
                Code::InvalidValue,
                Severity::Error,
                format!("{} is not one of {}", quoted(&written), words.join(", ")),
                hint,
            );
        }
        found.map(|(_, choice)| *choice)
    }

    pub(crate) fn duration(&self, findings: &Findings) -> Option<std::time::Duration> {
        let written = self.text(findings)?;
        crate::duration::parse_duration(&written)
            .map_err(|message| findings.error(self.place, Code::InvalidValue, message))
            .ok()
    }

    pub(crate) fn object(&self, findings: &Findings) -> Map<String, Value> {
        match self.to_json() {
            Value::Object(entries) => entries,
            Value::Null => Map::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                self.wrong_kind(findings, "a mapping").unwrap_or_default()
            }
        }
    }

    pub(crate) fn mapping<'a>(&'a self, findings: &'a Findings) -> Option<Mapping<'a>> {
        match &self.value {
            Yaml::Map(entries) => Some(Mapping {
                place: self.place,
                entries,
                findings,
                known: RefCell::default(),
            }),
            Yaml::Null | Yaml::Bool(_) | Yaml::Number(..) | Yaml::Text(_) | Yaml::List(_) => {
                self.wrong_kind(findings, "a mapping")
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Mapping<'a> {
    pub(crate) place: Place,
    pub(crate) entries: &'a [Entry],
    pub(crate) findings: &'a Findings,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Mapping<'a> {
    /// A key without a value counts as absent.
    pub(crate) fn get(&self, key: &'static str) -> Option<&'a Node> {
        self.known.borrow_mut().push(key);
        self.entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.value)
            .filter(|node| !node.is_null())
    }

    /// The place of the key, for problems that are about the key rather than its value.
    pub(crate) fn place_of(&self, key: &str) -> Place {
        self.entries
            .iter()
            .find(|entry| entry.key == key)
            .map_or(self.place, |entry| entry.place)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.key == key && !entry.value.is_null())
    }

    pub(crate) fn text(&self, key: &'static str) -> Option<String> {
        self.get(key)?.text(self.findings)
    }

    pub(crate) fn missing(&self, what: &str) {
        self.findings
            .error(self.place, Code::MissingField, format!("{what} is missing"));
    }

    /// Names every key that nobody asked for, with the one that was probably meant.
    pub(crate) fn warn_of_unknown(&self, of_what: &str, severity: Severity, code: Code) {
        let known = self.known.borrow();
        for entry in self.entries {
            if known.contains(&entry.key.as_str()) {
                continue;
            }
            let hint = replaced(&entry.key).map(str::to_owned).or_else(|| {
                nearest(&entry.key, known.iter().copied())
                    .map(|word| format!("did you mean {word}?"))
            });
            self.findings.add(
                entry.place,
                code,
                severity,
                format!(
                    "{} is not a key of {of_what} and has no effect",
                    quoted(&entry.key)
                ),
                hint,
            );
        }
    }
}

/// Keys that are written elsewhere, and what does their work here.
fn replaced(key: &str) -> Option<&'static str> {
    match key {
        "pre_hook" => Some("write hooks: {pre: [...]}"),
        "post_hook" => Some("write hooks: {post: [...]}"),
        "call_workflow" => {
            Some("write type: call_workflow with workflow:, inputs: and outputs: beside it")
        }
        "next" => Some("write on_success:"),
        _ => None,
    }
}
