//! How a tree is, kept as git keeps it: what is new or changed goes into a pack, and what the tree has become is a commit.
//!
//! A file is read again unless its size, number and times say that nobody can have touched it since. Nothing here follows
//! a link, and no rule in the tree hides anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read, Seek, Write},
    ops::Bound::{Excluded, Included},
};

use rustix::io::Errno;
use sha1::Digest;

use crate::{
    ArchiveError, EntryPath, Folder, Kind, ObjectId,
    error::failed,
    folder::{Looked, Seen},
    object_pack::{ObjectKind, ObjectPack, id},
};

/// Files up to this size are read once, into memory; larger ones twice.
const WHOLE_MAX: u64 = 4 << 20;

/// A clock of files may be that much behind ours, in seconds: some file systems count in twos.
const CLOCK_COARSE: i64 = 2;

/// The files of a tree, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptTree {
    files: BTreeMap<Box<[u8]>, Kept>,
    /// When it was last looked at, in seconds. What was changed before that and looks the same is the same.
    looked_at: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kept {
    mode: u32,
    id: ObjectId,
    /// Of a file that was read here.
    seen: Option<Seen>,
}

const PLAIN: u32 = 0o100_644;
const EXECUTABLE: u32 = 0o100_755;
const LINK: u32 = 0o120_000;
const TREE: u32 = 0o040_000;

impl KeptTree {
    /// Every file and link that is kept.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.files.keys().map(AsRef::as_ref)
    }

    /// Looks at these paths below `home`: what is new or changed goes into the pack, what is gone leaves the tree. `now` is
    /// in seconds, taken before anything is looked at.
    pub fn look<W: Read + Write + Seek>(
        &mut self,
        home: &Folder,
        paths: &BTreeSet<&[u8]>,
        now: i64,
        pack: &mut ObjectPack<W>,
    ) -> Result<(), ArchiveError> {
        let known: BTreeSet<ObjectId> = self.files.values().map(|kept| kept.id).collect();
        let safe_before = self.looked_at - CLOCK_COARSE;
        let mut around = Around {
            home,
            parent: None,
            folder: None,
        };
        for path in paths {
            let entry = EntryPath::known(path);
            let (parent, name) = entry.split();
            let found = match around.folder(parent.as_ref())? {
                None => None,
                Some(folder) => {
                    let seen = folder.look_closely(name);
                    let seen = seen.map_err(failed("look at", &entry))?;
                    seen.map(|seen| (folder, seen))
                }
            };
            let kept = match found {
                None => None,
                Some((folder, seen)) => {
                    let before = self.files.get(*path);
                    let is_same = |it: &&Kept| it.seen == Some(seen) && seen.is_before(safe_before);
                    match before.filter(is_same) {
                        Some(kept) => Some(*kept),
                        None => keep(folder, name, seen, &entry, &known, pack)?,
                    }
                }
            };
            match kept {
                Some(kept) => self.insert(path, kept),
                None => {
                    self.files.remove(*path);
                }
            }
        }
        self.looked_at = now;
        Ok(())
    }

    /// A path cannot be a file and a folder.
    fn insert(&mut self, path: &[u8], kept: Kept) {
        let folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (end, _) in folders {
            self.files.remove(&path[..end]);
        }
        let below = [path, b"/"].concat();
        let after = [path, b"0"].concat(); // The byte after `/`.
        let stale: Vec<_> = self
            .files
            .range::<[u8], _>((Included(below.as_slice()), Excluded(after.as_slice())))
            .map(|(path, _)| path.clone())
            .collect();
        for path in stale {
            self.files.remove(&path);
        }
        self.files.insert(path.into(), kept);
    }

    /// Puts a commit of the tree into the pack, without parents; `now` is in seconds.
    pub fn commit<W: Read + Write + Seek>(
        &self,
        message: &str,
        now: i64,
        pack: &mut ObjectPack<W>,
    ) -> io::Result<ObjectId> {
        let files: Vec<(&[u8], &Kept)> =
            self.files.iter().map(|(path, it)| (&**path, it)).collect();
        let tree = tree(&files, 0, pack)?;
        let who = format!("agentcraft <agentcraft@localhost> {now} +0000");
        let text = format!("tree {tree}\nauthor {who}\ncommitter {who}\n\n{message}\n");
        pack.put(ObjectKind::Commit, text.as_bytes())
    }

    /// Gives these files the modes that they had when they were kept; those that are not there are passed over.
    pub fn dress<'a>(&self, home: &Folder, paths: impl Iterator<Item = &'a [u8]>) {
        for path in paths {
            let Some(seen) = self.files.get(path).and_then(|kept| kept.seen) else {
                continue;
            };
            let entry = EntryPath::known(path);
            let (parent, name) = entry.split();
            let opened = home
                .descend(parent.as_ref())
                .and_then(|folder| folder.read(name));
            if let Ok((file, now)) = opened
                && now.mode != seen.looked.mode
            {
                let _ = file.set_mode(seen.looked.mode); // The content is there, which matters more.
            }
        }
    }

    /// As bytes for a file: names need not be text, and hold no NUL.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{}\0", self.looked_at).into_bytes();
        for (path, kept) in &self.files {
            let seen = kept.seen.map_or_else(String::new, |seen| seen.to_text());
            bytes.extend(format!("{:o} {} {seen}\t", kept.mode, kept.id).into_bytes());
            bytes.extend_from_slice(path);
            bytes.push(0);
        }
        bytes
    }

    /// Nothing if they are not such bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
        let looked_at = str::from_utf8(lines.next()?).ok()?.parse().ok()?;
        let files = lines.map(|line| {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            let head = str::from_utf8(&line[..tab]).ok()?;
            let mut words = head.splitn(3, ' ');
            let mode = u32::from_str_radix(words.next()?, 8).ok()?;
            let id = ObjectId::parse(words.next()?)?;
            let seen = words.next().and_then(Seen::from_text);
            Some((line[tab + 1..].into(), Kept { mode, id, seen }))
        });
        Some(Self {
            files: files.collect::<Option<_>>()?,
            looked_at,
        })
    }
}

