//! What a computer tells of its configuration: everything but the secrets that somebody wrote into it.

use std::collections::BTreeMap;

use wire::smcp::{ConfigAnswer, Input, ServerConfig, Transport, has_placeholder};

/// Stands where a secret may have been.
const HIDDEN: &str = "***";

/// Words in the name of an argument whose value is a secret.
const SECRET_WORDS: [&str; 7] = [
    "token",
    "secret",
    "password",
    "passwd",
    "key",
    "auth",
    "credential",
];

/// The configuration as others may see it.
pub(crate) fn masked(mut config: ConfigAnswer) -> ConfigAnswer {
    for server in config.servers.values_mut() {
        mask(server);
    }
    for input in &mut config.inputs {
        if let Input::PromptString {
            default, password, ..
        } = input
            && *password == Some(true)
        {
            *default = None;
        }
    }
    config
}

fn mask(server: &mut ServerConfig) {
    match &mut server.transport {
        Transport::Stdio { args, env, .. } => {
            mask_values(env, "env");
            mask_arguments(args);
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
        if !has_placeholder(value) {
            *value = format!("${{{kind}:{key}}}");
        }
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

fn mask_arguments(args: &mut [String]) {
    let mut is_next = false;
    for argument in args {
        let was_next = std::mem::take(&mut is_next);
        if has_placeholder(argument) {
            continue;
        }
        if was_next && !argument.starts_with('-') {
            *argument = HIDDEN.to_owned();
            continue;
        }
        match argument.split_once('=') {
            Some((name, _)) if is_secret(name) => *argument = format!("{name}={HIDDEN}"),
            Some(_) => {}
            None => is_next = argument.starts_with('-') && is_secret(argument),
        }
        if argument.contains("://") {
            *argument = masked_url(argument);
        }
    }
}

/// An address without its user, and with the values of its query hidden.
fn masked_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
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
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let query = query.map(|query| {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((_, value)) if has_placeholder(value) => pair.to_owned(),
            Some((name, _)) => format!("{name}={HIDDEN}"),
            None => HIDDEN.to_owned(),
        });
        format!("?{}", pairs.collect::<Vec<_>>().join("&"))
    });
    format!(
        "{scheme}://{host}{path}{}{fragment}",
        query.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::smcp::Profile;

    use super::*;

    #[test]
    fn no_secret_of_a_configuration_is_told() {
        let (config, problems) = ConfigAnswer::from_value(&json!({
            "inputs": [{"type": "promptString", "id": "k", "default": "SECRET", "password": true}],
            "servers": {
                "a": {"type": "stdio", "command": "run", "env": {"KEY": "SECRET", "P": "${input:k}"},
                      "args": ["--token", "SECRET", "--api-key=SECRET", "--port", "80", "http://u:SECRET@h/x"]},
                "b": {"type": "http", "url": "https://u:SECRET@h:1/p?key=SECRET&k=${input:k}&SECRET#SECRET",
                      "headers": {"Authorization": "Bearer SECRET", "X": "Bearer ${env:T}"}},
                "c": {"type": "sse", "url": "https://h/SSE"},
            }
        }));
        assert!(problems.is_empty());
        let masked = masked(config);
        for profile in [Profile::Seed, Profile::Shipped] {
            let told = masked.to_value(profile).to_string();
            assert!(!told.contains("SECRET"), "{told}");
        }
        let told = masked.to_value(Profile::Shipped);
        let a = &told["servers"]["a"]["server_parameters"];
        assert_eq!(a["env"], json!({"KEY": "${env:KEY}", "P": "${input:k}"}));
        assert_eq!(
            a["args"],
            json!([
                "--token",
                "***",
                "--api-key=***",
                "--port",
                "80",
                "http://h/x"
            ])
        );
        let b = &told["servers"]["b"]["server_parameters"];
        assert_eq!(b["url"], "https://h:1/p?key=***&k=${input:k}&***#***");
        assert_eq!(
            b["headers"],
            json!({"Authorization": "${input:Authorization}", "X": "Bearer ${env:T}"})
        );
        assert_eq!(
            told["servers"]["c"]["server_parameters"]["url"],
            "https://h/SSE"
        );
    }
}
