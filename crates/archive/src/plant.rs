//! Writing an unpacked tree: every entry is checked against what came before it, then made by name in an opened folder.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::{Read, Write},
};

use rustix::io::Errno;

use crate::{
    ArchiveError, Case, Checksum, Content, Entry, EntryPath, Folder, Kind, Limits, Manifest, Mtime,
    Problem,
    checksum::Summing,
    error::{failed, reading},
    pack::Budget,
    path::{Target, check_target},
};

/// Read at once from the archive.
const CHUNK: usize = 64 << 10;

/// The mode of a folder that no entry speaks of.
const IMPLIED_DIR: u32 = 0o755;

/// A tree that is being written.
pub(crate) struct Planting<'a> {
    root: &'a Folder,
    limits: &'a Limits,
    budget: Budget<'a>,
    entries: BTreeMap<EntryPath, Entry>,
    /// Folders that were made for what is in them; an entry may still speak of each once.
    implied: HashSet<EntryPath>,
    /// Names in lower case, where case makes no difference.
    folded: HashMap<String, EntryPath>,
    /// The folder the last entry went to: archives keep neighbours together.
    last: Option<(EntryPath, Folder)>,
    buffer: Box<[u8]>,
}

impl<'a> Planting<'a> {
    /// `root` must be empty, so that nothing of an earlier owner gets in the way.
    pub(crate) fn new(root: &'a Folder, limits: &'a Limits) -> Result<Self, ArchiveError> {
        let names = root.names().map_err(failed("list", &EntryPath::top()))?;
        if !names.is_empty() {
            return Err(ArchiveError::NotEmpty);
        }
        Ok(Self {
            root,
            limits,
            budget: Budget::new(limits),
            entries: BTreeMap::new(),
            implied: HashSet::new(),
            folded: HashMap::new(),
            last: None,
            buffer: vec![0; CHUNK].into(),
        })
    }

    /// A folder. Its owner keeps every right, so that it can be filled and removed.
    pub(crate) fn dir(
        &mut self,
        path: EntryPath,
        mode: u32,
        mtime: Mtime,
    ) -> Result<(), ArchiveError> {
        let entry = Entry {
            mode: mode & 0o777 | 0o700,
            mtime,
            content: Content::Dir,
        };
        if self.implied.remove(&path) {
            self.entries.insert(path, entry);
            return Ok(());
        }
        self.claim(&path, entry)?;
        self.in_parent(&path, "create", Folder::make_dir)
    }

    pub(crate) fn link(
        &mut self,
        path: EntryPath,
        target: &[u8],
        mtime: Mtime,
    ) -> Result<(), ArchiveError> {
        check_target(&path, target, self.limits)?;
        let entry = Entry {
            mode: 0o777,
            mtime,
            content: Content::Link {
                target: Target(target.into()),
            },
        };
        self.claim(&path, entry)?;
        self.in_parent(&path, "create", |folder, name| {
            folder.make_link(target, name, mtime)
        })
    }

    /// A file of exactly `size` bytes.
    pub(crate) fn file(
        &mut self,
        path: EntryPath,
        mode: u32,
        mtime: Mtime,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        self.budget.take(&path, size)?;
        // The hash is known only afterwards; the path must be claimed before anything is made.
        let unknown = Content::File {
            size,
            hash: Checksum::UNSEEN,
        };
        let mode = mode & 0o777;
        let entry = Entry {
            mode,
            mtime,
            content: unknown,
        };
        self.claim(&path, entry)?;
        let file = self.in_parent(&path, "create", Folder::create)?;
        let mut file = Summing::new(file);
        let mut left = size;
        while left > 0 {
            let room = self
                .buffer
                .len()
                .min(usize::try_from(left).unwrap_or(CHUNK));
            let count = content.read(&mut self.buffer[..room]).map_err(reading)?;
            if count == 0 {
                return Err(Problem::Truncated.into());
            }
            let written = file.write_all(&self.buffer[..count]);
            written.map_err(|source| ArchiveError::Failed {
                act: "write",
                path: path.clone(),
                source,
            })?;
            left -= count as u64;
        }
        let (file, hash, size) = file.finish();
        file.dress(mode, mtime).map_err(failed("write", &path))?;
        if let Some(entry) = self.entries.get_mut(&path) {
            entry.content = Content::File { size, hash };
        }
        Ok(())
    }

    /// Gives the folders their modes and times, which filling them would have changed.
    pub(crate) fn finish(self) -> Result<Manifest, ArchiveError> {
        for (path, entry) in self.entries.iter().rev() {
            if entry.content != Content::Dir {
                continue;
            }
            let mtime = (!self.implied.contains(path)).then_some(entry.mtime);
            let folder = self.root.descend(Some(path));
            let dressed = folder.and_then(|folder| folder.dress(entry.mode, mtime));
            dressed.map_err(failed("write", path))?;
        }
        Ok(Manifest {
            entries: self.entries,
        })
    }

    /// Takes the path for an entry, and makes the folders above it where nothing spoke of them.
    fn claim(&mut self, path: &EntryPath, entry: Entry) -> Result<(), ArchiveError> {
        if self.entries.contains_key(path) {
            return Err(Problem::Twice { path: path.clone() }.into());
        }
        if let Some(parent) = path.parent() {
            match self.entries.get(&parent).map(|entry| entry.content.kind()) {
                Some(Kind::Dir) => {}
                Some(Kind::File | Kind::Link) => {
                    return Err(Problem::BelowNoFolder { path: path.clone() }.into());
                }
                None => {
                    let implied = Entry {
                        mode: IMPLIED_DIR,
                        mtime: Mtime::default(),
                        content: Content::Dir,
                    };
                    self.claim(&parent, implied)?;
                    self.in_parent(&parent, "create", Folder::make_dir)?;
                    self.implied.insert(parent);
                }
            }
        }
        self.check_case(path)?;
        let max = self.limits.entries;
        if self.entries.len() as u64 >= max {
            return Err(Problem::TooManyEntries { max }.into());
        }
        self.entries.insert(path.clone(), entry);
        Ok(())
    }

    fn check_case(&mut self, path: &EntryPath) -> Result<(), Problem> {
        match self.limits.case {
            Case::Differs => Ok(()),
            Case::Same => {
                let folded = path.to_string().to_lowercase();
                match self.folded.insert(folded, path.clone()) {
                    None => Ok(()),
                    Some(_) => Err(Problem::Case { path: path.clone() }),
                }
            }
        }
    }

    fn in_parent<T>(
        &mut self,
        path: &EntryPath,
        act: &'static str,
        make: impl FnOnce(&Folder, &[u8]) -> Result<T, Errno>,
    ) -> Result<T, ArchiveError> {
        let (parent, name) = path.split();
        let Some(parent) = parent else {
            return make(self.root, name).map_err(failed(act, path));
        };
        match &self.last {
            Some((last, folder)) if *last == parent => {
                make(folder, name).map_err(failed(act, path))
            }
            _ => {
                let folder = self.root.descend(Some(&parent));
                let folder = folder.map_err(failed(act, path))?;
                let made = make(&folder, name).map_err(failed(act, path));
                self.last = Some((parent, folder));
                made
            }
        }
    }
}
