//! How a shell would cut a command: parts and the operators between them.
//!
//! This reads no more than rules need. It knows quotes, escapes, substitutions and comments; it expands nothing.

use std::ops::Range;

/// Whose quotes are meant. Only `$'…'` differs so much that one shell runs what another takes for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `$'…'` are quotes in which a backslash escapes.
    Bash,
    /// `$'…'` is a dollar and plain quotes.
    Posix,
}

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
    pub(super) dialect: Dialect,
    pub(super) parts: Vec<&'a str>,
    /// The parts with the space around them.
    pub(super) pieces: Vec<&'a str>,
    /// Where in each part a `$` begins `${`, `$[`, `$'` or `$"`, which can do more than name a variable: some shells run
    /// what a value holds, and shells differ about where such quotes end.
    pub(super) special: Vec<Vec<usize>>,
    pub(super) operators: Vec<Operator>,
    /// Whether all quotes and parentheses are closed.
    pub(super) closed: bool,
    /// Whether another dialect may cut it elsewhere.
    differs: bool,
}

/// Where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Quotes,
    Parentheses,
    Backticks,
}

/// Every way in which shells cut a command: one, or one for each dialect.
pub(super) fn cuts(text: &str) -> Vec<Cut<'_>> {
    let first = cut(text, Dialect::Bash);
    let second = first.differs.then(|| cut(text, Dialect::Posix));
    std::iter::once(first).chain(second).collect()
}

/// Cuts a command at the operators that a shell would act on.
fn cut(text: &str, dialect: Dialect) -> Cut<'_> {
    let mut cutter = Cutter {
        text,
        dialect,
        at: 0,
        from: 0,
        ranges: Vec::new(),
        special: Vec::new(),
        operators: Vec::new(),
        inside: Vec::new(),
        in_backticks: false,
        closed: true,
        differs: false,
    };
    while cutter.at < text.len() {
        cutter.step();
    }
    cutter.ranges.push(cutter.from..text.len());
    let pieces: Vec<&str> = (cutter.ranges.iter().cloned())
        .map(|range| &text[range])
        .collect();
    let mut special = cutter.special.into_iter().peekable();
    let mut special_of = |range: &Range<usize>| {
        let piece = &text[range.clone()];
        let start = range.end - piece.trim_start().len();
        let mut found = Vec::new();
        while let Some(at) = special.next_if(|at| *at < range.end) {
            found.push(at - start);
        }
        found
    };
    Cut {
        dialect,
        parts: pieces.iter().map(|piece| piece.trim()).collect(),
        pieces,
        special: cutter.ranges.iter().map(&mut special_of).collect(),
        operators: cutter.operators,
        closed: cutter.closed && cutter.inside.is_empty(),
        differs: cutter.differs,
    }
}

struct Cutter<'a> {
    text: &'a str,
    dialect: Dialect,
    at: usize,
    /// Where the part began.
    from: usize,
    ranges: Vec<Range<usize>>,
    special: Vec<usize>,
    operators: Vec<Operator>,
    inside: Vec<Inside>,
    in_backticks: bool,
    closed: bool,
    differs: bool,
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
            (b'$', Some(b'{' | b'[')) => {
                self.special.push(self.at);
                self.at += 2;
            }
            (b'`', _) => self.operator(Operator::Backtick, 1),
            _ if quoted => self.at += 1,
            (b'$', Some(next @ (b'\'' | b'"'))) => {
                self.special.push(self.at);
                self.differs = true;
                match (self.dialect, next) {
                    (Dialect::Bash, b'\'') => self.skip_quote(2, true),
                    (Dialect::Bash | Dialect::Posix, _) => self.at += 1,
                }
            }
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
            let cut = cut(text, Dialect::Bash);
            assert_eq!(cut.parts.join("·"), parts, "{text}");
            assert_eq!(cut.closed, closed, "{text}");
            assert_eq!(cut.parts.len(), cut.operators.len() + 1);
        }
    }

    #[test]
    fn quotes_that_only_some_shells_know_are_cut_both_ways() {
        let cuts = cuts(r"echo $'a\'; b; : '\'");
        let parts: Vec<String> = cuts.iter().map(|cut| cut.parts.join("·")).collect();
        assert_eq!(parts, [r"echo $'a\'; b; : '\'", r"echo $'a\'·b·: '\'"]);
        assert_eq!(cuts[1].special, [vec![5], vec![], vec![]]);
        assert!(cuts[1].closed);
        assert_eq!(super::cuts("grep 'a$' \"b$\"").len(), 1);
    }
}
