//! Secrets inside a text: who signs in at an address, values of parameters, headers and options that speak of a secret.

use super::{HIDDEN, is_secret};

/// Words of a header behind which a secret stands.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// Where a word ends; the parameters of an address are words.
fn is_border(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '?' | '&' | ';' | ',' | '"' | '\'' | '`' | '{' | '}')
}

/// The text without its secrets, which are gathered; `more` are parts of names that the node's owner has added.
pub(super) fn hide(text: &str, more: &[String], secrets: &mut Vec<String>) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut announced = false;
    for piece in text.split_inclusive(is_border) {
        let word = piece.trim_end_matches(is_border);
        let border = &piece[word.len()..];
        if word.is_empty() || is_scheme(word) {
            shown.push_str(piece);
            announced |= is_scheme(word);
            continue;
        }
        let kept = if announced { 0 } else { kept(word, more) };
        announced = announces(word, more);
        shown.push_str(&word[..kept]);
        if kept < word.len() {
            shown.push_str(HIDDEN);
            secrets.push(word[kept..].to_owned());
        }
        shown.push_str(border);
    }
    without_password(&shown, secrets)
}

/// Whether a secret is what comes behind this word: an option or the name of a header.
pub(super) fn announces(word: &str, more: &[String]) -> bool {
    let name = word
        .strip_suffix(':')
        .or_else(|| word.starts_with('-').then(|| word.trim_start_matches('-')));
    name.is_some_and(|name| !name.contains('=') && is_secret(name, more))
}

fn is_scheme(word: &str) -> bool {
    SCHEMES
        .iter()
        .any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// How much of a word may be shown: all of it, or what is before the value of a name that speaks of a secret.
fn kept(word: &str, more: &[String]) -> usize {
    let value = word.find('=').map(|at| (&word[..at], at + 1));
    match value {
        Some((name, from)) if is_secret(name.trim_start_matches('-'), more) => from,
        Some(_) | None => word.len(),
    }
}

/// Addresses without who signs in there.
fn without_password(text: &str, secrets: &mut Vec<String>) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, from) = rest.split_at(at + 3);
        shown.push_str(before);
        let end = from
            .find(|letter| is_border(letter) || matches!(letter, '/' | '#'))
            .unwrap_or(from.len());
        let user = from[..end].rsplit_once('@').map(|(user, _)| user);
        if let Some(user) = user {
            let password = user.split_once(':').map_or(user, |(_, password)| password);
            secrets.push(password.to_owned());
            shown.push_str(HIDDEN);
        }
        rest = &from[user.map_or(0, str::len)..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_or_an_address_makes_a_secret_is_hidden_and_the_rest_stays() {
        let cases = [
            (
                "plain words = 3, and a=b",
                "plain words = 3, and a=b",
                &[][..],
            ),
            (
                "https://n/a?x=1&api_key=k1#top",
                "https://n/a?x=1&api_key=***",
                &["k1#top"],
            ),
            (
                "see http://u:pw@n:80/a@b and ftp://me@f",
                "see http://***@n:80/a@b and ftp://***@f",
                &["pw", "me"],
            ),
            (
                "Authorization: Bearer abc.def",
                "Authorization: Bearer ***",
                &["abc.def"],
            ),
            (
                "X-Api-Key: k2, Accept: a",
                "X-Api-Key: ***, Accept: a",
                &["k2"],
            ),
            (
                "run --token k3 --deploy-secret=k4 x",
                "run --token *** --deploy-secret=*** x",
                &["k3", "k4"],
            ),
        ];
        for (text, shown, hidden) in cases {
            let mut secrets = Vec::new();
            assert_eq!(hide(text, &[], &mut secrets), shown);
            assert_eq!(secrets, hidden, "{text}");
        }
    }
}
