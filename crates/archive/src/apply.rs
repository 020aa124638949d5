//! Taking changes home: all of them or none, and nothing that was changed here in the meantime is overwritten.

use rustix::io::Errno;

use crate::{
    ArchiveError, Change, Content, Delta, Entry, EntryPath, Folder, Journal, Kind, Limits, Problem,
    error::failed,
    folder::Looked,
    manifest::describe,
    path::check_target,
    stage::{Stage, Step, Taken, take_back},
    walk::Ignore,
};

/// What was changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub written: Vec<EntryPath>,
    pub removed: Vec<EntryPath>,
}

/// Something that both sides changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub path: EntryPath,
    pub why: &'static str,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{} paths were changed at home too", .0.len())]
    Conflicts(Vec<Conflict>),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl From<Problem> for ApplyError {
    fn from(problem: Problem) -> Self {
        Self::Archive(problem.into())
    }
}

/// Applies a delta to the tree in `home`, with content from `staged`. What `ignore` names was not lent, so a delta that
/// touches it is refused.
pub fn apply(
    home: &Folder,
    journal: &Journal,
    delta: &Delta,
    staged: &Folder,
    ignore: Ignore<'_>,
    limits: &Limits,
) -> Result<Applied, ApplyError> {
    run(home, journal, delta, staged, ignore, limits, &|_| Go::On)
}

/// Takes back what a change that was interrupted by a crash has done; says whether there was one. Applying does it too.
/// A tree that came with such a stage of its own is refused.
pub fn recover(home: &Folder, journal: &Journal) -> Result<bool, ArchiveError> {
    take_back(home, journal)
}

/// Whether to go on after so many steps; only tests stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Go {
    On,
    Die,
}

pub(crate) fn run(
    home: &Folder,
    journal: &Journal,
    delta: &Delta,
    staged: &Folder,
    ignore: Ignore<'_>,
    limits: &Limits,
    go: &dyn Fn(usize) -> Go,
) -> Result<Applied, ApplyError> {
    take_back(home, journal)?;
    check(delta, ignore, limits)?;
    let mut plan = Plan::default();
    // Away with the old, children before their folders; then the new, folders before their children.
    for (path, change) in delta.changes.iter().rev() {
        plan.clear(home, path, change, delta)?;
    }
    for (path, change) in &delta.changes {
        plan.put(home, path, change, delta)?;
    }
    if !plan.conflicts.is_empty() {
        plan.conflicts
            .sort_by(|left, right| left.path.cmp(&right.path));
        return Err(ApplyError::Conflicts(plan.conflicts));
    }
    if plan.moves.is_empty() {
        return Ok(plan.applied);
    }
    match plan.perform(home, journal, delta, staged, go) {
        Ok(Some(conflict)) => {
            take_back(home, journal)?;
            Err(ApplyError::Conflicts(vec![conflict]))
        }
        Ok(None) => Ok(plan.applied),
        Err(Stopped::Died) => Ok(Applied::default()),
        Err(Stopped::Failed(error)) => {
            take_back(home, journal)?;
            Err(error.into())
        }
    }
}

/// What can be said of a delta alone.
fn check(delta: &Delta, ignore: Ignore<'_>, limits: &Limits) -> Result<(), Problem> {
    for (path, change) in &delta.changes {
        let kind = |entry: &Entry| entry.content.kind();
        let kinds = [change.before().map(kind), change.after().map(kind)];
        let ignored = kinds.into_iter().flatten().any(|kind| ignore(path, kind));
        let mut above = path.parent();
        let mut hidden = ignored;
        while let Some(folder) = above {
            hidden |= ignore(&folder, Kind::Dir);
            above = folder.parent();
        }
        if hidden {
            return Err(Problem::NotLent { path: path.clone() });
        }
        if let Some(Content::Link { target }) = change.after().map(|after| &after.content) {
            check_target(path, &target.0, limits)?;
        }
    }
    Ok(())
}

/// A step before its slot is filled.
struct Move {
    step: Step,
    seen: Option<Looked>,
}

