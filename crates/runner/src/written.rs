//! What is written down of a prompt: values of inputs whose names say that they are secret are taken out of it.

/// What stands where a value was.
const HIDDEN: &str = "***";

/// The prompt without the values of secret inputs, wherever `NAME=value` stands in it. A quote that is not closed hides
/// everything after it.
pub(crate) fn without_secrets(prompt: &str, is_secret: impl Fn(&str) -> bool) -> String {
    let mut shown = String::with_capacity(prompt.len());
    let mut rest = prompt;
    while let Some((before, value)) = rest.split_once('=') {
        shown.push_str(before);
        shown.push('=');
        let is_named = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
        let name = &before[before.trim_end_matches(is_named).len()..];
        if is_secret(name) {
            let around = before[..before.len() - name.len()].chars().next_back();
            let length = value_len(value, around.filter(|letter| matches!(letter, '\'' | '"')));
            if length > 0 {
                shown.push_str(HIDDEN);
            }
            rest = &value[length..];
        } else {
            rest = value;
        }
    }
    shown.push_str(rest);
    shown
}

/// How long a value is that a text begins with, with its quotes; `open` is the quote that stands before its name.
fn value_len(text: &str, open: Option<char>) -> usize {
    let mut quote = open;
    let mut letters = text.char_indices();
    while let Some((place, letter)) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some('"') | None, '\\') => drop(letters.next()),
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, _) if letter.is_whitespace() => return place,
            (None, _) => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use workflow::{SECRET_NAMES, is_secret_name};

    use super::*;

    #[test]
    fn values_of_secret_inputs_are_hidden_however_they_are_written() {
        let cases = [
            (
                "/form API_KEY=sk-1 city=Rome",
                "/form API_KEY=*** city=Rome",
            ),
            (
                "/form API_KEY='sk 1' city='Rome'",
                "/form API_KEY=*** city='Rome'",
            ),
            (r"/form API_KEY='it'\''s it' a=b", "/form API_KEY=*** a=b"),
            (r#"/form API_KEY="a \" b" a=b"#, "/form API_KEY=*** a=b"),
            (r"/form API_KEY=a\ b a=b", "/form API_KEY=*** a=b"),
            ("/form --input API_KEY=sk-1", "/form --input API_KEY=***"),
            (
                "/form --input=API_KEY=sk=1 a=b",
                "/form --input=API_KEY=*** a=b",
            ),
            ("/form 'API_KEY=sk 1' a=b", "/form 'API_KEY=*** a=b"),
            ("/form a=b\tMY_TOKEN=1\nc=d", "/form a=b\tMY_TOKEN=***\nc=d"),
            ("/form API_KEY='never closed a=b", "/form API_KEY=***"),
            ("/form API_KEY= a=b", "/form API_KEY= a=b"),
            ("/form city=Rome x==y", "/form city=Rome x==y"),
            ("API_KEY=é", "API_KEY=***"),
            ("words = alone", "words = alone"),
            ("", ""),
        ];
        for (prompt, expected) in cases {
            let shown = without_secrets(prompt, |name| is_secret_name(name, &SECRET_NAMES));
            assert_eq!(shown, expected, "{prompt}");
        }
    }
}
