//! Uploads against a real folder.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::*;

fn sum(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn first(bytes: &[u8], piece: &[u8]) -> Value {
    json!({
        "req_id": "r", "chunk_offset": 0, "eof": bytes.len() == piece.len(), "total_size": bytes.len(),
        "sha256": sum(bytes), "name_hint": "../notes of ann.md", "blob": STANDARD.encode(piece),
    })
}

fn next(id: &str, offset: usize, piece: &[u8], is_last: bool) -> Value {
    json!({
        "upload_id": id, "chunk_offset": offset, "eof": is_last, "blob": STANDARD.encode(piece),
    })
}

/// Every file below the folder, with the parts.
fn files(folder: &TempDir) -> Vec<String> {
    let mut names = Vec::new();
    for below in [folder.path().to_owned(), folder.path().join(PARTS)] {
        for entry in fs::read_dir(below).into_iter().flatten() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                names.push(entry.file_name().into_string().unwrap());
            }
        }
    }
    names
}

fn reason(answer: Result<PutBlobAnswer, ErrorBody>) -> String {
    let error = answer.unwrap_err();
    assert_eq!(error.code, UPLOAD_ERROR);
    error.details["reason"].as_str().unwrap().to_owned()
}

#[test]
fn a_file_comes_in_pieces_and_has_its_name_when_it_is_whole() {
    let folder = TempDir::new().unwrap();
    let uploads = Uploads::default();
    let put = |body: Value| uploads.put(&body, Some(folder.path()));
    let bytes = b"every piece counts";
    let begun = put(first(bytes, &bytes[..5])).unwrap();
    assert_eq!((begun.chunk_offset, begun.landing_path), (0, None));
    assert_eq!(files(&folder), std::slice::from_ref(&begun.upload_id));
    put(next(&begun.upload_id, 5, &bytes[5..9], false)).unwrap();
    let last = put(next(&begun.upload_id, 9, &bytes[9..], true)).unwrap();
    let path = PathBuf::from(last.landing_path.unwrap());
    assert_eq!(path.parent(), Some(folder.path()));
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(
        files(&folder),
        [format!("{}_notes_of_ann.md", begun.upload_id)]
    );
    assert_eq!(last.sha256, Some(sum(bytes)));
    let whole = put(first(bytes, bytes)).unwrap();
    assert_eq!(whole.total_size, Some(18));
    let again = put(next(&whole.upload_id, 18, b"", true));
    assert_eq!(reason(again), "invalid_upload");
}

#[test]
fn what_is_wrong_with_an_upload_is_said_and_nothing_of_it_stays() {
    let folder = TempDir::new().unwrap();
    let uploads = Uploads::default();
    let put = |body: Value| uploads.put(&body, Some(folder.path()));
    let bytes = b"1234567890";
    for (key, value, expected) in [
        ("total_size", json!(0), "invalid_declaration"),
        ("total_size", Value::Null, "invalid_declaration"),
        ("sha256", json!("abc"), "invalid_declaration"),
        ("total_size", json!(FILE_MAX + 1), "too_large"),
        ("sha256", json!(sum(b"another")), "integrity"),
        ("total_size", json!(5), "range"),
    ] {
        let mut body = first(bytes, bytes);
        body[key] = value;
        assert_eq!(reason(put(body)), expected, "{key}");
        assert_eq!(files(&folder), Vec::<String>::new(), "{key}");
    }
    assert_eq!(reason(uploads.put(&first(bytes, bytes), None)), "forbidden");
    let nowhere = uploads.put(&first(bytes, bytes), Some(&folder.path().join("none")));
    assert_eq!(reason(nowhere), "forbidden");
    let id = put(first(bytes, &bytes[..4])).unwrap().upload_id;
    assert_eq!(reason(put(next(&id, 5, b"x", false))), "range");
    assert_eq!(reason(put(next(&id, 4, b"x", true))), "range");
    let mut declaring = next(&id, 4, &bytes[4..], true);
    declaring["total_size"] = json!(10);
    assert_eq!(reason(put(declaring)), "invalid_declaration");
    // After all of that the right piece is still taken.
    put(next(&id, 4, &bytes[4..], true)).unwrap();
}

#[test]
fn few_files_are_sent_at_once_and_leftovers_make_room() {
    let folder = TempDir::new().unwrap();
    let uploads = Uploads::default();
    let put = |body: Value| uploads.put(&body, Some(folder.path()));
    let ids: Vec<String> = (0..OPEN_MAX)
        .map(|_| put(first(b"12", b"1")).unwrap().upload_id)
        .collect();
    assert_eq!(reason(put(first(b"12", b"1"))), "busy");
    for upload in uploads.0.lock().unwrap().values_mut() {
        upload.moved -= IDLE_MAX * 2;
    }
    let leftover = folder.path().join(PARTS).join("a-leftover");
    let file = File::create(&leftover).unwrap();
    file.set_modified(SystemTime::now() - IDLE_MAX * 2).unwrap();
    assert_eq!(reason(put(next(&ids[0], 1, b"2", true))), "invalid_upload");
    let id = put(first(b"12", b"1")).unwrap().upload_id;
    assert_eq!(files(&folder), [id]);
}

#[test]
fn an_agent_cannot_fill_the_disk() {
    let folder = TempDir::new().unwrap();
    let held = File::create(folder.path().join(format!("{:032x}_held", 7))).unwrap();
    held.set_len(FOLDER_MAX - 1).unwrap();
    let uploads = Uploads::default();
    let put = |body: Value| uploads.put(&body, Some(folder.path()));
    assert_eq!(reason(put(first(b"12", b"12"))), "too_large");
    put(first(b"1", b"1")).unwrap();
}

#[test]
fn a_name_says_nothing_about_the_place() {
    for (hint, name) in [
        (None, "id"),
        (Some("../../etc/passwd"), "id_passwd"),
        (Some("..\\x y.txt"), "id_x_y.txt"),
        (Some("/.."), "id"),
        (Some("é"), "id"),
    ] {
        assert_eq!(file_name("id", hint), name);
    }
    assert_eq!(file_name("i", Some(&"x".repeat(1000))).len(), HINT_MAX + 2);
}
