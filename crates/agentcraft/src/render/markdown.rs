//! Markdown as it streams in: headings, lists, quotes, code with a gutter, bold and inline code, on lines that wrap.
//!
//! Only the first characters of a line are held back, until it is known what the line is. Without colours the signs of
//! Markdown stay as they are, since nothing else would tell what they said.

use super::{
    flow::Flow,
    style::{Style, Tone, is_harmful},
    symbols::Symbols,
};

/// Columns of a tab in code.
const TAB: usize = 4;

/// A line indented deeper than this is shown as it is.
const INDENT_MAX: usize = 12;

#[derive(Debug)]
pub(super) struct Markdown {
    flow: Flow,
    style: Style,
    symbols: Symbols,
    dialect: Dialect,
    /// The begin of a line that may still become anything.
    held: String,
    line: Line,
    in_fence: bool,
    bold: bool,
    code: bool,
    /// Asterisks whose meaning the next character tells.
    stars: usize,
}

/// How much of Markdown is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Everything,
    /// Only words and lines.
    Verbatim,
    /// Only words and lines, all of them faint: what an agent thinks.
    Faint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Not known yet.
    Start,
    Prose(Tone),
    Code,
    /// The rest of a line that opens or closes code.
    Fence,
}

/// What the begin of a line says about it.
enum Begin {
    Open,
    Fence,
    Heading,
    /// Text after this many bytes, behind a bullet or a number.
    Item {
        at: usize,
    },
    Quote {
        at: usize,
    },
    Prose,
}

impl Markdown {
    pub(super) fn new(style: Style, symbols: Symbols, width: usize, dialect: Dialect) -> Self {
        Self {
            flow: Flow::new(style, width),
            style,
            symbols,
            dialect,
            held: String::new(),
            line: Line::Start,
            in_fence: false,
            bold: false,
            code: false,
            stars: 0,
        }
    }

    pub(super) fn resize(&mut self, width: usize) {
        self.flow.resize(width);
    }

    /// Takes a part of the text and gives what can be written of it.
    pub(super) fn push(&mut self, text: &str) -> String {
        for character in text.chars() {
            match character {
                '\r' => {}
                '\n' => self.end_line(),
                '\t' => (0..TAB).for_each(|_| self.character(' ')),
                _ if is_harmful(character) => character
                    .escape_default()
                    .for_each(|letter| self.character(letter)),
                _ => self.character(character),
            }
        }
        self.flow.take()
    }

    /// What is held back although nothing more may come for a while.
    pub(super) fn pause(&mut self) -> String {
        self.flow.take_all()
    }

    /// Ends the line that has begun, if one has, and everything that was open.
    pub(super) fn finish(&mut self) -> String {
        if self.line != Line::Start || !self.held.is_empty() || !self.flow.at_start() {
            self.end_line();
        }
        self.in_fence = false;
        self.flow.take()
    }

    fn character(&mut self, character: char) {
        match self.line {
            Line::Start => {
                self.held.push(character);
                self.decide();
            }
            Line::Prose(tone) => self.inline(character, tone),
            Line::Code => self.flow.push_exact(character),
            Line::Fence => self.held.push(character),
        }
    }

    /// Looks at the begin of the line, and writes it once it is known what it is.
    fn decide(&mut self) {
        let begin = match self.dialect {
            Dialect::Verbatim | Dialect::Faint => Begin::Prose,
            Dialect::Everything => begin(&self.held, self.in_fence),
        };
        let colored = self.style == Style::Colored;
        match begin {
            Begin::Open => {}
            Begin::Fence => self.line = Line::Fence,
            Begin::Prose if self.in_fence => self.start_code(),
            Begin::Prose => {
                let tone = match self.dialect {
                    Dialect::Everything | Dialect::Verbatim => Tone::Normal,
                    Dialect::Faint => Tone::Faint,
                };
                let held = std::mem::take(&mut self.held);
                self.start_prose(tone, &held);
            }
            Begin::Heading => {
                let held = std::mem::take(&mut self.held);
                self.start_prose(Tone::Strong, if colored { "" } else { &held });
            }
            Begin::Item { at } => {
                let held = std::mem::take(&mut self.held);
                let (mark, rest) = held.split_at(at);
                let trimmed = mark.trim_start();
                let indent = " ".repeat(mark.len() - trimmed.len());
                let mark = match trimmed.starts_with(['-', '*', '+']) {
                    true => format!("{indent}{} ", self.symbols.bullet),
                    false => mark.to_owned(),
                };
                let width = mark.chars().count();
                self.flow.begin(&mark, width, &" ".repeat(width));
                self.start_prose(Tone::Normal, rest);
            }
            Begin::Quote { at } => {
                let held = std::mem::take(&mut self.held);
                let gutter = self.gutter();
                self.flow.begin(&gutter, 2, &gutter);
                self.start_prose(Tone::Faint, &held[at..]);
            }
        }
    }

