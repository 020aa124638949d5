//! What runs may use of the machine and of the node.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use engine::{DriverSurroundings, Drivers, Engine, Records};
use workflow::{Mask, SECRET_NAMES};

use crate::{choices::Choices, found::Shelf, servers::Servers};

/// Given by whoever assembles the program; clones share everything.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub around: DriverSurroundings,
    pub drivers: Drivers,
    /// Agents and templates of the node, once there is an engine.
    pub engine: Arc<OnceLock<Engine>>,
    /// The program that speaks for the agents of the daemon, where this node is not the daemon.
    pub elsewhere: Option<PathBuf>,
    /// Where runs are written down.
    pub records: Records,
    /// Where each run has a folder for what is too long for the records.
    pub folder: PathBuf,
    pub shelf: Shelf,
    /// The user's home folder, in which roles and skills are looked for too.
    pub user_home: Option<PathBuf>,
}

impl Surroundings {
    /// Secrets of the environment that runs see.
    pub fn mask(&self) -> Mask {
        mask(&self.around.environment)
    }
}

/// The secrets of an environment.
pub fn mask(environment: &BTreeMap<OsString, OsString>) -> Mask {
    let text = |text: &OsString| text.to_string_lossy().into_owned();
    let variables: Vec<(String, String)> = environment
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect();
    let pairs = variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    Mask::of_variables(pairs, &SECRET_NAMES)
}

/// What one run has beside that.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) node: Surroundings,
    /// The working directory of the run.
    pub(crate) cwd: PathBuf,
    /// MCP servers that whoever asked for the run brings along; they win over those of a step.
    pub(crate) servers: Servers,
    /// What whoever asked for the run has chosen for its agents.
    pub(crate) choices: Choices,
}

impl Scene {
    /// The variables that commands and programs of the run have.
    pub(crate) fn environment(&self) -> &BTreeMap<OsString, OsString> {
        &self.node.around.environment
    }

    /// What a driver may use, with its processes tagged so.
    pub(crate) fn surroundings(&self, tag: String) -> DriverSurroundings {
        DriverSurroundings {
            agent: tag,
            workspace: self.cwd.clone(),
            ..self.node.around.clone()
        }
    }
}

/// The path of a step as part of a name: letters, digits and dashes.
pub(crate) fn plain(step: &str) -> String {
    const LETTERS: usize = 40;
    let plain = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter,
        false => '-',
    };
    step.chars().map(plain).take(LETTERS).collect()
}
