//! A Rust file as tidy sees it: its code without comments and literals, its comments without code,
//! and which of its lines are tests. A light lexer, not a parser: offsets and lines stay as in the file.

use std::ops::Range;

#[derive(Debug)]
pub(super) struct Source {
    /// From the workspace's root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// The text with comments and the inside of literals blanked.
    pub(super) code: String,
    /// The text with everything but comments blanked.
    pub(super) comments: String,
    /// Offsets of the items under `#[cfg(test)]`.
    test_items: Vec<Range<usize>>,
}

impl Source {
    pub(super) fn parse(path: &str, text: String) -> Self {
        let (code, comments) = Lexer::new(&text).split();
        let test_items = test_items(&code);
        Self {
            path: path.to_owned(),
            text,
            code,
            comments,
            test_items,
        }
    }

    /// The line of an offset, from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1
    }

    /// True when the whole file is compiled only for tests.
    pub(super) fn is_test_file(&self) -> bool {
        let (folders, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        folders
            .split('/')
            .any(|folder| matches!(folder, "tests" | "benches") || folder.ends_with("_tests"))
            || matches!(name, "tests.rs" | "test_support.rs")
            || name.ends_with("_tests.rs")
    }

    /// True for code that no user runs: tests, what they share, examples, build scripts and this program.
    pub(super) fn is_outside_product(&self) -> bool {
        self.is_test_file()
            || self.path.starts_with("xtask/")
            || self.path.starts_with("crates/testkit/")
            || self.path.contains("/examples/")
            || self.path.ends_with("/build.rs")
    }

    pub(super) fn is_test(&self, offset: usize) -> bool {
        self.is_test_file() || self.test_items.iter().any(|item| item.contains(&offset))
    }

    /// Lines of the file without those of its `#[cfg(test)]` items.
    pub(super) fn lines_without_tests(&self) -> usize {
        let tests: usize = self
            .test_items
            .iter()
            .map(|item| self.text[item.clone()].lines().count())
            .sum();
        self.text.lines().count() - tests
    }
}

/// Offsets where `word` stands in `code` as a whole word (a trailing `*` matches any ending).
pub(super) fn occurrences(code: &str, word: &str) -> Vec<usize> {
    let (stem, any_ending) = word
        .strip_suffix('*')
        .map_or((word, false), |stem| (stem, true));
    let bytes = code.as_bytes();
    code.match_indices(stem)
        .map(|(offset, _)| offset)
        .filter(|&offset| offset == 0 || !is_word(bytes[offset - 1]))
        .filter(|&offset| {
            any_ending || !bytes.get(offset + stem.len()).copied().is_some_and(is_word)
        })
        .collect()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn test_items(code: &str) -> Vec<Range<usize>> {
    const ATTRIBUTES: [&str; 2] = ["#[cfg(test)]", "#[cfg(all(test,"];
    let mut items: Vec<Range<usize>> = Vec::new();
    let mut offset = 0;
    for line in code.split_inclusive('\n') {
        let start = offset;
        offset += line.len();
        let inside = items.last().is_some_and(|item| item.contains(&start));
        if !inside
            && ATTRIBUTES
                .iter()
                .any(|attribute| line.trim_start().starts_with(attribute))
        {
            items.push(start..item_end(code, start));
        }
    }
    items
}

/// The end of the item that starts at `start`: past its closing brace, or past its semicolon.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && byte == b'}' {
                    return offset + 1;
                }
            }
            b';' if depth == 0 => return offset + 1,
            _ => {}
        }
    }
    code.len()
}

struct Lexer<'text> {
    text: &'text [u8],
    at: usize,
    code: Vec<u8>,
    comments: Vec<u8>,
}

impl<'text> Lexer<'text> {
    fn new(text: &'text str) -> Self {
        let text = text.as_bytes();
        // Line ends stay in both, so that offsets and lines agree with the file.
        let blank: Vec<u8> = text
            .iter()
            .map(|byte| if *byte == b'\n' { b'\n' } else { b' ' })
            .collect();
        Self {
            text,
            at: 0,
            code: blank.clone(),
            comments: blank,
        }
    }

