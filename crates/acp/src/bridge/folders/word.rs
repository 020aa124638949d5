//! Words of a message as they stand there, escapes and all.

/// What may stand before a message: blanks, the marks of a batch, and what readers trim from a line without seeing it, such
/// as a byte order mark.
pub(super) fn is_before_a_message(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || byte.is_ascii_control()
        || !byte.is_ascii()
        || matches!(byte, b'[' | b',' | b']')
}

/// Whether the text between two quotes says `word`, escapes and all.
pub(super) fn means(text: &[u8], word: &str) -> bool {
    let mut text = text.iter().copied();
    let same = word
        .bytes()
        .all(|expected| letter(&mut text) == Some(expected));
    same && text.next().is_none()
}

/// The next letter, if it is one of ASCII: others are in no word that matters.
fn letter(text: &mut impl Iterator<Item = u8>) -> Option<u8> {
    match text.next()? {
        b'\\' => match text.next()? {
            b'u' => {
                let mut code = 0;
                for _ in 0..4 {
                    code = code * 16 + char::from(text.next()?).to_digit(16)?;
                }
                u8::try_from(code).ok().filter(u8::is_ascii)
            }
            plain @ (b'/' | b'\\' | b'"') => Some(plain),
            _ => None,
        },
        plain => Some(plain),
    }
}
