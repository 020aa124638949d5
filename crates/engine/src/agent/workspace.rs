//! Workspaces on disk: made as the plan says, undone when the creation fails, removed with the agent.
//!
//! A folder of our own is removed whole. In a folder of the user's only what we added is ours: the list of it is kept
//! before anything is written, and what we replace is set aside until the creation is complete.

use std::path::{Path, PathBuf};

use catalog::{PlannedFile, WorkspacePlan};
use domain::Name;
use platform::{
    ConfinedDir,
    confined::ConfinedError,
    files::{self, Durability, FileError},
};
use serde::{Deserialize, Serialize};

use super::{InstanceFile, Place, WorkDir, WorkDirConflict, instance_file::FILE_NAME};

/// Folders of the system: an agent at work in one of them would be at work on the machine.
const SYSTEM: [&str; 11] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr",
];

/// Where workspaces are, and how they are written.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    pub(crate) instances_dir: PathBuf,
    pub(crate) durability: Durability,
}

/// What a failed creation takes back from a folder of the user's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Undo {
    /// The folder itself is ours.
    dir_is_new: bool,
    /// Files that were not there before, relative to the folder.
    new_files: Vec<String>,
    /// Folders that were not there before, deepest last.
    new_dirs: Vec<String>,
    /// Files whose former content is set aside, by their place in this list.
    replaced: Vec<String>,
}

/// Why a workspace could not be made or removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceError {
    #[error("the folder is there already; another agent or program uses it")]
    Taken,
    #[error(
        "the folder is not empty; `overwrite` replaces files of the same name, `append` keeps them"
    )]
    NotEmpty,
    #[error("it is a folder of the system, or of the daemon itself")]
    Forbidden,
    #[error("another agent works there already (it has {FILE_NAME})")]
    OtherAgent,
    #[error("{path} there is a link; `append` keeps it, or move it away")]
    Link { path: String },
    #[error("a work folder is an absolute path to a folder")]
    NotAFolder,
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Confined(#[from] ConfinedError),
}

impl Workspace {
    /// Where the agent will work, found out without changing anything.
    pub(crate) fn place(
        &self,
        name: &Name,
        work_dir: Option<&WorkDir>,
        paths: &[String],
    ) -> Result<Place, WorkspaceError> {
        let own = self.instances_dir.join(name.as_str());
        if files::is_there(&own) {
            return Err(WorkspaceError::Taken);
        }
        match work_dir {
            None => Ok(Place::Own { dir: own }),
            Some(WorkDir { dir, .. }) if !dir.is_absolute() => Err(WorkspaceError::NotAFolder),
            Some(WorkDir { dir, conflict }) => {
                self.refuse_forbidden(dir)?;
                let undo = survey(dir, *conflict, paths)?;
                Ok(Place::Users {
                    dir: dir.clone(),
                    link: own,
                    undo: Some(undo),
                })
            }
        }
    }

    /// A folder of the system, or one that holds or is held by the daemon's own, is nobody's to work in.
    fn refuse_forbidden(&self, dir: &Path) -> Result<(), WorkspaceError> {
        let dir = files::resolve(dir);
        let home = files::resolve(self.instances_dir.parent().unwrap_or(&self.instances_dir));
        let of_the_system = SYSTEM.iter().any(|folder| dir.starts_with(folder));
        if dir.starts_with(&home) || home.starts_with(&dir) || of_the_system {
            return Err(WorkspaceError::Forbidden);
        }
        Ok(())
    }

    /// Writes the plan. On failure the caller undoes it.
    pub(crate) fn materialise(
        &self,
        place: &Place,
        plan: &WorkspacePlan,
    ) -> Result<(), WorkspaceError> {
        match place {
            Place::Own { dir } => {
                files::create_private_dir(dir)?;
                write_files(dir, plan.files.iter())
            }
            Place::Users { dir, link, undo } => {
                files::create_dir_all(dir)?;
                if let Some(undo) = undo {
                    set_aside(dir, link, undo)?;
                }
                let ours = |file: &&PlannedFile| place.may_write(file.path.as_str());
                write_files(dir, plan.files.iter().filter(ours))?;
                Ok(files::symlink(dir, link)?)
            }
        }
    }

    /// The creation is complete: what was set aside is not needed any more.
    pub(crate) fn settle(&self, place: &Place) -> Result<(), WorkspaceError> {
        match place {
            Place::Own { .. } => Ok(()),
            Place::Users { link, .. } => Ok(files::remove_tree(&aside(link))?),
        }
    }

