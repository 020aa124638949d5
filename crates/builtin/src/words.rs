//! How a prompt is cut into a command and its words, with quotes.

/// What a prompt starts with, and everything after it as it was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// In lower case, without the slash.
    pub(crate) name: String,
    pub(crate) rest: &'a str,
    pub(crate) slash: bool,
}

impl<'a> Line<'a> {
    /// None if there is nothing to read.
    pub(crate) fn parse(text: &'a str) -> Option<Line<'a>> {
        let text = text.trim();
        let (slash, text) = match text.strip_prefix('/') {
            Some(text) => (true, text),
            None => (false, text),
        };
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        (!name.is_empty()).then(|| Line {
            name: name.to_lowercase(),
            rest: rest.trim(),
            slash,
        })
    }
}

/// The first word, without its quotes, and the text after it as it was written.
pub(crate) fn first(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let mut word = String::new();
    let mut quote = None;
    let mut letters = text.char_indices();
    while let Some((index, letter)) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            // Only in double quotes, where a quote itself must be writable.
            (Some('"'), '\\') => match letters.next() {
                Some((_, escaped @ ('"' | '\\'))) => word.push(escaped),
                Some((_, other)) => word.extend(['\\', other]),
                None => word.push('\\'),
            },
            (None, '"' | '\'') => quote = Some(letter),
            (None, letter) if letter.is_whitespace() => {
                return Some((word, text[index..].trim_start()));
            }
            (_, letter) => word.push(letter),
        }
    }
    (!text.is_empty()).then_some((word, ""))
}

/// All words, without their quotes.
pub(crate) fn all(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some((word, after)) = first(rest) {
        words.push(word);
        rest = after;
    }
    words
}

/// A text that is one quoted word without its quotes, any other as it is.
pub(crate) fn unquoted(text: &str) -> String {
    let text = text.trim();
    match first(text) {
        Some((word, "")) if text.starts_with(['"', '\'']) => word,
        _ => text.to_owned(),
    }
}

/// The beginning of a text that is too long, cut between two letters and marked.
pub(crate) fn shortened(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes_max)])
}

/// The text with `> ` before every line.
pub(crate) fn quoted(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
    lines.join("\n")
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_and_the_rest() {
        let check = |text, name: &str, rest: &str, slash| {
            let name = name.to_owned();
            assert_eq!(
                Line::parse(text),
                Some(Line { name, rest, slash }),
                "{text}"
            );
        };
        check("/List src", "list", "src", true);
        check("  help ", "help", "", false);
        check("/write a  b\n c ", "write", "a  b\n c", true);
        assert_eq!(Line::parse(" / "), None);
        assert_eq!(Line::parse(""), None);
    }

    #[test]
    fn quotes_hold_words_together() {
        let check = |text: &str, words: &[&str]| assert_eq!(all(text), words, "{text}");
        check("a  b", &["a", "b"]);
        check("'a b' c", &["a b", "c"]);
        check(r#""a \"b\"" 'c\d'"#, &[r#"a "b""#, r"c\d"]);
        check("a'b c'd", &["ab cd"]);
        check("'open end", &["open end"]);
        check("''", &[""]);
        check("", &[]);
    }

    #[test]
    fn only_a_text_that_is_wholly_quoted_loses_its_quotes() {
        assert_eq!(unquoted("'a b'"), "a b");
        assert_eq!(unquoted("'a' b"), "'a' b");
        assert_eq!(unquoted("it's fine"), "it's fine");
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        assert_eq!(shortened("äää", 3), "ä…");
        assert_eq!(shortened("abc", 3), "abc");
    }
}
