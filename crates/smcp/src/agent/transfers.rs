//! What goes between an agent and a computer in pieces or as files: large results, files of the agent, skills.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use wire::{
    hex,
    smcp::{BlobAnswer, CallResult, ClientEvent, PutBlobAnswer},
};

use super::Agent;
use crate::link::LinkError;

/// Bytes of one result that is fetched in pieces: what computers keep at most.
const BLOB_MAX: u64 = 100 * 1024 * 1024;

/// Bytes of one piece of a file that is sent: what released computers take.
const PIECE_MAX: usize = 256 * 1024;

/// One file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFile {
    pub mime_type: String,
    pub bytes: Vec<u8>,
}

impl Agent {
    /// Fetches something that was too large to be sent at once, and checks that it is whole.
    pub async fn blob(&self, computer: &str, handle: &str) -> Result<Vec<u8>, LinkError> {
        let event = ClientEvent::GetBlob.name(self.profile);
        let broken = || LinkError::Unreadable {
            event: event.to_owned(),
        };
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let more = json!({ "blob_handle": handle, "chunk_offset": bytes.len() });
            let piece: BlobAnswer = self.ask(ClientEvent::GetBlob, computer, more).await?;
            let offset = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            if piece.chunk_offset != offset || piece.total_size > BLOB_MAX {
                return Err(broken());
            }
            let chunk = STANDARD.decode(&piece.blob).map_err(|_| broken())?;
            let is_stuck = chunk.is_empty() && !piece.eof;
            bytes.extend(chunk);
            if is_stuck || u64::try_from(bytes.len()).unwrap_or(u64::MAX) > piece.total_size {
                return Err(broken());
            }
            if piece.eof {
                let is_whole = hex(&Sha256::digest(&bytes)) == piece.sha256.to_ascii_lowercase();
                return is_whole.then_some(bytes).ok_or_else(broken);
            }
        }
    }

    /// Puts binaries back that the computer has kept for separate fetching.
    pub(super) async fn with_blobs(
        &self,
        computer: &str,
        mut result: CallResult,
    ) -> Result<CallResult, LinkError> {
        for item in &mut result.content {
            let Some(handle) = item["_meta"]["a2c_blob_handle"].as_str() else {
                continue;
            };
            let bytes = self.blob(computer, handle).await?;
            let encoded = json!(STANDARD.encode(bytes));
            if item["resource"].is_object() {
                item["resource"]["blob"] = encoded;
            } else {
                item["data"] = encoded;
            }
            if let Some(meta) = item["_meta"].as_object_mut() {
                meta.retain(|key, _| !key.starts_with("a2c_"));
            }
        }
        Ok(result)
    }

    /// Sends a file, and gives the path that it has on the computer.
    pub async fn upload(
        &self,
        computer: &str,
        bytes: &[u8],
        name: &str,
    ) -> Result<String, LinkError> {
        let event = ClientEvent::PutBlob.name(self.profile);
        let broken = || LinkError::Unreadable {
            event: event.to_owned(),
        };
        let sha256 = hex(&Sha256::digest(bytes));
        let mut offset = 0;
        let mut id = None;
        loop {
            let end = bytes.len().min(offset + PIECE_MAX);
            let mut more = json!({
                "chunk_offset": offset, "eof": end == bytes.len(),
                "blob": STANDARD.encode(&bytes[offset..end]),
            });
            match &id {
                Some(id) => more["upload_id"] = json!(id),
                None => {
                    more["total_size"] = json!(bytes.len());
                    more["sha256"] = json!(sha256);
                    more["name_hint"] = json!(name);
                }
            }
            let taken: PutBlobAnswer = self.ask(ClientEvent::PutBlob, computer, more).await?;
            if end == bytes.len() {
                let is_whole = taken.sha256.as_deref() == Some(sha256.as_str());
                return taken.landing_path.filter(|_| is_whole).ok_or_else(broken);
            }
            id = Some(taken.upload_id);
            offset = end;
        }
    }

    /// The skills of a computer, as it describes them.
    pub async fn skills(&self, computer: &str) -> Result<Vec<Value>, LinkError> {
        let mut answer: Value = self
            .ask(ClientEvent::GetSkills, computer, json!({}))
            .await?;
        match answer["skills"].take() {
            Value::Array(skills) => Ok(skills),
            _ => Err(LinkError::Unreadable {
                event: ClientEvent::GetSkills.name(self.profile).to_owned(),
            }),
        }
    }

    /// One file of a skill; without a path, what the skill says.
    pub async fn skill(
        &self,
        computer: &str,
        name: &str,
        path: Option<&str>,
    ) -> Result<SkillFile, LinkError> {
        let mut more = json!({ "name": name });
        if let Some(path) = path {
            more["rel_path"] = json!(path);
        }
        let answer: Value = self.ask(ClientEvent::GetSkill, computer, more).await?;
        let bytes = match (answer["body"].as_str(), answer["blob_handle"].as_str()) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(handle)) => self.blob(computer, handle).await?,
            (None, None) => {
                let event = ClientEvent::GetSkill.name(self.profile).to_owned();
                return Err(LinkError::Unreadable { event });
            }
        };
        let mime_type = answer["mime_type"].as_str().unwrap_or_default().to_owned();
        Ok(SkillFile { mime_type, bytes })
    }
}