/// The folder that was opened last: paths come in order.
struct Around<'a> {
    home: &'a Folder,
    parent: Option<EntryPath>,
    folder: Option<Folder>,
}

impl Around<'_> {
    /// Nothing if there is no such folder, or a link stands in its place.
    fn folder(&mut self, parent: Option<&EntryPath>) -> Result<Option<&Folder>, ArchiveError> {
        let Some(path) = parent else {
            return Ok(Some(self.home));
        };
        if self.parent.as_ref() != parent {
            self.folder = match self.home.descend(parent) {
                Ok(folder) => Some(folder),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
                Err(error) => return Err(failed("open", path)(error)),
            };
            self.parent = parent.cloned();
        }
        Ok(self.folder.as_ref())
    }
}

/// What stands under this name now; nothing if it is neither a file nor a link.
fn keep<W: Read + Write + Seek>(
    folder: &Folder,
    name: &[u8],
    seen: Seen,
    path: &EntryPath,
    known: &BTreeSet<ObjectId>,
    pack: &mut ObjectPack<W>,
) -> Result<Option<Kept>, ArchiveError> {
    let kept = |mode, id| Kept {
        mode,
        id,
        seen: Some(seen),
    };
    match seen.looked.kind {
        Some(Kind::Dir) | None => Ok(None),
        Some(Kind::Link) => {
            let target = match folder.link_target(name) {
                Ok(target) => target,
                Err(Errno::NOENT | Errno::INVAL) => return Ok(None), // It went a moment ago.
                Err(error) => return Err(failed("read", path)(error)),
            };
            let id = pack.put(ObjectKind::Blob, &target).map_err(writing)?;
            Ok(Some(kept(LINK, id)))
        }
        Some(Kind::File) => {
            let (file, opened) = match folder.read(name) {
                Ok(opened) => opened,
                Err(Errno::NOENT | Errno::LOOP | Errno::INVAL) => return Ok(None), // As above.
                Err(error) => return Err(failed("read", path)(error)),
            };
            let mode = match opened.mode & 0o100 {
                0 => PLAIN,
                _ => EXECUTABLE,
            };
            let is_known =
                |id: &ObjectId, pack: &ObjectPack<W>| known.contains(id) || pack.holds(id);
            let (size, content) = (opened.size, file.take(opened.size));
            let id = match size <= WHOLE_MAX {
                true => keep_small(content, size, path, &is_known, pack)?,
                false => {
                    let again = || folder.read(name).map_err(failed("read", path));
                    keep_large(content, size, path, &is_known, pack, again)?
                }
            };
            Ok(Some(kept(mode, id)))
        }
    }
}

