//! What the engine is told when it is built. It reads no file and no environment to find it out.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::PathBuf,
    time::Duration,
};

use catalog::OwnProgram;
use domain::permission::Policy;
use platform::files::Durability;

/// The variable that names the home to our own program.
const HOME: &str = "AGENTCRAFT_HOME";

/// Everything the engine must know of the node.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Templates and components are read from here.
    pub configs_dir: PathBuf,
    /// Each agent has its workspace, or a link to it, here.
    pub instances_dir: PathBuf,
    /// What agents print goes here, one file each.
    pub agent_logs_dir: PathBuf,
    /// Our own program, which is also the built-in agent.
    pub executable: PathBuf,
    /// The variables of the daemon and of its home; agents get the few they need of them.
    pub environment: BTreeMap<OsString, OsString>,
    pub launcher: LauncherMode,
    /// How long a process has after SIGTERM unless its template says otherwise.
    pub stop_grace: Duration,
    pub durability: Durability,
    /// How long the history is kept.
    pub journal_age: Duration,
    /// How many lines of the journal are kept at most.
    pub journal_lines: u64,
    /// Rules of the whole node, which come before those of a template.
    pub policy: Policy,
}

impl EngineConfig {
    /// Our program as a server of an agent, which must find the same home.
    pub(crate) fn own_program(&self) -> OwnProgram {
        let home = self.environment.get(OsStr::new(HOME));
        let home = home.and_then(|home| Some((HOME.to_owned(), home.to_str()?.to_owned())));
        OwnProgram {
            program: self.executable.to_string_lossy().into_owned(),
            env: home.into_iter().collect(),
        }
    }
}

/// Whether agents are real processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LauncherMode {
    #[default]
    Real,
    /// Agents are started in name only, for tests of programs that drive the daemon.
    Mock,
}
