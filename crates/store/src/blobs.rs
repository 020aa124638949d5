//! Bodies that are too large for rows: files beside the store, each named by the hash of what is in it.
//!
//! A text over `BODY_MAX` in a line of events is replaced by `{"$blob": HASH}`. The file is there before the row that
//! speaks of it is committed, so a crash leaves at most a file that nobody speaks of, which goes with the next sweep.
//! Whatever an agent says is inside of texts, so no object of its making can be taken for such a replacement.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::Durability;

/// The largest text that stays in its row: beyond it SQLite's pages cost more than a file.
pub(crate) const BODY_MAX: usize = 64 * 1024;

/// The only key of an object that stands for a text.
const KEY: &str = "$blob";

/// What a file is called until all of it is written.
const UNFINISHED: &str = "unfinished";

/// The folder of bodies. Only the store's writer changes it.
#[derive(Debug)]
pub(crate) struct Blobs {
    folder: PathBuf,
    durability: Durability,
}

/// Why a body could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("could not keep a body of {bytes} bytes in {}", folder.display())]
pub struct BlobError {
    folder: PathBuf,
    bytes: usize,
    source: io::Error,
}

/// Lines as they are stored, and which bodies they speak of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slim {
    pub(crate) lines: String,
    pub(crate) hashes: Vec<String>,
}

impl Blobs {
    /// Those of the store in the file `store`; the folder is made when it is needed.
    pub(crate) fn of(store: &Path, durability: Durability) -> Self {
        Self {
            folder: store.with_extension("blobs"),
            durability,
        }
    }

    /// Takes large texts out of the lines and keeps them; nothing if there are none.
    pub(crate) fn take_out(&self, lines: &str) -> Result<Option<Slim>, BlobError> {
        if lines.split('\n').all(|line| line.len() <= BODY_MAX) {
            return Ok(None);
        }
        let mut hashes = Vec::new();
        let mut slim = String::new();
        for line in lines.split_inclusive('\n') {
            let parsed = match line.len() > BODY_MAX {
                true => serde_json::from_str::<Value>(line).ok(),
                false => None,
            };
            let before = hashes.len();
            if let Some(mut value) = parsed {
                self.replace(&mut value, &mut hashes)?;
                if hashes.len() > before {
                    slim.push_str(&value.to_string());
                    slim.push_str(if line.ends_with('\n') { "\n" } else { "" });
                    continue;
                }
            }
            slim.push_str(line);
        }
        hashes.sort_unstable();
        hashes.dedup();
        let lines = slim;
        Ok((!hashes.is_empty()).then_some(Slim { lines, hashes }))
    }

    fn replace(&self, value: &mut Value, hashes: &mut Vec<String>) -> Result<(), BlobError> {
        match value {
            Value::String(text) if text.len() > BODY_MAX => {
                let hash = self.put(text)?;
                hashes.push(hash.clone());
                *value = Value::Object(Map::from_iter([(KEY.to_owned(), hash.into())]));
            }
            Value::Array(items) => {
                for item in items {
                    self.replace(item, hashes)?;
                }
            }
            Value::Object(members) => {
                for (_, member) in members {
                    self.replace(member, hashes)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }

    /// The lines with their texts. A body that is not there any more is said to be missing, and the rest is whole.
    pub(crate) fn put_back(&self, lines: &str) -> String {
        let marker = format!("\"{KEY}\"");
        let mut whole = String::new();
        for line in lines.split_inclusive('\n') {
            let parsed = match line.contains(&marker) {
                true => serde_json::from_str::<Value>(line).ok(),
                false => None,
            };
            match parsed {
                Some(mut value) => {
                    self.refill(&mut value);
                    whole.push_str(&value.to_string());
                    whole.push_str(if line.ends_with('\n') { "\n" } else { "" });
                }
                None => whole.push_str(line),
            }
        }
        whole
    }

    fn refill(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                if let Some(hash) = spoken_of(members) {
                    *value = Value::String(self.get(hash));
                    return;
                }
                members
                    .iter_mut()
                    .for_each(|(_, member)| self.refill(member));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.refill(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn get(&self, hash: &str) -> String {
        match fs::read_to_string(self.folder.join(hash)) {
            Ok(text) if hash_of(&text) == hash => text,
            Ok(_) => "[this was changed on the disk]".to_owned(),
            Err(error) => {
                tracing::warn!(hash, %error, "a body is missing");
                "[this is no longer kept]".to_owned()
            }
        }
    }

    fn put(&self, text: &str) -> Result<String, BlobError> {
        let hash = hash_of(text);
        self.write(&hash, text).map_err(|source| BlobError {
            folder: self.folder.clone(),
            bytes: text.len(),
            source,
        })?;
        Ok(hash)
    }

    fn write(&self, hash: &str, text: &str) -> io::Result<()> {
        let place = self.folder.join(hash);
        // After the loss of power a file may be there without all of its bytes.
        if fs::metadata(&place).is_ok_and(|found| found.len() == text.len() as u64) {
            return Ok(());
        }
        let mut folder = DirBuilder::new();
        folder.recursive(true).mode(0o700).create(&self.folder)?;
        let unfinished = self.folder.join(UNFINISHED);
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(0o600);
        let mut file = options.open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        if self.durability == Durability::PowerLoss {
            file.sync_all()?;
        }
        fs::rename(&unfinished, &place)?;
        if self.durability == Durability::PowerLoss {
            File::open(&self.folder)?.sync_all()?;
        }
        Ok(())
    }

    /// Removes every file that no row speaks of. On the writer's thread, so that no body is between file and row.
    pub(crate) fn sweep(&self, connection: &Connection) -> rusqlite::Result<usize> {
        let Ok(files) = fs::read_dir(&self.folder) else {
            return Ok(0); // There never was a large body.
        };
        let mut known = connection.prepare_cached("SELECT 1 FROM blobs WHERE hash = ?1 LIMIT 1")?;
        let mut removed = 0;
        for file in files.flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            if known.exists([&name])? {
                continue;
            }
            match fs::remove_file(file.path()) {
                Ok(()) => removed += 1,
                Err(error) => tracing::warn!(name, %error, "could not remove a body"),
            }
        }
        Ok(removed)
    }
}

fn spoken_of(members: &Map<String, Value>) -> Option<&str> {
    let hash = members.get(KEY)?.as_str()?;
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (members.len() == 1 && is_hash).then_some(hash)
}

fn hash_of(text: &str) -> String {
    use std::fmt::Write as _;
    let mut hash = String::new();
    for byte in Sha256::digest(text.as_bytes()) {
        let _ = write!(hash, "{byte:02x}"); // Writing to a text cannot fail.
    }
    hash
}
