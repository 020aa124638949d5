//! Files that the agent sends to the computer: in pieces, in order, checked, and into one folder only.
//!
//! Without such a folder nothing is taken. A file has its name when it is whole; until then it is a part that is
//! removed when it fails, is left alone for too long, or was left by a process that died.

use std::{
    collections::HashMap,
    io::{Seek, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use platform::{
    ConfinedDir,
    confined::{Access, ConfinedError, File},
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use wire::{
    hex,
    smcp::{ErrorBody, PutBlobAnswer, PutBlobAsk},
};

use super::answers::read;

/// The largest file.
const FILE_MAX: u64 = 100 * 1024 * 1024;

/// Everything in the folder that was uploaded: an agent may not fill the disk.
const FOLDER_MAX: u64 = 1024 * 1024 * 1024;

/// Files that are sent at the same time.
const OPEN_MAX: usize = 4;

/// How long a file may stand still before it is given up.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// Characters of the name that the agent wishes for.
const HINT_MAX: usize = 100;

/// Where the parts are.
const PARTS: &str = ".agentcraft-parts";

/// The code of everything that is wrong with an upload.
const UPLOAD_ERROR: i64 = 4019;

#[derive(Debug, Default)]
pub(crate) struct Uploads(Mutex<HashMap<String, Upload>>);

#[derive(Debug)]
struct Upload {
    part: File,
    name: String,
    size: u64,
    declared: String,
    digest: Sha256,
    received: u64,
    moved: Instant,
}

/// The folder that files go to.
struct Landing<'a> {
    folder: ConfinedDir,
    path: &'a Path,
}

impl Uploads {
    /// Takes one piece. It writes to the disk.
    pub(crate) fn put(
        &self,
        body: &Value,
        folder: Option<&Path>,
    ) -> Result<PutBlobAnswer, ErrorBody> {
        let ask: PutBlobAsk = read(body)?;
        let path = folder.ok_or_else(|| wrong("forbidden", "This computer takes no files."))?;
        let landing = Landing {
            folder: ConfinedDir::open(path).map_err(|error| unwritable(&error))?,
            path,
        };
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stale: Vec<String> = open
            .iter()
            .filter(|(_, upload)| upload.moved.elapsed() > IDLE_MAX)
            .map(|(id, _)| id.clone())
            .collect();
        for id in stale {
            open.remove(&id);
            landing.discard(&id);
        }
        let id = match &ask.upload_id {
            None => landing.begin(&ask, &mut open)?,
            Some(_)
                if ask.total_size.is_some() || ask.sha256.is_some() || ask.name_hint.is_some() =>
            {
                let words = "Only the first piece says what the file is.";
                return Err(wrong("invalid_declaration", words));
            }
            Some(id) => id.clone(),
        };
        let Some(upload) = open.get_mut(&id) else {
            let words = "There is no such upload, or it was idle for too long.";
            return Err(wrong("invalid_upload", words).with("upload_id", id));
        };
        match upload.take(&ask) {
            Err(Failure::Repeatable(error)) => Err(error.with("upload_id", id)),
            Err(Failure::Final(error)) => {
                open.remove(&id);
                landing.discard(&id);
                Err(error.with("upload_id", id))
            }
            Ok(()) if !ask.eof => Ok(PutBlobAnswer {
                upload_id: id,
                chunk_offset: ask.chunk_offset,
                req_id: ask.req_id,
                landing_path: None,
                total_size: None,
                sha256: None,
            }),
            Ok(()) => {
                let upload = open.remove(&id);
                let finished = upload.map(|upload| landing.finish(upload));
                landing.discard(&id);
                let (landing_path, size, sha256) = finished
                    .unwrap_or_else(|| Err(wrong("invalid_upload", "There is no such upload.")))
                    .map_err(|error| error.with("upload_id", id.as_str()))?;
                Ok(PutBlobAnswer {
                    upload_id: id,
                    chunk_offset: ask.chunk_offset,
                    req_id: ask.req_id,
                    landing_path: Some(landing_path),
                    total_size: Some(size),
                    sha256: Some(sha256),
                })
            }
        }
    }
}

/// What happens to an upload whose piece is wrong.
enum Failure {
    /// It goes on when the right piece comes.
    Repeatable(ErrorBody),
    /// It is given up.
    Final(ErrorBody),
}

impl Upload {
    fn take(&mut self, ask: &PutBlobAsk) -> Result<(), Failure> {
        let repeatable = |reason, words| Failure::Repeatable(wrong(reason, words));
        if ask.chunk_offset != self.received {
            return Err(repeatable(
                "range",
                "The piece does not follow the one before it.",
            ));
        }
        let Ok(piece) = STANDARD.decode(&ask.blob) else {
            return Err(repeatable(
                "invalid_declaration",
                "The piece is not Base64.",
            ));
        };
        let end = self.received + u64::try_from(piece.len()).unwrap_or(u64::MAX);
        if end > self.size {
            let words = "There is more of the file than was declared.";
            return Err(Failure::Final(wrong("range", words)));
        }
        if ask.eof && end != self.size {
            return Err(repeatable(
                "range",
                "There is less of the file than was declared.",
            ));
        }
        if self.part.write_all(&piece).is_err() {
            return Err(Failure::Final(wrong(
                "io_error",
                "The piece could not be written.",
            )));
        }
        self.digest.update(&piece);
        self.received = end;
        self.moved = Instant::now();
        if ask.eof && hex(&self.digest.clone().finalize()) != self.declared {
            let words = "The file is not the one that was declared.";
            return Err(Failure::Final(wrong("integrity", words)));
        }
        Ok(())
    }
}

impl Landing<'_> {
    /// Makes place for a new file and gives its id.
    fn begin(
        &self,
        ask: &PutBlobAsk,
        open: &mut HashMap<String, Upload>,
    ) -> Result<String, ErrorBody> {
        let size = ask.total_size.filter(|size| *size > 0);
        let size = size.ok_or_else(|| {
            wrong(
                "invalid_declaration",
                "The first piece says how large the file is.",
            )
        })?;
        let declared = ask
            .sha256
            .as_ref()
            .filter(|sum| sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let declared = declared.ok_or_else(|| {
            wrong(
                "invalid_declaration",
                "The first piece has the SHA-256 of the file.",
            )
        })?;
        if size > FILE_MAX {
            return Err(wrong("too_large", "The file is too large.").with("total_size", size));
        }
        if open.len() >= OPEN_MAX {
            return Err(wrong("busy", "Too many files are being sent."));
        }
        let coming: u64 = open.values().map(|upload| upload.size).sum();
        if self.held().saturating_add(coming).saturating_add(size) > FOLDER_MAX {
            let words = "The folder for files of the agent is full.";
            return Err(wrong("too_large", words).with("total_size", size));
        }
        self.folder
            .create_dir_all(PARTS)
            .map_err(|error| unwritable(&error))?;
        self.discard_leftovers(open);
        let id = uuid::Uuid::new_v4().simple().to_string();
        let part = self
            .folder
            .open_file(part(&id), Access::CreateNew)
            .map_err(|error| unwritable(&error))?;
        let upload = Upload {
            part,
            name: file_name(&id, ask.name_hint.as_deref()),
            size,
            declared: declared.to_ascii_lowercase(),
            digest: Sha256::new(),
            received: 0,
            moved: Instant::now(),
        };
        open.insert(id.clone(), upload);
        Ok(id)
    }

    fn finish(&self, mut upload: Upload) -> Result<(String, u64, String), ErrorBody> {
        let failed = || wrong("io_error", "The file could not be put in its place.");
        upload.part.rewind().map_err(|_| failed())?;
        self.folder
            .copy_in(&upload.part, &upload.name, FILE_MAX)
            .map_err(|_| failed())?;
        let path = self.path.join(&upload.name);
        let path = path.to_str().ok_or_else(failed)?.to_owned();
        Ok((path, upload.received, upload.declared))
    }

    fn discard(&self, id: &str) {
        let _ = self.folder.remove_file(part(id)); // What cannot be removed now is a leftover later.
    }

    /// Parts that nobody has written to for a while. Those of other processes that use the folder are younger.
    fn discard_leftovers(&self, open: &HashMap<String, Upload>) {
        let now = SystemTime::now();
        for entry in self.folder.list(PARTS).unwrap_or_default() {
            let path = Path::new(PARTS).join(&entry.name);
            let is_ours = entry.name.to_str().is_some_and(|id| open.contains_key(id));
            let age = self.folder.metadata(&path).ok();
            let age = age.and_then(|metadata| now.duration_since(metadata.modified().ok()?).ok());
            if !is_ours && age.is_some_and(|age| age > IDLE_MAX) {
                let _ = self.folder.remove_file(&path); // The next upload tries again.
            }
        }
    }

    /// Bytes of the files that were uploaded before.
    fn held(&self) -> u64 {
        let entries = self.folder.list(".").unwrap_or_default().into_iter();
        let uploaded = entries.filter(|entry| entry.name.to_str().is_some_and(is_uploaded));
        let size = |name: &Path| self.folder.metadata(name).map_or(0, |found| found.len());
        uploaded.map(|entry| size(Path::new(&entry.name))).sum()
    }
}

fn wrong(reason: &str, words: &str) -> ErrorBody {
    ErrorBody::new(UPLOAD_ERROR, words).with("reason", reason)
}

/// The path stays here: an agent has no business to know it.
fn unwritable(error: &ConfinedError) -> ErrorBody {
    tracing::warn!(%error, "a file of the agent cannot be taken");
    wrong(
        "forbidden",
        "The folder for files of the agent cannot be written to.",
    )
}

fn part(id: &str) -> PathBuf {
    Path::new(PARTS).join(id)
}

/// The id, and as much of the wished name as is harmless: nothing of the agent's alone decides where a file goes.
fn file_name(id: &str, hint: Option<&str>) -> String {
    let name = hint.unwrap_or_default();
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let harmless = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = name
        .chars()
        .map(|c| if harmless(c) { c } else { '_' })
        .take(HINT_MAX)
        .collect();
    match name.trim_matches(['.', '-', '_']) {
        "" => id.to_owned(),
        name => format!("{id}_{name}"),
    }
}

fn is_uploaded(name: &str) -> bool {
    let id = name.split('_').next().unwrap_or_default();
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
#[path = "uploads_tests.rs"]
mod tests;
