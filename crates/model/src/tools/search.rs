//! Finding lines in files, as far as a bound on work and words allows.

use std::path::{Path, PathBuf};

use platform::{ConfinedDir, confined::Kind};
use regex::Regex;
use tokio_util::sync::CancellationToken;

use super::{OUTPUT_MAX, Place};

/// Files looked into; a search of a whole disk is a mistake.
const FILES_MAX: usize = 20_000;

/// Files larger than this are no source texts.
const FILE_MAX: u64 = 1024 * 1024;

/// Folders that hold what tools made.
const SKIPPED: [&str; 4] = [".git", "node_modules", "target", ".venv"];

/// A line that is shown; minified files have endless ones.
const LINE_MAX: usize = 300;

pub(super) fn search(
    place: &Place,
    pattern: &str,
    path: &str,
    stop: &CancellationToken,
) -> Result<String, String> {
    let pattern = Regex::new(pattern).map_err(|error| error.to_string())?;
    let folder = place.open()?;
    let mut found = Found::default();
    let mut waiting = vec![place.relative(path)];
    while let Some(next) = waiting.pop() {
        if stop.is_cancelled() || found.is_full() {
            break;
        }
        match folder.list(&next) {
            Ok(entries) => {
                for entry in entries.into_iter().rev() {
                    let path = joined(&next, Path::new(&entry.name));
                    match entry.kind {
                        Kind::Dir if SKIPPED.iter().any(|name| entry.name == *name) => {}
                        Kind::Dir => waiting.push(path),
                        Kind::File => found.look(&folder, &path, &pattern),
                        _ => {}
                    }
                }
            }
            // It may be a file itself.
            Err(_) => found.look(&folder, &next, &pattern),
        }
    }
    Ok(found.into_words())
}

fn joined(folder: &Path, name: &Path) -> PathBuf {
    if folder == Path::new(".") {
        name.to_owned()
    } else {
        folder.join(name)
    }
}

#[derive(Default)]
struct Found {
    shown: String,
    files: usize,
}

impl Found {
    fn is_full(&self) -> bool {
        self.shown.len() > OUTPUT_MAX || self.files > FILES_MAX
    }

    fn look(&mut self, folder: &ConfinedDir, path: &Path, pattern: &Regex) {
        if self.is_full() {
            return;
        }
        self.files += 1;
        let Ok(bytes) = folder.read(path, FILE_MAX) else {
            return; // It is too large, or went while we looked.
        };
        let Ok(text) = String::from_utf8(bytes) else {
            return;
        };
        for (index, line) in text.lines().enumerate() {
            if pattern.is_match(line) {
                let line = &line[..line.floor_char_boundary(LINE_MAX)];
                self.shown
                    .push_str(&format!("{}:{}: {line}\n", path.display(), index + 1));
            }
            if self.is_full() {
                return;
            }
        }
    }

    fn into_words(mut self) -> String {
        if self.is_full() {
            self.shown.push_str("… and more; narrow the search\n");
        }
        if self.shown.is_empty() {
            return "nothing matches".to_owned();
        }
        self.shown
    }
}
