//! What changed between two trees, and the archive that carries it: the list in `meta/`, new content in `workspace/`.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
};

use serde::{Deserialize, Serialize};

use crate::{
    ArchiveError, Checksum, Content, Entry, EntryPath, Folder, Limits, Manifest, Mtime, Problem,
    error::failed,
    pack::{Budget, Tarball},
    unpack::unpack,
    walk::Found,
};

const META: &[u8] = b"meta";
const LIST: &[u8] = b"delta.json";
const WORKSPACE: &[u8] = b"workspace";

/// The list of changes may be this long: 200,000 entries with long names.
const LIST_BYTES_MAX: u64 = 256 << 20;

/// Changes by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Delta {
    pub changes: BTreeMap<EntryPath, Change>,
}

/// What became of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub enum Change {
    Added { after: Entry },
    Changed { before: Entry, after: Entry },
    Removed { before: Entry },
}

impl Change {
    /// What stands there afterwards.
    pub fn after(&self) -> Option<&Entry> {
        match self {
            Self::Added { after } | Self::Changed { after, .. } => Some(after),
            Self::Removed { .. } => None,
        }
    }

    pub fn before(&self) -> Option<&Entry> {
        match self {
            Self::Removed { before } | Self::Changed { before, .. } => Some(before),
            Self::Added { .. } => None,
        }
    }
}

impl Delta {
    /// What must be done to make `after` of `before`. Times alone are no change.
    pub fn between(before: &Manifest, after: &Manifest) -> Self {
        let mut changes = BTreeMap::new();
        for (path, entry) in &before.entries {
            let change = match after.entries.get(path) {
                None => Change::Removed {
                    before: entry.clone(),
                },
                Some(now) if entry.is_like(now) => continue,
                Some(now) => Change::Changed {
                    before: entry.clone(),
                    after: now.clone(),
                },
            };
            changes.insert(path.clone(), change);
        }
        for (path, entry) in &after.entries {
            if !before.entries.contains_key(path) {
                let after = entry.clone();
                changes.insert(path.clone(), Change::Added { after });
            }
        }
        Self { changes }
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

impl Manifest {
    /// Undoes what a carrier without modes and links did to this tree on its way from `before` and back: modes are
    /// those of `before`, and a file that is what a link leads or led to, or says where, is that link again.
    #[must_use]
    pub fn as_carried_from(mut self, before: &Self) -> Self {
        let contents: BTreeMap<EntryPath, Content> = self
            .entries
            .iter()
            .map(|(path, entry)| (path.clone(), entry.content.clone()))
            .collect();
        for (path, entry) in &mut self.entries {
            let Some(was) = before.entries.get(path) else {
                continue;
            };
            let is_that_link = match &was.content {
                Content::Link { target } => {
                    let place = path.resolve(&target.0);
                    let now = place.as_ref().and_then(|place| contents.get(place));
                    let then = place.and_then(|place| before.entries.get(&place));
                    // Some carriers write down where the link leads.
                    let written = Content::File {
                        size: target.0.len() as u64,
                        hash: Checksum::of(&target.0),
                    };
                    let seen = [now, then.map(|entry| &entry.content), Some(&written)];
                    seen.contains(&Some(&entry.content))
                }
                Content::File { .. } | Content::Dir => false,
            };
            if is_that_link && entry.content != Content::Dir {
                *entry = was.clone();
            } else if entry.content.kind() == was.content.kind() {
                entry.mode = was.mode;
            }
        }
        self
    }
}

/// Packs a delta of the tree in `folder`, which must still be what the delta says.
pub fn pack_delta(
    folder: &Folder,
    delta: &Delta,
    limits: &Limits,
    sink: impl Write,
) -> Result<(Checksum, u64), ArchiveError> {
    let mut tarball = Tarball::new(sink)?;
    let mut budget = Budget::new(limits);
    let list = serde_json::to_vec(delta).expect("its keys are text");
    let mtime = Mtime::default();
    tarball.dir(META, 0o755, mtime)?;
    let name = [META, LIST].join(&b'/');
    let size = list.len() as u64;
    tarball.file(&name, 0o644, mtime, size, &mut list.as_slice())?;
    tarball.dir(WORKSPACE, 0o755, mtime)?;
    let prefix = [WORKSPACE, b"/"].concat();
    for (path, change) in &delta.changes {
        let Some(after) = change.after() else {
            continue;
        };
        let (parent, name) = path.split();
        let parent = folder.descend(parent.as_ref());
        let parent = parent.map_err(failed("open", path))?;
        let changed = || ArchiveError::Changed { path: path.clone() };
        let looked = parent.look(name).map_err(failed("look at", path))?;
        let looked = looked.ok_or_else(changed)?;
        let found = Found {
            path,
            folder: &parent,
            name,
            looked,
            kind: looked.kind.ok_or_else(changed)?,
        };
        let packed = tarball.add(&prefix, &found, &mut budget)?;
        if packed.content != after.content {
            return Err(changed());
        }
    }
    tarball.finish()
}

/// Unpacks a delta into `into`, which must be empty; gives the changes, and the folder with their content.
pub fn unpack_delta(
    source: impl Read,
    expected: Option<Checksum>,
    into: &Folder,
    limits: &Limits,
) -> Result<(Delta, Folder), ArchiveError> {
    let unpacked = unpack(source, expected, into, limits)?;
    let delta = read_list(into)?;
    for (path, change) in &delta.changes {
        let Some(after) = change.after() else {
            continue;
        };
        let name = EntryPath::below(Some(&EntryPath::below(None, WORKSPACE)), path.as_bytes());
        let found = unpacked.manifest.entries.get(&name);
        if found.map(|entry| &entry.content) != Some(&after.content) {
            return Err(Problem::NotAsListed { path: path.clone() }.into());
        }
    }
    let below = [WORKSPACE, b"/"].concat();
    let entries = unpacked.manifest.entries.iter();
    let mut unlisted = entries.filter(|(path, entry)| {
        // Folders on the way to a change come along.
        path.as_bytes().starts_with(&below) && entry.content != Content::Dir
    });
    let files = delta.changes.values().filter_map(Change::after);
    let files = files.filter(|after| after.content != Content::Dir).count();
    if let Some((path, _)) = unlisted.nth(files) {
        return Err(Problem::NotAsListed { path: path.clone() }.into());
    }
    let top = EntryPath::top();
    let workspace = into.child(WORKSPACE).map_err(failed("open", &top))?;
    Ok((delta, workspace))
}

fn read_list(into: &Folder) -> Result<Delta, ArchiveError> {
    let missing = |_| Problem::malformed("it holds no list of changes");
    let meta = into.child(META).map_err(missing)?;
    let (file, looked) = meta.read(LIST).map_err(missing)?;
    if looked.size > LIST_BYTES_MAX {
        return Err(Problem::malformed("its list of changes is too long").into());
    }
    let mut text = Vec::new();
    let path = EntryPath::below(None, LIST);
    file.take(LIST_BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(|source| ArchiveError::Failed {
            act: "read",
            path,
            source,
        })?;
    let read = serde_json::from_slice(&text);
    Ok(read.map_err(|error| Problem::malformed(format!("its list of changes: {error}")))?)
}
