//! Skills that a computer lends: folders with a `SKILL.md`, read when they are asked for.

use std::path::{Component, Path, PathBuf};

use catalog::front_matter;
use platform::{
    ConfinedDir,
    confined::{ConfinedError, Kind},
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use wire::{hex, smcp::ErrorBody};

use super::blobs::{Blobs, INLINE_MAX};

/// What every skill has.
const ENTRY: &str = "SKILL.md";

/// The largest entry, and the largest file of a skill.
const ENTRY_MAX: u64 = 1024 * 1024;
const FILE_MAX: u64 = 16 * 1024 * 1024;

/// Skills of one computer; a list must fit into one message.
const SKILLS_MAX: usize = 256;

/// Characters of what a skill says of itself.
const DESCRIPTION_MAX: usize = 1024;

/// The codes of the released profile.
const NO_SKILL: i64 = 4016;
const NO_FILE: i64 = 4017;

/// Every skill of the folder that says what it is for, as the released profile writes it.
pub(crate) fn list(folder: &Path) -> Vec<Value> {
    let entries = ConfinedDir::open(folder).and_then(|opened| opened.list("."));
    let entries = entries.unwrap_or_default().into_iter();
    entries
        .filter(|entry| matches!(entry.kind, Kind::Dir | Kind::Link))
        .filter_map(|entry| described(folder, entry.name.to_str()?))
        .take(SKILLS_MAX)
        .collect()
}

fn described(folder: &Path, name: &str) -> Option<Value> {
    if !is_name(name) {
        return None;
    }
    let path = folder.join(name);
    let entry = ConfinedDir::open(&path).ok()?.read(ENTRY, ENTRY_MAX).ok()?;
    let text = String::from_utf8_lossy(&entry);
    let (said, _) = front_matter(&text);
    let description: String = said["description"]
        .as_str()?
        .chars()
        .take(DESCRIPTION_MAX)
        .collect();
    let mut skill = Map::from_iter([
        ("name".to_owned(), json!(name)),
        ("source".to_owned(), json!("user")),
        ("path".to_owned(), json!(path.to_str()?)),
        ("description".to_owned(), json!(description)),
    ]);
    for (key, written) in [
        ("license", "license"),
        ("compatibility", "compatibility"),
        ("version", "version"),
    ] {
        if let Some(text) = said[written].as_str() {
            skill.insert(key.to_owned(), json!(text));
        }
    }
    for (key, written) in [("allowed_tools", "allowed-tools"), ("tags", "tags")] {
        if let Some(words) = words(&said[written]) {
            skill.insert(key.to_owned(), json!(words));
        }
    }
    if said["metadata"].is_object() {
        skill.insert("skill_metadata".to_owned(), said["metadata"].clone());
    }
    Some(Value::Object(skill))
}

/// A list of words, or words between commas or blanks.
fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect(),
        Value::String(text) => {
            let words = text.split([',', ' ']).filter(|word| !word.is_empty());
            Some(words.map(str::to_owned).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// One file of a skill: its text, or a handle where it is large or no text.
pub(crate) fn read(folder: Option<&Path>, body: &Value, blobs: &Blobs) -> Result<Value, ErrorBody> {
    let name = body["name"].as_str().unwrap_or_default();
    let unknown = || ErrorBody::new(NO_SKILL, "There is no such skill.").with("name", name);
    let path = folder.ok_or_else(unknown)?.join(name);
    if !is_name(name) {
        return Err(unknown());
    }
    let skill = ConfinedDir::open(&path).map_err(|_| unknown())?;
    if !skill.exists(ENTRY).unwrap_or(false) {
        return Err(unknown());
    }
    let asked = body["rel_path"].as_str().filter(|path| !path.is_empty());
    let asked = asked.unwrap_or(ENTRY);
    let (bytes, mime_type) = file(&skill, asked).map_err(|reason| {
        ErrorBody::new(NO_FILE, "This file of the skill cannot be had.")
            .with("name", name)
            .with("rel_path", asked)
            .with("reason", reason)
    })?;
    let mut answer = json!({
        "name": name, "rel_path": asked, "mime_type": mime_type, "total_size": bytes.len(),
        "sha256": hex(&Sha256::digest(&bytes)), "req_id": body["req_id"],
    });
    match String::from_utf8(bytes) {
        Ok(text) if text.len() <= INLINE_MAX => answer["body"] = json!(text),
        Ok(text) => answer["blob_handle"] = json!(blobs.keep(text.into_bytes(), mime_type).0),
        Err(error) => answer["blob_handle"] = json!(blobs.keep(error.into_bytes(), mime_type).0),
    }
    Ok(answer)
}

fn file(skill: &ConfinedDir, asked: &str) -> Result<(Vec<u8>, &'static str), &'static str> {
    let path = PathBuf::from(asked);
    for part in path.components() {
        match part {
            // What is hidden holds settings and secrets of whoever uses the skill.
            Component::Normal(part) if part.as_encoded_bytes().starts_with(b".") => {
                return Err("forbidden");
            }
            Component::Normal(_) => {}
            Component::CurDir
            | Component::ParentDir
            | Component::RootDir
            | Component::Prefix(_) => {
                return Err("traversal");
            }
        }
    }
    let bytes = skill.read(&path, FILE_MAX).map_err(|error| match error {
        ConfinedError::Outside { .. } | ConfinedError::BadPath { .. } => "traversal",
        ConfinedError::TooLarge { .. } => "too_large",
        _ => "not_found",
    })?;
    if asked != ENTRY {
        return Ok((bytes, mime_type(&path)));
    }
    // Agents are given the text; what stands before it is in the list.
    let text = String::from_utf8_lossy(&bytes);
    let (_, text) = front_matter(&text);
    Ok((text.as_bytes().to_vec(), "text/markdown"))
}

fn mime_type(path: &Path) -> &'static str {
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    match suffix.unwrap_or_default().to_ascii_lowercase().as_str() {
        "md" => "text/markdown",
        "txt" => "text/plain",
        "py" => "text/x-python",
        "sh" => "text/x-shellscript",
        "js" => "text/javascript",
        "html" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "json" => "application/json",
        "yaml" | "yml" => "application/yaml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}

fn is_name(name: &str) -> bool {
    domain::Name::parse(name).is_ok()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use tempfile::TempDir;

    use super::*;

    const TIDY: &str = "---\nname: tidy\ndescription: Tidies up.\nallowed-tools: Read, Write\ntags: [home]\nmetadata:\n  a: 1\n---\nPut things away.\n";

    fn folder() -> TempDir {
        let folder = TempDir::new().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("tidy/SKILL.md", TIDY.as_bytes());
        write("tidy/scripts/run.py", b"print(1)");
        write("tidy/picture.png", &[0xff; 10]);
        write("tidy/long.txt", &[b'x'; INLINE_MAX + 1]);
        write("tidy/.env", b"SECRET");
        write("mute/SKILL.md", b"says nothing of itself");
        write("empty/other.md", b"");
        write("secret.txt", b"SECRET");
        symlink("../secret.txt", folder.path().join("tidy/leads-out")).unwrap();
        folder
    }

    #[test]
    fn skills_that_say_what_they_are_for_are_listed() {
        let folder = folder();
        let path = folder.path().join("tidy");
        let tidy = json!({
            "name": "tidy", "source": "user", "path": path.to_str().unwrap(),
            "description": "Tidies up.", "allowed_tools": ["Read", "Write"], "tags": ["home"],
            "skill_metadata": {"a": 1},
        });
        assert_eq!(list(folder.path()), [tidy]);
        assert_eq!(list(&folder.path().join("none")), Vec::<Value>::new());
    }

    #[test]
    fn a_file_of_a_skill_is_text_or_has_a_handle() {
        let (folder, blobs) = (folder(), Blobs::default());
        let read = |path: Value| {
            read(
                Some(folder.path()),
                &json!({"name": "tidy", "rel_path": path, "req_id": "r"}),
                &blobs,
            )
        };
        let entry = read(Value::Null).unwrap();
        assert_eq!(
            entry,
            json!({
                "name": "tidy", "rel_path": "SKILL.md", "mime_type": "text/markdown", "total_size": 17,
                "sha256": hex(&Sha256::digest("Put things away.\n")), "body": "Put things away.\n", "req_id": "r",
            })
        );
        assert_eq!(read(json!("scripts/run.py")).unwrap()["body"], "print(1)");
        for (path, size) in [("picture.png", 10), ("long.txt", INLINE_MAX + 1)] {
            let large = read(json!(path)).unwrap();
            assert_eq!(large["total_size"], size);
            assert!(large["blob_handle"].is_string() && large["body"].is_null());
        }
    }

    #[test]
    fn nothing_but_the_files_of_a_skill_is_given() {
        let (folder, blobs) = (folder(), Blobs::default());
        for (path, reason) in [
            ("../secret.txt", "traversal"),
            ("/etc/passwd", "traversal"),
            ("leads-out", "traversal"),
            (".env", "forbidden"),
            ("scripts/../.env", "traversal"),
            ("none.md", "not_found"),
            ("scripts", "not_found"),
        ] {
            let body = json!({"name": "tidy", "rel_path": path});
            let error = read(Some(folder.path()), &body, &blobs).unwrap_err();
            assert_eq!(
                (error.code, &error.details["reason"]),
                (4017, &json!(reason)),
                "{path}"
            );
        }
        for name in ["none", "", "..", "tidy/scripts", "empty", "/etc"] {
            let error = read(Some(folder.path()), &json!({ "name": name }), &blobs).unwrap_err();
            assert_eq!(error.code, 4016, "{name}");
        }
        assert_eq!(
            read(None, &json!({"name": "tidy"}), &blobs)
                .unwrap_err()
                .code,
            4016
        );
    }
}
