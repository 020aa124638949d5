//! What the engine is told when it is built. It reads no file and no environment to find it out.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use domain::permission::Policy;
use platform::files::Durability;

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
    /// The variables of the daemon; agents get the few they need of them.
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

/// Whether agents are real processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LauncherMode {
    #[default]
    Real,
    /// Agents are started in name only, for tests of programs that drive the daemon.
    Mock,
}
