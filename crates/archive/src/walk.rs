//! Going through a tree, names in order, parents first; what is left out is said.

use crate::{
    ArchiveError, EntryPath, Folder, Limits, Problem, STAGE_NAME, error::failed, folder::Looked,
    path::check_target,
};

/// What something in a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Dir,
    Link,
}

/// Says of a path whether it stays at home. A folder that does keeps everything below it.
pub(crate) type Ignore<'a> = &'a dyn Fn(&EntryPath, Kind) -> bool;

/// Nothing stays at home.
pub fn everything(_: &EntryPath, _: Kind) -> bool {
    false
}

/// Something that was not taken along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub path: EntryPath,
    pub why: Why,
}

/// Why it was not. What the caller ignores is not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// A link that may lead outside.
    LinkOut,
    /// A device, a pipe or a socket.
    NoFile,
    /// A zip holds only names that are text.
    NoText,
}

/// One thing on the way.
pub(crate) struct Found<'a> {
    pub(crate) path: &'a EntryPath,
    pub(crate) folder: &'a Folder,
    pub(crate) name: &'a [u8],
    pub(crate) looked: Looked,
    pub(crate) kind: Kind,
}

type Visit<'a> = &'a mut dyn FnMut(Found<'_>) -> Result<(), ArchiveError>;

/// What an unlinked file that is still open looks like through a mount.
const FUSE_HIDDEN: &[u8] = b".fuse_hidden";

/// Visits everything below `root` that is neither ignored nor unfit to travel.
pub(crate) fn walk(
    root: &Folder,
    ignore: Ignore<'_>,
    limits: &Limits,
    visit: Visit<'_>,
) -> Result<Vec<LeftOut>, ArchiveError> {
    let mut walk = Walk {
        ignore,
        limits,
        visit,
        entries: 0,
        left_out: Vec::new(),
    };
    walk.folder(root, None, 1)?;
    Ok(walk.left_out)
}

struct Walk<'a> {
    ignore: Ignore<'a>,
    limits: &'a Limits,
    visit: Visit<'a>,
    entries: u64,
    left_out: Vec<LeftOut>,
}

impl Walk<'_> {
    fn folder(
        &mut self,
        folder: &Folder,
        path: Option<&EntryPath>,
        depth: usize,
    ) -> Result<(), ArchiveError> {
        let here = path.cloned().unwrap_or_else(EntryPath::top);
        let names = folder.names().map_err(failed("list", &here))?;
        for name in names {
            let is_ours = path.is_none() && name.eq_ignore_ascii_case(STAGE_NAME.as_bytes());
            if is_ours || name.starts_with(FUSE_HIDDEN) {
                continue;
            }
            let path = EntryPath::below(path, &name);
            let looked = folder.look(&name).map_err(failed("look at", &path))?;
            // Gone since it was listed.
            let Some(looked) = looked else { continue };
            let Some(kind) = looked.kind else {
                self.leave_out(path, Why::NoFile);
                continue;
            };
            if (self.ignore)(&path, kind) {
                continue;
            }
            self.entries += 1;
            self.check(&path, depth)?;
            if kind == Kind::Link {
                let target = folder.link_target(&name).map_err(failed("read", &path))?;
                if check_target(&path, &target, self.limits).is_err() {
                    self.leave_out(path, Why::LinkOut);
                    continue;
                }
            }
            (self.visit)(Found {
                path: &path,
                folder,
                name: &name,
                looked,
                kind,
            })?;
            if kind == Kind::Dir {
                let child = folder.child(&name).map_err(failed("open", &path))?;
                self.folder(&child, Some(&path), depth + 1)?;
            }
        }
        Ok(())
    }

    fn check(&self, path: &EntryPath, depth: usize) -> Result<(), ArchiveError> {
        let max = self.limits.entries;
        if self.entries > max {
            return Err(Problem::TooManyEntries { max }.into());
        }
        let why = if depth > self.limits.depth {
            "it is too deep"
        } else if path.as_bytes().len() > self.limits.path_bytes {
            "it is too long"
        } else {
            return Ok(());
        };
        let name = path.to_string();
        Err(Problem::Path { name, why }.into())
    }

    fn leave_out(&mut self, path: EntryPath, why: Why) {
        self.left_out.push(LeftOut { path, why });
    }
}
