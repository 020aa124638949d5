//! Ways to write a condition that the language has and its library here does not, put into those that it has.

/// Operators that may have a `not` before them.
const NEGATED: [&str; 5] = ["contains", "startsWith", "endsWith", "matches", "in"];

/// A piece of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Space(String),
    /// A text in quotes, as it is written.
    Quoted(String),
    Word(String),
    Sign(char),
}

/// `a not contains b` as `not (a contains b)`, and `a?.b` as `a.b`: a step that has not run has empty parts.
pub(super) fn ours(text: &str) -> String {
    let mut pieces = pieces(text);
    let mut at = 0;
    while at < pieces.len() {
        let Some(operator) = negated(&pieces, at) else {
            at += 1;
            continue;
        };
        let (begin, end) = (begin_of(&pieces, at), end_of(&pieces, operator + 1));
        pieces.splice(end..end, [Piece::Sign(')')]);
        pieces.remove(at);
        let apart = Piece::Space(" ".to_owned());
        let opening = [apart, Piece::Word("not".to_owned()), Piece::Sign('(')];
        pieces.splice(begin..begin, opening);
        at = operator + 3;
    }
    let written = pieces.into_iter().map(|piece| match piece {
        Piece::Space(text) | Piece::Quoted(text) | Piece::Word(text) => text,
        Piece::Sign(sign) => sign.to_string(),
    });
    written.collect()
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let after = rest[first.len_utf8()..].chars();
        let length = match first {
            '"' | '\'' | '`' => end_of_quotes(rest, first),
            '?' if rest[1..].starts_with('.')
                && after
                    .clone()
                    .nth(1)
                    .is_some_and(|next| is_word(next) && !next.is_numeric()) =>
            {
                rest = &rest[1..];
                continue;
            }
            _ if first.is_whitespace() => length_of(rest, char::is_whitespace),
            _ if is_word(first) => length_of(rest, is_word),
            _ => first.len_utf8(),
        };
        let (piece, next) = rest.split_at(length);
        let owned = piece.to_owned();
        pieces.push(match first {
            '"' | '\'' | '`' => Piece::Quoted(owned),
            _ if first.is_whitespace() => Piece::Space(owned),
            _ if is_word(first) => Piece::Word(owned),
            sign => Piece::Sign(sign),
        });
        rest = next;
    }
    pieces
}

fn length_of(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !belongs(letter)).unwrap_or(text.len())
}

fn end_of_quotes(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if quote != '`' => is_escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Where the operator is that the `not` at this place belongs to; nothing where it stands before an operand.
fn negated(pieces: &[Piece], at: usize) -> Option<usize> {
    let is_not = matches!(&pieces[at], Piece::Word(word) if word == "not");
    let before = pieces[..at].iter().rev().find(|piece| !is_space(piece));
    let follows_operand = matches!(
        before,
        Some(Piece::Word(_) | Piece::Quoted(_) | Piece::Sign(')' | ']'))
    ) && !before.is_some_and(is_boundary);
    let operator = at + 1 + pieces[at + 1..].iter().position(|piece| !is_space(piece))?;
    let is_operator =
        matches!(&pieces[operator], Piece::Word(word) if NEGATED.contains(&word.as_str()));
    (is_not && follows_operand && is_operator).then_some(operator)
}

fn is_space(piece: &Piece) -> bool {
    matches!(piece, Piece::Space(_))
}

/// Whether a comparison cannot go on over this.
fn is_boundary(piece: &Piece) -> bool {
    match piece {
        Piece::Word(word) => ["and", "or", "not", "if", "else", "let"].contains(&word.as_str()),
        Piece::Sign(sign) => "&|,?:;!".contains(*sign),
        Piece::Space(_) | Piece::Quoted(_) => false,
    }
}

fn begin_of(pieces: &[Piece], at: usize) -> usize {
    let mut depth = 0_usize;
    for begin in (0..at).rev() {
        match &pieces[begin] {
            Piece::Sign(')' | ']' | '}') => depth += 1,
            Piece::Sign('(' | '[' | '{') if depth == 0 => return begin + 1,
            Piece::Sign('(' | '[' | '{') => depth -= 1,
            piece if depth == 0 && is_boundary(piece) => return begin + 1,
            _ => {}
        }
    }
    0
}

fn end_of(pieces: &[Piece], from: usize) -> usize {
    let mut depth = 0_usize;
    for (end, piece) in pieces.iter().enumerate().skip(from) {
        match piece {
            Piece::Sign('(' | '[' | '{') => depth += 1,
            Piece::Sign(')' | ']' | '}') if depth == 0 => return end,
            Piece::Sign(')' | ']' | '}') => depth -= 1,
            piece if depth == 0 && is_boundary(piece) => return end,
            _ => {}
        }
    }
    pieces.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_lacks_is_written_in_its_words() {
        let check = |text: &str, wanted: &str| {
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(words(&ours(text)), wanted, "{text}");
        };
        check("a?.b.c == 1", "a.b.c == 1");
        check("a ? .5 : 1", "a ? .5 : 1");
        check(r#"a == "x?.y not in z""#, r#"a == "x?.y not in z""#);
        check("not (a contains b)", "not (a contains b)");
        check("not a", "not a");
        check(r#"a not contains "b""#, r#"not(a contains "b")"#);
        check(
            "x and (a.b not in [1, 2]) or not c",
            "x and ( not(a.b in [1, 2])) or not c",
        );
        check(
            "f(a, b) not startsWith c and d",
            "not(f(a, b) startsWith c )and d",
        );
    }
}
