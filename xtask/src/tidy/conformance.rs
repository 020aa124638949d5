//! The table of docs/conformance.md: each requirement has one row, and the tests it names exist.
//! A row is "| A1 | short words | `test_name`, `module::other` | shown |".

use std::collections::{BTreeMap, HashSet};

use super::Finding;
use super::source::{Source, occurrences};

pub(super) const FILE: &str = "docs/conformance.md";

const STATES: [&str; 3] = ["shown", "partly", NOT_YET];
const NOT_YET: &str = "not yet";

pub(super) fn check(text: &str, sources: &[Source]) -> Vec<Finding> {
    let tests = test_functions(sources);
    let mut first_lines: BTreeMap<&str, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, row) in text.lines().enumerate() {
        let line = index + 1;
        let Some((number, cells)) = requirement(row) else {
            continue;
        };
        if let Some(first) = first_lines.insert(number, line) {
            findings.push(Finding::error(
                FILE,
                line,
                format!("{number} is also on line {first}: keep one row"),
            ));
        }
        let problems = match cells[..] {
            [_, names, state] => problems(names, state, &tests),
            _ => vec![
                "the row has not four cells: write | number | words | tests | state |".to_owned(),
            ],
        };
        findings.extend(
            problems
                .iter()
                .map(|problem| Finding::error(FILE, line, format!("{number}: {problem}"))),
        );
    }
    findings
}

/// The number of a row and the cells after it; None for every line that is not a requirement's.
fn requirement(row: &str) -> Option<(&str, Vec<&str>)> {
    let row = row.trim().strip_prefix('|')?;
    let row = row.strip_suffix('|').unwrap_or(row);
    let mut cells = split_cells(row).into_iter();
    let number = cells.next()?;
    let digits = number.trim_start_matches(|letter: char| letter.is_ascii_uppercase());
    let has_letters = digits.len() < number.len();
    (has_letters && digits.starts_with(|digit: char| digit.is_ascii_digit()))
        .then(|| (number, cells.collect()))
}

/// Cells between the bars that no backslash escapes.
fn split_cells(row: &str) -> Vec<&str> {
    let mut escaped = false;
    row.split(|character| {
        let is_bar = character == '|' && !escaped;
        escaped = character == '\\' && !escaped;
        is_bar
    })
    .map(str::trim)
    .collect()
}

fn problems(names: &str, state: &str, tests: &HashSet<&str>) -> Vec<String> {
    let mut problems = Vec::new();
    if !STATES.contains(&state) {
        problems.push(format!(
            "the state `{state}` is unknown: write shown, partly or not yet"
        ));
    }
    // Names stand between backticks: every second part.
    let names: Vec<&str> = names.split('`').skip(1).step_by(2).collect();
    if names.is_empty() && state != NOT_YET {
        problems.push("no test is named: name one, or write `not yet`".to_owned());
    }
    for name in names {
        let function = name.rsplit("::").next().unwrap_or(name);
        if !tests.contains(function) {
            problems.push(format!(
                "there is no test `{name}`: write it, or name the one that shows this"
            ));
        }
    }
    problems
}

/// Names of the functions in test code.
fn test_functions(sources: &[Source]) -> HashSet<&str> {
    let mut names = HashSet::new();
    for source in sources {
        for offset in occurrences(&source.code, "fn") {
            let rest = source.code[offset + "fn".len()..].trim_start();
            let len = rest
                .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .unwrap_or(rest.len());
            if source.is_test(offset) && len > 0 {
                names.insert(&rest[..len]);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_rows(rows: &str) -> Vec<String> {
        let test = "#[test]\nfn claim_one() {}\n#[tokio::test]\nasync fn claim_two() {}\n";
        let product = "fn not_a_test() {}\n";
        let sources = [
            Source::parse("crates/a/tests/it/b.rs", test.to_owned()),
            Source::parse("crates/a/src/lib.rs", product.to_owned()),
        ];
        check(rows, &sources)
            .iter()
            .map(|finding| format!("{}: {}", finding.line, finding.words))
            .collect()
    }

    #[test]
    fn rows_that_name_existing_tests_pass() {
        let rows = "# Title\n\n| number | words | tests | state |\n|---|---|---|---|\n\
            | A1 | a \\| b | `claim_one`, `b::claim_two` | shown |\n\
            | A2.1 | c | `claim_two` | partly |\n\
            | B1 | d | | not yet |\n";
        assert_eq!(check_rows(rows), [""; 0]);
    }

    #[test]
    fn rows_that_do_not_hold_are_found() {
        let cases = [
            (
                "| A1 | a | `gone` | shown |",
                "there is no test `gone`: write it, or name the one that shows this",
            ),
            (
                "| A1 | a | `not_a_test` | shown |",
                "there is no test `not_a_test`: write it, or name the one that shows this",
            ),
            (
                "| A1 | a | | partly |",
                "no test is named: name one, or write `not yet`",
            ),
            (
                "| A1 | a | `claim_one` | done |",
                "the state `done` is unknown: write shown, partly or not yet",
            ),
            (
                "| A1 | a | shown |",
                "the row has not four cells: write | number | words | tests | state |",
            ),
        ];
        for (row, words) in cases {
            assert_eq!(check_rows(row), [format!("1: A1: {words}")], "{row}");
        }
    }

    #[test]
    fn a_number_has_one_row() {
        let rows = "| A1 | a | `claim_one` | shown |\n| A1 | b | | not yet |\n";
        assert_eq!(check_rows(rows), ["2: A1 is also on line 1: keep one row"]);
    }
}
