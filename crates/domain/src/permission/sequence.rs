//! The commands of a cut text as a shell would run them: without redirections, and with each substitution in its place.
//!
//! A cut has a part at every operator, so `2>a rm b` and `rm $(a) b` are in pieces there; here they are whole again.

use super::shell::{Cut, Operator};

/// Stands where a redirection was until its target is taken out. In a command of somebody it would only make more
/// readings, as every text is also read as it was cut.
const REDIRECTION: char = '\u{1}';

/// Stands for what a substitution gives.
const SUBSTITUTED: &str = "$()";

/// Commands and the operators between them; there is one command more than there are operators.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) commands: Vec<String>,
    pub(super) operators: Vec<Operator>,
}

/// The sequences of a cut text: its own and those in parentheses and substitutions. None if the cut has them already.
pub(super) fn sequences(cut: &Cut<'_>) -> Vec<Sequence> {
    let plain = cut.operators.iter().all(|operator| match operator {
        Operator::Semicolon
        | Operator::Newline
        | Operator::Pipe
        | Operator::Ampersand
        | Operator::Comment => true,
        Operator::Into
        | Operator::From
        | Operator::Open
        | Operator::Close
        | Operator::Substitute
        | Operator::Backtick => false,
    });
    if plain {
        return Vec::new();
    }
    let mut assembly = Assembly {
        outer: Vec::new(),
        level: Level::new(Kind::Text),
        done: Vec::new(),
    };
    for (index, piece) in cut.pieces.iter().enumerate() {
        assembly.level.text.push_str(piece);
        let Some(operator) = cut.operators.get(index) else {
            break;
        };
        let touching = cut.pieces[index + 1].is_empty();
        let next = cut.operators.get(index + 1).filter(|_| touching);
        assembly.operator(*operator, next.copied());
    }
    while assembly.leave().is_some() {}
    assembly.done
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Parentheses,
    Substitution,
    Backticks,
}

/// What is read at one depth of parentheses.
struct Level {
    kind: Kind,
    /// The command that is being read.
    text: String,
    /// Where in it the last command began for shells that end one where others redirect.
    fork: usize,
    sequence: Sequence,
}

impl Level {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            text: String::new(),
            fork: 0,
            sequence: Sequence::default(),
        }
    }
}

struct Assembly {
    outer: Vec<Level>,
    level: Level,
    done: Vec<Sequence>,
}

impl Assembly {
    fn operator(&mut self, operator: Operator, next: Option<Operator>) {
        let redirecting = self.level.text.ends_with(REDIRECTION);
        match operator {
            Operator::Into | Operator::From if redirecting => {}
            Operator::Into | Operator::From => {
                drop_descriptor(&mut self.level.text, self.level.fork);
                self.level.text.push(REDIRECTION);
            }
            // `>&` and `>|`.
            Operator::Ampersand | Operator::Pipe if redirecting => {}
            // Some shells redirect at `&>`, for others the command ends before it.
            Operator::Ampersand if next == Some(Operator::Into) => {
                self.alone(self.level.text[self.level.fork..].to_owned());
                self.level.fork = self.level.text.len();
            }
            // `<(` and `>(`.
            Operator::Open if redirecting => {
                self.level.text.pop();
                self.enter(Kind::Substitution);
            }
            Operator::Substitute => self.enter(Kind::Substitution),
            Operator::Open => {
                self.end_command(operator);
                self.enter(Kind::Parentheses);
            }
            Operator::Close => match self.level.kind {
                Kind::Parentheses => drop(self.leave()),
                Kind::Substitution => self.substituted(),
                Kind::Text | Kind::Backticks => self.end_command(operator),
            },
            Operator::Backtick => {
                let open = |level: &Level| level.kind == Kind::Backticks;
                if open(&self.level) || self.outer.iter().any(open) {
                    while !open(&self.level) {
                        self.leave();
                    }
                    self.substituted();
                } else {
                    self.enter(Kind::Backticks);
                }
            }
            Operator::Semicolon
            | Operator::Newline
            | Operator::Pipe
            | Operator::Ampersand
            | Operator::Comment => self.end_command(operator),
        }
    }

