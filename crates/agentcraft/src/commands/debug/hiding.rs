//! What a bundle must not show: values with secret names, secrets inside texts, tokens of nodes, words of conversations.

mod text;

use serde_json::{Value, json};
use workflow::is_secret_name;

/// Parts of names whose values are secrets.
const SECRET: [&str; 5] = ["TOKEN", "SECRET", "PASSWORD", "KEY", "CREDENTIAL"];

/// What the owner answers once for all to what peers ask; it is often a secret, and never one by its name.
const ANSWER: &str = "answer";

/// What stands for a secret.
const HIDDEN: &str = "***";

/// What the tokens of nodes begin with, and how much must follow for it to be one.
const TOKEN: &str = "act_";
const TOKEN_LENGTH: usize = 32;

/// Whether a name speaks of a secret; `more` are parts of names that the node's owner has added.
pub(super) fn is_secret(name: &str, more: &[String]) -> bool {
    let name = name.trim().to_ascii_uppercase().replace('-', "_");
    is_secret_name(&name, more) || SECRET.iter().any(|part| name.contains(part))
}

/// A value with everything hidden that a name says is a secret, and with no words of a conversation.
pub(super) fn of_value(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, inner)| match name.as_str() {
                "env" | "backendConfig" | "title" | "metadata" => (name.clone(), json!(HIDDEN)),
                _ if is_secret(name, &[]) => (name.clone(), json!(HIDDEN)),
                _ => (name.clone(), of_value(inner)),
            })
            .collect(),
        Value::Array(items) => items.iter().map(of_value).collect(),
        Value::String(said) => json!(text::hide(said, &[], &mut Vec::new())),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Hides the secrets of settings at any depth, and gathers them.
pub(super) fn of_settings(table: &mut toml::Table, more: &[String], secrets: &mut Vec<String>) {
    for (name, value) in table {
        match value {
            toml::Value::Table(inner) => of_settings(inner, more, secrets),
            value if is_secret(name, more) || name == ANSWER => {
                let hidden = toml::Value::String(HIDDEN.to_owned());
                if let toml::Value::String(secret) = std::mem::replace(value, hidden) {
                    secrets.push(secret);
                }
            }
            value => of_setting(value, more, secrets),
        }
    }
}

fn of_setting(value: &mut toml::Value, more: &[String], secrets: &mut Vec<String>) {
    match value {
        toml::Value::Table(inner) => of_settings(inner, more, secrets),
        toml::Value::Array(items) => of_items(items, more, secrets),
        toml::Value::String(said) => *said = text::hide(said, more, secrets),
        toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_) => {}
    }
}

/// The words of a command: the one behind an option that speaks of a secret is one.
fn of_items(items: &mut [toml::Value], more: &[String], secrets: &mut Vec<String>) {
    let mut announced = false;
    for item in items {
        match item {
            toml::Value::String(said) if announced => {
                secrets.push(std::mem::replace(said, HIDDEN.to_owned()));
                announced = false;
            }
            toml::Value::String(said) => {
                announced = text::announces(said, more);
                *said = text::hide(said, more, secrets);
            }
            other => of_setting(other, more, secrets),
        }
    }
}

/// The text without the token of any node.
pub(super) fn without_tokens(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(TOKEN) {
        let (before, from) = rest.split_at(at);
        shown.push_str(before);
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        let end = from.find(|letter| !is_part(letter)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        shown.push_str(if word.len() > TOKEN_LENGTH {
            HIDDEN
        } else {
            word
        });
        rest = after;
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_speak_of_secrets_hide_their_values() {
        let shown = of_value(&json!({
            "name": "a", "apiKey": "1", "env": {"X": "2"},
            "inner": [{"access_token": "3", "status": "running"}],
        }));
        assert_eq!(
            shown,
            json!({
                "name": "a", "apiKey": "***", "env": "***",
                "inner": [{"access_token": "***", "status": "running"}],
            })
        );
    }

    #[test]
    fn settings_hide_secrets_at_any_depth_and_passwords_in_addresses() {
        let mut table: toml::Table = toml::from_str(
            r#"
            journal_days = 3
            my_pin = "1234-5678"
            [runs]
            s3 = { bucket = "a", secret_key = "inline-secret" }
            dropbox_uri = "smb://bob:hunter2@nas/share"
            history_from = ["http://u:h%40st@one/", "http://two:80/a@b"]
            [[lan.answers]]
            when = "the pin"
            answer = "an-owner's-word"
            [[permissions.rules]]
            words = ["--api-key", "behind-option", "--verbose", "plain"]
            "#,
        )
        .unwrap();
        let mut secrets = Vec::new();
        of_settings(&mut table, &["PIN".to_owned()], &mut secrets);
        secrets.sort();
        assert_eq!(
            secrets,
            [
                "1234-5678",
                "an-owner's-word",
                "behind-option",
                "h%40st",
                "hunter2",
                "inline-secret"
            ]
        );
        let shown = table.to_string();
        for secret in &secrets {
            assert!(!shown.contains(secret), "{shown}");
        }
        for kept in [
            "journal_days = 3",
            "smb://***@nas/share",
            "http://two:80/a@b",
            "plain",
        ] {
            assert!(shown.contains(kept), "{shown}");
        }
    }

    #[test]
    fn tokens_of_any_node_are_hidden_and_words_that_begin_alike_are_not() {
        let token = format!("act_{}", "aB3-_".repeat(9));
        assert_eq!(
            without_tokens(&format!("auth: {{\"token\":\"{token}\"}} act_now {token}")),
            "auth: {\"token\":\"***\"} act_now ***"
        );
    }
}