    /// Removes what is ours, also after a creation that stopped half-way.
    pub(crate) fn remove(&self, place: &Place) -> Result<(), WorkspaceError> {
        match place {
            Place::Own { dir } => Ok(files::remove_tree(dir)?),
            Place::Users { dir, link, undo } => {
                if files::is_there(dir) {
                    self.instance_file(place).remove()?;
                    files::remove_stale_temps(dir)?;
                    if let Some(undo) = undo {
                        take_back(dir, link, undo)?;
                    }
                }
                files::remove_tree(&aside(link))?;
                Ok(files::remove_file_if_there(link)?)
            }
        }
    }

    pub(crate) fn instance_file(&self, place: &Place) -> InstanceFile {
        InstanceFile::new(place.dir(), self.durability)
    }
}

impl Undo {
    /// Whether the survey found that the file is ours to write.
    pub(crate) fn covers(&self, path: &str) -> bool {
        self.new_files
            .iter()
            .chain(&self.replaced)
            .any(|covered| covered == path)
    }
}

fn set_aside(dir: &Path, link: &Path, undo: &Undo) -> Result<(), WorkspaceError> {
    if undo.replaced.is_empty() {
        return Ok(());
    }
    let aside = aside(link);
    files::create_private_dir(&aside)?;
    for (index, path) in undo.replaced.iter().enumerate() {
        files::copy_atomic(&dir.join(path), &aside.join(index.to_string()))?;
    }
    Ok(())
}

/// Where the former content of replaced files waits: beside the link, under a name no agent can have.
fn aside(link: &Path) -> PathBuf {
    let name = link
        .file_name()
        .map(|name| name.to_string_lossy())
        .unwrap_or_default();
    link.with_file_name(format!(".aside-{name}"))
}

fn survey(dir: &Path, conflict: WorkDirConflict, paths: &[String]) -> Result<Undo, WorkspaceError> {
    if !files::is_there(dir) {
        return Ok(Undo {
            dir_is_new: true,
            new_files: paths.to_vec(),
            ..Undo::default()
        });
    }
    if !dir.is_dir() {
        return Err(WorkspaceError::NotAFolder);
    }
    if files::is_there(&dir.join(FILE_NAME)) {
        return Err(WorkspaceError::OtherAgent);
    }
    if conflict == WorkDirConflict::Error && !files::list(dir)?.is_empty() {
        return Err(WorkspaceError::NotEmpty);
    }
    let confined = ConfinedDir::open(dir)?;
    let mut undo = Undo::default();
    for path in paths {
        if files::is_link(&dir.join(path)) {
            // Written through, it would change a file elsewhere; replaced, it would be lost.
            match conflict {
                WorkDirConflict::Append => continue,
                WorkDirConflict::Overwrite | WorkDirConflict::Error => {
                    return Err(WorkspaceError::Link { path: path.clone() });
                }
            }
        }
        match (confined.exists(Path::new(path))?, conflict) {
            (false, _) => undo.new_files.push(path.clone()),
            (true, WorkDirConflict::Overwrite | WorkDirConflict::Error) => {
                undo.replaced.push(path.clone())
            }
            (true, WorkDirConflict::Append) => {}
        }
    }
    for folder in parents(paths) {
        if !confined.exists(Path::new(&folder))? {
            undo.new_dirs.push(folder);
        }
    }
    Ok(undo)
}

/// Every folder the files need, parents before children.
fn parents(paths: &[String]) -> Vec<String> {
    let mut folders: Vec<String> = paths
        .iter()
        .flat_map(|path| Path::new(path).ancestors().skip(1))
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| folder.to_string_lossy().into_owned())
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

fn write_files<'a>(
    dir: &Path,
    files: impl Iterator<Item = &'a PlannedFile>,
) -> Result<(), WorkspaceError> {
    let confined = ConfinedDir::open(dir)?;
    for file in files {
        let path = Path::new(file.path.as_str());
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            confined.create_dir_all(folder)?;
        }
        confined.write_atomic(path, file.content.as_bytes())?;
    }
    Ok(())
}

fn take_back(dir: &Path, link: &Path, undo: &Undo) -> Result<(), WorkspaceError> {
    if undo.dir_is_new {
        return Ok(files::remove_tree(dir)?);
    }
    let confined = ConfinedDir::open(dir)?;
    let aside = aside(link);
    for (index, path) in undo.replaced.iter().enumerate() {
        let former = aside.join(index.to_string());
        // What was not set aside yet was not replaced yet.
        if files::is_there(&former) {
            files::copy_atomic(&former, &dir.join(path))?;
        }
    }
    for path in &undo.new_files {
        if confined.exists(Path::new(path))? {
            confined.remove_file(Path::new(path))?;
        }
    }
    for folder in undo.new_dirs.iter().rev() {
        let _ = confined.remove_dir(Path::new(folder)); // Somebody else's file in it keeps it.
    }
    Ok(())
}
