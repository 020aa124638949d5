//! `config.toml`: which settings it may hold, and what is wrong with one that holds others.

use std::path::{Path, PathBuf};

use domain::permission::Policy;
use engine::LauncherMode;
use platform::files::Durability;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::{
    ConfigError, STOP_GRACE_MS_MAX, bad_value, durability, launcher, log_level,
    network::{HttpTable, Lan, Lending},
    runs::RunsTable,
};

/// The largest `config.toml`: a hundred times what all settings with comments take.
const SIZE_MAX: u64 = 256 * 1024;

/// Every setting.
pub(super) const KEYS: [&str; 14] = [
    "configs_dir",
    "durability",
    "http",
    "journal_days",
    "journal_lines",
    "lan",
    "launcher",
    "lending",
    "log_level",
    "permissions",
    "runs",
    "secret_names",
    "socket",
    "stop_grace_ms",
];

/// A century: more than this is a mistake in the unit.
const JOURNAL_DAYS_MAX: u64 = 36_500;

/// More lines than this would make a file of terabytes.
const JOURNAL_LINES_MAX: u64 = 1_000_000_000;

/// How alike two names must be for one to be offered in place of the other.
const LIKENESS_MIN: f64 = 0.75;

/// What the file says; nothing where it is silent.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FileConfig {
    pub(super) socket: Option<PathBuf>,
    pub(super) configs_dir: Option<PathBuf>,
    pub(super) log_level: Option<String>,
    pub(super) launcher: Option<LauncherMode>,
    pub(super) durability: Option<Durability>,
    pub(super) stop_grace_ms: Option<u64>,
    pub(super) policy: Option<Policy>,
    pub(super) http: Option<HttpTable>,
    pub(super) lan: Option<Lan>,
    pub(super) lending: Option<Lending>,
    pub(super) runs: Option<RunsTable>,
    pub(super) secret_names: Option<Vec<String>>,
    pub(super) journal_days: Option<u64>,
    pub(super) journal_lines: Option<u64>,
}

impl FileConfig {
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        match platform::files::read_bounded(path, SIZE_MAX) {
            Ok(bytes) => Self::parse(path, &bytes),
            Err(error) if error.is_not_found() => Ok(Self::default()),
            Err(error) => Err(ConfigError::Read(error)),
        }
    }

    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ConfigError> {
        let table: Table = toml::from_slice(bytes).map_err(|error| ConfigError::Syntax {
            path: path.to_owned(),
            message: syntax(bytes, &error),
        })?;
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(ConfigError::UnknownKey {
                path: path.to_owned(),
                key: key.clone(),
                nearest: nearest(key),
            });
        }
        let setting = |key| Setting {
            path,
            key,
            value: table.get(key),
        };
        Ok(Self {
            socket: setting("socket").text()?.map(PathBuf::from),
            configs_dir: setting("configs_dir").text()?.map(PathBuf::from),
            log_level: setting("log_level").word(log_level)?,
            launcher: setting("launcher").word(launcher)?,
            durability: setting("durability").word(durability)?,
            stop_grace_ms: setting("stop_grace_ms").number(STOP_GRACE_MS_MAX, "milliseconds")?,
            policy: setting("permissions").table()?,
            http: setting("http").table()?,
            lan: setting("lan").table()?,
            lending: setting("lending").table()?,
            runs: setting("runs").table()?,
            secret_names: setting("secret_names").table()?,
            journal_days: setting("journal_days").number(JOURNAL_DAYS_MAX, "days")?,
            journal_lines: setting("journal_lines").number(JOURNAL_LINES_MAX, "lines")?,
        })
    }
}

/// What is wrong and where. The library's own words quote the line, which may hold a secret.
fn syntax(bytes: &[u8], error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start.min(bytes.len()));
    let before = &bytes[..at];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let begin = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let column = String::from_utf8_lossy(&before[begin..]).chars().count() + 1;
    format!("line {line}, column {column}: {}", error.message())
}

struct Setting<'a> {
    path: &'a Path,
    key: &'a str,
    value: Option<&'a Value>,
}

impl<'a> Setting<'a> {
    fn name(&self) -> String {
        format!("{} in {}", self.key, self.path.display())
    }

    fn text(&self) -> Result<Option<&'a str>, ConfigError> {
        match self.value {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(other) => Err(self.refuse(other, "a text that is not empty")),
        }
    }

    fn word<T>(
        &self,
        parse: fn(&str, &str) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        self.text()?
            .map(|word| parse(&self.name(), word))
            .transpose()
    }

    fn number(&self, max: u64, unit: &str) -> Result<Option<u64>, ConfigError> {
        let Some(value) = self.value else {
            return Ok(None);
        };
        match value.as_integer().map(u64::try_from) {
            Some(Ok(number)) if number <= max => Ok(Some(number)),
            _ => Err(self.refuse(value, &format!("a whole number of {unit} up to {max}"))),
        }
    }

    /// A part of the file with a type of its own.
    fn table<T: DeserializeOwned>(&self) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.value else {
            return Ok(None);
        };
        let table = value
            .clone()
            .try_into()
            .map_err(|error| ConfigError::Syntax {
                path: self.path.to_owned(),
                message: format!("{}: {error}", self.key).trim_end().to_owned(),
            })?;
        Ok(Some(table))
    }

    fn refuse(&self, value: &Value, expected: &str) -> ConfigError {
        let shown = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        bad_value(&self.name(), &shown, expected)
    }
}

fn nearest(key: &str) -> Option<&'static str> {
    let key = key.replace('-', "_").to_lowercase();
    let scored = KEYS
        .into_iter()
        .map(|known| (strsim::jaro_winkler(&key, known), known));
    let best = scored.max_by(|(left, _), (right, _)| left.total_cmp(right));
    best.filter(|(score, _)| *score >= LIKENESS_MIN)
        .map(|(_, known)| known)
}
