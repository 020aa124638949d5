//! How a shell would cut a command: parts and the operators between them, and the words of a part.
//!
//! This reads no more than rules need. It knows quotes, escapes, substitutions and comments; it expands nothing.

use std::ops::Range;

/// What stands between two parts. Operators of two characters are two operators with an empty part between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Semicolon,
    Newline,
    Pipe,
    Ampersand,
    Into,
    From,
    Open,
    Close,
    /// `$(`
    Substitute,
    Backtick,
    Comment,
}

/// A command cut at its operators; there is one part more than there are operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut<'a> {
    pub(super) parts: Vec<&'a str>,
    pub(super) operators: Vec<Operator>,
    /// Whether all quotes and parentheses are closed.
    pub(super) closed: bool,
    /// Whether there is a `${`, which can do more than name a variable: some shells run what a value holds.
    pub(super) expands: bool,
}

/// Where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Quotes,
    Parentheses,
    Backticks,
}

/// Cuts a command at the operators that a shell would act on.
pub(super) fn cut(text: &str) -> Cut<'_> {
    let mut cutter = Cutter {
        text,
        at: 0,
        from: 0,
        ranges: Vec::new(),
        operators: Vec::new(),
        inside: Vec::new(),
        in_backticks: false,
        closed: true,
        expands: false,
    };
    while cutter.at < text.len() {
        cutter.step();
    }
    cutter.ranges.push(cutter.from..text.len());
    Cut {
        parts: cutter
            .ranges
            .into_iter()
            .map(|range| text[range].trim())
            .collect(),
        operators: cutter.operators,
        closed: cutter.closed && cutter.inside.is_empty(),
        expands: cutter.expands,
    }
}

struct Cutter<'a> {
    text: &'a str,
    at: usize,
    /// Where the part began.
    from: usize,
    ranges: Vec<Range<usize>>,
    operators: Vec<Operator>,
    inside: Vec<Inside>,
    in_backticks: bool,
    closed: bool,
    expands: bool,
}

