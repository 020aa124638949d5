//! What stays as it is in a folder that is lent: everything that makes its owner's git run a program, and names that this
//! node keeps for itself. No repository comes to be either: git would obey its settings wherever its owner looks.
//!
//! Things are known by what they are and not by their paths, so no link and no second name leads around this.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use platform::ConfinedDir;
use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, statat};

use crate::protocol::Status;

/// In the folder of a repository. `info` and `modules` may hold such things too, so they are not replaced as a whole.
const KEPT: [&str; 6] = [
    "commondir",
    "config",
    "config.worktree",
    "hooks",
    "info",
    "modules",
];

/// The folder of a repository, or the file in its place.
const REPOSITORY: &str = ".git";

/// What git takes for a repository when it is all in one folder, whatever that is called.
const MAKE_ONE: [&str; 3] = ["HEAD", "objects", "refs"];

/// A folder or a file, whatever it is called.
type Thing = (u64, u64);

#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// Names that stay in these folders.
    names: HashSet<(Thing, OsString)>,
    /// Folders in which nothing changes.
    folders: HashSet<Thing>,
    files: HashSet<Thing>,
    /// Folders of the repositories that were there.
    known: HashSet<Thing>,
    top: Option<Thing>,
    /// Names that nobody has or makes at the top, however their letters are written.
    reserved: Vec<String>,
}

impl Guard {
    /// Of the repositories at these paths, as they are now.
    pub(crate) fn of(
        workspace: &ConfinedDir,
        repositories: &[PathBuf],
        reserved: Vec<String>,
    ) -> Self {
        let mut guard = Self {
            top: thing(workspace, Path::new(".")),
            reserved,
            ..Self::default()
        };
        for path in repositories {
            if thing(workspace, path).is_none() {
                continue; // It is gone since it was found.
            }
            let above = path.parent().filter(|it| !it.as_os_str().is_empty());
            let above = above.unwrap_or(Path::new("."));
            if let (Some(above), Some(name)) = (thing(workspace, above), path.file_name()) {
                guard.names.insert((above, name.to_owned()));
            }
            guard.repository(workspace, path);
            let modules = path.join("modules");
            for module in workspace.list(&modules).unwrap_or_default() {
                guard.repository(workspace, &modules.join(module.name));
            }
        }
        guard
    }

    fn repository(&mut self, workspace: &ConfinedDir, path: &Path) {
        let Some(own) = thing(workspace, path) else {
            return;
        };
        self.known.insert(own);
        self.files.insert(own); // Of a linked work tree it is a file.
        self.names.extend(KEPT.map(|name| (own, name.into())));
        let hooks = path.join("hooks");
        self.folders.extend(thing(workspace, &hooks));
        let programs = workspace.list(&hooks).unwrap_or_default().into_iter();
        let programs = programs.map(|program| hooks.join(program.name));
        let settings = ["config", "config.worktree", "info/attributes"];
        let settings = settings.map(|name| path.join(name));
        for file in programs.chain(settings) {
            self.files.extend(thing(workspace, &file));
        }
        for (folder, name) in [("info", "attributes"), ("objects/info", "alternates")] {
            if let Some(folder) = thing(workspace, &path.join(folder)) {
                self.names.insert((folder, name.into()));
            }
        }
        if let Some(objects) = thing(workspace, &path.join("objects")) {
            self.names.insert((objects, "info".into()));
        }
    }

    /// Whether any file that is there is guarded.
    pub(crate) fn is_idle(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether what has this name in this folder may be changed or taken away.
    pub(crate) fn check(&self, folder: impl AsFd, name: &OsStr) -> Result<(), Status> {
        let is_reserved = self.is_reserved(name);
        if self.is_idle() && !is_reserved {
            return Ok(());
        }
        let folder = identity(&fstat(folder)?);
        if is_reserved && Some(folder) == self.top {
            return Err(Status::denied("This name is kept"));
        }
        let is_kept = self.folders.contains(&folder);
        match is_kept || self.names.contains(&(folder, name.to_owned())) {
            true => Err(refused()),
            false => Ok(()),
        }
    }

    /// Whether something may get this name in this folder.
    pub(crate) fn check_new(&self, folder: impl AsFd, name: &OsStr) -> Result<(), Status> {
        self.check(&folder, name)?;
        if name.eq_ignore_ascii_case(REPOSITORY) {
            return Err(no_repository());
        }
        let is_part = |part: &&str| name.eq_ignore_ascii_case(part);
        if !MAKE_ONE.iter().any(is_part) || self.known.contains(&identity(&fstat(&folder)?)) {
            return Ok(());
        }
        let is_there = |name: &OsStr| statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let mut others = MAKE_ONE.iter().filter(|part| !is_part(part));
        let makes_one = !is_there(name) && others.all(|part| is_there(part.as_ref()));
        match makes_one {
            true => Err(no_repository()),
            false => Ok(()),
        }
    }

    fn is_reserved(&self, name: &OsStr) -> bool {
        let mut reserved = self.reserved.iter();
        reserved.any(|reserved| name.eq_ignore_ascii_case(reserved))
    }

    /// Whether this file may be changed.
    pub(crate) fn check_file(&self, stat: &Stat) -> Result<(), Status> {
        match self.files.contains(&identity(stat)) {
            true => Err(refused()),
            false => Ok(()),
        }
    }
}

fn refused() -> Status {
    Status::denied("Git's settings and hooks stay as they are")
}

fn no_repository() -> Status {
    Status::denied("No repository is made in a lent folder")
}

fn identity(stat: &Stat) -> Thing {
    (stat.st_dev, stat.st_ino)
}

fn thing(workspace: &ConfinedDir, path: &Path) -> Option<Thing> {
    let opened = workspace
        .open_with(path, OFlags::PATH, Mode::empty())
        .ok()?;
    Some(identity(&fstat(opened).ok()?))
}
