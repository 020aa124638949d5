//! Changing a tree in one piece: new content is staged in it, the steps are written down, then names are moved.
//!
//! Until the steps are marked as done they are taken back, by the one who began them or, after a crash, by `recover`.
//! They are written down outside the tree: whoever fills a tree could otherwise say what is moved where in it.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::{
    ArchiveError, Content, Entry, EntryPath, Folder, Journal, Mtime, Problem, STAGE_NAME,
    checksum::Summing, error::failed, folder::Looked, journal::Noted,
};

const NEW: &[u8] = b"new";
const OLD: &[u8] = b"old";

/// One change of a name, which can be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// Takes a file or a link away.
    Remove { path: EntryPath, slot: u32 },
    RemoveDir {
        path: EntryPath,
        mode: u32,
        mtime: Mtime,
    },
    MakeDir {
        path: EntryPath,
        mode: u32,
        mtime: Mtime,
    },
    /// Puts what is in the slot where nothing is. The inode tells it from what others may put there.
    Place {
        path: EntryPath,
        slot: u32,
        inode: u64,
    },
    /// Puts what is in the slot in the place of something else, at once.
    Swap {
        path: EntryPath,
        slot: u32,
        inode: u64,
    },
    ChangeMode {
        path: EntryPath,
        before: u32,
        after: u32,
    },
}

impl Step {
    pub(crate) fn path(&self) -> &EntryPath {
        match self {
            Self::Remove { path, .. }
            | Self::RemoveDir { path, .. }
            | Self::MakeDir { path, .. }
            | Self::Place { path, .. }
            | Self::Swap { path, .. }
            | Self::ChangeMode { path, .. } => path,
        }
    }
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Yes,
    /// Somebody changed the tree in the meantime.
    Overtaken,
}

/// The stage of a tree.
pub(crate) struct Stage<'a> {
    home: &'a Folder,
    journal: &'a Journal,
    inode: u64,
    new: Folder,
    old: Folder,
}

impl<'a> Stage<'a> {
    /// Where no other stage is, which `take_back` sees to.
    pub(crate) fn open(home: &'a Folder, journal: &'a Journal) -> Result<Self, ArchiveError> {
        journal.write(Noted::Opening)?;
        let open = || {
            home.make_dir(STAGE_NAME.as_bytes())?;
            let folder = home.child(STAGE_NAME.as_bytes())?;
            folder.make_dir(NEW)?;
            folder.make_dir(OLD)?;
            Ok(Self {
                home,
                journal,
                inode: folder.inode()?,
                new: folder.child(NEW)?,
                old: folder.child(OLD)?,
            })
        };
        open().map_err(failed("create", &stage_path()))
    }

    /// Copies new content into a slot, and gives its inode; it must be what the list says.
    pub(crate) fn fill(
        &self,
        slot: u32,
        from: &Folder,
        path: &EntryPath,
        after: &Entry,
    ) -> Result<u64, ArchiveError> {
        let slot = slot_name(slot);
        let unlike = || ArchiveError::from(Problem::NotAsListed { path: path.clone() });
        match &after.content {
            Content::Dir => return Err(unlike()),
            Content::Link { target } => {
                let made = self.new.make_link(&target.0, &slot, after.mtime);
                made.map_err(failed("stage", path))?;
            }
            Content::File { size, hash } => {
                let (parent, name) = path.split();
                let parent = from.descend(parent.as_ref());
                let opened = parent.and_then(|parent| parent.read(name));
                let (mut source, _) = opened.map_err(failed("open", path))?;
                let created = self.new.create(&slot).map_err(failed("stage", path))?;
                let mut summing = Summing::new(created);
                let copied = std::io::copy(&mut source, &mut summing);
                copied.map_err(|source| ArchiveError::Failed {
                    act: "stage",
                    path: path.clone(),
                    source,
                })?;
                let (file, found, bytes) = summing.finish();
                if found != *hash || bytes != *size {
                    return Err(unlike());
                }
                let dressed = file.dress(after.mode, after.mtime);
                dressed.map_err(failed("stage", path))?;
            }
        }
        let looked = self.new.look(&slot).map_err(failed("stage", path))?;
        Ok(looked.ok_or_else(unlike)?.inode)
    }

    /// Writes the steps down before the first is taken.
    pub(crate) fn write_down(&self, steps: Vec<Step>) -> Result<(), ArchiveError> {
        let inode = self.inode;
        self.journal.write(Noted::Begun { inode, steps })
    }

