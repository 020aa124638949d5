//! Where workflows are: the folders of the working directory, of the user and of the node, and packs of several.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use platform::files::{self, FileError};
use workflow::{Loaded, Plan, Problem, WORKFLOW_FILE_MAX};

use crate::folders::Folders;

/// Folders below the working directory, in the order they are searched.
const LOCAL: [&str; 2] = [".agentcraft/workflows", ".awf/workflows"];

/// Folders of packs below the working directory, and below the user's home.
const PACKS: [&str; 2] = [".agentcraft/workflow-packs", ".awf/workflow-packs"];

/// How far above a folder that is not there one is looked for: up to the folder that an editor has open.
const ABOVE_MAX: usize = 4;

const SUFFIXES: [&str; 2] = ["yaml", "yml"];

/// Files looked at in one folder; more are not written by people.
const FILES_MAX: usize = 10_000;

/// The folders to look in. What comes first wins over a later file of the same name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shelf {
    /// A folder that somebody named, before all others.
    pub chosen: Option<PathBuf>,
    /// The node's own, such as `configs/workflows`.
    pub shared: Vec<PathBuf>,
    /// Below it are the user's packs.
    pub user: Option<PathBuf>,
    /// The user's folders of AWF.
    pub awf: Option<Folders>,
}

/// A workflow file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// As it is called: the file's name without its ending, `pack/name` in a pack.
    pub name: String,
    pub path: PathBuf,
    /// The folder of its pack, in which prompts and scripts are looked for first.
    pub pack: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    #[error("there is no workflow called {name}")]
    Missing { name: String, known: Vec<String> },
    #[error("could not read {}", path.display())]
    Read { path: PathBuf, source: FileError },
    #[error("{}: {}", path.display(), first(problems))]
    Invalid {
        path: PathBuf,
        problems: Vec<Problem>,
    },
}

fn first(problems: &[Problem]) -> String {
    let first = workflow::gravest(problems);
    let first = first.map(ToString::to_string).unwrap_or_default();
    match problems.len().saturating_sub(1) {
        0 => first,
        more => format!("{first} (and {more} more)"),
    }
}

impl Shelf {
    /// Every workflow that can be run in the folder, by name.
    pub fn list(&self, cwd: &Path) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        for folder in self.folders(cwd) {
            add(&mut found, files_of(&folder, None));
        }
        for folder in self.packs(cwd) {
            for pack in sub_folders(&folder) {
                add(&mut found, files_of(&pack.join("workflows"), Some(&pack)));
            }
        }
        found.sort_by(|left, right| left.name.cmp(&right.name));
        found
    }

    /// The folders with workflows, in the order in which they are searched.
    fn folders(&self, cwd: &Path) -> Vec<PathBuf> {
        let first = self.awf.as_ref().and_then(Folders::workflows_first);
        let first = first.map(|folder| cwd.join(folder));
        let mut folders: Vec<PathBuf> = self.chosen.iter().cloned().chain(first).collect();
        folders.extend(LOCAL.iter().map(|folder| cwd.join(folder)));
        folders.extend(self.shared.iter().cloned());
        folders.extend(self.awf.iter().map(Folders::workflows));
        folders
    }

    /// The folders with packs.
    fn packs(&self, cwd: &Path) -> Vec<PathBuf> {
        let homes = [Some(cwd), self.user.as_deref()].into_iter().flatten();
        homes
            .flat_map(|home| PACKS.map(|folder| home.join(folder)))
            .chain(self.awf.iter().map(Folders::packs))
            .collect()
    }

    /// The folders in which a change changes what `list` gives; for one that is not there, the nearest above it that is.
    pub(crate) fn watched(&self, cwd: &Path) -> BTreeSet<PathBuf> {
        let mut folders = self.folders(cwd);
        for folder in self.packs(cwd) {
            let packs = sub_folders(&folder);
            folders.push(folder);
            folders.extend(packs.iter().map(|pack| pack.join("workflows")));
        }
        let nearest = |folder: PathBuf| {
            let mut places = folder.ancestors().take(ABOVE_MAX);
            places
                .find(|place| files::is_there(place))
                .map(Path::to_owned)
        };
        folders.into_iter().filter_map(nearest).collect()
    }

    /// The workflow of that name, or the file if it is a path: for the owner of the node, who may run any file. Whoever
    /// only talks to an agent has [`Shelf::named`].
    pub fn find(&self, cwd: &Path, name: &str) -> Result<Found, ShelfError> {
        let path = cwd.join(name);
        let is_file = SUFFIXES
            .iter()
            .any(|suffix| name.ends_with(&format!(".{suffix}")));
        if is_file && files::is_there(&path) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            return Ok(Found {
                name: name.into_owned(),
                path,
                pack: None,
            });
        }
        self.named(cwd, name)
    }

    /// The workflow of that name, never a path.
    pub(crate) fn named(&self, cwd: &Path, name: &str) -> Result<Found, ShelfError> {
        let all = self.list(cwd);
        let found = all.iter().find(|found| found.name == name).cloned();
        found.ok_or_else(|| ShelfError::Missing {
            name: name.to_owned(),
            known: all.into_iter().map(|found| found.name).collect(),
        })
    }
}

