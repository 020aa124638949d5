//! The words of a part of a command, without their quotes, and words made a command again.

use std::{iter::Peekable, str::Chars};

use super::shell::Dialect;

/// The words of a part without their quotes; quotes that are not closed end with the part.
pub(super) fn words(part: &str, dialect: Dialect) -> Vec<String> {
    let bash = dialect == Dialect::Bash;
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
            (None, '$') if bash && characters.next_if_eq(&'\'').is_some() => {
                escaped_quotes(&mut characters, word.get_or_insert_default());
            }
            (None, '$') if bash && characters.peek() == Some(&'"') => {}
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

/// What is within `$'…'`, up to its end.
fn escaped_quotes(characters: &mut Peekable<Chars<'_>>, word: &mut String) {
    while let Some(character) = characters.next() {
        match character {
            '\'' => return,
            '\\' => match characters.next() {
                Some('n') => word.push('\n'),
                Some('t') => word.push('\t'),
                Some('x') => word.extend(code(characters, 16, 2, 0)),
                Some('u') => word.extend(code(characters, 16, 4, 0)),
                Some('U') => word.extend(code(characters, 16, 8, 0)),
                Some(digit @ '0'..='7') => {
                    let first = digit.to_digit(8).unwrap_or_default();
                    word.extend(code(characters, 8, 2, first));
                }
                Some(other) => word.push(other),
                None => return,
            },
            _ => word.push(character),
        }
    }
}

/// The character with the number that at most `most` digits write, after what the first of them gave.
fn code(characters: &mut Peekable<Chars<'_>>, radix: u32, most: usize, first: u32) -> Option<char> {
    let mut number = first;
    for _ in 0..most {
        let Some(digit) = characters.peek().and_then(|digit| digit.to_digit(radix)) else {
            break;
        };
        characters.next();
        number = number.wrapping_mul(radix).wrapping_add(digit);
    }
    char::from_u32(number)
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
    fn words_lose_their_quotes_and_joined_words_keep_their_meaning() {
        assert_eq!(
            words(r#"r"m" -r\f  'a b' "" $'x' $"y""#, Dialect::Bash),
            ["rm", "-rf", "a b", "", "x", "y"]
        );
        let given = ["echo", "it's", "a;b", "", "$(x)", "plain-1.txt"];
        let joined = join(&given);
        assert_eq!(words(&joined, Dialect::Bash), given);
        assert_eq!(super::super::shell::cuts(&joined)[0].parts.len(), 1);
    }

    #[test]
    fn quotes_with_escapes_are_read_as_each_shell_does() {
        let text = r"$'\162\x6d\u20\'a' b";
        assert_eq!(words(text, Dialect::Bash), ["rm 'a", "b"]);
        assert_eq!(words(r"$'a\' b", Dialect::Posix), [r"$a\", "b"]);
    }
}
