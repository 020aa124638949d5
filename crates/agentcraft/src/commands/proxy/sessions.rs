//! Sessions that an agent keeps in its workspace: a copy of the agent starts with those of the original.
//!
//! They are copied and not shared: two processes that append to one file would spoil it.

use std::path::Path;

use platform::{ConfinedDir, confined::ConfinedError};

/// Where the built-in agent keeps them.
const FOLDER: &str = ".agentcraft/sessions";

/// The built-in agent keeps no more files than this.
const FILES_MAX: usize = 100;

/// A file of the built-in agent is shorter; one that is longer is left out.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Whether agents of this backend keep their sessions in the workspace. The others we know keep them in the user's home.
pub(super) fn are_in_workspace(backend_type: &str) -> bool {
    backend_type == "builtin"
}

/// Copies what is there now. A file that goes on growing meanwhile is copied up to a whole line.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), ConfinedError> {
    let from = ConfinedDir::open(from)?;
    if !from.exists(FOLDER)? {
        return Ok(());
    }
    let to = ConfinedDir::open(to)?;
    to.create_dir_all(FOLDER)?;
    for entry in from.list(FOLDER)?.into_iter().take(FILES_MAX) {
        let path = Path::new(FOLDER).join(&entry.name);
        let Ok(bytes) = from.read(&path, FILE_BYTES_MAX) else {
            continue; // Removed meanwhile, or no file of a session.
        };
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        if let Some(end) = whole {
            to.write_atomic(&path, &bytes[..=end])?;
        }
    }
    Ok(())
}