    fn start_prose(&mut self, tone: Tone, rest: &str) {
        self.line = Line::Prose(tone);
        self.flow.tone(tone);
        for character in rest.chars() {
            self.inline(character, tone);
        }
    }

    fn start_code(&mut self) {
        let gutter = self.gutter();
        self.flow.begin(&gutter, 2, &gutter);
        self.line = Line::Code;
        self.flow.tone(Tone::Code);
        for character in std::mem::take(&mut self.held).chars() {
            self.flow.push_exact(character);
        }
    }

    fn gutter(&self) -> String {
        format!("{} ", self.style.paint(Tone::Faint, self.symbols.gutter))
    }

    fn inline(&mut self, character: char, base: Tone) {
        if self.dialect != Dialect::Everything || self.style == Style::Plain {
            return self.flow.push(character);
        }
        if character == '*' && !self.code {
            self.stars += 1;
            return;
        }
        self.settle_stars(Some(character), base);
        if character == '`' {
            self.code = !self.code;
            self.flow.tone(self.inline_tone(base));
        } else {
            self.flow.push(character);
        }
    }

    /// Two asterisks open or close bold text where they touch a word; all others are themselves.
    fn settle_stars(&mut self, next: Option<char>, base: Tone) {
        let stars = std::mem::take(&mut self.stars);
        let opens = !self.bold && next.is_some_and(|next| !next.is_whitespace());
        if stars == 2 && (self.bold || opens) {
            self.bold = !self.bold;
            self.flow.tone(self.inline_tone(base));
        } else {
            (0..stars).for_each(|_| self.flow.push('*'));
        }
    }

    fn inline_tone(&self, base: Tone) -> Tone {
        match (self.code, self.bold) {
            (true, _) => Tone::Code,
            (false, true) => Tone::Strong,
            (false, false) => base,
        }
    }

    fn end_line(&mut self) {
        match self.line {
            Line::Start => self.end_short_line(),
            Line::Prose(tone) => self.settle_stars(None, tone),
            Line::Code => {}
            Line::Fence => self.toggle_fence(),
        }
        let silent = self.line == Line::Fence && self.style == Style::Colored;
        (self.bold, self.code, self.line) = (false, false, Line::Start);
        if !silent {
            self.flow.end_line();
        }
    }

    /// A line that ended before it was known what it is.
    fn end_short_line(&mut self) {
        match self.in_fence {
            true => self.start_code(),
            false => {
                let held = std::mem::take(&mut self.held);
                if !held.trim().is_empty() {
                    self.start_prose(Tone::Normal, &held);
                    self.settle_stars(None, Tone::Normal);
                }
            }
        }
    }

    fn toggle_fence(&mut self) {
        self.in_fence = !self.in_fence;
        let held = std::mem::take(&mut self.held);
        if self.style == Style::Plain {
            held.chars()
                .for_each(|character| self.flow.push_exact(character));
        }
    }
}

