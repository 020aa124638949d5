//! `agentcraft debug bundle`: one readable file for a report of trouble, without secrets and without conversations.

use std::fmt::Write as _;

use platform::files::{self, Durability, Mode, write_atomic};
use serde_json::{Value, json};
use wire::daemon::{JournalLine, JournalParams};
use workflow::{Mask, is_secret_name};

use super::doctor;
use crate::{
    args::{BundleArgs, DebugCommand},
    config::Config,
    connection::{Connection, VERSION},
    error::CommandError,
    render::Screen,
};

/// The end of the log tells what happened last.
const LOG_BYTES: usize = 256 * 1024;

/// The largest log that is looked at.
const LOG_MAX: u64 = 256 * 1024 * 1024;

/// The largest file of settings.
const SETTINGS_MAX: u64 = 1024 * 1024;

/// Lines of the journal: what happened, not what was said.
const JOURNAL_LINES: u32 = 500;

/// Parts of names whose values are secrets.
const SECRET: [&str; 5] = ["TOKEN", "SECRET", "PASSWORD", "KEY", "CREDENTIAL"];

/// What stands for a secret.
const HIDDEN: &str = "***";

pub(super) fn run(
    command: DebugCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let DebugCommand::Bundle(BundleArgs { output }) = command;
    if files::is_there(&output) {
        return Err(CommandError::Refused {
            message: format!("{} is there already", output.display()),
            hint: "name another file with --output".to_owned(),
        });
    }
    let text = mask(config).text(&bundle(config)?);
    write_atomic(
        &output,
        text.as_bytes(),
        Mode::PRIVATE,
        Durability::default(),
    )
    .map_err(|error| CommandError::machine("write the bundle", error))?;
    screen.line(&format!("wrote {}", output.display()))?;
    Ok(screen.note("look through it before you send it to anybody")?)
}

fn bundle(config: &Config) -> Result<String, CommandError> {
    let mut text = format!("# agentcraft {VERSION}\n");
    section(&mut text, "Machine", "text", &machine(config));
    let findings = doctor::findings(config)?;
    section(&mut text, "Doctor", "json", &pretty(&json!(findings)));
    section(&mut text, "Settings", "toml", &settings(config));
    match Connection::open_if_running(config)? {
        None => section(&mut text, "Daemon", "text", "does not run"),
        Some(mut daemon) => {
            for (title, method) in [
                ("Daemon", "daemon.ping"),
                ("Agents", "agent.list"),
                ("Sessions", "session.list"),
                ("Problems of templates", "template.problems"),
            ] {
                let told: Value = daemon.call(method, &json!({}))?;
                section(&mut text, title, "json", &pretty(&hidden(&told)));
            }
            section(&mut text, "Journal", "text", &journal(&mut daemon)?);
        }
    }
    section(&mut text, "Log", "text", &log(config));
    Ok(text)
}

fn section(text: &mut String, title: &str, kind: &str, body: &str) {
    // A fence that nothing inside can close.
    let fence = "`".repeat(if body.contains("```") { 8 } else { 3 });
    let _ = write!(
        text,
        "\n## {title}\n\n{fence}{kind}\n{}\n{fence}\n",
        body.trim_end()
    );
}

fn machine(config: &Config) -> String {
    let names: Vec<_> = config
        .environment
        .keys()
        .map(|name| name.to_string_lossy())
        .collect();
    format!(
        "system: {} {}\nhome: {}\nvariables that are set: {}",
        std::env::consts::OS,
        std::env::consts::ARCH,
        config.home.display(),
        names.join(" ")
    )
}

/// The settings with every value hidden whose name speaks of a secret.
fn settings(config: &Config) -> String {
    let path = config.home.join("config.toml");
    let bytes = files::read_bounded(&path, SETTINGS_MAX).unwrap_or_default();
    let lines = String::from_utf8_lossy(&bytes);
    let shown = lines.lines().map(|line| match line.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{}= {HIDDEN}", name),
        _ => line.to_owned(),
    });
    shown.collect::<Vec<_>>().join("\n")
}

fn is_secret(name: &str) -> bool {
    let name = name.trim().to_ascii_uppercase().replace('-', "_");
    is_secret_name(&name, &SECRET) || SECRET.iter().any(|part| name.contains(part))
}

/// A value with everything hidden that a name says is a secret, and with no words of a conversation.
fn hidden(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, inner)| match name.as_str() {
                "env" | "backendConfig" | "title" | "metadata" => (name.clone(), json!(HIDDEN)),
                _ if is_secret(name) => (name.clone(), json!(HIDDEN)),
                _ => (name.clone(), hidden(inner)),
            })
            .collect(),
        Value::Array(items) => items.iter().map(hidden).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn journal(daemon: &mut Connection) -> Result<String, CommandError> {
    let params = JournalParams {
        limit: Some(JOURNAL_LINES),
        ..JournalParams::default()
    };
    let lines: Vec<JournalLine> = daemon.call("journal.query", &params)?;
    let shown = lines.iter().map(|line| {
        let line = json!(line);
        let field = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
        format!(
            "{} {} {} {}",
            field("at"),
            field("kind"),
            field("agent"),
            field("session")
        )
    });
    Ok(shown.collect::<Vec<_>>().join("\n"))
}

fn log(config: &Config) -> String {
    let bytes = files::read_bounded(&config.log_file, LOG_MAX).unwrap_or_default();
    let from = bytes.len().saturating_sub(LOG_BYTES);
    String::from_utf8_lossy(&bytes[from..]).into_owned()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Values that must not be in it, wherever they might turn up: variables with secret names, and the node's own token.
fn mask(config: &Config) -> Mask {
    let variables = config.environment.iter();
    let secret = variables.filter_map(|(name, value)| {
        let (name, value) = (name.to_str()?, value.to_str()?);
        is_secret(name).then(|| value.to_owned())
    });
    Mask::of_values(secret.chain(crate::node::own_token(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_speak_of_secrets_hide_their_values() {
        let shown = hidden(&json!({
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
}