fn writing(source: io::Error) -> ArchiveError {
    ArchiveError::Stream {
        act: "write the audit",
        source,
    }
}

fn reading(path: &EntryPath) -> impl Fn(io::Error) -> ArchiveError {
    move |source| ArchiveError::Failed {
        act: "read",
        path: path.clone(),
        source,
    }
}

type IsKnown<'a, W> = &'a dyn Fn(&ObjectId, &ObjectPack<W>) -> bool;

fn keep_small<W: Read + Write + Seek>(
    mut file: impl Read,
    size: u64,
    path: &EntryPath,
    is_known: IsKnown<'_, W>,
    pack: &mut ObjectPack<W>,
) -> Result<ObjectId, ArchiveError> {
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(reading(path))?;
    if content.len() as u64 != size {
        return Err(ArchiveError::Changed { path: path.clone() });
    }
    let id = id(ObjectKind::Blob.begin(size).chain_update(&content));
    if !is_known(&id, pack) {
        pack.put_new(ObjectKind::Blob, size, id, content.as_slice())
            .map_err(writing)?;
    }
    Ok(id)
}

/// Reads it to know its name, and again if it has to be written.
fn keep_large<W: Read + Write + Seek, R: Read>(
    file: impl Read,
    size: u64,
    path: &EntryPath,
    is_known: IsKnown<'_, W>,
    pack: &mut ObjectPack<W>,
    again: impl FnOnce() -> Result<(R, Looked), ArchiveError>,
) -> Result<ObjectId, ArchiveError> {
    let mut hashing = Hashing::new(file, size);
    io::copy(&mut hashing, &mut io::sink()).map_err(reading(path))?;
    let id = hashing.finish();
    if !is_known(&id, pack) {
        let mut hashing = Hashing::new(again()?.0.take(size), size);
        pack.put_new(ObjectKind::Blob, size, id, &mut hashing)
            .map_err(writing)?;
        if hashing.finish() != id {
            return Err(ArchiveError::Changed { path: path.clone() });
        }
    }
    Ok(id)
}

/// Names the blob that is read through it.
struct Hashing<R> {
    content: R,
    hasher: sha1::Sha1,
}

impl<R: Read> Hashing<R> {
    fn new(content: R, size: u64) -> Self {
        Self {
            content,
            hasher: ObjectKind::Blob.begin(size),
        }
    }

    fn finish(self) -> ObjectId {
        id(self.hasher)
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

/// Puts the tree of these files, whose folder is so many bytes of each path. Paths in order of their bytes are in the
/// order that git wants.
fn tree<W: Read + Write + Seek>(
    files: &[(&[u8], &Kept)],
    folder: usize,
    pack: &mut ObjectPack<W>,
) -> io::Result<ObjectId> {
    let mut entries = Vec::new();
    let mut rest = files;
    while let Some((path, kept)) = rest.first() {
        let name = &path[folder..];
        let (mode, name, id, length) = match name.iter().position(|byte| *byte == b'/') {
            None => (kept.mode, name, kept.id, 1),
            Some(end) => {
                let prefix = &path[..=folder + end];
                let inside = rest.iter().take_while(|(path, _)| path.starts_with(prefix));
                let length = inside.count();
                let id = tree(&rest[..length], prefix.len(), pack)?;
                (TREE, &name[..end], id, length)
            }
        };
        entries.extend(format!("{mode:o} ").into_bytes());
        entries.extend_from_slice(name);
        entries.push(0);
        entries.extend_from_slice(id.as_bytes());
        rest = &rest[length..];
    }
    pack.put(ObjectKind::Tree, &entries)
}
