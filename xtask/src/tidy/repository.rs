//! What the repository holds: no binary files, and no integration test that nobody compiles.

use super::Finding;
use super::source::{Source, occurrences};

/// A text file has no NUL; looking further than this into a large file tells nothing more.
const LOOK_BYTES: usize = 8 * 1024;

/// Binary files that the repository may hold: pictures in the documents.
const BINARY_ALLOWED: (&str, &str) = ("docs/", ".png");

const TESTS: &str = "crates/agentcraft/tests/it/";

pub(super) fn binary(path: &str, bytes: &[u8]) -> Option<Finding> {
    let is_binary = bytes.iter().take(LOOK_BYTES).any(|byte| *byte == 0);
    let (folder, ending) = BINARY_ALLOWED;
    let is_allowed = path.starts_with(folder) && path.ends_with(ending);
    (is_binary && !is_allowed).then(|| {
        Finding::error(
            path,
            1,
            "a binary file: make it in a build or a test, or allow it in tidy",
        )
    })
}

/// Files of the integration tests that their parent module does not list.
pub(super) fn unlisted_tests(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let Some(module) = source
            .path
            .strip_prefix(TESTS)
            .and_then(|path| path.strip_suffix(".rs"))
        else {
            continue;
        };
        let module = module.strip_suffix("/mod").unwrap_or(module);
        if module == "main" {
            continue;
        }
        let (parents, name) = match module.rsplit_once('/') {
            Some((parent, name)) => (
                vec![
                    format!("{TESTS}{parent}.rs"),
                    format!("{TESTS}{parent}/mod.rs"),
                ],
                name,
            ),
            None => (vec![format!("{TESTS}main.rs")], module),
        };
        let item = format!("mod {name};");
        let is_listed = |parent: &Source| {
            parents.contains(&parent.path) && !occurrences(&parent.code, &item).is_empty()
        };
        if !sources.iter().any(is_listed) {
            let words = format!(
                "no module lists this test: write `{item}` in {}",
                parents[0]
            );
            findings.push(Finding::error(&source.path, 1, words));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_nul_is_binary() {
        assert!(binary("a.png", b"a\0b").is_some());
        assert!(
            binary("docs/a.png", b"a\0b").is_none(),
            "a picture in a document"
        );
        assert!(binary("docs/a.zip", b"a\0b").is_some());
        assert!(binary("a.txt", "text é".as_bytes()).is_none());
        let mut late = vec![b'a'; LOOK_BYTES];
        late.push(0);
        assert!(binary("a.txt", &late).is_none());
    }

    #[test]
    fn a_test_file_that_no_module_lists_is_found() {
        let files = [
            ("main.rs", "mod listed;\n// mod comment;\nmod folder;\n"),
            ("listed.rs", ""),
            ("comment.rs", ""),
            ("folder/mod.rs", "mod inner;"),
            ("folder/inner.rs", ""),
            ("folder/lost.rs", ""),
        ];
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::parse(&format!("{TESTS}{path}"), (*text).to_owned()))
            .collect();
        let found: Vec<String> = unlisted_tests(&sources)
            .into_iter()
            .map(|finding| finding.file)
            .collect();
        assert_eq!(
            found,
            [
                format!("{TESTS}comment.rs"),
                format!("{TESTS}folder/lost.rs")
            ]
        );
    }
}
