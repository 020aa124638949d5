//! Templates and components as they are now: read from the configs folder, read again when it changes.
//!
//! A file that cannot be used is a finding, never a failure. Templates loaded by hand from elsewhere stay beside those of
//! the folder.

mod reading;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use catalog::{Components, OwnProgram, Problem, Severity, Template};
use domain::Name;

use crate::EngineError;

/// What is known now, and where it comes from.
#[derive(Debug)]
pub struct Library {
    configs_dir: PathBuf,
    own: OwnProgram,
    shelf: RwLock<Arc<Shelf>>,
}

/// One reading of everything. It is replaced whole, so that nobody sees half of a change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shelf {
    templates: BTreeMap<Name, Arc<Template>>,
    pub(crate) components: Components,
    problems: Vec<FileProblems>,
    /// Loaded by hand, from where.
    loaded: BTreeMap<Name, (PathBuf, Arc<Template>)>,
}

/// A file of the configs folder with something wrong in it.
#[derive(Debug, Clone, PartialEq)]
pub struct FileProblems {
    pub file: PathBuf,
    pub problems: Vec<Problem>,
}

/// What a file would be if it were loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    pub template: Option<Template>,
    pub problems: Vec<Problem>,
}

impl Library {
    /// An empty library of `configs_dir`; `reload` fills it.
    pub(crate) fn new(configs_dir: PathBuf, own: OwnProgram) -> Self {
        Self {
            configs_dir,
            own,
            shelf: RwLock::default(),
        }
    }

    /// Reads the whole folder anew.
    pub(crate) fn reload(&self) {
        let mut shelf = reading::read_shelf(&self.configs_dir);
        let mut place = self.shelf.write().unwrap_or_else(PoisonError::into_inner);
        shelf.loaded = place.loaded.clone();
        shelf.components.own = self.own.clone();
        *place = Arc::new(shelf);
    }

    pub(crate) fn shelf(&self) -> Arc<Shelf> {
        self.shelf
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Every template, by name.
    pub fn templates(&self) -> Vec<Arc<Template>> {
        let shelf = self.shelf();
        let mut templates = shelf.templates.clone();
        templates.extend(
            shelf
                .loaded
                .iter()
                .map(|(name, (_, template))| (name.clone(), template.clone())),
        );
        templates.into_values().collect()
    }

    /// One template; a loaded one hides one of the folder.
    pub fn template(&self, name: &str) -> Result<Arc<Template>, EngineError> {
        let shelf = self.shelf();
        let loaded = shelf.loaded.get(name).map(|(_, template)| template);
        loaded
            .or_else(|| shelf.templates.get(name))
            .cloned()
            .ok_or_else(|| EngineError::TemplateNotFound {
                name: name.to_owned(),
            })
    }

    /// Every component.
    pub fn components(&self) -> Components {
        self.shelf().components.clone()
    }

    /// Every file of the folder with something wrong in it.
    pub fn problems(&self) -> Vec<FileProblems> {
        self.shelf().problems.clone()
    }

    /// Loads a template from a file anywhere; a relative path is taken from the configs folder.
    pub fn load(&self, path: &Path) -> Result<Arc<Template>, EngineError> {
        let path = self.configs_dir.join(path);
        let checked = reading::read_template(&path)?;
        match checked.value {
            Some(template) => {
                let template = Arc::new(template);
                let mut shelf = self.shelf.write().unwrap_or_else(PoisonError::into_inner);
                Arc::make_mut(&mut shelf)
                    .loaded
                    .insert(template.name.clone(), (path, template.clone()));
                Ok(template)
            }
            None => {
                let mut problems = checked.problems;
                problems.retain(|problem| problem.severity == Severity::Error);
                Err(EngineError::Invalid { path, problems })
            }
        }
    }

    /// What `load` would find, without loading it.
    pub fn validate(&self, path: &Path) -> Result<Validation, EngineError> {
        let checked = reading::read_template(&self.configs_dir.join(path))?;
        Ok(Validation {
            template: checked.value,
            problems: checked.problems,
        })
    }

    /// Forgets a template until its file changes or the daemon starts again; says whether there was one.
    pub fn unload(&self, name: &str) -> bool {
        let mut shelf = self.shelf.write().unwrap_or_else(PoisonError::into_inner);
        let shelf = Arc::make_mut(&mut shelf);
        let loaded = shelf.loaded.remove(name).is_some();
        shelf.templates.remove(name).is_some() || loaded
    }

    /// The files that were loaded by hand.
    pub(crate) fn loaded_paths(&self) -> Vec<PathBuf> {
        self.shelf()
            .loaded
            .values()
            .map(|(path, _)| path.clone())
            .collect()
    }
}
