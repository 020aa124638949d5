//! What an executor sends by SSE: one object in each `data:` line, no `event:` and no `id:`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::awcp::ErrorCode;

/// One event. `Done` and `Error` end the stream, the others do not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum Event {
    Status {
        delegation_id: String,
        timestamp: String,
        status: Progress,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<f64>,
    },
    Snapshot {
        delegation_id: String,
        timestamp: String,
        snapshot_id: String,
        summary: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        highlights: Option<Vec<String>>,
        /// A zip for `archive`; for `storage` and `git` the text of a JSON object.
        snapshot_base64: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recommended: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<BTreeMap<String, Value>>,
    },
    RoundDone {
        delegation_id: String,
        timestamp: String,
        round: u32,
        summary: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        highlights: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot_ids: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recommended_snapshot_id: Option<String>,
    },
    Done {
        delegation_id: String,
        timestamp: String,
        summary: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        highlights: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot_ids: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recommended_snapshot_id: Option<String>,
    },
    Error {
        delegation_id: String,
        timestamp: String,
        code: ErrorCode,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
}

/// What a status event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    Running,
    Progress,
}

impl Event {
    pub fn delegation_id(&self) -> &str {
        match self {
            Self::Status { delegation_id, .. }
            | Self::Snapshot { delegation_id, .. }
            | Self::RoundDone { delegation_id, .. }
            | Self::Done { delegation_id, .. }
            | Self::Error { delegation_id, .. } => delegation_id,
        }
    }

    /// The stream ends after it.
    pub fn is_last(&self) -> bool {
        match self {
            Self::Done { .. } | Self::Error { .. } => true,
            Self::Status { .. } | Self::Snapshot { .. } | Self::RoundDone { .. } => false,
        }
    }
}
