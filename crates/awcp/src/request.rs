//! What callers say when they want a folder lent, over HTTP and over the socket.

use std::{path::PathBuf, time::Duration};

use domain::delegation::{Access, Transport};
use serde::Deserialize;

use crate::{Create, Keeping, Secrets};

const TTL_DEFAULT: u64 = 60 * 60;

/// A wish to lend a folder.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateRequest {
    pub peer_url: String,
    #[serde(default)]
    pub token: Option<String>,
    pub dir: PathBuf,
    #[serde(default)]
    pub description: Option<String>,
    pub prompt: String,
    #[serde(default = "read_write")]
    pub access: Access,
    #[serde(default = "an_hour")]
    pub ttl_secs: u64,
    #[serde(default)]
    pub transports: Vec<Transport>,
    #[serde(default)]
    pub quota_bytes: Option<u64>,
    /// Files that look like secrets are lent too.
    #[serde(default)]
    pub lend_secrets: bool,
    /// What becomes of the changes: `auto`, `staged` or `discard`.
    #[serde(default)]
    pub keeping: Keeping,
    /// Answer at once, and not when it has ended.
    #[serde(default)]
    pub background: bool,
}

impl std::fmt::Debug for CreateRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreateRequest")
            .field("peer_url", &self.peer_url)
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

fn read_write() -> Access {
    Access::Rw
}

fn an_hour() -> u64 {
    TTL_DEFAULT
}

impl From<CreateRequest> for Create {
    fn from(request: CreateRequest) -> Self {
        Self {
            peer_url: request.peer_url,
            token: request.token,
            dir: request.dir,
            description: request.description,
            prompt: request.prompt,
            access: request.access,
            ttl: Duration::from_secs(request.ttl_secs),
            transports: request.transports,
            quota_bytes: request.quota_bytes,
            secrets: match request.lend_secrets {
                true => Secrets::Lend,
                false => Secrets::Refuse,
            },
            keeping: request.keeping,
            continues: None,
            trace: None,
            chain: Vec::new(),
        }
    }
}
