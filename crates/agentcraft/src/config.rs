//! What the command was told, from defaults, `config.toml`, the environment and flags, in rising order.
//!
//! This is the only place that reads the environment, and it does nothing but read. Everything else takes a [`Config`].

mod file;
mod network;
mod runs;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use domain::permission::Policy;
use engine::{EngineConfig, LauncherMode};
use platform::files::Durability;

use crate::args::GlobalArgs;
use file::FileConfig;
pub(crate) use network::{Certificate, Listen, Network, Trust, Webhooks};
pub(crate) use runs::RunsTable;

/// The variables of a process, taken once.
pub(crate) type Environment = BTreeMap<OsString, OsString>;

/// What a node keeps everything in, in its folder of states.
pub(crate) const STORE: &str = "state.db";

/// The longest path of a socket: the kernel's address has 108 bytes and ends with a zero.
const SOCKET_PATH_MAX: usize = 107;

/// How long an agent may take to end after it was asked to.
const STOP_GRACE_MS: u64 = 5_000;

/// An hour: more than this is a mistake in the unit.
const STOP_GRACE_MS_MAX: u64 = 3_600_000;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A season: long enough to look up what an agent did last month.
const JOURNAL_DAYS: u64 = 90;

/// About half a gigabyte.
const JOURNAL_LINES: u64 = 1_000_000;

const LOG_LEVEL: &str = "info";

/// The home below the user's own, and the configs and the socket in it.
const HOME: &str = ".agentcraft";
const CONFIGS: &str = "configs";
const SOCKET: &str = "agentcraft.sock";

/// Everything that was decided before anything is done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// Absolute, like every path here.
    pub(crate) home: PathBuf,
    pub(crate) socket: PathBuf,
    pub(crate) configs_dir: PathBuf,
    pub(crate) instances_dir: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) log_file: PathBuf,
    /// A level, or a filter of targets and levels.
    pub(crate) log_level: String,
    pub(crate) launcher: LauncherMode,
    pub(crate) durability: Durability,
    pub(crate) stop_grace: Duration,
    /// How long the history is kept, and how many lines of it.
    pub(crate) journal_age: Duration,
    pub(crate) journal_lines: u64,
    /// Parts of names that make a variable secret, beside those that always do.
    pub(crate) secret_names: Vec<String>,
    /// Permission rules of the whole node.
    pub(crate) policy: Policy,
    /// Where the node listens, and for whom.
    pub(crate) network: Network,
    /// Where runs leave and find things.
    pub(crate) runs: RunsTable,
    /// Where a debug build ends itself as if it were killed; for tests.
    pub(crate) crash_at: Option<String>,
    /// Where a debug build writes the crash points it passes; for tests.
    pub(crate) crash_trace: Option<PathBuf>,
    /// Whence agents get the variables their templates name.
    pub(crate) environment: Environment,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("there is no home folder: HOME is not set")]
    NoHome,
    #[error("could not make {} absolute", path.display())]
    Absolute { path: PathBuf, source: io::Error },
    #[error(
        "the path of the socket is too long: {} has {length} bytes, and the system allows {SOCKET_PATH_MAX}",
        path.display()
    )]
    SocketTooLong { path: PathBuf, length: usize },
    #[error("{name} is {value:?}, but must be {expected}")]
    Value {
        name: String,
        value: String,
        expected: String,
    },
    #[error(transparent)]
    Read(platform::files::FileError),
    #[error("{}: {message}", path.display())]
    Syntax { path: PathBuf, message: String },
    #[error("{}: there is no setting called {key:?}", path.display())]
    UnknownKey {
        path: PathBuf,
        key: String,
        nearest: Option<&'static str>,
    },
}

impl ConfigError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome => {
                Some("set AGENTCRAFT_HOME to a folder of your own, or use --home".to_owned())
            }
            Self::SocketTooLong { .. } => Some(
                "set AGENTCRAFT_SOCKET to a shorter path, such as $XDG_RUNTIME_DIR/agentcraft.sock"
                    .to_owned(),
            ),
            Self::UnknownKey {
                nearest: Some(nearest),
                ..
            } => Some(format!("did you mean {nearest}?")),
            Self::UnknownKey { nearest: None, .. } => {
                Some(format!("the settings are {}", file::KEYS.join(", ")))
            }
            Self::Absolute { .. } | Self::Value { .. } | Self::Read(_) | Self::Syntax { .. } => {
                None
            }
        }
    }
}

impl Config {
    /// What the daemon keeps everything in.
    pub(crate) fn store_file(&self) -> PathBuf {
        self.state_dir.join(STORE)
    }

