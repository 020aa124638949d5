//! `.agentcraft.json` in each workspace: a projection of the state that the contract asks for.
//!
//! The state wins over it, but a file that is missing or broken means that somebody damaged the workspace, so it is
//! never quietly written again.

use std::path::{Path, PathBuf};

use platform::files::{self, Durability};

use super::AgentView;

/// Its name in the workspace.
pub(crate) const FILE_NAME: &str = ".agentcraft.json";

/// Above the largest template with the most metadata; anything larger was not written by us.
const FILE_MAX: u64 = 16 * 1024 * 1024;

/// The file in one workspace.
#[derive(Debug, Clone)]
pub(crate) struct InstanceFile {
    path: PathBuf,
    durability: Durability,
}

impl InstanceFile {
    pub(crate) fn new(workspace: &Path, durability: Durability) -> Self {
        Self {
            path: workspace.join(FILE_NAME),
            durability,
        }
    }

    /// Writes it for the first time, or anew.
    pub(crate) fn write(&self, view: &AgentView) -> Result<(), files::FileError> {
        let mut text = serde_json::to_vec_pretty(view).expect("a view has only text keys");
        text.push(b'\n');
        files::write_atomic(&self.path, &text, files::Mode::PRIVATE, self.durability)
    }

    /// Writes it anew where it is still there.
    pub(crate) fn refresh(&self, view: &AgentView) -> Result<(), files::FileError> {
        if !files::is_there(&self.path) {
            return Ok(());
        }
        self.write(view)
    }

    /// Why the workspace counts as damaged, if it does.
    pub(crate) fn damage(&self) -> Option<String> {
        let text = match files::read_bounded(&self.path, FILE_MAX) {
            Ok(text) => text,
            Err(error) => return Some(format!("{FILE_NAME} cannot be read ({error})")),
        };
        match serde_json::from_slice::<AgentView>(&text) {
            Ok(_) => None,
            Err(error) => Some(format!("{FILE_NAME} is not what it should be ({error})")),
        }
    }

    /// Takes it out of a folder that stays.
    pub(crate) fn remove(&self) -> Result<(), files::FileError> {
        files::remove_file_if_there(&self.path)
    }
}
