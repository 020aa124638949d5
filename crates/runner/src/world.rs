//! What plans ask of the world while they are decided: variables, prompts and scripts, other files.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use platform::files;
use serde::{Deserialize, Serialize};
use workflow::{FILE_MAX, FileKind, World};

use crate::folders::FilePlaces;

/// What the world has answered while one input was decided. It is kept with the input: deciding it again gives the same,
/// whatever has become of the files and the variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answers {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    variables: BTreeMap<String, Option<String>>,
    /// By the kind and the path that was asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, Result<String, String>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    there: BTreeMap<String, bool>,
}

impl Answers {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A world that remembers what it has answered since somebody took that away. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Remembering {
    world: Arc<dyn World>,
    answers: Arc<Mutex<Answers>>,
}

impl Remembering {
    pub(crate) fn new(world: Arc<dyn World>) -> Self {
        Self {
            world,
            answers: Arc::default(),
        }
    }

    /// What was answered since the last time.
    pub(crate) fn take(&self) -> Answers {
        std::mem::take(&mut *self.answers())
    }

    /// Answers so from now on, until that is taken away.
    pub(crate) fn recall(&self, answers: Answers) {
        *self.answers() = answers;
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World for Remembering {
    fn variable(&self, name: &str) -> Option<String> {
        if let Some(known) = self.answers().variables.get(name) {
            return known.clone();
        }
        let value = self.world.variable(name);
        let mut answers = self.answers();
        answers.variables.insert(name.to_owned(), value.clone());
        value
    }

    fn read(&self, kind: FileKind, path: &str) -> Result<String, String> {
        let kind_word = match kind {
            FileKind::Prompt => "prompt",
            FileKind::Script => "script",
            FileKind::Any => "file",
        };
        let key = format!("{kind_word} {path}");
        if let Some(known) = self.answers().files.get(&key) {
            return known.clone();
        }
        let read = self.world.read(kind, path);
        self.answers().files.insert(key, read.clone());
        read
    }

    fn exists(&self, path: &str) -> bool {
        if let Some(known) = self.answers().there.get(path) {
            return *known;
        }
        let is_there = self.world.exists(path);
        self.answers().there.insert(path.to_owned(), is_there);
        is_there
    }
}

/// The world of one run.
#[derive(Debug)]
pub(crate) struct RunWorld {
    pub(crate) environment: BTreeMap<OsString, OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) places: FilePlaces,
}

impl World for RunWorld {
    fn variable(&self, name: &str) -> Option<String> {
        let value = self.environment.get(OsStr::new(name))?;
        Some(value.to_string_lossy().into_owned())
    }

    fn read(&self, kind: FileKind, path: &str) -> Result<String, String> {
        for place in self.places(kind, Path::new(path)) {
            match files::read_bounded(&place, FILE_MAX as u64) {
                Ok(bytes) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(engine::chain(&error)),
            }
        }
        Err(format!("{path}: there is no such file"))
    }

    fn exists(&self, path: &str) -> bool {
        files::is_there(&self.cwd.join(path))
    }
}

impl RunWorld {
    /// Where a file may be, the nearest first.
    fn places(&self, kind: FileKind, path: &Path) -> Vec<PathBuf> {
        match kind {
            FileKind::Prompt => self.places.of_kind("prompts", path),
            FileKind::Script => self.places.of_kind("scripts", path),
            FileKind::Any => {
                let below = self.places.below_users(path);
                below.unwrap_or_else(|| vec![self.cwd.join(path)])
            }
        }
    }
}
