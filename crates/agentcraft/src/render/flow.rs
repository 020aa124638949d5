//! Words that flow onto a terminal as they come: wrapped at its width, toned, nothing ever taken back.

use unicode_width::UnicodeWidthChar;

use super::style::{Style, Tone};

/// A narrower terminal is written to as if it had this many columns.
const NARROWEST: usize = 20;

/// Text on its way to the terminal. The word that has begun is held back until it is known where it fits.
#[derive(Debug)]
pub(super) struct Flow {
    style: Style,
    width: usize,
    out: String,
    word: String,
    word_width: usize,
    /// Blanks before the word, which a line break swallows.
    blanks: usize,
    column: usize,
    tone: Tone,
    /// Begins every line that a wrap makes.
    hanging: String,
    hanging_width: usize,
}

impl Flow {
    pub(super) fn new(style: Style, width: usize) -> Self {
        Self {
            style,
            width: width.max(NARROWEST),
            out: String::new(),
            word: String::new(),
            word_width: 0,
            blanks: 0,
            column: 0,
            tone: Tone::Normal,
            hanging: String::new(),
            hanging_width: 0,
        }
    }

    pub(super) fn resize(&mut self, width: usize) {
        self.width = width.max(NARROWEST);
    }

    /// Everything from here on is of this tone.
    pub(super) fn tone(&mut self, tone: Tone) {
        if tone == self.tone || self.style == Style::Plain {
            return;
        }
        if self.tone != Tone::Normal {
            self.word.push_str("\x1b[0m");
        }
        if let Some(code) = tone.code() {
            self.word.push_str(&format!("\x1b[{code}m"));
        }
        self.tone = tone;
    }

    /// Writes the beginning of a line, which lines below it are indented to or repeat.
    pub(super) fn begin(&mut self, prefix: &str, width: usize, hanging: &str) {
        self.out.push_str(prefix);
        self.column += width;
        self.hanging = hanging.to_owned();
        self.hanging_width = width;
    }

    pub(super) fn push(&mut self, character: char) {
        if character == ' ' {
            self.place_word();
            self.blanks += 1;
            return;
        }
        let width = character.width().unwrap_or(0);
        // Scripts without blanks break between any two characters.
        if width > 1 {
            self.place_word();
        }
        self.word.push(character);
        self.word_width += width;
        if width > 1 {
            self.place_word();
        }
    }

    /// Writes a character where the line is, breaking only at the edge: for code.
    pub(super) fn push_exact(&mut self, character: char) {
        let width = character.width().unwrap_or(0);
        if self.column + width > self.width {
            self.wrap();
        }
        if !self.word.is_empty() {
            self.out.push_str(&std::mem::take(&mut self.word)); // A change of tone.
        }
        self.out.push(character);
        self.column += width;
    }

    pub(super) fn end_line(&mut self) {
        self.tone(Tone::Normal);
        self.place_word();
        self.out.push('\n');
        self.blanks = 0;
        self.column = 0;
        self.hanging.clear();
        self.hanging_width = 0;
    }

    /// Whether the terminal's cursor stands at the begin of a line.
    pub(super) fn at_start(&self) -> bool {
        self.column == 0 && self.word_width == 0
    }

    /// What may be written now. The word that has begun stays unless it has to be shown.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// As [`Flow::take`], with the word that has begun: the agent makes a pause.
    pub(super) fn take_all(&mut self) -> String {
        self.place_word();
        self.take()
    }

    fn place_word(&mut self) {
        if self.word_width == 0 {
            // Nothing but a change of tone.
            self.out.push_str(&std::mem::take(&mut self.word));
            return;
        }
        let fits = self.column + self.blanks + self.word_width <= self.width;
        if !fits && self.column > self.hanging_width {
            self.wrap();
        } else {
            self.out.extend(std::iter::repeat_n(' ', self.blanks));
            self.column += self.blanks;
        }
        self.blanks = 0;
        self.out.push_str(&std::mem::take(&mut self.word));
        self.column += std::mem::take(&mut self.word_width);
        if self.column > self.width {
            // A word wider than the terminal has been broken by it.
            self.column %= self.width;
        }
    }

    fn wrap(&mut self) {
        self.out.push('\n');
        self.out.push_str(&self.hanging);
        self.column = self.hanging_width;
    }
}
