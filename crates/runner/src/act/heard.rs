//! What a command prints: its beginning is kept, all of it goes into a file where that is not enough.

use std::path::{Path, PathBuf};

use platform::{
    Tasks,
    files::{self, FileError},
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// What a file takes: a command that prints for ever must not fill the disk.
const FILE_MAX: u64 = 256 * 1024 * 1024;

/// What is gathered before it is written to the file.
const GATHERED: usize = 256 * 1024;

/// What is read at a time.
const CHUNK: usize = 16 * 1024;

/// One stream of a command.
#[derive(Debug)]
pub(super) struct Heard {
    bytes: Vec<u8>,
    limit: usize,
    overflow: Overflow,
}

/// Where the rest goes.
#[derive(Debug)]
enum Overflow {
    /// Everything was kept so far.
    None { path: PathBuf },
    File {
        path: PathBuf,
        waiting: Vec<u8>,
        written: u64,
    },
    /// It could not be written, or there is too much of it; a file that was begun has the beginning.
    Given { up: Option<PathBuf> },
}

impl Heard {
    pub(super) fn new(limit: usize, path: PathBuf) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            overflow: Overflow::None { path },
        }
    }

    /// What is kept.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Whether there was more than is kept.
    pub(super) fn is_cut(&self) -> bool {
        !matches!(self.overflow, Overflow::None { .. })
    }

    /// The file that has more than is kept.
    pub(super) fn file(&self) -> Option<String> {
        let path: &Path = match &self.overflow {
            Overflow::None { .. } | Overflow::Given { up: None } => return None,
            Overflow::File { path, .. } => path,
            Overflow::Given { up: Some(path) } => path,
        };
        Some(path.to_string_lossy().into_owned())
    }

    /// Reads to the end, so that the command is never stuck; `seen` is told of what is kept, as it comes.
    pub(super) async fn read(
        &mut self,
        source: Option<impl AsyncRead + Unpin>,
        tasks: &Tasks,
        mut seen: impl FnMut(&[u8]),
    ) {
        let Some(mut source) = source else {
            return;
        };
        let mut chunk = vec![0; CHUNK];
        while let Ok(count) = source.read(&mut chunk).await {
            if count == 0 {
                return;
            }
            let before = self.bytes.len();
            self.push(&chunk[..count], tasks).await;
            if self.bytes.len() > before {
                seen(&self.bytes[before..]);
            }
        }
    }

    async fn push(&mut self, bytes: &[u8], tasks: &Tasks) {
        let room = self.limit.saturating_sub(self.bytes.len());
        let (kept, rest) = bytes.split_at(bytes.len().min(room));
        if let Overflow::None { path } = &self.overflow
            && !rest.is_empty()
        {
            self.overflow = Overflow::File {
                path: path.clone(),
                waiting: self.bytes.clone(),
                written: 0,
            };
        }
        if let Overflow::File { waiting, .. } = &mut self.overflow {
            waiting.extend_from_slice(bytes);
            if waiting.len() >= GATHERED {
                self.flush(tasks).await;
            }
        }
        self.bytes.extend_from_slice(kept);
    }

    /// Writes what waits; called once more when everything was read.
    pub(super) async fn flush(&mut self, tasks: &Tasks) {
        let Overflow::File {
            path,
            waiting,
            written,
        } = &mut self.overflow
        else {
            return;
        };
        let room = usize::try_from(FILE_MAX - *written).unwrap_or(usize::MAX);
        let mut bytes = std::mem::take(waiting);
        let is_full = bytes.len() > room;
        bytes.truncate(room);
        *written += bytes.len() as u64;
        let is_first = *written == bytes.len() as u64;
        let begun = (!is_first).then(|| path.clone());
        let place = path.clone();
        let done = tasks
            .spawn_blocking(move |_| match is_first {
                true => begin(&place, &bytes),
                false => files::append_bounded(&place, &bytes, u64::MAX),
            })
            .await;
        match done {
            Ok(Ok(())) if !is_full => {}
            Ok(Ok(())) => {
                self.overflow = Overflow::Given {
                    up: Some(path.clone()),
                };
            }
            Ok(Err(error)) => {
                tracing::warn!(error = %engine::chain(&error), "could not keep all of an output");
                self.overflow = Overflow::Given { up: begun };
            }
            Err(_) => self.overflow = Overflow::Given { up: begun }, // The program is shutting down.
        }
    }
}

fn begin(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    if let Some(folder) = path.parent() {
        if let Some(runs) = folder.parent() {
            files::create_private_dir(runs)?;
        }
        files::create_private_dir(folder)?;
    }
    // A step that was interrupted and is done again begins anew.
    files::remove_file_if_there(path)?;
    files::append_bounded(path, bytes, u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn heard(limit: usize, printed: &[u8]) -> (Heard, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let tasks = Tasks::new();
        let mut heard = Heard::new(limit, folder.path().join("runs/r-1/1-step.stdout"));
        heard.read(Some(printed), &tasks, |_| {}).await;
        heard.flush(&tasks).await;
        (heard, folder)
    }

    #[tokio::test]
    async fn what_fits_needs_no_file() {
        let (heard, folder) = heard(5, b"12345").await;
        assert_eq!((heard.text().as_str(), heard.is_cut()), ("12345", false));
        assert_eq!(heard.file(), None);
        assert!(!folder.path().join("runs").exists());
    }

    #[tokio::test]
    async fn the_file_has_all_of_it_and_the_text_the_beginning() {
        let printed: Vec<u8> = (0..GATHERED * 2 + 77)
            .map(|at| b'a' + (at % 26) as u8)
            .collect();
        let (heard, folder) = heard(1000, &printed).await;
        assert!(heard.is_cut());
        assert_eq!(heard.text().as_bytes(), &printed[..1000]);
        let file = heard.file().unwrap();
        assert!(file.starts_with(&*folder.path().to_string_lossy()));
        assert_eq!(std::fs::read(&file).unwrap(), printed);
    }

    #[tokio::test]
    async fn where_no_file_can_be_made_the_beginning_is_kept() {
        let tasks = Tasks::new();
        let mut heard = Heard::new(2, PathBuf::from("/proc/none/r/1.stdout"));
        heard.read(Some(&b"abc"[..]), &tasks, |_| {}).await;
        heard.flush(&tasks).await;
        assert_eq!((heard.text().as_str(), heard.is_cut()), ("ab", true));
        assert_eq!(heard.file(), None);
    }
}
