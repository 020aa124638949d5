//! `fs/read_text_file` and `fs/write_text_file`: the agent's window on the workspace, and on nothing else.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use engine::chain;
use jsonrpc::{ErrorObject, LINE_MAX};
use platform::{ConfinedDir, Tasks, confined::ConfinedError};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{convert, failure::RESOURCE_NOT_FOUND};

/// A file longer than a line of the protocol cannot be sent, whatever part of it is asked for.
const FILE_MAX: u64 = LINE_MAX as u64;

/// Files worked on at a time: each may be as large as a line.
const AT_ONCE: usize = 4;

/// The files of the workspace.
#[derive(Debug)]
pub(crate) struct Files {
    place: Arc<Workspace>,
    turns: Semaphore,
    missing_is_empty: AtomicBool,
}

/// The opened folder, and the names it goes by.
#[derive(Debug)]
pub(crate) struct Workspace {
    folder: ConfinedDir,
    path: PathBuf,
    /// Without links, which is how some agents spell it.
    real: PathBuf,
}

impl Workspace {
    pub(crate) fn open(path: &Path) -> Result<Arc<Workspace>, ConfinedError> {
        Ok(Arc::new(Workspace {
            folder: ConfinedDir::open(path)?,
            path: path.to_owned(),
            real: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
        }))
    }

    /// A path below the workspace, relative to it.
    pub(crate) fn relative(&self, path: &Path) -> Result<PathBuf, ErrorObject> {
        let inside = match path.is_absolute() {
            true => path
                .strip_prefix(&self.path)
                .or_else(|_| path.strip_prefix(&self.real))
                .map_err(|_| outside(path))?,
            false => path,
        };
        Ok(match inside.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => inside.to_owned(),
        })
    }

    /// Refuses a path that leads out of the workspace, by its words or by a link.
    fn check(&self, path: &Path) -> Result<(), ErrorObject> {
        let relative = self.relative(path)?;
        match self.folder.metadata(&relative) {
            Err(error @ ConfinedError::Outside { .. }) => Err(refusal(path, &error)),
            Ok(_) | Err(_) => Ok(()), // What is missing may be made.
        }
    }

    /// A folder in the workspace, as a path to start a process in.
    pub(crate) fn directory(&self, path: &Path) -> Result<PathBuf, ErrorObject> {
        let relative = self.relative(path)?;
        match self.folder.metadata(&relative) {
            Ok(metadata) if metadata.is_dir() => Ok(self.path.join(relative)),
            Ok(_) => Err(ErrorObject::invalid_params(format!(
                "{} is not a folder",
                path.display()
            ))),
            Err(error) => Err(refusal(path, &error)),
        }
    }

    fn read(&self, path: &Path) -> Result<String, ErrorObject> {
        let relative = self.relative(path)?;
        let bytes = self
            .folder
            .read(relative, FILE_MAX)
            .map_err(|error| refusal(path, &error))?;
        String::from_utf8(bytes)
            .map_err(|_| ErrorObject::internal(format!("{} is not text", path.display())))
    }

    fn write(&self, path: &Path, content: &str) -> Result<(), ErrorObject> {
        let relative = self.relative(path)?;
        let refused = |error| refusal(path, &error);
        let written = self.folder.write_atomic(&relative, content.as_bytes());
        match written {
            Err(error) if error.is_not_found() => {
                let parent = relative.parent().filter(|path| *path != OsStr::new(""));
                self.folder
                    .create_dir_all(parent.unwrap_or(Path::new(".")))
                    .map_err(refused)?;
                self.folder
                    .write_atomic(&relative, content.as_bytes())
                    .map_err(refused)
            }
            written => written.map_err(refused),
        }
    }
}

impl Files {
    pub(crate) fn new(place: Arc<Workspace>) -> Files {
        Files {
            place,
            turns: Semaphore::new(AT_ONCE),
            missing_is_empty: AtomicBool::new(false),
        }
    }

