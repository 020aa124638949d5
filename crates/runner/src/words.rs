//! An editor's words: the blocks of its prompts, and the MCP servers it brings along.

use catalog::McpServer;
use domain::Name;
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

/// The servers of the request that opened a conversation, and words about those that cannot be used.
pub(crate) fn servers(params: &str) -> (Vec<McpServer>, Vec<String>) {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    let brought = params["mcpServers"].as_array().cloned().unwrap_or_default();
    let (mut servers, mut left_out) = (Vec::new(), Vec::new());
    for server in &brought {
        let name = server["name"].as_str().unwrap_or_default();
        match (Name::parse(name), server["command"].as_str()) {
            (Ok(name), Some(command)) => servers.push(McpServer {
                name,
                description: None,
                command: command.to_owned(),
                args: texts(&server["args"]),
                env: pairs(&server["env"]),
            }),
            (Err(_), _) => left_out.push(format!(
                "the MCP server {name:?} of the editor is left out: that is no name here"
            )),
            (Ok(name), None) => left_out.push(format!(
                "the MCP server {name} of the editor is left out: steps are given servers that are programs"
            )),
        }
    }
    (servers, left_out)
}

/// Both lists in one; who comes later wins over an earlier one of the same name.
pub(crate) fn merged(first: Vec<McpServer>, second: Vec<McpServer>) -> Vec<McpServer> {
    let kept = first
        .into_iter()
        .filter(|server| !second.iter().any(|other| other.name == server.name));
    kept.collect::<Vec<_>>()
        .into_iter()
        .chain(second.clone())
        .collect()
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn pairs(list: &Value) -> std::collections::BTreeMap<String, String> {
    let items = list.as_array().into_iter().flatten();
    items
        .filter_map(|item| {
            let text = |key: &str| item[key].as_str().map(str::to_owned);
            Some((text("name")?, text("value")?))
        })
        .collect()
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

    #[test]
    fn the_editors_server_wins_over_one_of_the_same_name() {
        let params = json!({ "mcpServers": [
            { "name": "files", "command": "/bin/b", "args": ["-x"], "env": [{ "name": "K", "value": "V" }] },
            { "type": "http", "name": "far", "url": "http://x" },
            { "name": "../evil", "command": "c" },
        ]});
        let (servers, left_out) = servers(&params.to_string());
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        let own = |name: &str, command: &str| McpServer {
            name: Name::parse(name).unwrap(),
            description: None,
            command: command.to_owned(),
            args: Vec::new(),
            env: Default::default(),
        };
        let all = merged(vec![own("files", "/bin/a"), own("git", "g")], servers);
        let commands: Vec<&str> = all.iter().map(|server| server.command.as_str()).collect();
        assert_eq!(commands, ["g", "/bin/b"]);
        assert_eq!(all[1].env["K"], "V");
    }
}
