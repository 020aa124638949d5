//! `agentcraft debug bundle`: one readable file for a report of trouble, without secrets and without conversations.

mod hiding;

use std::fmt::Write as _;

use platform::files::{self, Durability, Mode, write_atomic};
use serde_json::{Value, json};
use wire::daemon::{JournalLine, JournalParams};
use workflow::Mask;

use super::doctor;
use crate::{
    args::{BundleArgs, DebugCommand},
    config::{Config, ConfigError},
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

pub(super) fn run(
    command: DebugCommand,
    config: &Config,
    problem: Option<&ConfigError>,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let DebugCommand::Bundle(BundleArgs { output, format }) = command;
    if files::is_there(&output) {
        return Err(CommandError::Refused {
            message: format!("{} is there already", output.display()),
            hint: "name another file with --output".to_owned(),
        });
    }
    let settings = Settings::read(config);
    let text = mask(config, settings.secrets).text(&bundle(config, problem, &settings.shown)?);
    let text = hiding::without_tokens(&text);
    write_atomic(
        &output,
        text.as_bytes(),
        Mode::PRIVATE,
        Durability::default(),
    )
    .map_err(|error| CommandError::machine("write the bundle", error))?;
    let path = output.display().to_string();
    let answer = json!({ "path": path });
    super::done(&answer, &path, &format!("wrote {path}"), format, screen)?;
    Ok(screen.note("look through it before you send it to anybody")?)
}

fn bundle(
    config: &Config,
    problem: Option<&ConfigError>,
    settings: &str,
) -> Result<String, CommandError> {
    let mut text = format!("# agentcraft {VERSION}\n");
    section(&mut text, "Machine", "text", &machine(config));
    let findings = doctor::findings(config, problem)?;
    section(&mut text, "Doctor", "json", &pretty(&json!(findings)));
    section(&mut text, "Settings", "toml", settings);
    // A daemon that does not answer is what such a file is for.
    if let Err(error) = of_daemon(config, &mut text) {
        section(
            &mut text,
            "Daemon",
            "text",
            &format!("could not be asked: {error}"),
        );
    }
    section(&mut text, "Log", "text", &log(config));
    Ok(text)
}

/// What the daemon tells of itself, if one runs.
fn of_daemon(config: &Config, text: &mut String) -> Result<(), CommandError> {
    let Some(mut daemon) = Connection::open_if_running(config)? else {
        section(text, "Daemon", "text", "does not run");
        return Ok(());
    };
    for (title, method) in [
        ("Daemon", "daemon.ping"),
        ("Agents", "agent.list"),
        ("Sessions", "session.list"),
        ("Problems of templates", "template.problems"),
    ] {
        let mut told: Value = daemon.call(method, &json!({}))?;
        // What was said in a conversation is nobody's who reads of trouble.
        for listed in told.as_array_mut().into_iter().flatten() {
            if let Value::Object(listed) = listed {
                listed.remove("prompt");
            }
        }
        section(text, title, "json", &pretty(&hiding::of_value(&told)));
    }
    section(text, "Journal", "text", &journal(&mut daemon)?);
    Ok(())
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

/// `config.toml` as it may be shown, and what must not be.
struct Settings {
    shown: String,
    secrets: Vec<String>,
}

impl Settings {
    fn read(config: &Config) -> Self {
        let path = config.home.join("config.toml");
        let bytes = files::read_bounded(&path, SETTINGS_MAX).unwrap_or_default();
        let mut secrets = Vec::new();
        let shown = match toml::from_slice::<toml::Table>(&bytes) {
            Ok(mut table) => {
                hiding::of_settings(&mut table, &config.secret_names, &mut secrets);
                table.to_string()
            }
            // The whole error quotes the line that is wrong.
            Err(error) => format!("# cannot be read: {}", error.message()),
        };
        Self { shown, secrets }
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
    let bytes = match files::read_bounded(&config.log_file, LOG_MAX) {
        Ok(bytes) if !bytes.is_empty() => bytes,
        Ok(_) | Err(_) => {
            return format!(
                "{} has nothing: a node that runs in a terminal (`agentcraft up`, `daemon start --foreground`) writes its log there, \
                 and one that is a service to `journalctl --user -u agentcraft`",
                config.log_file.display()
            );
        }
    };
    let from = bytes.len().saturating_sub(LOG_BYTES);
    String::from_utf8_lossy(&bytes[from..]).into_owned()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Values that must not be in it, wherever they might turn up: variables and settings with secret names, and the node's
/// own token.
fn mask(config: &Config, of_settings: Vec<String>) -> Mask {
    let variables = config.environment.iter();
    let secret = variables.filter_map(|(name, value)| {
        let (name, value) = (name.to_str()?, value.to_str()?);
        hiding::is_secret(name, &config.secret_names).then(|| value.to_owned())
    });
    Mask::of_values(
        secret
            .chain(of_settings)
            .chain(crate::node::own_token(config)),
    )
}