#[derive(Default)]
struct Plan {
    moves: Vec<Move>,
    conflicts: Vec<Conflict>,
    applied: Applied,
    slots: u32,
}

enum Stopped {
    Died,
    Failed(ArchiveError),
}

impl From<ArchiveError> for Stopped {
    fn from(error: ArchiveError) -> Self {
        Self::Failed(error)
    }
}

/// What stands at a path at home.
enum Here {
    Nothing,
    /// The folder it would be in is not there, or is no folder.
    NoFolder,
    Something(Looked, Entry),
}

fn look(home: &Folder, path: &EntryPath) -> Result<Here, ArchiveError> {
    let (parent, name) = path.split();
    let parent = match home.descend(parent.as_ref()) {
        Ok(parent) => parent,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Here::NoFolder),
        Err(error) => return Err(failed("look at", path)(error)),
    };
    let Some(looked) = parent.look(name).map_err(failed("look at", path))? else {
        return Ok(Here::Nothing);
    };
    if looked.kind.is_none() {
        // A device or a pipe is like nothing we know.
        let odd = Entry {
            mode: looked.mode,
            mtime: looked.mtime,
            content: Content::Dir,
        };
        return Ok(Here::Something(looked, odd));
    }
    let entry = describe(&parent, name, &looked, path)?;
    Ok(Here::Something(looked, entry))
}

impl Plan {
    /// Plans what has to go: removed things, and what gives way to another kind of thing.
    fn clear(
        &mut self,
        home: &Folder,
        path: &EntryPath,
        change: &Change,
        delta: &Delta,
    ) -> Result<(), ArchiveError> {
        let Some(before) = change.before().filter(|_| gives_way(change)) else {
            return Ok(());
        };
        let (looked, entry) = match look(home, path)? {
            // It is gone here too.
            Here::Nothing | Here::NoFolder => return Ok(()),
            Here::Something(looked, entry) => (looked, entry),
        };
        if change.after().is_some_and(|after| entry.is_like(after)) {
            return Ok(());
        }
        let is_as_it_was = entry.is_like(before) && looked.kind.is_some();
        if !is_as_it_was {
            self.conflict(path, "it was changed at home");
            return Ok(());
        }
        let step = if entry.content == Content::Dir {
            if has_news(home, path, delta)? {
                self.conflict(path, "something new is in it at home");
                return Ok(());
            }
            Step::RemoveDir {
                path: path.clone(),
                mode: looked.mode,
                mtime: looked.mtime,
            }
        } else {
            Step::Remove {
                path: path.clone(),
                slot: self.slot(),
            }
        };
        if change.after().is_none() {
            self.applied.removed.push(path.clone());
        }
        self.moves.push(Move {
            step,
            seen: Some(looked),
        });
        Ok(())
    }

    /// Plans what has to come.
    fn put(
        &mut self,
        home: &Folder,
        path: &EntryPath,
        change: &Change,
        delta: &Delta,
    ) -> Result<(), ArchiveError> {
        let Some(after) = change.after() else {
            return Ok(());
        };
        let before = change.before();
        let here = look(home, path)?;
        let (step, seen) = match (here, before) {
            (Here::Something(_, entry), _) if entry.is_like(after) => return Ok(()),
            // Cleared a moment ago, in the plan.
            (Here::Something(..), Some(_)) if gives_way(change) => (self.fresh(path, after), None),
            (Here::Something(looked, entry), Some(before)) => {
                if !entry.is_like(before) || looked.kind.is_none() {
                    self.conflict(path, "it was changed at home");
                    return Ok(());
                }
                let step = match after.content {
                    Content::Dir => Step::ChangeMode {
                        path: path.clone(),
                        before: looked.mode,
                        after: after.mode,
                    },
                    Content::File { .. } | Content::Link { .. } => Step::Swap {
                        path: path.clone(),
                        slot: self.slot(),
                        inode: 0,
                    },
                };
                (step, Some(looked))
            }
            // Both sides made a folder; what is in it decides.
            (Here::Something(_, entry), None)
                if entry.content == Content::Dir && after.content == Content::Dir =>
            {
                return Ok(());
            }
            (Here::Something(..), None) => {
                self.conflict(path, "it was made at home too");
                return Ok(());
            }
            (Here::Nothing | Here::NoFolder, Some(_)) => {
                self.conflict(path, "it was removed at home");
                return Ok(());
            }
            (Here::NoFolder, None) if !comes_with_folder(path, delta) => {
                self.conflict(path, "its folder is gone at home");
                return Ok(());
            }
            (Here::Nothing | Here::NoFolder, None) => (self.fresh(path, after), None),
        };
        self.applied.written.push(path.clone());
        self.moves.push(Move { step, seen });
        Ok(())
    }

