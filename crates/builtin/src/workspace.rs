//! The workspace: the only folder whose files the agent touches, and how paths in prompts are read.

use std::path::{Path, PathBuf};

use platform::{ConfinedDir, confined::ConfinedError};

use crate::words;

/// The opened workspace. Every path below it is kept there by the kernel.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    /// The root without links, for clients that name it so.
    real: PathBuf,
    pub(crate) dir: ConfinedDir,
}

/// One path in the workspace, in both forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) relative: PathBuf,
    pub(crate) absolute: PathBuf,
}

impl Workspace {
    pub(crate) fn open(root: &Path) -> Result<Workspace, ConfinedError> {
        let dir = ConfinedDir::open(root)?;
        let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let root = if root.is_absolute() {
            root.to_owned()
        } else {
            real.clone()
        };
        Ok(Workspace { root, real, dir })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder that relative paths of a session start at: its working folder if that is in the workspace,
    /// otherwise the workspace.
    pub(crate) fn folder_of(&self, cwd: &Path) -> PathBuf {
        let inside = self.inside(cwd).filter(|folder| {
            let metadata = self.dir.metadata(or_dot(folder));
            metadata.is_ok_and(|metadata| metadata.is_dir())
        });
        inside.map(Path::to_owned).unwrap_or_default()
    }

    /// Where a path of a prompt leads. That it stays inside is for the kernel to say when it is used.
    pub(crate) fn place(&self, folder: &Path, text: &str) -> Result<Place, String> {
        let path = Path::new(text);
        let relative = if path.is_absolute() {
            let inside = self.inside(path).map(Path::to_owned);
            inside.ok_or_else(|| self.outside(text))?
        } else {
            folder.join(path)
        };
        Ok(Place {
            absolute: self.root.join(&relative),
            relative: or_dot(&relative).to_owned(),
        })
    }

    /// A refusal in words a person understands.
    pub(crate) fn words(&self, error: &ConfinedError) -> String {
        match error {
            ConfinedError::Outside { path } | ConfinedError::BadPath { path } => {
                self.outside(&path.display().to_string())
            }
            error => words::chain(error),
        }
    }

    fn outside(&self, path: &str) -> String {
        format!("{path} is outside the workspace {}", self.root.display())
    }

    fn inside<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let inside = path.strip_prefix(&self.root);
        inside.or_else(|_| path.strip_prefix(&self.real)).ok()
    }
}

/// The empty path means the workspace itself, which is written as a dot.
fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}
