//! The two streams of the process, and what is known of the terminal behind them.

use std::{
    fmt,
    io::{self, BufRead, IsTerminal, Write},
};

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use super::{
    Colors, Style, failure,
    style::{Tone, many_lines, one_line},
    table::Table,
};
use crate::{args::Format, error::CommandError};

/// Where a command prints. Answers go to stdout; everything else to stderr.
pub(crate) struct Screen {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    out_style: Style,
    err_style: Style,
    /// Columns of the terminal; none if stdout is not one, or one that does not say how wide it is.
    width: Option<usize>,
    out_is_terminal: bool,
    err_is_terminal: bool,
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen")
            .field("width", &self.width)
            .finish_non_exhaustive()
    }
}

impl Screen {
    /// The screen of this process.
    pub(crate) fn of_process(colors: Colors) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let style = |is_terminal| match (colors, is_terminal) {
            (Colors::OnTerminals, true) => Style::Colored,
            (Colors::OnTerminals, false) | (Colors::Never, _) => Style::Plain,
        };
        let width = terminal_size::terminal_size_of(&out).map(|(width, _)| usize::from(width.0));
        Self {
            out_style: style(out.is_terminal()),
            err_style: style(err.is_terminal()),
            width,
            out_is_terminal: out.is_terminal(),
            err_is_terminal: err.is_terminal(),
            out: Box::new(out),
            err: Box::new(err),
        }
    }

    /// How answers are styled.
    pub(crate) fn style(&self) -> Style {
        self.out_style
    }

    /// How everything but answers is styled.
    pub(crate) fn err_style(&self) -> Style {
        self.err_style
    }

    /// Columns of the terminal that answers go to, as it is now; none if it is none.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width?;
        let now = terminal_size::terminal_size_of(io::stdout());
        now.map(|(width, _)| usize::from(width.0)).or(self.width)
    }

    /// Columns of the terminal that everything else goes to.
    pub(crate) fn err_width(&self) -> Option<usize> {
        let now = terminal_size::terminal_size_of(io::stderr());
        let width = now.map(|(width, _)| usize::from(width.0));
        width.filter(|_| self.err_is_terminal)
    }

    /// Writes something that is no part of the answer, as it is.
    pub(crate) fn aside(&mut self, text: &str) -> io::Result<()> {
        self.err.write_all(text.as_bytes())?;
        self.err.flush()
    }

    /// Prints an answer, which ends with a line break.
    pub(crate) fn print(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Prints words of others: as they are for a program, with control characters written out on a terminal, whose width
    /// may not be known.
    pub(crate) fn words(&mut self, text: &str) -> io::Result<()> {
        match self.out_is_terminal {
            true => self.print(&many_lines(text)),
            false => self.print(text),
        }
    }

    /// Prints one line of an answer.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        self.print(&format!("{text}\n"))
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }

    /// Prints one line of JSON.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.line(&serde_json::to_string(value)?)
    }

    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.line(&serde_json::to_string_pretty(value)?)
    }

    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        self.print(&table.render(self.out_style, self.width))
    }

    /// Says something that is no part of the answer.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        // In one piece: what goes to the error stream is not collected.
        let line = format!("{}\n", folded(text, self.err_width()));
        self.err.write_all(line.as_bytes())
    }

    pub(crate) fn warning(&mut self, text: &str) -> io::Result<()> {
        let label = self.err_style.paint(Tone::Doubtful, "warning:");
        writeln!(self.err, "{label} {text}")
    }

    /// Says why a command failed. There is nobody left to tell if this fails too.
    pub(crate) fn failure(&mut self, error: &CommandError, format: Format) {
        let text = match (error, format) {
            (CommandError::Shown(_), _) => return,
            (CommandError::Print(error), _) if error.kind() == io::ErrorKind::BrokenPipe => return,
            (error, Format::Json) => failure::json(error),
            (error, Format::Table | Format::Quiet) => failure::text(error, self.err_style),
        };
        let _ = self.err.write_all(text.as_bytes());
    }

    /// Whether a person types lines and reads the answers.
    pub(crate) fn is_interactive(&self) -> bool {
        io::stdin().is_terminal() && self.out_is_terminal
    }

    /// Whether there is a person to ask.
    pub(crate) fn can_ask(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks for a line; nothing if there is no more to read.
    pub(crate) fn ask(&mut self, question: &str) -> io::Result<Option<String>> {
        write!(self.err, "{} ", one_line(question))?;
        self.err.flush()?;
        let mut answer = String::new();
        let count = io::stdin().lock().read_line(&mut answer)?;
        Ok((count > 0).then(|| answer.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// Asks a question that only `y` or `yes` agrees to.
    pub(crate) fn confirm(&mut self, question: &str) -> io::Result<bool> {
        write!(self.err, "{} [y/N] ", one_line(question))?;
        self.err.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }
}

/// Breaks lines between words where the terminal would break them anywhere.
fn folded(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return text.to_owned();
    };
    let mut folded = String::new();
    let mut column = 0;
    for piece in text.split_inclusive([' ', '\n']) {
        let word = piece.trim_end_matches([' ', '\n']);
        if column > 0 && column + word.width() > width {
            folded.truncate(folded.trim_end_matches(' ').len());
            folded.push('\n');
            column = 0;
        }
        folded.push_str(piece);
        column = match piece.ends_with('\n') {
            true => 0,
            false => column + piece.width(),
        };
    }
    folded
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn words_of_others_do_not_command_a_terminal_of_unknown_width_and_reach_programs_as_they_are() {
        let pieces = ["a\u{1b}", "[31m\u{9b}b\u{202e}\u{7}\r\n", "\tc"];
        for (is_terminal, expected) in [
            (
                true,
                "a\\u{1b}[31m\\u{9b}b\\u{202e}\\u{7}\\r\n\tc".to_owned(),
            ),
            (false, pieces.concat()),
        ] {
            let kept = Kept::default();
            let mut screen = Screen {
                out: Box::new(kept.clone()),
                err: Box::new(io::sink()),
                out_style: Style::Plain,
                err_style: Style::Plain,
                width: None,
                out_is_terminal: is_terminal,
                err_is_terminal: false,
            };
            for piece in pieces {
                screen.words(piece).unwrap();
            }
            assert_eq!(
                String::from_utf8(kept.0.lock().unwrap().clone()).unwrap(),
                expected
            );
        }
    }

    #[test]
    fn lines_are_broken_between_words_and_only_where_they_must_be() {
        let text = "go on with agentcraft, or\nleave";
        assert_eq!(folded(text, None), text);
        assert_eq!(folded(text, Some(80)), text);
        assert_eq!(folded(text, Some(12)), "go on with\nagentcraft,\nor\nleave");
        assert_eq!(folded("\nabcdefgh", Some(3)), "\nabcdefgh");
    }
}
