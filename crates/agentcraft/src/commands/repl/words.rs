//! A typed line as words, the way a shell splits it: quotes, backslashes, nothing else.

/// The words of a line, or what is wrong with it.
pub(super) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some('\'') => break,
                        Some(inner) => word.push(inner),
                        None => return Err("a single quote is not closed"),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some('"') => break,
                        Some('\\') => match characters.next() {
                            Some(inner @ ('"' | '\\' | '$' | '`')) => word.push(inner),
                            Some(inner) => word.extend(['\\', inner]),
                            None => return Err("a double quote is not closed"),
                        },
                        Some(inner) => word.push(inner),
                        None => return Err("a double quote is not closed"),
                    }
                }
            }
            '\\' => match characters.next() {
                Some(inner) => word.get_or_insert_default().push(inner),
                None => return Err("the line ends with a backslash"),
            },
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_as_in_a_shell() {
        let cases: [(&str, &[&str]); 7] = [
            ("agent  list ", &["agent", "list"]),
            ("run -p 'two words'", &["run", "-p", "two words"]),
            (r#"a "b \"c\" $d" e"#, &["a", "b \"c\" $d", "e"]),
            (r"a\ b c", &["a b", "c"]),
            ("a'b'\"c\"", &["abc"]),
            ("''", &[""]),
            ("", &[]),
        ];
        for (line, words) in cases {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        for line in ["'a", "\"a", "a\\", "\"a\\"] {
            assert!(split(line).is_err(), "{line}");
        }
    }
}