    fn fresh(&mut self, path: &EntryPath, after: &Entry) -> Step {
        match after.content {
            Content::Dir => Step::MakeDir {
                path: path.clone(),
                mode: after.mode,
                mtime: after.mtime,
            },
            Content::File { .. } | Content::Link { .. } => Step::Place {
                path: path.clone(),
                slot: self.slot(),
                inode: 0,
            },
        }
    }

    /// Stages, writes down, moves. Gives the conflict if somebody was faster.
    fn perform(
        &mut self,
        home: &Folder,
        journal: &Journal,
        delta: &Delta,
        staged: &Folder,
        go: &dyn Fn(usize) -> Go,
    ) -> Result<Option<Conflict>, Stopped> {
        let stage = Stage::open(home, journal)?;
        for planned in &mut self.moves {
            match &mut planned.step {
                Step::Place { path, slot, inode } | Step::Swap { path, slot, inode } => {
                    let after = delta.changes.get(path).and_then(Change::after);
                    let after = after.expect("only what comes has a slot of its own");
                    *inode = stage.fill(*slot, staged, path, after)?;
                }
                Step::Remove { .. }
                | Step::RemoveDir { .. }
                | Step::MakeDir { .. }
                | Step::ChangeMode { .. } => {}
            }
        }
        let steps = self.moves.iter().map(|planned| planned.step.clone());
        stage.write_down(steps.collect())?;
        for (index, planned) in self.moves.iter().enumerate() {
            if go(index) == Go::Die {
                return Err(Stopped::Died);
            }
            match stage.take(&planned.step, planned.seen.as_ref())? {
                Taken::Yes => {}
                Taken::Overtaken => {
                    return Ok(Some(Conflict {
                        path: planned.step.path().clone(),
                        why: "it was changed at home just now",
                    }));
                }
            }
        }
        if go(self.moves.len()) == Go::Die {
            return Err(Stopped::Died);
        }
        stage.done()?;
        Ok(None)
    }

    fn slot(&mut self) -> u32 {
        self.slots += 1;
        self.slots
    }

    fn conflict(&mut self, path: &EntryPath, why: &'static str) {
        let path = path.clone();
        self.conflicts.push(Conflict { path, why });
    }
}

/// Whether the old thing must be gone before the new one can come: files and links can be swapped, folders cannot.
fn gives_way(change: &Change) -> bool {
    match change {
        Change::Added { .. } => false,
        Change::Removed { .. } => true,
        Change::Changed { before, after } => {
            let is_dir = |entry: &Entry| entry.content == Content::Dir;
            is_dir(before) != is_dir(after)
        }
    }
}

/// Whether the folder at `path` holds anything at home that the delta does not take away.
fn has_news(home: &Folder, path: &EntryPath, delta: &Delta) -> Result<bool, ArchiveError> {
    let folder = home.descend(Some(path));
    let names = folder.and_then(|folder| folder.names());
    let names = names.map_err(failed("list", path))?;
    Ok(names.iter().any(|name| {
        let path = EntryPath::below(Some(path), name);
        !matches!(delta.changes.get(&path), Some(Change::Removed { .. }))
    }))
}

/// Whether the folder a new thing goes to is made by the same delta.
fn comes_with_folder(path: &EntryPath, delta: &Delta) -> bool {
    let parent = path.parent();
    let change = parent.and_then(|parent| delta.changes.get(&parent));
    let after = change.and_then(Change::after);
    after.is_some_and(|after| after.content == Content::Dir)
}
