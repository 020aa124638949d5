//! Conversations: our ids, the programs' own ids as they become known, and the file that keeps both over a restart.
//!
//! A program tells its id only in the first turn, when ours has long been given out. The file lies in the workspace,
//! where the agent may write, so what it holds is checked like anything an agent says.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use engine::SessionSink;
use platform::ConfinedDir;
use serde::{Deserialize, Serialize};

use crate::servers::Server;

/// Where drivers keep what is theirs in a workspace.
pub(crate) const FOLDER: &str = ".agentcraft";
const FILE: &str = ".agentcraft/print-sessions.json";

/// The oldest are forgotten beyond this; each is about a hundred bytes.
const KEPT_MAX: usize = 1000;

/// Far more than the kept ones need.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Longer than any program's id; it has to fit an argument and a line of the file.
const ID_BYTES_MAX: usize = 200;

/// How our ids begin, by which they are told from the programs' own.
const PREFIX: &str = "print-";

/// A conversation that is open.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) cwd: PathBuf,
    pub(crate) sink: SessionSink,
    /// The program's own id, once a turn has told it.
    pub(crate) program_id: Option<String>,
    pub(crate) servers: Arc<[Server]>,
}

/// All open conversations of one driver.
#[derive(Debug)]
pub(crate) struct Sessions {
    backend: String,
    workspace: PathBuf,
    open: Mutex<BTreeMap<String, Session>>,
    /// Held while the file is read, changed and written.
    file: Mutex<()>,
}

/// What the file holds, the oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    sessions: Vec<KeptSession>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptSession {
    id: String,
    backend: String,
    program_id: String,
}

impl Sessions {
    pub(crate) fn new(backend: &str, workspace: &Path) -> Self {
        Self {
            backend: backend.to_owned(),
            workspace: workspace.to_owned(),
            open: Mutex::default(),
            file: Mutex::default(),
        }
    }

    pub(crate) fn insert(&self, id: String, session: Session) {
        self.open().insert(id, session);
    }

    pub(crate) fn get(&self, id: &str) -> Option<Session> {
        self.open().get(id).cloned()
    }

    /// Lets go of a conversation. The file keeps it, for it may be taken up again.
    pub(crate) fn remove(&self, id: &str) {
        self.open().remove(id);
    }

    /// A program has told its id. Returns whether that is news that should be kept.
    pub(crate) fn learn(&self, id: &str, program_id: &str) -> bool {
        let mut open = self.open();
        let Some(session) = open.get_mut(id) else {
            return false; // It was closed meanwhile.
        };
        let news = session.program_id.as_deref() != Some(program_id);
        session.program_id = Some(program_id.to_owned());
        news
    }

    /// The program's own id as the file tells it. Blocks.
    pub(crate) fn recall(&self, id: &str) -> Option<String> {
        let _file = self.file();
        let folder = ConfinedDir::open(&self.workspace).ok()?;
        let kept = read(&folder);
        let found = kept.sessions.into_iter().rev();
        found
            .filter(|kept| kept.id == id && kept.backend == self.backend)
            .map(|kept| kept.program_id)
            .find(|program_id| is_id(program_id))
    }

    /// Writes both ids into the file. Blocks. Without the file only a restart is not survived, so failing is no error.
    pub(crate) fn keep(&self, id: &str, program_id: &str) {
        let _file = self.file();
        let written = ConfinedDir::open(&self.workspace).and_then(|folder| {
            let mut kept = read(&folder);
            kept.sessions.retain(|kept| kept.id != id);
            kept.sessions.push(KeptSession {
                id: id.to_owned(),
                backend: self.backend.clone(),
                program_id: program_id.to_owned(),
            });
            let surplus = kept.sessions.len().saturating_sub(KEPT_MAX);
            kept.sessions.drain(..surplus);
            let bytes = serde_json::to_vec_pretty(&kept).unwrap_or_default();
            folder.create_dir_all(FOLDER)?;
            folder.write_atomic(FILE, &bytes)
        });
        if let Err(error) = written {
            tracing::warn!(session = id, %error, "a conversation will not survive a restart");
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> MutexGuard<'_, ()> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The program's own id of a conversation that this driver calls `id`, as the file in the workspace tells it: for whoever
/// wants to go on with it by hand. Blocks.
pub fn program_session(backend: &str, workspace: &Path, id: &str) -> Option<String> {
    Sessions::new(backend, workspace).recall(id)
}

/// A new id of ours.
pub(crate) fn fresh() -> String {
    format!("{PREFIX}{}", platform::owner::fresh_id())
}

/// Whether the id is one of ours and not a program's.
pub(crate) fn is_ours(id: &str) -> bool {
    id.starts_with(PREFIX)
}

/// Whether this can be a program's id: it becomes an argument, so it must not look like an option.
pub(crate) fn is_id(id: &str) -> bool {
    let legal =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    !id.is_empty() && id.len() <= ID_BYTES_MAX && !id.starts_with('-') && id.bytes().all(legal)
}

/// A missing or broken file is an empty one.
fn read(folder: &ConfinedDir) -> Kept {
    match folder.read(FILE, FILE_BYTES_MAX) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            tracing::warn!(file = FILE, %error, "what conversations were known is lost");
            Kept::default()
        }),
        Err(error) => {
            if !error.is_not_found() {
                tracing::warn!(file = FILE, %error, "what conversations were known is lost");
            }
            Kept::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_recalled_by_another_life_of_the_same_backend_only() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = Sessions::new("codex", folder.path());
        assert_eq!(sessions.recall("print-1"), None);
        sessions.keep("print-1", "old");
        sessions.keep("print-2", "other");
        sessions.keep("print-1", "new");
        let again = |id| program_session("codex", folder.path(), id);
        assert_eq!(again("print-1").as_deref(), Some("new"));
        assert_eq!(again("print-2").as_deref(), Some("other"));
        assert_eq!(
            Sessions::new("gemini", folder.path()).recall("print-1"),
            None
        );
    }

    #[test]
    fn the_oldest_are_forgotten_beyond_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = Sessions::new("codex", folder.path());
        for number in 0..KEPT_MAX + 2 {
            sessions.keep(&format!("print-{number}"), "x");
        }
        assert_eq!(sessions.recall("print-1"), None);
        assert_eq!(sessions.recall("print-2").as_deref(), Some("x"));
    }

    #[test]
    fn a_broken_file_is_an_empty_one_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(FOLDER)).unwrap();
        std::fs::write(folder.path().join(FILE), "{{{").unwrap();
        let sessions = Sessions::new("codex", folder.path());
        assert_eq!(sessions.recall("print-1"), None);
        sessions.keep("print-1", "x");
        assert_eq!(sessions.recall("print-1").as_deref(), Some("x"));
    }

    #[test]
    fn a_folder_that_leads_outside_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join(FOLDER)).unwrap();
        let sessions = Sessions::new("codex", folder.path());
        sessions.keep("print-1", "x");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_id_that_could_be_an_option_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = Sessions::new("codex", folder.path());
        for id in ["--dangerously-skip-permissions", "", "a b", "a\nb"] {
            sessions.keep("print-1", id);
            assert_eq!(sessions.recall("print-1"), None, "{id:?}");
        }
        assert!(is_id("ses_e1f89afd4ffeohkulFMYYX0rCP"));
    }
}
