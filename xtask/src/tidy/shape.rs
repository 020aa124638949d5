//! The shape of a Rust file: its opening line, the length of its doc, its size, and no work left for later.

use super::source::{Source, occurrences};
use super::{Finding, Severity};

/// Past this a file is split, whatever the reason.
const LINES_MAX: usize = 800;
/// Past this a file probably owns two things.
const LINES_GOAL: usize = 400;
/// A main.rs reads arguments and calls; more belongs into a module with tests.
const MAIN_LINES_MAX: usize = 40;
/// A longer opening is a design note and belongs beside the code, as a page.
const DOC_LINES_MAX: usize = 10;

const COMMENT_MARKERS: [&str; 3] = ["TODO", "FIXME", "XXX"];
const CODE_MARKERS: [&str; 2] = ["todo!", "unimplemented!"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(opening(source));
    findings.extend(size(source));
    findings.extend(markers(source));
    findings
}

fn opening(source: &Source) -> Option<Finding> {
    let doc_lines = source
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .count();
    match doc_lines {
        0 => Some(Finding::error(
            &source.path,
            1,
            "the first line is not `//!`: say there what the file owns",
        )),
        1..=DOC_LINES_MAX => None,
        _ => Some(Finding::error(
            &source.path,
            DOC_LINES_MAX + 1,
            format!(
                "the module doc has {doc_lines} lines: keep {DOC_LINES_MAX} and move the rest to a page"
            ),
        )),
    }
}

fn size(source: &Source) -> Option<Finding> {
    let lines = source.lines_without_tests();
    let is_main = source.path.ends_with("/src/main.rs");
    let (severity, max) = match lines {
        _ if is_main && lines > MAIN_LINES_MAX => (Severity::Error, MAIN_LINES_MAX),
        _ if lines > LINES_MAX && source.is_test_file() => (Severity::Warning, LINES_MAX),
        _ if lines > LINES_MAX => (Severity::Error, LINES_MAX),
        _ if lines > LINES_GOAL && !source.is_test_file() => (Severity::Warning, LINES_GOAL),
        _ => return None,
    };
    let words = format!("{lines} lines without tests, over {max}: split the file by what it owns");
    Some(Finding {
        file: source.path.clone(),
        line: max + 1,
        severity,
        words,
    })
}

fn markers(source: &Source) -> Vec<Finding> {
    let in_comments = COMMENT_MARKERS.iter().flat_map(|marker| {
        let offsets = occurrences(&source.comments, marker);
        offsets.into_iter().map(move |offset| (offset, marker))
    });
    let in_code = CODE_MARKERS.iter().flat_map(|marker| {
        let offsets = occurrences(&source.code, marker);
        offsets.into_iter().map(move |offset| (offset, marker))
    });
    in_comments
        .chain(in_code)
        .map(|(offset, marker)| {
            let words = format!("`{marker}` leaves work for later: do it now, or delete it");
            Finding::error(&source.path, source.line(offset), words)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(path: &str, text: &str) -> Vec<String> {
        check(&Source::parse(path, text.to_owned()))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn with_lines(lines: usize) -> String {
        format!("//! Doc.\n{}", "\n".repeat(lines - 1))
    }

    #[test]
    fn a_file_without_an_opening_line_is_found() {
        let words = "a.rs:1: the first line is not `//!`: say there what the file owns";
        assert_eq!(check_text("a.rs", "use b;\n"), [words]);
        assert_eq!(check_text("a.rs", ""), [words]);
    }

    #[test]
    fn a_long_module_doc_is_found() {
        assert_eq!(check_text("a.rs", &"//! Doc.\n".repeat(10)), [""; 0]);
        let words = "a.rs:11: the module doc has 11 lines: keep 10 and move the rest to a page";
        assert_eq!(check_text("a.rs", &"//! Doc.\n".repeat(11)), [words]);
    }

    #[test]
    fn sizes_are_held_by_kind_of_file() {
        let cases = [
            ("crates/a/src/b.rs", 400, None),
            (
                "crates/a/src/b.rs",
                401,
                Some("warning: crates/a/src/b.rs:401: 401 lines"),
            ),
            (
                "crates/a/src/b.rs",
                801,
                Some("crates/a/src/b.rs:801: 801 lines"),
            ),
            ("crates/a/tests/it/b.rs", 800, None),
            (
                "crates/a/tests/it/b.rs",
                801,
                Some("warning: crates/a/tests/it/b.rs:801: 801 lines"),
            ),
            ("crates/a/src/main.rs", 40, None),
            (
                "crates/a/src/main.rs",
                41,
                Some("crates/a/src/main.rs:41: 41 lines"),
            ),
        ];
        for (path, lines, expected) in cases {
            let found = check_text(path, &with_lines(lines));
            match expected {
                Some(start) => assert!(
                    found.len() == 1 && found[0].starts_with(start),
                    "{path} {lines}: {found:?}"
                ),
                None => assert!(found.is_empty(), "{path} {lines}: {found:?}"),
            }
        }
    }

    #[test]
    fn tests_do_not_count_as_lines() {
        let text = format!(
            "//! Doc.\n#[cfg(test)]\nmod tests {{\n{}}}\n",
            "\n".repeat(900)
        );
        assert_eq!(check_text("a.rs", &text), [""; 0]);
    }

    #[test]
    fn markers_are_found_in_comments_and_code_but_not_in_strings() {
        let text =
            "//! Doc.\n// TODO: later\nfn a() { todo!() }\nconst A: &str = \"TODO XXX todo!\";\n";
        let found = check_text("a.rs", text);
        assert_eq!(
            found,
            [
                "a.rs:2: `TODO` leaves work for later: do it now, or delete it",
                "a.rs:3: `todo!` leaves work for later: do it now, or delete it",
            ]
        );
    }
}
