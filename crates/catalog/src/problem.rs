//! What is wrong with a file: problems with their place, collected all at once and bounded in number.

use std::cell::RefCell;
use std::fmt;

use serde::Serialize;

/// A reader fixes a handful of problems at a time; a hostile file must not make us keep thousands.
pub const PROBLEMS_MAX: usize = 100;

/// Text quoted from the file inside a message; longer text is cut so one value cannot fill a screen.
const QUOTED_MAX: usize = 64;

/// Names longer than this are not compared: the distance costs the product of both lengths.
const COMPARED_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file has no value.
    Error,
    /// The file has a value, probably not quite the one that was meant.
    Warning,
}

/// One thing wrong with a file. `path` is empty when the whole file is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub path: String,
    pub message: String,
    pub severity: Severity,
    /// Counted from one; known for syntax errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Counted from one; known for syntax errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(formatter, "line {line}")?;
            if let Some(column) = self.column {
                write!(formatter, ", column {column}")?;
            }
            formatter.write_str(": ")?;
        }
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        formatter.write_str(&self.message)
    }
}

/// A value with everything that was found while reading it. There is a value exactly when no problem is an error.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Checked<T> {
    pub value: Option<T>,
    pub problems: Vec<Problem>,
}

impl<T> Checked<T> {
    pub fn is_valid(&self) -> bool {
        self.value.is_some()
    }

    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
    }

    pub fn warnings(&self) -> impl Iterator<Item = &Problem> {
        self.problems
            .iter()
            .filter(|problem| problem.severity == Severity::Warning)
    }

    /// The value with its warnings, or the problems that prevent one.
    pub fn into_result(self) -> Result<(T, Vec<Problem>), Invalid> {
        match self.value {
            Some(value) => Ok((value, self.problems)),
            None => Err(Invalid {
                problems: self.problems,
            }),
        }
    }
}

/// Why a text or a JSON value is not what it should be. Shows the first error and how many more there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Invalid {
    pub problems: Vec<Problem>,
}

impl fmt::Display for Invalid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut errors = self
            .problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error);
        match errors.next() {
            Some(first) => write!(formatter, "{first}")?,
            None => formatter.write_str("not valid")?,
        }
        match errors.count() {
            0 => Ok(()),
            more => write!(formatter, " (and {more} more)"),
        }
    }
}

/// Collects problems. Shared by every node of one document, hence the cell.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: RefCell<Found>,
}

#[derive(Debug, Default)]
struct Found {
    kept: Vec<Problem>,
    errors: usize,
    total: usize,
}

impl Problems {
    pub(crate) fn error(&self, path: &str, message: impl Into<String>) {
        self.add(Problem {
            path: path.to_owned(),
            message: message.into(),
            severity: Severity::Error,
            line: None,
            column: None,
        });
    }

    pub(crate) fn warning(&self, path: &str, message: impl Into<String>) {
        self.add(Problem {
            path: path.to_owned(),
            message: message.into(),
            severity: Severity::Warning,
            line: None,
            column: None,
        });
    }

    /// Whether another warning would only be counted, so that composing its words is wasted.
    pub(crate) fn is_full(&self) -> bool {
        self.found.borrow().kept.len() >= PROBLEMS_MAX
    }

    pub(crate) fn add(&self, problem: Problem) {
        let mut found = self.found.borrow_mut();
        found.total += 1;
        let is_error = problem.severity == Severity::Error;
        found.errors += usize::from(is_error);
        if found.kept.len() < PROBLEMS_MAX {
            found.kept.push(problem);
        } else if is_error {
            // Warnings make room: a flood of them must not hide why the file is refused.
            let warning = found
                .kept
                .iter()
                .rposition(|kept| kept.severity == Severity::Warning);
            if let Some(warning) = warning {
                found.kept.remove(warning);
                found.kept.push(problem);
            }
        }
    }

    /// The value is dropped when there was an error, however complete it looks.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Checked<T> {
        let Found {
            mut kept,
            errors,
            total,
        } = self.found.into_inner();
        let left_out = total - kept.len();
        if left_out > 0 {
            let severity = if errors > 0 {
                Severity::Error
            } else {
                Severity::Warning
            };
            kept.push(Problem {
                path: String::new(),
                message: format!("… and {left_out} more"),
                severity,
                line: None,
                column: None,
            });
        }
        let value = if errors == 0 { value } else { None };
        debug_assert!(value.is_some() || errors > 0, "no value and no reason");
        Checked {
            value,
            problems: kept,
        }
    }
}

/// Text from the file in quotes, cut to a length a message can carry.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(QUOTED_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// The candidate somebody most likely meant, if any is close. Case, `-` and `_` count for nothing.
pub(crate) fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if written.len() > COMPARED_MAX {
        return None;
    }
    let written = folded(written);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let other = folded(candidate);
        let distance = if written.len() >= 3
            && other.len() >= 3
            && (other.starts_with(&written) || written.starts_with(&other))
        {
            1
        } else {
            strsim::osa_distance(&written, &other)
        };
        let allowed = (written.chars().count() / 3).max(1);
        if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// `; did you mean "x"?` or nothing.
pub(crate) fn suggestion<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    nearest(written, candidates)
        .map_or_else(String::new, |near| format!("; did you mean {near:?}?"))
}

fn folded(text: &str) -> String {
    text.chars()
        .filter(|character| !matches!(character, '-' | '_' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_ignores_case_and_separators_and_needs_to_be_near() {
        let candidates = ["claude-code", "cursor", "cursor-agent", "codex"];
        let cases = [
            ("claude_code", Some("claude-code")),
            ("claude", Some("claude-code")),
            ("Cursor", Some("cursor")),
            ("cursro", Some("cursor")),
            ("codx", Some("codex")),
            ("emacs", None),
            ("", None),
        ];
        for (written, expected) in cases {
            assert_eq!(nearest(written, candidates), expected, "{written}");
        }
        assert_eq!(nearest(&"c".repeat(100_000), candidates), None);
    }

    #[test]
    fn warnings_make_room_for_errors_and_the_rest_is_counted() {
        let problems = Problems::default();
        for index in 0..PROBLEMS_MAX + 20 {
            problems.warning(&index.to_string(), "odd");
        }
        problems.error("late", "wrong");
        let checked = problems.finish(Some(1));
        assert_eq!(checked.value, None);
        assert_eq!(
            checked.errors().next().map(|p| p.path.as_str()),
            Some("late")
        );
        assert_eq!(checked.problems.len(), PROBLEMS_MAX + 1);
        assert_eq!(checked.problems[PROBLEMS_MAX].message, "… and 21 more");
    }

    #[test]
    fn a_problem_reads_as_one_line() {
        let problem = Problem {
            path: "backend.type".into(),
            message: "is missing".into(),
            severity: Severity::Error,
            line: Some(3),
            column: Some(7),
        };
        assert_eq!(
            problem.to_string(),
            "line 3, column 7: backend.type: is missing"
        );
    }
}
