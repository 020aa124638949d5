//! What is being done to a tree, written down where only this node writes: a file in its home, never in the tree.

use std::{
    ffi::OsString,
    io::{Read, Write},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::{ArchiveError, Checksum, Folder, stage::Step};

/// A journal longer than this is not ours.
const JOURNAL_BYTES_MAX: u64 = 256 << 20;

/// What every journal's name begins with.
const NAME_PREFIX: &str = "apply-";

/// What the name of one ends with that is being written.
const PART: &str = ".part";

/// Where the steps of changing one tree are written down.
#[derive(Debug)]
pub struct Journal {
    folder: Folder,
    tree: PathBuf,
    name: Vec<u8>,
    part: Vec<u8>,
}

/// What is in the file.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    /// The bytes of the tree's path, for whoever finds the journal after a crash.
    tree: Vec<u8>,
    noted: Noted,
}

/// How far a change of the tree has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Noted {
    /// A stage is about to be made; nothing is moved yet.
    Opening,
    /// The stage is the folder with this inode, and the steps may have been taken.
    Begun { inode: u64, steps: Vec<Step> },
    /// All of them are, and the stage may go.
    Done { inode: u64 },
}

impl Journal {
    /// The journal of the tree at `tree`, among those in `folder`, to which nobody else writes.
    pub fn of(folder: Folder, tree: &Path) -> Self {
        let name = format!("{NAME_PREFIX}{}", Checksum::of(tree.as_os_str().as_bytes()));
        Self {
            folder,
            tree: tree.to_owned(),
            part: format!("{name}{PART}").into_bytes(),
            name: name.into_bytes(),
        }
    }

    /// The trees of which `folder` holds journals: changes of them were interrupted.
    pub fn interrupted(folder: &Folder) -> Result<Vec<PathBuf>, ArchiveError> {
        let names = folder.names();
        let names = names.map_err(|error| failed("list the journals")(error.into()))?;
        let is_journal = |name: &[u8]| {
            name.starts_with(NAME_PREFIX.as_bytes()) && !name.ends_with(PART.as_bytes())
        };
        let mut trees = Vec::new();
        for name in names.iter().filter(|name| is_journal(name)) {
            if let Some(written) = read(folder, name)? {
                trees.push(PathBuf::from(OsString::from_vec(written.tree)));
            }
        }
        Ok(trees)
    }

    pub(crate) fn write(&self, noted: Noted) -> Result<(), ArchiveError> {
        let written = Written {
            tree: self.tree.as_os_str().as_bytes().to_vec(),
            noted,
        };
        let text = serde_json::to_vec(&written).expect("its keys are text");
        let write = || {
            match self.folder.remove(&self.part) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            self.folder.create(&self.part)?.write_all(&text)?;
            Ok(self.folder.replace(&self.part, &self.name)?)
        };
        write().map_err(failed("write the journal of a change"))
    }

    pub(crate) fn read(&self) -> Result<Option<Noted>, ArchiveError> {
        Ok(read(&self.folder, &self.name)?.map(|written| written.noted))
    }

    pub(crate) fn remove(&self) -> Result<(), ArchiveError> {
        match self.folder.remove(&self.name) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failed("remove the journal of a change")(error.into())),
        }
    }
}

fn read(folder: &Folder, name: &[u8]) -> Result<Option<Written>, ArchiveError> {
    let read = || {
        let file = match folder.read(name) {
            Ok((file, _)) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut text = Vec::new();
        file.take(JOURNAL_BYTES_MAX).read_to_end(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    };
    read().map_err(failed("read the journal of a change"))
}

fn failed(act: &'static str) -> impl Fn(std::io::Error) -> ArchiveError {
    move |source| ArchiveError::Stream { act, source }
}