    /// Takes a step; `seen` is what stood there when it was planned.
    pub(crate) fn take(&self, step: &Step, seen: Option<&Looked>) -> Result<Taken, ArchiveError> {
        let path = step.path();
        match self.try_take(step, seen) {
            Ok(taken) => Ok(taken),
            // The tree is not what it was a moment ago.
            Err(Errno::EXIST | Errno::NOENT | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {
                Ok(Taken::Overtaken)
            }
            Err(error) => Err(failed("change", path)(error)),
        }
    }

    fn try_take(&self, step: &Step, seen: Option<&Looked>) -> Result<Taken, Errno> {
        let (parent, name) = step.path().split();
        let parent = self.home.descend(parent.as_ref())?;
        let still = |folder: &Folder, slot: &[u8]| match (folder.look(slot)?, seen) {
            (Some(now), Some(seen)) if now == *seen => Ok(Taken::Yes),
            (Some(_) | None, _) => Ok(Taken::Overtaken),
        };
        match step {
            Step::Remove { slot, .. } => {
                parent.move_to(name, &self.old, &slot_name(*slot))?;
                still(&self.old, &slot_name(*slot))
            }
            Step::RemoveDir { .. } => parent.remove_dir(name).map(|()| Taken::Yes),
            Step::MakeDir { mode, mtime, .. } => {
                parent.make_dir(name)?;
                parent.child(name)?.dress(*mode | 0o700, Some(*mtime))?;
                Ok(Taken::Yes)
            }
            Step::Place { slot, .. } => {
                self.new.move_to(&slot_name(*slot), &parent, name)?;
                Ok(Taken::Yes)
            }
            Step::Swap { slot, .. } => {
                let slot = slot_name(*slot);
                match self.new.swap(&slot, &parent, name) {
                    Ok(()) => still(&self.new, &slot),
                    // Not every file system can swap; two moves do, with a moment in between.
                    Err(Errno::INVAL | Errno::NOSYS) => {
                        parent.move_to(name, &self.old, &slot)?;
                        self.new.move_to(&slot, &parent, name)?;
                        still(&self.old, &slot)
                    }
                    Err(error) => Err(error),
                }
            }
            Step::ChangeMode { after, .. } => {
                parent.child(name)?.dress(*after | 0o700, None)?;
                Ok(Taken::Yes)
            }
        }
    }

    /// From here on the change holds, also if what was staged cannot be removed now.
    pub(crate) fn done(self) -> Result<(), ArchiveError> {
        let inode = self.inode;
        self.journal.write(Noted::Done { inode })?;
        sweep(self.home)?;
        self.journal.remove()
    }
}

/// Takes back what an interrupted change did to the tree; says whether there was any. A stage that the journal does not
/// name was put there by somebody else: it is neither believed nor removed.
pub(crate) fn take_back(home: &Folder, journal: &Journal) -> Result<bool, ArchiveError> {
    let path = stage_path();
    let failed = failed("recover", &path);
    let noted = journal.read()?;
    let there = home.look_any_case(STAGE_NAME).map_err(&failed)?;
    let Some(there) = there else {
        if noted.is_some() {
            journal.remove()?;
        }
        return Ok(false);
    };
    let foreign = || Err(ArchiveError::ForeignStage { name: STAGE_NAME });
    match noted {
        // It was going to be made where nothing was, and nothing was moved yet.
        Some(Noted::Opening) => {}
        Some(Noted::Begun { inode, steps }) if inode == there => {
            let folder = home.child(STAGE_NAME.as_bytes()).map_err(&failed)?;
            let (new, old) = (
                folder.child(NEW).map_err(&failed)?,
                folder.child(OLD).map_err(&failed)?,
            );
            for step in steps.iter().rev() {
                undo(home, &new, &old, step).map_err(&failed)?;
            }
        }
        Some(Noted::Done { inode }) if inode == there => {}
        Some(Noted::Begun { .. } | Noted::Done { .. }) | None => return foreign(),
    }
    sweep(home)?;
    journal.remove()?;
    Ok(true)
}

/// Undoes a step if it was taken, and does nothing if it was not.
fn undo(home: &Folder, new: &Folder, old: &Folder, step: &Step) -> Result<(), Errno> {
    let (parent, name) = step.path().split();
    let parent = match home.descend(parent.as_ref()) {
        Ok(parent) => parent,
        // Then nothing was ever put there, or its owner took it away.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        Err(error) => return Err(error),
    };
    let inode_there = parent.look(name)?.map(|looked| looked.inode);
    match step {
        Step::Remove { slot, .. } => {
            let slot = slot_name(*slot);
            if old.look(&slot)?.is_some() && inode_there.is_none() {
                old.move_to(&slot, &parent, name)?;
            }
        }
        Step::RemoveDir { mode, mtime, .. } => {
            if inode_there.is_none() {
                parent.make_dir(name)?;
                parent.child(name)?.dress(*mode, Some(*mtime))?;
            }
        }
        Step::MakeDir { .. } => match parent.remove_dir(name) {
            // Somebody else put something there meanwhile.
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            Err(error) => return Err(error),
        },
        Step::Place { slot, inode, .. } => {
            if inode_there == Some(*inode) {
                parent.move_to(name, new, &slot_name(*slot))?;
            }
        }
        Step::Swap { slot, inode, .. } => {
            let slot = slot_name(*slot);
            let moved_away = old.look(&slot)?.is_some();
            if moved_away {
                if inode_there == Some(*inode) {
                    parent.move_to(name, new, &slot)?;
                }
                old.move_to(&slot, &parent, name)?;
            } else if inode_there == Some(*inode) {
                parent.swap(name, new, &slot)?;
            }
        }
        Step::ChangeMode { before, .. } => match parent.child(name) {
            Ok(folder) => folder.dress(*before, None)?,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(error),
        },
    }
    Ok(())
}

fn sweep(home: &Folder) -> Result<(), ArchiveError> {
    let swept = home.remove_tree(STAGE_NAME.as_bytes());
    swept.map_err(failed("remove", &stage_path()))
}

fn slot_name(slot: u32) -> Vec<u8> {
    slot.to_string().into_bytes()
}

fn stage_path() -> EntryPath {
    EntryPath::below(None, STAGE_NAME.as_bytes())
}