impl Cutter<'_> {
    // Every byte looked for is ASCII, and no part of another character looks like one.
    fn step(&mut self) {
        let bytes = self.text.as_bytes();
        let quoted = self.inside.last() == Some(&Inside::Quotes);
        let next = bytes.get(self.at + 1).copied();
        match (bytes[self.at], next) {
            (b'\\', _) => self.at = (self.at + 2).min(bytes.len()),
            (b'"', _) => {
                if quoted {
                    self.inside.pop();
                } else {
                    self.inside.push(Inside::Quotes);
                }
                self.at += 1;
            }
            (b'$', Some(b'(')) => self.operator(Operator::Substitute, 2),
            (b'$', Some(b'{')) => {
                self.expands = true;
                self.at += 2;
            }
            (b'`', _) => self.operator(Operator::Backtick, 1),
            _ if quoted => self.at += 1,
            (b'$', Some(b'\'')) => self.skip_quote(2, true),
            (b'\'', _) => self.skip_quote(1, false),
            (b';', _) => self.operator(Operator::Semicolon, 1),
            (b'\n', _) => self.operator(Operator::Newline, 1),
            (b'|', _) => self.operator(Operator::Pipe, 1),
            (b'&', _) => self.operator(Operator::Ampersand, 1),
            (b'>', _) => self.operator(Operator::Into, 1),
            (b'<', _) => self.operator(Operator::From, 1),
            (b'(', _) => self.operator(Operator::Open, 1),
            (b')', _) => self.operator(Operator::Close, 1),
            (b'#', _) if self.at_word() => {
                // What is in a comment does nothing, but a quote in it must not swallow the next line.
                self.operator(Operator::Comment, 1);
                let rest = &self.text[self.at..];
                self.at += rest.find('\n').unwrap_or(rest.len());
            }
            _ => self.at += 1,
        }
    }

    fn at_word(&self) -> bool {
        self.at == self.from || self.text.as_bytes()[self.at - 1].is_ascii_whitespace()
    }

    /// Quotes in which nothing is special, or only the backslash.
    fn skip_quote(&mut self, opening: usize, escapes: bool) {
        let bytes = self.text.as_bytes();
        self.at += opening;
        while self.at < bytes.len() {
            match bytes[self.at] {
                b'\'' => {
                    self.at += 1;
                    return;
                }
                b'\\' if escapes => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at = bytes.len();
        self.closed = false;
    }

    fn operator(&mut self, operator: Operator, length: usize) {
        self.ranges.push(self.from..self.at);
        self.operators.push(operator);
        self.at += length;
        self.from = self.at;
        match operator {
            Operator::Open | Operator::Substitute => self.inside.push(Inside::Parentheses),
            Operator::Close if self.inside.last() == Some(&Inside::Parentheses) => {
                self.inside.pop();
            }
            Operator::Close => self.closed = false,
            Operator::Backtick if self.in_backticks => {
                self.in_backticks = false;
                // The closing one ends whatever was left open within.
                while self
                    .inside
                    .pop()
                    .is_some_and(|left| left != Inside::Backticks)
                {
                    self.closed = false;
                }
            }
            Operator::Backtick => {
                self.in_backticks = true;
                self.inside.push(Inside::Backticks);
            }
            Operator::Semicolon
            | Operator::Newline
            | Operator::Pipe
            | Operator::Ampersand
            | Operator::Into
            | Operator::From
            | Operator::Comment => {}
        }
    }
}

/// The words of a part without their quotes; quotes that are not closed end with the part.
pub(super) fn words(part: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = part.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '$') if matches!(characters.peek(), Some('\'' | '"')) => {}
            (_, '\\') => match characters.next() {
                // A line that goes on.
                Some('\n') | None => {}
                Some(escaped) => word.get_or_insert_default().push(escaped),
            },
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// Words as one command whose words a shell reads as given.
pub(super) fn join(words: &[&str]) -> String {
    let plain = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&byte))
    };
    let quoted: Vec<String> = words
        .iter()
        .map(|word| match word {
            word if plain(word) => (*word).to_owned(),
            word => format!("'{}'", word.replace('\'', r"'\''")),
        })
        .collect();
    quoted.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_cut_where_a_shell_acts() {
        let cases = [
            ("git status", "git status", true),
            ("a; b|c & d", "a·b·c·d", true),
            ("a && b", "a··b", true),
            (
                r#"echo "a; b" 'c|d' e\;f"#,
                r#"echo "a; b" 'c|d' e\;f"#,
                true,
            ),
            (r#"echo "$(rm x)""#, r#"echo "·rm x·""#, true),
            ("echo `rm x`", "echo·rm x·", true),
            (r#"echo "`rm x`""#, r#"echo "·rm x·""#, true),
            ("echo '$(rm x) `y`'", "echo '$(rm x) `y`'", true),
            ("cat <(rm x) > y", "cat··rm x··y", true),
            ("(a)", "·a·", true),
            ("a # it's\nrm b #'", "a·it's·rm b·'", true),
            ("a#b", "a#b", true),
            (r"echo $'a\'; b'", r"echo $'a\'; b'", true),
            ("echo 'a", "echo 'a", false),
            ("echo \"a", "echo \"a", false),
            ("a)", "a·", false),
            ("$(a", "·a", false),
            ("a\\", "a\\", true),
            ("é;ü", "é·ü", true),
        ];
        for (text, parts, closed) in cases {
            let cut = cut(text);
            assert_eq!(cut.parts.join("·"), parts, "{text}");
            assert_eq!(cut.closed, closed, "{text}");
            assert_eq!(cut.parts.len(), cut.operators.len() + 1);
        }
    }

    #[test]
    fn words_lose_their_quotes_and_joined_words_keep_their_meaning() {
        assert_eq!(
            words(r#"r"m" -r\f  'a b' "" $'x'"#),
            ["rm", "-rf", "a b", "", "x"]
        );
        let given = ["echo", "it's", "a;b", "", "$(x)", "plain-1.txt"];
        let joined = join(&given);
        assert_eq!(words(&joined), given);
        assert_eq!(cut(&joined).parts.len(), 1);
    }
}