    fn split(mut self) -> (String, String) {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            if rest.starts_with(b"//") {
                let end = rest
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .unwrap_or(rest.len());
                self.comment(end);
            } else if rest.starts_with(b"/*") {
                self.comment(block_comment_len(rest));
            } else if let Some(len) = self.raw_string_len() {
                self.literal(len);
            } else if rest[0] == b'"' {
                self.literal(quoted_len(rest, b'"'));
            } else if rest[0] == b'\'' && is_character(rest) {
                self.literal(quoted_len(rest, b'\''));
            } else {
                self.code[self.at] = rest[0];
                self.at += 1;
            }
        }
        let whole = "only whole characters are blanked";
        (
            String::from_utf8(self.code).expect(whole),
            String::from_utf8(self.comments).expect(whole),
        )
    }

    fn comment(&mut self, len: usize) {
        let end = self.at + len;
        self.comments[self.at..end].copy_from_slice(&self.text[self.at..end]);
        self.at = end;
    }

    /// Keeps the delimiters, so that a literal still separates what stands around it.
    fn literal(&mut self, len: usize) {
        let end = self.at + len;
        self.code[self.at] = self.text[self.at];
        if self.text[end - 1].is_ascii() {
            self.code[end - 1] = self.text[end - 1];
        }
        self.at = end;
    }

    fn raw_string_len(&self) -> Option<usize> {
        let rest = &self.text[self.at..];
        if self.at > 0 && is_word(self.text[self.at - 1]) {
            return None;
        }
        let prefix = ["r", "br", "cr"].iter().find(|prefix| {
            let after = rest.get(prefix.len()).copied();
            rest.starts_with(prefix.as_bytes()) && matches!(after, Some(b'"' | b'#'))
        })?;
        let hashes = rest[prefix.len()..]
            .iter()
            .take_while(|byte| **byte == b'#')
            .count();
        let open = prefix.len() + hashes;
        if rest.get(open) != Some(&b'"') {
            return None; // A raw identifier.
        }
        let close: Vec<u8> = std::iter::once(b'"')
            .chain(std::iter::repeat_n(b'#', hashes))
            .collect();
        let body = &rest[open + 1..];
        let len = body.windows(close.len()).position(|window| window == close);
        Some(len.map_or(rest.len(), |len| open + 1 + len + close.len()))
    }
}

fn block_comment_len(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn quoted_len(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Tells a character from a lifetime: one character (or an escape) and a quote.
fn is_character(rest: &[u8]) -> bool {
    let Some(&first) = rest.get(1) else {
        return false;
    };
    let len = match first {
        b'\\' => return true,
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    };
    rest.get(1 + len) == Some(&b'\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(text: &str) -> String {
        Source::parse("crates/a/src/lib.rs", text.to_owned()).code
    }

    #[test]
    fn code_is_kept_without_comments_and_literals() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x \" y") + 1"#, r#"f("      ") + 1"#),
            (r##"f(r#"x " y"#) + 1"##, r##"f(r        #) + 1"##),
            ("f('\"', '\\'', 'é') + 1", "f(' ', '  ', '  ') + 1"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("r#type", "r#type"),
        ];
        for (text, code) in cases {
            assert_eq!(code_of(text), code, "{text}");
        }
    }

    #[test]
    fn unfinished_literals_and_comments_end_with_the_file() {
        for text in ["\"abc", "r#\"abc\"", "/* abc", "'", "b'\\", "\"é"] {
            assert_eq!(code_of(text).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn lines_of_test_items_do_not_count() {
        let text =
            "//! Doc.\nfn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { let s = \"}\"; }\n}\n";
        let source = Source::parse("crates/a/src/lib.rs", text.to_owned());
        assert_eq!(source.lines_without_tests(), 2);
        assert!(source.is_test(text.find("fn b").unwrap()));
        assert!(!source.is_test(text.find("fn a").unwrap()));
    }

    #[test]
    fn a_test_module_in_its_own_file_ends_at_the_semicolon() {
        let text = "#[cfg(test)]\nmod tests;\nfn a() {}\n";
        let source = Source::parse("crates/a/src/lib.rs", text.to_owned());
        assert_eq!(source.lines_without_tests(), 1);
    }

    #[test]
    fn occurrences_are_whole_words() {
        assert_eq!(occurrences("eprintln!(); println!()", "println!"), [13]);
        assert_eq!(occurrences("std::fs std::fsx", "std::fs"), [0]);
        assert_eq!(occurrences("env::vars() env::args()", "env::var*"), [0]);
    }
}
