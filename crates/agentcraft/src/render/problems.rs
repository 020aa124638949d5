//! What is wrong with files: every problem on a line of its own, with its place.

use std::path::Path;

use wire::daemon::{Problem, TemplateProblems, ValidateResult};

use super::style::{Style, Tone, one_line};

/// The outcome of checking a template's file.
pub(crate) fn validation(file: &Path, result: &ValidateResult, style: Style) -> String {
    let verdict = match (result.valid, result.warnings.is_empty()) {
        (true, true) => style.paint(Tone::Good, "valid"),
        (true, false) => style.paint(Tone::Doubtful, "valid, with warnings"),
        (false, _) => style.paint(Tone::Bad, "invalid"),
    };
    let file = file.display().to_string();
    let mut text = format!("{}: {verdict}\n", one_line(&file));
    for problem in &result.errors {
        text.push_str(&format!(
            "  {} {}\n",
            style.paint(Tone::Bad, "error  "),
            words(problem)
        ));
    }
    for problem in &result.warnings {
        text.push_str(&format!(
            "  {} {}\n",
            style.paint(Tone::Doubtful, "warning"),
            words(problem)
        ));
    }
    text
}

/// A file of the configs folder that has problems.
pub(crate) fn broken_file(broken: &TemplateProblems) -> String {
    let verdict = if broken.errors.is_empty() {
        "has warnings"
    } else {
        "is not used"
    };
    let mut text = format!("{} {verdict}\n", one_line(&broken.file));
    for problem in broken.errors.iter().chain(&broken.warnings) {
        text.push_str(&format!("  {}\n", words(problem)));
    }
    text
}

fn words(problem: &Problem) -> String {
    let place = match (problem.line, problem.column) {
        (Some(line), Some(column)) => format!("line {line}, column {column}: "),
        (Some(line), None) => format!("line {line}: "),
        (None, _) => String::new(),
    };
    let path = if problem.path.is_empty() {
        String::new()
    } else {
        format!("{}: ", problem.path)
    };
    one_line(&format!("{place}{path}{}", problem.message)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(path: &str, message: &str, line: Option<u32>) -> Problem {
        Problem {
            path: path.to_owned(),
            message: message.to_owned(),
            line,
            column: line,
        }
    }

    #[test]
    fn every_problem_stands_with_its_place() {
        let result = ValidateResult {
            valid: false,
            template: None,
            errors: vec![
                problem("backend.type", "is missing", None),
                problem("", "expected a comma", Some(3)),
            ],
            warnings: vec![problem("colour", "is not known", None)],
        };
        assert_eq!(
            validation(Path::new("a.json"), &result, Style::Plain),
            "a.json: invalid\n  error   backend.type: is missing\n  error   line 3, column 3: expected a comma\n  \
             warning colour: is not known\n"
        );
    }
}