impl Found {
    pub fn text(&self) -> Result<String, ShelfError> {
        let read = files::read_bounded(&self.path, WORKFLOW_FILE_MAX as u64);
        let bytes = read.map_err(|source| ShelfError::Read {
            path: self.path.clone(),
            source,
        })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The file, checked; with what is wrong or odd in it.
    pub fn load(&self, cwd: &Path) -> Result<Loaded, ShelfError> {
        let text = self.text()?;
        let templates = |name: &str| template(cwd, name);
        Ok(workflow::load(&text, &templates))
    }

    /// The plan, if nothing is wrong with it.
    pub fn plan(&self, cwd: &Path) -> Result<Plan, ShelfError> {
        let Loaded { plan, problems, .. } = self.load(cwd)?;
        plan.ok_or_else(|| ShelfError::Invalid {
            path: self.path.clone(),
            problems,
        })
    }
}

impl Found {
    /// The plan, with everything that it can be made of again: the text of the file and of the templates it uses.
    pub(crate) fn kept(
        &self,
        cwd: &Path,
    ) -> Result<(String, BTreeMap<String, String>, Plan), ShelfError> {
        let text = self.text()?;
        let used = RefCell::new(BTreeMap::new());
        let templates = |name: &str| {
            let text = template(cwd, name)?;
            used.borrow_mut().insert(name.to_owned(), text.clone());
            Ok(text)
        };
        let Loaded { plan, problems, .. } = workflow::load(&text, &templates);
        let plan = plan.ok_or_else(|| ShelfError::Invalid {
            path: self.path.clone(),
            problems,
        })?;
        Ok((text, used.into_inner(), plan))
    }
}

/// A template of steps. Its name comes from a file, so it must not lead elsewhere.
pub(crate) fn template(cwd: &Path, name: &str) -> Result<String, String> {
    let is_plain = !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_alphanumeric() || "_-".contains(letter));
    if !is_plain {
        return Err(format!("{name:?} is not the name of a template"));
    }
    for folder in [".agentcraft/templates", ".awf/templates"] {
        for suffix in SUFFIXES {
            let path = cwd.join(folder).join(format!("{name}.{suffix}"));
            if let Ok(bytes) = files::read_bounded(&path, WORKFLOW_FILE_MAX as u64) {
                return Ok(String::from_utf8_lossy(&bytes).into_owned());
            }
        }
    }
    Err(format!("there is no .awf/templates/{name}.yaml"))
}

fn add(found: &mut Vec<Found>, more: Vec<Found>) {
    for one in more {
        if !found.iter().any(|known| known.name == one.name) {
            found.push(one);
        }
    }
}

fn files_of(folder: &Path, pack: Option<&Path>) -> Vec<Found> {
    let prefix = pack
        .and_then(Path::file_name)
        .map(|name| format!("{}/", name.to_string_lossy()))
        .unwrap_or_default();
    let paths = files::list(folder).unwrap_or_default();
    let mut found: Vec<Found> = paths
        .into_iter()
        .take(FILES_MAX)
        .filter_map(|path| {
            let suffix = path.extension()?.to_str()?;
            let stem = path.file_stem()?.to_str()?;
            (SUFFIXES.contains(&suffix) && !stem.starts_with('.')).then(|| Found {
                name: format!("{prefix}{stem}"),
                path: path.clone(),
                pack: pack.map(Path::to_owned),
            })
        })
        .collect();
    found.sort_by(|left, right| left.path.cmp(&right.path));
    found
}

fn sub_folders(folder: &Path) -> Vec<PathBuf> {
    let mut folders = files::list(folder).unwrap_or_default();
    folders.sort();
    folders
}