    fn enter(&mut self, kind: Kind) {
        let outer = std::mem::replace(&mut self.level, Level::new(kind));
        self.outer.push(outer);
    }

    /// Ends the level; nothing if it was the last.
    fn leave(&mut self) -> Option<()> {
        self.take_command();
        let sequence = std::mem::take(&mut self.level.sequence);
        self.done.push(sequence);
        self.level = self.outer.pop()?;
        Some(())
    }

    fn substituted(&mut self) {
        self.leave();
        self.level.text.push_str(SUBSTITUTED);
    }

    fn end_command(&mut self, operator: Operator) {
        self.take_command();
        self.level.sequence.operators.push(operator);
    }

    fn take_command(&mut self) {
        let text = std::mem::take(&mut self.level.text);
        let fork = std::mem::take(&mut self.level.fork);
        if fork > 0 {
            self.alone(text[fork..].to_owned());
        }
        let command = without_redirections(&text);
        self.level.sequence.commands.push(command);
    }

    fn alone(&mut self, text: String) {
        self.done.push(Sequence {
            commands: vec![without_redirections(&text)],
            operators: Vec::new(),
        });
    }
}

/// Takes away the `2` of `2>` and the `{name}` of `{name}>`, if it stands after `from`.
fn drop_descriptor(text: &mut String, from: usize) {
    let word = text[from..]
        .rsplit(char::is_whitespace)
        .next()
        .unwrap_or_default();
    let name = word
        .strip_prefix('{')
        .and_then(|word| word.strip_suffix('}'));
    let named = name.is_some_and(|name| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    if named || word.bytes().all(|byte| byte.is_ascii_digit()) {
        text.truncate(text.len() - word.len());
    }
}

fn without_redirections(text: &str) -> String {
    let mut pieces = text.split(REDIRECTION);
    let mut command = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let piece = piece.trim_start();
        command.truncate(command.trim_end().len());
        command.push(' ');
        command.push_str(piece[word_end(piece)..].trim_start());
    }
    command.trim().to_owned()
}

/// Where the first word ends, which may have quotes.
fn word_end(text: &str) -> usize {
    let mut quote: Option<char> = None;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => drop(characters.next()),
            (None, '\'' | '"') => quote = Some(character),
            (None, _) if character.is_whitespace() => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::shell::cuts;

    #[test]
    fn commands_are_whole_without_redirections_and_substitutions() {
        let cases: [(&str, &[&str]); 20] = [
            ("a; b", &[]),
            ("2>/dev/null rm -r x", &["rm -r x"]),
            (">/dev/null rm x", &["rm x"]),
            ("ls; >&2 rm x", &["ls·rm x"]),
            ("rm>/dev/null -r x", &["rm -r x"]),
            ("a >> 'b c' d 2>&1 | e", &["a d·e"]),
            ("a {fd}<b c", &["a c"]),
            ("a >|b c", &["a c"]),
            ("a <<<b c", &["a c"]),
            ("rm $(ls; b) c", &["ls·b", "rm $() c"]),
            (r#"rm "$(ls)" c"#, &["ls", r#"rm "$()" c"#]),
            ("rm `ls` c", &["ls", "rm $() c"]),
            ("rm <(ls) c", &["ls", "rm $() c"]),
            (r#">"$(ls).log" rm c"#, &["ls", "rm c"]),
            ("a > >(tee b) c", &["tee b", "a c"]),
            ("a &>b c", &["a", "c", "a c"]),
            ("12&>b c", &["12", "c", "12 c"]),
            ("{a&>b}>c", &["{a", "", "{a"]),
            ("a &>b &>c d", &["a", "", "d", "a d"]),
            ("(a; b) | c", &["a·b", "··c"]),
        ];
        for (text, expected) in cases {
            let commands: Vec<String> = sequences(&cuts(text)[0])
                .iter()
                .map(|sequence| sequence.commands.join("·"))
                .collect();
            assert_eq!(commands, expected, "{text}");
        }
    }
}
