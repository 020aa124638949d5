//! Binaries that are too large for an answer: kept for a while under a handle, and fetched in pieces.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use wire::{
    hex,
    smcp::{BlobAnswer, BlobAsk, CallResult, ErrorBody},
};

/// Binaries up to this size travel inside the answer.
pub(super) const INLINE_MAX: usize = 32 * 1024;

/// One piece, before it becomes Base64.
const PIECE_MAX: u64 = 256 * 1024;

/// Everything kept at once; the oldest goes first.
const KEPT_MAX: usize = 100 * 1024 * 1024;

/// A text of a result; what is longer is cut, because an answer must fit into one message.
const TEXT_MAX: usize = 1024 * 1024;

/// The code of everything that is wrong with a handle.
const BLOB_ERROR: i64 = 4018;

#[derive(Debug, Default)]
pub(crate) struct Blobs(Mutex<VecDeque<Blob>>);

#[derive(Debug)]
struct Blob {
    handle: String,
    mime_type: String,
    sha256: String,
    bytes: Vec<u8>,
}

impl Blobs {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Blob>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes large binaries out of a result and leaves handles in their place.
    pub(crate) fn take_from(&self, result: &mut CallResult) {
        for item in &mut result.content {
            let (field, mime_type) = match item["type"].as_str() {
                Some("image" | "audio") => ("/data", item["mimeType"].clone()),
                Some("resource") => ("/resource/blob", item["resource"]["mimeType"].clone()),
                Some("text") => {
                    cut_text(item);
                    continue;
                }
                _ => continue,
            };
            let Some(place) = item.pointer_mut(field) else {
                continue;
            };
            let encoded = place.as_str().unwrap_or_default();
            if encoded.len() <= INLINE_MAX.div_ceil(3) * 4 {
                continue;
            }
            let Ok(bytes) = STANDARD.decode(encoded) else {
                continue; // It is not what it says; the agent may see it as it is.
            };
            *place = json!("");
            let mime_type = mime_type.as_str().unwrap_or("application/octet-stream");
            let (size, (handle, sha256)) = (bytes.len(), self.keep(bytes, mime_type));
            if !item["_meta"].is_object() {
                item["_meta"] = json!({});
            }
            item["_meta"]["a2c_blob_handle"] = json!(handle);
            item["_meta"]["a2c_total_size"] = json!(size);
            item["_meta"]["a2c_sha256"] = json!(sha256);
        }
    }

    pub(super) fn keep(&self, bytes: Vec<u8>, mime_type: &str) -> (String, String) {
        let sha256 = hex(&Sha256::digest(&bytes));
        let handle = uuid::Uuid::new_v4().simple().to_string();
        let mut kept = self.kept();
        kept.push_back(Blob {
            handle: handle.clone(),
            mime_type: mime_type.to_owned(),
            sha256: sha256.clone(),
            bytes,
        });
        let mut size: usize = kept.iter().map(|blob| blob.bytes.len()).sum();
        while size > KEPT_MAX
            && let Some(oldest) = kept.pop_front()
        {
            size -= oldest.bytes.len();
        }
        (handle, sha256)
    }

    /// Gives one piece.
    pub(crate) fn read(&self, ask: &BlobAsk) -> Result<BlobAnswer, ErrorBody> {
        let wrong = |reason: &str| {
            ErrorBody::new(BLOB_ERROR, "The binary cannot be read.").with("reason", reason)
        };
        let kept = self.kept();
        let blob = kept.iter().find(|blob| blob.handle == ask.blob_handle);
        let blob = blob.ok_or_else(|| wrong("gone"))?;
        let total = blob.bytes.len();
        let start = usize::try_from(ask.chunk_offset).unwrap_or(usize::MAX);
        if start > total {
            return Err(wrong("range"));
        }
        let length = ask.max_chunk_bytes.unwrap_or(PIECE_MAX).clamp(1, PIECE_MAX);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let end = start.saturating_add(length).min(total);
        Ok(BlobAnswer {
            blob_handle: blob.handle.clone(),
            mime_type: blob.mime_type.clone(),
            total_size: u64::try_from(total).unwrap_or(u64::MAX),
            sha256: blob.sha256.clone(),
            chunk_offset: ask.chunk_offset,
            eof: end == total,
            blob: STANDARD.encode(&blob.bytes[start..end]),
            req_id: ask.req_id.clone(),
        })
    }
}

fn cut_text(item: &mut Value) {
    let text = item["text"].as_str().unwrap_or_default();
    if text.len() <= TEXT_MAX {
        return;
    }
    let mut end = TEXT_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = text.len() - end;
    let shortened = format!("{}\n[{cut} more bytes were cut]", &text[..end]);
    item["text"] = json!(shortened);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(bytes: usize) -> CallResult {
        CallResult {
            content: vec![
                json!({"type": "image", "mimeType": "image/png", "data": STANDARD.encode(vec![7; bytes])}),
                json!({"type": "resource", "resource": {"uri": "f://x", "blob": STANDARD.encode(vec![8; bytes])}}),
            ],
            ..CallResult::default()
        }
    }

    #[test]
    fn a_small_binary_stays_where_it_is() {
        let mut small = result(INLINE_MAX);
        Blobs::default().take_from(&mut small);
        assert_eq!(small, result(INLINE_MAX));
    }

    #[test]
    fn a_large_binary_is_fetched_in_pieces() {
        let size = 600_000;
        let blobs = Blobs::default();
        let mut large = result(size);
        blobs.take_from(&mut large);
        for (item, field, byte) in [(0, "/data", 7), (1, "/resource/blob", 8)] {
            let item = &large.content[item];
            assert_eq!(item.pointer(field), Some(&json!("")));
            assert_eq!(item["_meta"]["a2c_total_size"], size);
            let mut ask = BlobAsk {
                req_id: "r".to_owned(),
                blob_handle: item["_meta"]["a2c_blob_handle"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
                chunk_offset: 0,
                max_chunk_bytes: None,
            };
            let mut bytes = Vec::new();
            loop {
                let piece = blobs.read(&ask).unwrap();
                bytes.extend(STANDARD.decode(piece.blob).unwrap());
                ask.chunk_offset = u64::try_from(bytes.len()).unwrap();
                if piece.eof {
                    break;
                }
            }
            assert_eq!(bytes, vec![byte; size]);
            ask.chunk_offset += 1;
            assert_eq!(blobs.read(&ask).unwrap_err().details["reason"], "range");
        }
    }

    #[test]
    fn the_oldest_binary_makes_room() {
        let blobs = Blobs::default();
        let (first, _) = blobs.keep(vec![0; KEPT_MAX / 2 + 1], "a/b");
        blobs.keep(vec![0; KEPT_MAX / 2 + 1], "a/b");
        let ask = BlobAsk {
            req_id: String::new(),
            blob_handle: first,
            chunk_offset: 0,
            max_chunk_bytes: None,
        };
        assert_eq!(blobs.read(&ask).unwrap_err().details["reason"], "gone");
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let mut long = CallResult {
            content: vec![json!({"type": "text", "text": "é".repeat(TEXT_MAX)})],
            ..CallResult::default()
        };
        Blobs::default().take_from(&mut long);
        let text = long.content[0]["text"].as_str().unwrap();
        assert!(text.len() < TEXT_MAX + 64 && text.ends_with("more bytes were cut]"));
    }
}
