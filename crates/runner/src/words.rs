//! An editor's words: the blocks of its prompts.

use serde_json::Value;

/// The prompt as one text, or why it cannot be one.
///
/// A link is its path or address, put where it stood, so that `/review file=` followed by a mention is one input.
pub(crate) fn prompt(params: &str) -> Result<String, String> {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    let blocks = params["prompt"].as_array().cloned().unwrap_or_default();
    let mut text = String::new();
    let mut after_text = false;
    for block in &blocks {
        let member = |name: &str| block[name].as_str().unwrap_or_default();
        match member("type") {
            "text" => {
                if after_text {
                    text.push('\n');
                }
                text.push_str(member("text"));
                after_text = true;
            }
            "resource_link" => {
                if text.ends_with(|last: char| !last.is_whitespace() && last != '=') {
                    text.push(' ');
                }
                text.push_str(&place(member("uri")));
                after_text = false;
            }
            "image" | "audio" => {
                return Err(format!(
                    "USER.ACP.UNSUPPORTED_BLOCK: workflows take text and links to files; {} cannot be given to one.",
                    match member("type") {
                        "image" => "an image",
                        _ => "a sound",
                    }
                ));
            }
            "resource" => {
                return Err(
                    "USER.ACP.UNSUPPORTED_BLOCK: workflows take text and links to files; the content of a file cannot be \
                     given to one, mention the file instead."
                        .to_owned(),
                );
            }
            other => {
                return Err(format!(
                    "USER.ACP.UNSUPPORTED_BLOCK: a block of type {other:?} is not known here."
                ));
            }
        }
    }
    Ok(text)
}

/// The path of a file, the address of anything else; in quotes if it has spaces.
fn place(uri: &str) -> String {
    let place = match uri.strip_prefix("file://") {
        Some(path) => decoded(path),
        None => uri.to_owned(),
    };
    match place.contains(|letter: char| letter.is_whitespace() || letter == '"') {
        true => format!("'{}'", place.replace('\'', "'\\''")),
        false => place,
    }
}

fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(blocks: Value, expected: Result<&str, &str>) {
        let text = prompt(&json!({ "prompt": blocks }).to_string());
        match (&text, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected),
            (Err(words), Err(part)) => assert!(words.contains(part), "{words}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn text_and_links_are_one_text_and_the_rest_is_refused_in_words() {
        let text = |text: &str| json!({ "type": "text", "text": text });
        let link = |uri: &str| json!({ "type": "resource_link", "name": "x", "uri": uri });
        check(json!([text("/a b=1")]), Ok("/a b=1"));
        check(
            json!([text("/a f="), link("file:///x/y%20z"), text(" c=2")]),
            Ok("/a f='/x/y z' c=2"),
        );
        check(
            json!([text("/a"), link("https://e.x/")]),
            Ok("/a https://e.x/"),
        );
        check(json!([text("one"), text("two")]), Ok("one\ntwo"));
        check(json!([{ "type": "image", "data": "" }]), Err("an image"));
        check(json!([{ "type": "audio", "data": "" }]), Err("a sound"));
        check(json!([{ "type": "resource" }]), Err("mention the file"));
    }
}
