//! skill-forge: files that tell agents and people what a peer can do, below `skills/remote` of the configs folder.
//!
//! A file that we wrote carries the hash of what we wrote. Where it does not fit any more, somebody has edited the file:
//! then it is theirs, and only whether the peer is there is kept up in it.

mod text;

use std::{fmt, path::PathBuf};

use domain::Name;
use platform::{ConfinedDir, confined::ConfinedError};

use crate::peer::{Peer, moment};

/// A skill file is a few kilobytes; one that was edited may be longer.
const FILE_MAX: u64 = 1024 * 1024;

const FOLDER: &str = "skills/remote";

/// Writes skills of peers below one configs folder.
#[derive(Debug, Clone)]
pub struct Forge {
    configs: PathBuf,
}

/// What became of a peer's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forged {
    Written,
    /// Nothing has changed, or nothing is known yet.
    Left,
    /// Only whether the peer is there was changed.
    Marked,
    /// Somebody has edited it, so what the peer says now is not in it.
    Kept,
}

/// Why a skill could not be written.
#[derive(Debug, thiserror::Error)]
#[error("could not write the skill of {peer} below {}", configs.display())]
pub struct ForgeError {
    peer: String,
    configs: PathBuf,
    source: ConfinedError,
}

impl Forge {
    pub fn new(configs: PathBuf) -> Self {
        Self { configs }
    }

    /// Brings the files of a peer up to date. Blocks briefly.
    pub(crate) fn bind(&self, peer: &Peer) -> Result<Forged, ForgeError> {
        self.bind_files(peer).map_err(|source| ForgeError {
            peer: peer.alias.to_string(),
            configs: self.configs.clone(),
            source,
        })
    }

    /// Removes what we wrote of a peer that somebody removed; what was edited stays.
    pub(crate) fn remove(&self, alias: &Name) -> Result<(), ForgeError> {
        self.remove_files(alias).map_err(|source| ForgeError {
            peer: alias.to_string(),
            configs: self.configs.clone(),
            source,
        })
    }

    fn bind_files(&self, peer: &Peer) -> Result<Forged, ConfinedError> {
        let Some(manifest) = &peer.manifest else {
            return Ok(Forged::Left);
        };
        let folder = ConfinedDir::open(&self.configs)?;
        let (yaml, markdown) = paths(&peer.alias);
        let last_seen = moment(peer.last_seen.unwrap_or(peer.first_seen));
        let stamp = text::Stamp {
            status: peer.status.as_str(),
            last_seen: &last_seen,
        };
        let forged = match read(&folder, &yaml)? {
            None => {
                folder.create_dir_all(FOLDER)?;
                folder.write_atomic(&yaml, text::skill(peer, manifest, stamp).as_bytes())?;
                Forged::Written
            }
            Some(found) => {
                let is_ours = text::is_ours(&found);
                let is_same = text::version(&found).as_deref() == Some(text::version_of(manifest));
                let (new, forged) = if is_ours && !is_same {
                    (text::skill(peer, manifest, stamp), Forged::Written)
                } else if is_same {
                    (text::stamped(&found, stamp), Forged::Marked)
                } else {
                    (text::stamped(&found, stamp), Forged::Kept)
                };
                if new == found {
                    return Ok(Forged::Left);
                }
                folder.write_atomic(&yaml, new.as_bytes())?;
                forged
            }
        };
        if forged == Forged::Written {
            Self::write_markdown(&folder, &markdown, peer)?;
        }
        Ok(forged)
    }

    fn write_markdown(folder: &ConfinedDir, path: &str, peer: &Peer) -> Result<(), ConfinedError> {
        let Some(manifest) = &peer.manifest else {
            return Ok(());
        };
        if read(folder, path)?.is_some_and(|found| !text::is_ours(&found)) {
            return Ok(());
        }
        folder.create_dir_all(format!("{FOLDER}/{}", peer.alias))?;
        folder.write_atomic(path, text::markdown(peer, manifest).as_bytes())
    }

    fn remove_files(&self, alias: &Name) -> Result<(), ConfinedError> {
        let folder = ConfinedDir::open(&self.configs)?;
        let (yaml, markdown) = paths(alias);
        for path in [yaml, markdown] {
            if read(&folder, &path)?.is_some_and(|found| text::is_ours(&found)) {
                folder.remove_file(&path)?;
            }
        }
        let own = format!("{FOLDER}/{alias}");
        let _ = folder.remove_dir(own); // It may hold files of others, or never have been made.
        Ok(())
    }
}

impl fmt::Display for Forged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Written => "written",
            Self::Left => "left",
            Self::Marked => "marked",
            Self::Kept => "kept as it was edited",
        })
    }
}

fn paths(alias: &Name) -> (String, String) {
    let yaml = format!("{FOLDER}/{alias}.skill.yaml");
    let markdown = format!("{FOLDER}/{alias}/SKILL.md");
    (yaml, markdown)
}

fn read(folder: &ConfinedDir, path: &str) -> Result<Option<String>, ConfinedError> {
    match folder.read(path, FILE_MAX) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "forge_tests.rs"]
mod tests;
