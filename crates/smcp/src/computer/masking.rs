//! What a computer tells of its configuration: names, flags, hosts and placeholders, and nothing that may be a secret.

use std::collections::BTreeMap;

use wire::smcp::{ConfigAnswer, Input, ServerConfig, Transport, has_placeholder};

/// Stands where a secret may have been.
const HIDDEN: &str = "***";

/// How a placeholder begins.
const PLACEHOLDERS: [&str; 2] = ["${input:", "${env:"];

/// The configuration as others may see it.
pub(crate) fn masked(mut config: ConfigAnswer) -> ConfigAnswer {
    for server in config.servers.values_mut() {
        mask(server);
    }
    for input in &mut config.inputs {
        match input {
            Input::PromptString {
                default, password, ..
            } if *password == Some(true) => *default = None,
            Input::PromptString { .. } | Input::PickString { .. } => {}
            Input::Command { command, args, .. } => {
                *command = HIDDEN.to_owned();
                *args = None;
            }
        }
    }
    config
}

fn mask(server: &mut ServerConfig) {
    match &mut server.transport {
        Transport::Stdio { args, env, .. } => {
            mask_values(env, "env");
            let told = args.iter().enumerate().map(|(at, text)| argument(at, text));
            *args = told.collect();
        }
        Transport::Streamable { url, headers } | Transport::Sse { url, headers } => {
            mask_values(headers, "input");
            *url = masked_url(url);
        }
    }
}

/// Whatever is in the environment or a header may be a secret; its name says enough.
fn mask_values(values: &mut BTreeMap<String, String>, kind: &str) {
    for (key, value) in values {
        *value = match has_placeholder(value) {
            true => veiled(value),
            false => format!("${{{kind}:{key}}}"),
        };
    }
}

/// The placeholders of a text; whatever stands around them is hidden.
fn veiled(text: &str) -> String {
    let mut told = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let starts = PLACEHOLDERS.iter().filter_map(|start| rest.find(start));
        let found = starts.min().and_then(|at| {
            let end = rest[at..].find('}')?;
            Some((at, at + end + 1))
        });
        let Some((start, end)) = found else {
            told.push_str(HIDDEN);
            break;
        };
        if start > 0 {
            told.push_str(HIDDEN);
        }
        told.push_str(&rest[start..end]);
        rest = &rest[end..];
    }
    told
}

/// Of arguments the flags are told, and a first one that is a plain word, such as the name of a program or a command.
fn argument(at: usize, text: &str) -> String {
    if let Some(name) = text.strip_prefix("--") {
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (name, None),
        };
        if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            let value = value.map(|value| format!("={}", veiled(value)));
            return format!("--{name}{}", value.unwrap_or_default());
        }
    }
    let is_short_flag = |text: &str| {
        let letter = text.strip_prefix('-').unwrap_or_default();
        letter.len() == 1 && letter.chars().all(|c| c.is_ascii_alphabetic())
    };
    // Keys of all kinds hold digits.
    let is_word = |c: char| c.is_ascii_alphabetic() || "@/._-".contains(c);
    if is_short_flag(text) || (at == 0 && text.chars().all(is_word)) {
        return text.to_owned();
    }
    match text.contains("://") {
        true => masked_url(text),
        false => veiled(text),
    }
}

/// Where an address leads: its host, and the names in its query. Many servers take their key as a part of the path.
fn masked_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return veiled(url);
    };
    let is_scheme = scheme.chars().all(|c| c.is_ascii_alphabetic());
    let (rest, fragment) = match rest.split_once('#') {
        Some((rest, _)) => (rest, "#***"),
        None => (rest, ""),
    };
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = match place.find('/') {
        Some(at) => place.split_at(at),
        None => (place, ""),
    };
    // Behind a password with a slash in it, the host is in what looks like the path.
    if !is_scheme || path.contains('@') {
        return veiled(url);
    }
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let path = match path.strip_prefix('/') {
        None | Some("") => path.to_owned(),
        Some(path) => format!("/{}", veiled(path)),
    };
    let query = query.map(|query| {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, value)) => format!("{name}={}", veiled(value)),
            None => veiled(pair),
        });
        format!("?{}", pairs.collect::<Vec<_>>().join("&"))
    });
    let query = query.unwrap_or_default();
    format!("{scheme}://{host}{path}{query}{fragment}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wire::smcp::Profile;

    use super::*;

    fn told(config: &Value) -> Value {
        let (config, problems) = ConfigAnswer::from_value(config);
        assert!(problems.is_empty());
        let masked = masked(config);
        for profile in [Profile::Seed, Profile::Shipped] {
            let told = masked.to_value(profile).to_string();
            assert!(!told.contains("SECRET"), "{told}");
        }
        masked.to_value(Profile::Shipped)
    }

    #[test]
    fn no_secret_of_a_configuration_is_told() {
        let told = told(&json!({
            "inputs": [{"type": "promptString", "id": "k", "default": "SECRET", "password": true},
                       {"type": "command", "id": "c", "command": "echo SECRET", "args": {"a": "SECRET"}}],
            "servers": {
                "a": {"type": "stdio", "command": "run", "env": {"KEY": "SECRET", "P": "${input:k}"},
                      "args": ["--token", "SECRET1", "--api-key=SECRET1", "--port", "80", "http://u:SECRET@h/x"]},
                "b": {"type": "http", "url": "https://u:SECRET@h:1/p?key=SECRET&k=${input:k}&SECRET#SECRET",
                      "headers": {"Authorization": "Bearer SECRET", "X": "Bearer ${env:T}"}},
                "c": {"type": "sse", "url": "https://h/SECRET"},
            }
        }));
        let a = &told["servers"]["a"]["server_parameters"];
        assert_eq!(a["env"], json!({"KEY": "${env:KEY}", "P": "${input:k}"}));
        assert_eq!(
            a["args"],
            json!([
                "--token",
                "***",
                "--api-key=***",
                "--port",
                "***",
                "http://h/***"
            ])
        );
        let b = &told["servers"]["b"]["server_parameters"];
        assert_eq!(b["url"], "https://h:1/***?key=***&k=${input:k}&***#***");
        assert_eq!(
            b["headers"],
            json!({"Authorization": "${input:Authorization}", "X": "***${env:T}"})
        );
        assert_eq!(
            told["servers"]["c"]["server_parameters"]["url"],
            "https://h/***"
        );
    }

    #[test]
    fn arguments_as_people_write_them_hide_what_they_hold() {
        let told = told(
            &json!({"servers": {"a": {"type": "stdio", "command": "npx", "args": [
                "mcp-remote", "https://mcp.zapier.com/api/mcp/s/SECRET/mcp",
                "--header", "Authorization: Bearer SECRET", "-e", "GITHUB_PAT=SECRET",
                "--header", "X-Api-Key: SECRET", "-p", "SECRET", "-pSECRET", "--SECRET:x=y", "SECRET9",
                "Cookie: sid=SECRET; u=${env:USER}", "${input:k}", "--to=x${input:k}",
                "http://u:pa/SECRET@h/", "SECRET http://h"
            ]}}}),
        );
        assert_eq!(
            told["servers"]["a"]["server_parameters"]["args"],
            json!([
                "mcp-remote",
                "https://mcp.zapier.com/***",
                "--header",
                "***",
                "-e",
                "***",
                "--header",
                "***",
                "-p",
                "***",
                "***",
                "***",
                "***",
                "***${env:USER}",
                "${input:k}",
                "--to=***${input:k}",
                "***",
                "***"
            ])
        );
    }
}
