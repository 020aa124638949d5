//! The files that let a session be loaded after a restart: one per session, below the workspace.

use std::{
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use platform::confined::{Access, ConfinedError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    history::{HISTORY_BYTES_MAX, History, Save},
    workspace::Workspace,
};

/// Where the files are, in the workspace.
const FOLDER: &str = ".agentcraft/sessions";

/// Files that are kept; the oldest are removed when another session starts. A person seldom looks further back.
const FILES_MAX: usize = 100;

/// A file as we write it stays below this; a longer one is not ours.
const FILE_BYTES_MAX: u64 = 4 * HISTORY_BYTES_MAX as u64;

/// What is read of a file to list it: the header and a first prompt of usual length.
const GLANCE_BYTES: u64 = 16 * 1024;

/// The longest id we look for; ours are shorter, and file names have a bound.
const ID_BYTES_MAX: usize = 64;

/// The first line of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Header {
    pub(crate) session_id: String,
    pub(crate) cwd: PathBuf,
    pub(crate) created_at: String,
}

/// A session as the list shows it.
#[derive(Clone, Debug)]
pub(crate) struct Glance {
    pub(crate) header: Header,
    pub(crate) title: Option<String>,
    pub(crate) updated_at: SystemTime,
}

/// The folder of session files. Clones are the same folder. All of it blocks, for a short time.
#[derive(Clone, Debug)]
pub(crate) struct Archive {
    workspace: Arc<Workspace>,
}

/// Why a session's file was not written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    #[error("could not keep the session {id}")]
    Keep { id: String, source: ConfinedError },
    #[error("could not append to the file of the session {id}")]
    Append { id: String, source: std::io::Error },
    #[error("could not read the file of the session {id}")]
    Read { id: String, source: ConfinedError },
    #[error("the file of the session {id} is not one of ours")]
    Foreign { id: String },
}

impl Archive {
    pub(crate) fn new(workspace: Arc<Workspace>) -> Archive {
        Archive { workspace }
    }

    /// Writes the file of a new session, and removes the oldest of too many.
    pub(crate) fn create(&self, header: &Header) -> Result<(), ArchiveError> {
        let keep = |source| ArchiveError::Keep {
            id: header.session_id.clone(),
            source,
        };
        self.workspace.dir.create_dir_all(FOLDER).map_err(keep)?;
        let file = file_of(&header.session_id);
        self.workspace
            .dir
            .write_atomic(file, &header.line())
            .map_err(keep)?;
        self.prune();
        Ok(())
    }

    pub(crate) fn save(&self, header: &Header, save: &Save) -> Result<(), ArchiveError> {
        let id = || header.session_id.clone();
        let path = file_of(&header.session_id);
        match save {
            Save::Nothing => Ok(()),
            Save::Append(lines) => {
                let opened = self.workspace.dir.open_file(&path, Access::ReadWrite);
                let mut file = match opened {
                    Ok(file) => file,
                    // Somebody cleaned the folder up; the session goes on with what follows.
                    Err(error) if error.is_not_found() => {
                        self.create(header)?;
                        let opened = self.workspace.dir.open_file(&path, Access::ReadWrite);
                        opened.map_err(|source| ArchiveError::Keep { id: id(), source })?
                    }
                    Err(source) => return Err(ArchiveError::Keep { id: id(), source }),
                };
                let appended = file
                    .seek(SeekFrom::End(0))
                    .and_then(|_| file.write_all(lines));
                appended.map_err(|source| ArchiveError::Append { id: id(), source })
            }
            Save::Rewrite(lines) => {
                let bytes = [header.line().as_slice(), lines].concat();
                let written = self.workspace.dir.write_atomic(&path, &bytes);
                written.map_err(|source| ArchiveError::Keep { id: id(), source })
            }
        }
    }

    /// None if there is no such session.
    pub(crate) fn read(&self, id: &str) -> Result<Option<(Header, History)>, ArchiveError> {
        if !is_id(id) {
            return Ok(None);
        }
        let bytes = match self.workspace.dir.read(file_of(id), FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(source) => {
                let id = id.to_owned();
                return Err(ArchiveError::Read { id, source });
            }
        };
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let header = lines
            .next()
            .and_then(|line| serde_json::from_slice(line).ok());
        let header: Header = header.ok_or_else(|| ArchiveError::Foreign { id: id.to_owned() })?;
        // The last line may be torn by a crash; it is left out, and whatever follows it starts a line of its own.
        let entries: Vec<Box<RawValue>> = lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        if !bytes.ends_with(b"\n") {
            let _ = self.save(&header, &Save::Append(b"\n".to_vec())); // Without it one more entry is lost.
        }
        Ok(Some((header, History::restored(entries, bytes.len()))))
    }

    /// All sessions that have a file, in no order. A file that cannot be read is not listed.
    pub(crate) fn list(&self) -> Vec<Glance> {
        let ids = self.ids();
        ids.iter().filter_map(|id| self.glance(id)).collect()
    }

    fn glance(&self, id: &str) -> Option<Glance> {
        let file = self
            .workspace
            .dir
            .open_file(file_of(id), Access::Read)
            .ok()?;
        let updated_at = file
            .metadata()
            .and_then(|metadata| metadata.modified())
            .ok()?;
        let mut bytes = Vec::new();
        file.take(GLANCE_BYTES).read_to_end(&mut bytes).ok()?;
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let header = serde_json::from_slice(lines.next()?).ok()?;
        let entries = lines
            .take(4)
            .filter_map(|line| serde_json::from_slice(line).ok());
        let history = History::restored(entries.collect(), 0);
        let title = history.title().map(str::to_owned);
        Some(Glance {
            header,
            title,
            updated_at,
        })
    }

    fn ids(&self) -> Vec<String> {
        let entries = self.workspace.dir.list(FOLDER).unwrap_or_default();
        let names = entries.iter().filter_map(|entry| entry.name.to_str());
        let ids = names.filter_map(|name| name.strip_suffix(".jsonl"));
        ids.filter(|id| is_id(id)).map(str::to_owned).collect()
    }

    fn prune(&self) {
        let ids = self.ids();
        if ids.len() <= FILES_MAX {
            return;
        }
        let modified = |id: &String| {
            let metadata = self.workspace.dir.metadata(file_of(id)).ok()?;
            metadata.modified().ok()
        };
        let mut aged: Vec<_> = ids.into_iter().map(|id| (modified(&id), id)).collect();
        aged.sort();
        let surplus = aged.len() - FILES_MAX;
        for (_, id) in &aged[..surplus] {
            let _ = self.workspace.dir.remove_file(file_of(id)); // The next session tries again.
        }
    }
}

impl Header {
    fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default(); // Paths of clients are JSON strings already.
        line.push(b'\n');
        line
    }
}

/// Only what we make ourselves is looked for: letters, digits and dashes.
fn is_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !id.is_empty() && id.len() <= ID_BYTES_MAX && id.bytes().all(plain)
}

fn file_of(id: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{id}.jsonl"))
}
