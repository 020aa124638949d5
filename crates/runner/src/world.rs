//! What plans ask of the world while they are decided: variables, prompts and scripts, other files.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use platform::files;
use workflow::{FILE_MAX, FileKind, World};

/// The world of one run.
#[derive(Debug)]
pub(crate) struct RunWorld {
    pub(crate) environment: BTreeMap<OsString, OsString>,
    pub(crate) cwd: PathBuf,
    /// The folder of the workflow's pack.
    pub(crate) pack: Option<PathBuf>,
    /// The folder of the workflow file.
    pub(crate) folder: PathBuf,
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
        let folder = match kind {
            FileKind::Prompt => "prompts",
            FileKind::Script => "scripts",
            FileKind::Any => return vec![self.cwd.join(path)],
        };
        let pack = self.pack.iter().map(|pack| pack.join(folder).join(path));
        let local = [".agentcraft", ".awf"].map(|home| self.cwd.join(home).join(folder).join(path));
        pack.chain([self.folder.join(path)])
            .chain(local)
            .chain([self.cwd.join(path)])
            .collect()
    }
}
