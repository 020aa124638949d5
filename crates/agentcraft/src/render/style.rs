//! Colours, and what may not reach a terminal.

use std::{borrow::Cow, fmt::Write};

/// Whether colours are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colors {
    OnTerminals,
    Never,
}

/// How one stream is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Colored,
}

/// What a piece of text means; the colour follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Normal,
    Strong,
    Faint,
    Good,
    Doubtful,
    Bad,
    /// Words of a program: code, commands.
    Code,
}

impl Tone {
    /// The tone of an agent's status.
    pub(crate) fn of_status(status: &str) -> Self {
        match status {
            "running" => Self::Good,
            "starting" | "stopping" => Self::Doubtful,
            "error" | "crashed" => Self::Bad,
            _ => Self::Normal,
        }
    }

    pub(super) fn code(self) -> Option<&'static str> {
        match self {
            Self::Normal => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Doubtful => Some("33"),
            Self::Bad => Some("31"),
            Self::Code => Some("36"),
        }
    }
}

impl Style {
    pub(crate) fn paint<'a>(self, tone: Tone, text: &'a str) -> Cow<'a, str> {
        match (self, tone.code()) {
            (Self::Colored, Some(code)) if !text.is_empty() => {
                Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m"))
            }
            _ => Cow::Borrowed(text),
        }
    }
}

/// A text of others made harmless for a terminal and fit for one line: control characters are written out.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, is_harmful)
}

/// As [`one_line`], but lines and tabs are kept.
pub(crate) fn many_lines(text: &str) -> Cow<'_, str> {
    escape(text, |character| {
        is_harmful(character) && !matches!(character, '\n' | '\t')
    })
}

/// Whether a character commands the terminal, or reorders what is read from it.
pub(super) fn is_harmful(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape(text: &str, is_harmful: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            // A line break in the middle of a line is only a space to a reader.
            '\n' | '\t' if is_harmful(character) => escaped.push(' '),
            _ if is_harmful(character) => {
                let _ = write!(escaped, "{}", character.escape_default()); // A string takes everything.
            }
            _ => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_never_reach_the_terminal() {
        assert_eq!(one_line("a\x1b[31mb\nc\u{9b}d"), "a\\u{1b}[31mb c\\u{9b}d");
        assert_eq!(many_lines("a\r\n\tb"), "a\\r\n\tb");
        assert!(matches!(one_line("plain – ünïcode"), Cow::Borrowed(_)));
    }

    #[test]
    fn plain_style_paints_nothing() {
        assert_eq!(Style::Plain.paint(Tone::Bad, "x"), "x");
        assert_eq!(Style::Colored.paint(Tone::Bad, "x"), "\x1b[31mx\x1b[0m");
        assert_eq!(Style::Colored.paint(Tone::Normal, "x"), "x");
    }
}