fn begin(held: &str, in_fence: bool) -> Begin {
    let text = held.trim_start_matches(' ');
    let indent = held.len() - text.len();
    if indent > INDENT_MAX {
        return Begin::Prose;
    }
    if text.starts_with("```") {
        return Begin::Fence;
    }
    if "```".starts_with(text) {
        return Begin::Open;
    }
    if in_fence {
        return Begin::Prose;
    }
    let signs = text.trim_start_matches('#');
    match (text.len() - signs.len(), signs) {
        (1..=6, "") => return Begin::Open,
        (1..=6, signs) if signs.starts_with(' ') => return Begin::Heading,
        _ => {}
    }
    if let Some(rest) = text.strip_prefix('>') {
        return match rest {
            "" => Begin::Open,
            rest => Begin::Quote {
                at: indent + 1 + usize::from(rest.starts_with(' ')),
            },
        };
    }
    let number = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let digits = text.len() - number.len();
    let mark = match digits {
        0 => number.strip_prefix(['-', '*', '+']),
        1..=3 => number.strip_prefix(['.', ')']),
        _ => None,
    };
    match mark {
        Some("") => Begin::Open,
        Some(rest) if rest.starts_with(' ') => Begin::Item {
            at: held.len() - rest.len() + 1,
        },
        None if (1..=3).contains(&digits) && number.is_empty() => Begin::Open,
        Some(_) | None => Begin::Prose,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\n\nSome **bold** words, `code` and 2 ** 3.\n\n- first item that is long enough to wrap\n1. one\n> quoted\n```rust\nlet x = 1;\n```\nend";

    fn render(style: Style, width: usize, parts: impl Iterator<Item = String>) -> String {
        let mut markdown = Markdown::new(style, Symbols::UNICODE, width, Dialect::Everything);
        let mut text = String::new();
        for part in parts {
            text.push_str(&markdown.push(&part));
        }
        text + &markdown.finish()
    }

    fn whole(style: Style, width: usize, text: &str) -> String {
        render(style, width, std::iter::once(text.to_owned()))
    }

    #[test]
    fn blocks_and_words_get_their_look() {
        assert_eq!(
            whole(Style::Colored, 40, TEXT),
            "\x1b[1mTitle\x1b[0m\n\nSome \x1b[1mbold\x1b[0m words, \x1b[36mcode\x1b[0m and 2 ** 3.\n\n\
             • first item that is long enough to wrap\n1. one\n\x1b[2m│\x1b[0m \x1b[2mquoted\x1b[0m\n\
             \x1b[2m│\x1b[0m \x1b[36mlet x = 1;\x1b[0m\nend\n"
        );
    }

    #[test]
    fn without_colours_the_signs_stay() {
        assert_eq!(
            whole(Style::Plain, 60, "# A\n**b** `c`\n```\nx\n```\n"),
            "# A\n**b** `c`\n```\n│ x\n```\n"
        );
    }

    #[test]
    fn chunks_of_any_size_give_the_same_text() {
        for style in [Style::Plain, Style::Colored] {
            let letters = TEXT.chars().map(String::from);
            assert_eq!(render(style, 30, letters), whole(style, 30, TEXT));
        }
    }

    #[test]
    fn lines_wrap_at_words_and_hang_below_their_mark() {
        assert_eq!(
            whole(
                Style::Plain,
                24,
                "- first item that is long enough\n12. another one that is long"
            ),
            "• first item that is\n  long enough\n12. another one that is\n    long\n"
        );
        assert_eq!(
            whole(Style::Plain, 20, "```\nabcdefghijklmnopqrstuvwxyz\n```"),
            "```\n│ abcdefghijklmnopqr\n│ stuvwxyz\n```\n"
        );
        assert_eq!(
            whole(Style::Plain, 20, "项目项目项目项目项目项目"),
            "项目项目项目项目项目\n项目\n"
        );
    }

    #[test]
    fn a_line_is_shown_before_it_ends() {
        let mut markdown = Markdown::new(Style::Plain, Symbols::ASCII, 80, Dialect::Everything);
        assert_eq!(markdown.push("Hello wor"), "Hello");
        assert_eq!(markdown.pause(), " wor");
        assert_eq!(markdown.push("ld, and "), "ld, and");
        assert_eq!(markdown.finish(), "\n");
    }

    #[test]
    fn no_escape_sequence_passes() {
        let text = whole(Style::Plain, 80, "a\x1b[31mb\u{9b}c\u{202e}d\x07\r\n");
        assert_eq!(text, "a\\u{1b}[31mb\\u{9b}c\\u{202e}d\\u{7}\n");
    }
}