    /// From now on a file that does not exist reads as an empty one: for agents that look before they create a file
    /// and take every error for a reason to give up.
    pub(crate) fn read_missing_as_empty(&self) {
        self.missing_is_empty.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_workspace(&self, path: &Path) -> bool {
        path == self.place.path || path == self.place.real
    }

    /// Refuses what cannot be done whoever allows it, before anybody is asked.
    pub(crate) async fn check(&self, tasks: &Tasks, params: &Value) -> Result<(), ErrorObject> {
        let path = path(params)?;
        let place = Arc::clone(&self.place);
        self.work(tasks, move || place.check(&path)).await
    }

    pub(crate) async fn read(&self, tasks: &Tasks, params: &Value) -> Result<Value, ErrorObject> {
        let path = path(params)?;
        let number = |key: &str| {
            let number = params[key].as_u64();
            number.map(|number| usize::try_from(number).unwrap_or(usize::MAX))
        };
        let (line, limit) = (number("line"), number("limit"));
        let place = Arc::clone(&self.place);
        let read = self.work(tasks, move || place.read(&path)).await;
        let empty = self.missing_is_empty.load(Ordering::Relaxed);
        let text = match read {
            Err(error) if error.code == RESOURCE_NOT_FOUND && empty => String::new(),
            read => read?,
        };
        Ok(json!({ "content": lines(&text, line, limit) }))
    }

    pub(crate) async fn write(&self, tasks: &Tasks, params: &Value) -> Result<Value, ErrorObject> {
        let path = path(params)?;
        let content = convert::text(params, "content")
            .ok_or_else(|| ErrorObject::invalid_params("content is missing"))?
            .to_owned();
        let place = Arc::clone(&self.place);
        self.work(tasks, move || place.write(&path, &content))
            .await?;
        Ok(json!({}))
    }

    async fn work<T: Send + 'static>(
        &self,
        tasks: &Tasks,
        work: impl FnOnce() -> Result<T, ErrorObject> + Send + 'static,
    ) -> Result<T, ErrorObject> {
        let stopping = || ErrorObject::internal("the client is stopping");
        let _turn = self.turns.acquire().await.map_err(|_| stopping())?;
        tasks
            .spawn_blocking(|_| work())
            .await
            .map_err(|_| stopping())?
    }
}

fn path(params: &Value) -> Result<PathBuf, ErrorObject> {
    convert::text(params, "path")
        .map(PathBuf::from)
        .ok_or_else(|| ErrorObject::invalid_params("path is missing"))
}

/// Some lines of a text, counted from one, with their line ends.
fn lines(text: &str, line: Option<usize>, limit: Option<usize>) -> &str {
    let skipped = line.unwrap_or(1).saturating_sub(1);
    let ends = |text: &str, count: usize| -> usize {
        text.split_inclusive('\n').take(count).map(str::len).sum()
    };
    let rest = &text[ends(text, skipped)..];
    match limit {
        Some(limit) => &rest[..ends(rest, limit)],
        None => rest,
    }
}

fn outside(path: &Path) -> ErrorObject {
    ErrorObject::invalid_params(format!("{} is outside the workspace", path.display()))
}

/// The words for a missing file are those that agents look for.
fn refusal(path: &Path, error: &ConfinedError) -> ErrorObject {
    if error.is_not_found() {
        let words = format!("Resource not found: {} does not exist", path.display());
        return ErrorObject::new(RESOURCE_NOT_FOUND, words).with_data(&json!({ "uri": path }));
    }
    match error {
        ConfinedError::Outside { .. } => outside(path),
        error => ErrorObject::internal(chain(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one_and_keep_their_ends() {
        let text = "one\r\ntwo\nthree";
        let cases = [
            (None, None, text),
            (Some(0), None, text),
            (Some(1), Some(1), "one\r\n"),
            (Some(2), Some(1), "two\n"),
            (Some(2), None, "two\nthree"),
            (Some(3), Some(usize::MAX), "three"),
            (Some(4), None, ""),
            (None, Some(0), ""),
        ];
        for (line, limit, expected) in cases {
            assert_eq!(lines(text, line, limit), expected, "{line:?} {limit:?}");
        }
        assert_eq!(lines("", Some(2), Some(3)), "");
    }

    #[test]
    fn absolute_paths_inside_are_made_relative_and_those_outside_refused() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real");
        std::fs::create_dir(&real).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let workspace = Workspace::open(&link).unwrap();
        let real = real.canonicalize().unwrap();
        for path in [link.join("a/b"), real.join("a/b"), PathBuf::from("a/b")] {
            assert_eq!(workspace.relative(&path), Ok(PathBuf::from("a/b")));
        }
        assert_eq!(workspace.relative(&link), Ok(PathBuf::from(".")));
        let outside = workspace.relative(Path::new("/etc/passwd")).unwrap_err();
        assert_eq!(outside.message, "/etc/passwd is outside the workspace");
        for sly in ["../x", "a/../../x", "/etc/passwd"] {
            let path = link.join(sly);
            let message = workspace.read(&path).unwrap_err().message;
            assert!(
                message.contains("outside") || message.contains("not found"),
                "{sly}: {message}"
            );
        }
    }

    #[test]
    fn a_new_file_may_lie_in_new_folders() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let path = folder.path().join("a/b/c.txt");
        let missing = workspace.read(&path).unwrap_err();
        assert_eq!(missing.code, RESOURCE_NOT_FOUND);
        assert!(missing.message.starts_with("Resource not found: "));
        workspace.write(&path, "text").unwrap();
        assert_eq!(workspace.read(&path), Ok("text".to_owned()));
        workspace.write(&path, "other").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "other");
        assert!(workspace.write(folder.path(), "x").is_err());
        std::fs::write(folder.path().join("binary"), [0xff, 0xfe]).unwrap();
        let binary = workspace.read(Path::new("binary")).unwrap_err();
        assert_eq!(binary.message, "binary is not text");
    }
}
