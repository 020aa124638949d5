//! What a tree holds: every path with its kind, size, mode, time and hash.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use serde::{Deserialize, Serialize};

use crate::{
    ArchiveError, Checksum, EntryPath, Folder, Kind, LeftOut, Limits,
    checksum::Summing,
    error::failed,
    folder::Looked,
    path::Target,
    walk::{Found, Ignore, walk},
};

/// A tree, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Manifest {
    pub entries: BTreeMap<EntryPath, Entry>,
}

/// One thing in a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub mode: u32,
    pub mtime: Mtime,
    #[serde(flatten)]
    pub content: Content,
}

/// What it is. Links have a target in place of content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Content {
    File { size: u64, hash: Checksum },
    Dir,
    Link { target: Target },
}

impl Content {
    pub fn kind(&self) -> Kind {
        match self {
            Self::File { .. } => Kind::File,
            Self::Dir => Kind::Dir,
            Self::Link { .. } => Kind::Link,
        }
    }
}

impl Entry {
    /// The same to whoever reads it; times do not count, nor a link's mode.
    pub fn is_like(&self, other: &Self) -> bool {
        let same_mode = self.mode == other.mode || self.content.kind() == Kind::Link;
        self.content == other.content && same_mode
    }
}

/// When something was changed, as exactly as the file system knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mtime {
    pub secs: i64,
    pub nanos: u32,
}

impl Manifest {
    /// Reads the whole tree, each file once.
    pub fn of(
        folder: &Folder,
        ignore: Ignore<'_>,
        limits: &Limits,
    ) -> Result<(Self, Vec<LeftOut>), ArchiveError> {
        let mut manifest = Self::default();
        let left_out = walk(folder, ignore, limits, &mut |found: Found<'_>| {
            let entry = describe(found.folder, found.name, &found.looked, found.path)?;
            manifest.entries.insert(found.path.clone(), entry);
            Ok(())
        })?;
        Ok((manifest, left_out))
    }

    /// The bytes of all files together.
    pub fn bytes(&self) -> u64 {
        let sizes = self.entries.values().map(|entry| match &entry.content {
            Content::File { size, .. } => *size,
            Content::Dir | Content::Link { .. } => 0,
        });
        sizes.sum()
    }
}

/// What stands under this name now, with the hash of its content.
pub(crate) fn describe(
    folder: &Folder,
    name: &[u8],
    looked: &Looked,
    path: &EntryPath,
) -> Result<Entry, ArchiveError> {
    let failed = failed("read", path);
    let content = match looked.kind {
        Some(Kind::Dir) => Content::Dir,
        Some(Kind::Link) => Content::Link {
            target: Target(folder.link_target(name).map_err(failed)?),
        },
        Some(Kind::File) => {
            let (file, opened) = folder.read(name).map_err(failed)?;
            let mut summing = Summing::new(file.take(opened.size));
            io::copy(&mut summing, &mut io::sink()).map_err(|source| ArchiveError::Failed {
                act: "read",
                path: path.clone(),
                source,
            })?;
            let (_, hash, size) = summing.finish();
            if size != opened.size {
                return Err(ArchiveError::Changed { path: path.clone() });
            }
            Content::File { size, hash }
        }
        None => return Err(ArchiveError::Changed { path: path.clone() }),
    };
    Ok(Entry {
        mode: looked.mode,
        mtime: looked.mtime,
        content,
    })
}
