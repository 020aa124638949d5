//! `{{variable}}` in the text of a prompt: finding and filling.

use std::collections::{BTreeMap, BTreeSet};

/// A name longer than this is prose between braces, not a variable.
const VARIABLE_MAX: usize = 128;

/// A part of a text: kept as it is, or to be filled.
enum Part<'a> {
    Text(&'a str),
    Placeholder { written: &'a str, variable: &'a str },
}

/// Fills what has a value and leaves the rest as it is. Values are not looked into again, so a value that holds
/// `{{x}}` stays just that.
pub(crate) fn render(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut rendered = String::with_capacity(text.len());
    for part in parts(text) {
        match part {
            Part::Text(text) => rendered.push_str(text),
            Part::Placeholder { written, variable } => {
                rendered.push_str(values.get(variable).map_or(written, String::as_str));
            }
        }
    }
    rendered
}

/// The variables of a text, each once, in the order they appear.
pub(crate) fn placeholders(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for part in parts(text) {
        if let Part::Placeholder { variable, .. } = part
            && seen.insert(variable)
        {
            found.push(variable);
        }
    }
    found
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut kept_from = 0;
    let mut search_from = 0;
    while let Some(offset) = text[search_from..].find("{{") {
        let open = search_from + offset;
        match placeholder_at(text, open) {
            Some((end, variable)) => {
                parts.push(Part::Text(&text[kept_from..open]));
                parts.push(Part::Placeholder {
                    written: &text[open..end],
                    variable,
                });
                kept_from = end;
                search_from = end;
            }
            // One brace further, so that `{{{x}}` still finds `{{x}}`.
            None => search_from = open + 1,
        }
    }
    parts.push(Part::Text(&text[kept_from..]));
    parts
}

/// The end of the placeholder that opens at `open`, and its variable.
fn placeholder_at(text: &str, open: usize) -> Option<(usize, &str)> {
    let inner = &text[open + 2..];
    let length = inner
        .bytes()
        .take(VARIABLE_MAX + 1)
        .position(|byte| matches!(byte, b'{' | b'}' | b'\n'))?;
    if !inner[length..].starts_with("}}") {
        return None;
    }
    let variable = inner[..length].trim();
    let is_variable = !variable.is_empty()
        && variable
            .chars()
            .all(|character| character.is_alphanumeric() || matches!(character, '_' | '-' | '.'));
    is_variable.then_some((open + 2 + length + 2, variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_variables_are_filled_and_everything_else_stays() {
        let values = BTreeMap::from([
            ("who".to_owned(), "Ada".to_owned()),
            ("nested".to_owned(), "{{who}}".to_owned()),
            ("größe".to_owned(), "XL".to_owned()),
        ]);
        let cases = [
            ("Hello {{who}}!", "Hello Ada!"),
            ("{{ who }}{{who}}", "AdaAda"),
            ("{{unknown}} {{who}}", "{{unknown}} Ada"),
            ("{{nested}}", "{{who}}"),
            ("{{größe}}", "XL"),
            ("{{{who}}}", "{Ada}"),
            ("{{who", "{{who"),
            ("{{}} {{ }} {who}", "{{}} {{ }} {who}"),
            ("{{a b}} {{who\n}}", "{{a b}} {{who\n}}"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(render(text, &values), expected, "{text}");
        }
    }

    #[test]
    fn placeholders_are_listed_once_in_order() {
        assert_eq!(
            placeholders("{{b}} {{a}} {{ b }} {{c.d}}"),
            ["b", "a", "c.d"]
        );
    }

    #[test]
    fn a_text_of_braces_takes_linear_time() {
        let braces = "{".repeat(1_000_000);
        assert_eq!(render(&braces, &BTreeMap::new()), braces);
    }
}