    /// Every store that is there: the daemon's, the one of all runs, and those of editors that work without a daemon.
    pub(crate) fn stores(&self) -> Vec<PathBuf> {
        let editors = platform::files::list(&self.state_dir.join(crate::standalone::LASTING));
        let editors = editors.unwrap_or_default();
        let own = [
            self.store_file(),
            self.state_dir.join(crate::standalone::RUNS),
        ];
        own.into_iter()
            .chain(editors.iter().map(|space| space.join(STORE)))
            .filter(|store| platform::files::is_there(store))
            .collect()
    }

    /// The environment with the home as it was found, for processes of ours that must find the same.
    pub(crate) fn environment_with_home(&self) -> Environment {
        let mut environment = self.environment.clone();
        environment.insert("AGENTCRAFT_HOME".into(), self.home.clone().into_os_string());
        environment
    }

    /// What the store is opened with.
    pub(crate) fn store_durability(&self) -> store::Durability {
        match self.durability {
            Durability::ProcessDeath => store::Durability::ProcessDeath,
            Durability::PowerLoss => store::Durability::PowerLoss,
        }
    }

    /// The engine of a node that has its agents and their logs in these folders.
    pub(crate) fn engine(
        &self,
        executable: PathBuf,
        instances_dir: PathBuf,
        agent_logs_dir: PathBuf,
    ) -> EngineConfig {
        EngineConfig {
            configs_dir: self.configs_dir.clone(),
            instances_dir,
            agent_logs_dir,
            executable,
            environment: self.environment_with_home(),
            launcher: self.launcher,
            stop_grace: self.stop_grace,
            durability: self.durability,
            journal_age: self.journal_age,
            journal_lines: self.journal_lines,
            policy: self.policy.at_home(&self.user_home()),
        }
    }

    /// What `~` in a rule stands for.
    pub(crate) fn user_home(&self) -> String {
        platform::system::home_dir(&self.environment)
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }
}

/// The environment of this process.
pub(crate) fn environment() -> Environment {
    std::env::vars_os().collect()
}

/// Whether colours may be used at all; whether they make sense is the terminal's matter.
pub(crate) fn colors(global: &GlobalArgs, environment: &Environment) -> crate::render::Colors {
    if global.no_color || variable(environment, "NO_COLOR").is_some() {
        crate::render::Colors::Never
    } else {
        crate::render::Colors::OnTerminals
    }
}

impl Config {
    /// Decides everything. Reads `config.toml` and nothing else; changes nothing.
    pub(crate) fn resolve(
        global: &GlobalArgs,
        environment: Environment,
    ) -> Result<Self, ConfigError> {
        let home = home(global, &environment)?;
        let file = FileConfig::read(&home.join("config.toml"))?;
        Self::layer(global, environment, home, file)
    }

    /// The same for commands that look for what is wrong: a `config.toml` that cannot be used is told, and counts as empty.
    pub(crate) fn resolve_anyway(
        global: &GlobalArgs,
        environment: Environment,
    ) -> Result<(Self, Option<ConfigError>), ConfigError> {
        let problem = match Self::resolve(global, environment.clone()) {
            Ok(config) => return Ok((config, None)),
            Err(problem) => problem,
        };
        let home = home(global, &environment)?;
        let config = Self::layer(global, environment, home, FileConfig::default())?;
        Ok((config, Some(problem)))
    }

    fn layer(
        global: &GlobalArgs,
        environment: Environment,
        home: PathBuf,
        file: FileConfig,
    ) -> Result<Self, ConfigError> {
        let here = |path: &OsStr| absolute(Path::new(path));
        // What a file says is relative to where the file is; what a person says, to where the person is.
        let of_home = |path: PathBuf| home.join(path);
        let socket = match (&global.socket, variable(&environment, "AGENTCRAFT_SOCKET")) {
            (Some(path), _) => here(path.as_os_str())?,
            (None, Some(path)) => here(path)?,
            (None, None) => file.socket.map_or_else(|| home.join(SOCKET), of_home),
        };
        let configs_dir = match &global.configs_dir {
            Some(path) => here(path.as_os_str())?,
            None => file.configs_dir.map_or_else(|| home.join(CONFIGS), of_home),
        };
        // The second is other programs' too, which have words of their own.
        let log_level = match text(&environment, "AGENTCRAFT_LOG")? {
            Some(words) => Some(log_level("AGENTCRAFT_LOG", &words)?),
            None => text(&environment, "LOG_LEVEL")?
                .filter(|words| crate::log::is_level(words))
                .or(file.log_level),
        };
        let launcher_mode = match text(&environment, "AGENTCRAFT_LAUNCHER_MODE")? {
            Some(word) => launcher("AGENTCRAFT_LAUNCHER_MODE", &word)?,
            None => file.launcher.unwrap_or_default(),
        };
        let debug = |name| {
            if cfg!(debug_assertions) {
                variable(&environment, name)
            } else {
                None
            }
        };
        Ok(Self {
            socket: short_enough(socket)?,
            configs_dir,
            instances_dir: home.join("instances"),
            state_dir: home.join("state"),
            log_file: home.join("logs").join("daemon.log"),
            log_level: log_level.unwrap_or_else(|| LOG_LEVEL.to_owned()),
            launcher: launcher_mode,
            durability: file.durability.unwrap_or_default(),
            stop_grace: Duration::from_millis(file.stop_grace_ms.unwrap_or(STOP_GRACE_MS)),
            journal_age: DAY
                * u32::try_from(file.journal_days.unwrap_or(JOURNAL_DAYS)).unwrap_or(u32::MAX),
            journal_lines: file.journal_lines.unwrap_or(JOURNAL_LINES),
            secret_names: file.secret_names.unwrap_or_default(),
            policy: file.policy.unwrap_or_default(),
            runs: file.runs.unwrap_or_default(),
            network: Network::resolve(
                file.http.unwrap_or_default(),
                file.lan.unwrap_or_default(),
                file.lending.unwrap_or_default(),
                text(&environment, "AGENTCRAFT_LISTEN")?,
                |path| home.join(path),
            )?,
            crash_at: debug("AGENTCRAFT_CRASH_AT")
                .map(|point| point.to_string_lossy().into_owned()),
            crash_trace: debug("AGENTCRAFT_CRASH_TRACE").map(PathBuf::from),
            home,
            environment,
        })
    }

    /// The flags that lead somebody with an environment of their own to this node: another terminal, an editor, a service.
    /// What everybody finds without being told is left out.
    pub(crate) fn flags(&self) -> Vec<String> {
        let user = platform::system::home_dir(&self.environment);
        let usual = user.map(|user| user.join(HOME));
        let places = [
            ("--home", &self.home, usual),
            ("--socket", &self.socket, Some(self.home.join(SOCKET))),
            (
                "--configs-dir",
                &self.configs_dir,
                Some(self.home.join(CONFIGS)),
            ),
        ];
        let unusual = places
            .into_iter()
            .filter(|(_, path, usual)| usual.as_ref() != Some(*path));
        unusual
            .flat_map(|(flag, path, _)| [flag.to_owned(), path.to_string_lossy().into_owned()])
            .collect()
    }

    /// The folders in which programs are looked for.
    pub(crate) fn program_path(&self) -> &OsStr {
        variable(&self.environment, "PATH").unwrap_or_default()
    }
}

fn log_level(name: &str, words: &str) -> Result<String, ConfigError> {
    if crate::log::is_level(words) {
        return Ok(words.to_owned());
    }
    let expected = "off, error, warn, info, debug or trace, also for a part: warn,engine=debug";
    Err(bad_value(name, words, expected))
}

fn launcher(name: &str, word: &str) -> Result<LauncherMode, ConfigError> {
    match word {
        "real" => Ok(LauncherMode::Real),
        "mock" => Ok(LauncherMode::Mock),
        other => Err(bad_value(name, other, "real or mock")),
    }
}

fn durability(name: &str, word: &str) -> Result<Durability, ConfigError> {
    match word {
        "process" => Ok(Durability::ProcessDeath),
        "power" => Ok(Durability::PowerLoss),
        other => Err(bad_value(name, other, "process or power")),
    }
}

fn home(global: &GlobalArgs, environment: &Environment) -> Result<PathBuf, ConfigError> {
    if let Some(path) = &global.home {
        return absolute(path);
    }
    match variable(environment, "AGENTCRAFT_HOME") {
        Some(path) => absolute(Path::new(path)),
        None => {
            let user = platform::system::home_dir(environment).ok_or(ConfigError::NoHome)?;
            Ok(user.join(HOME))
        }
    }
}

fn short_enough(path: PathBuf) -> Result<PathBuf, ConfigError> {
    match path.as_os_str().len() {
        length if length > SOCKET_PATH_MAX => Err(ConfigError::SocketTooLong { path, length }),
        _ => Ok(path),
    }
}

fn absolute(path: &Path) -> Result<PathBuf, ConfigError> {
    std::path::absolute(path).map_err(|source| ConfigError::Absolute {
        path: path.to_owned(),
        source,
    })
}

/// A variable that is set to something; an empty one counts as unset, as shells make it hard to tell them apart.
fn variable<'a>(environment: &'a Environment, name: &str) -> Option<&'a OsStr> {
    environment
        .get(OsStr::new(name))
        .map(OsString::as_os_str)
        .filter(|value| !value.is_empty())
}

fn text(environment: &Environment, name: &str) -> Result<Option<String>, ConfigError> {
    variable(environment, name)
        .map(|value| {
            value
                .to_str()
                .map(str::to_owned)
                .ok_or_else(|| bad_value(name, &value.to_string_lossy(), "plain text"))
        })
        .transpose()
}

fn bad_value(name: &str, value: &str, expected: &str) -> ConfigError {
    ConfigError::Value {
        name: name.to_owned(),
        value: value.to_owned(),
        expected: expected.to_owned(),
    }
}
