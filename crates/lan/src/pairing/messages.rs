//! What two nodes say to each other while they pair, and what their owners see of it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::code::NONCE_LENGTH;
use crate::{
    client::{cut, normal},
    error::LanError,
};

/// The body of `POST /pair/requests`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Asking {
    pub(super) agent_id: String,
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fingerprint: Option<String>,
    pub(super) commitment: String,
}

/// Its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Opened {
    pub(super) id: String,
    pub(super) nonce: String,
    pub(super) agent_id: String,
    pub(super) name: String,
    pub(super) expires_in_seconds: u64,
}

/// The body of `POST /pair/requests/{id}`: shows the secret, and asks how it stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(super) nonce: String,
    /// Once it is accepted: what the other side may use to call us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
}

/// Its answer.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(super) status: StandingStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rights: Option<BTreeSet<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StandingStatus {
    Waiting,
    Accepted,
    Refused,
    Failed,
}

/// A request of somebody, as the owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestView {
    pub agent_id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub code: String,
}

/// A pairing that we asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    pub id: String,
    pub peer: String,
    pub name: String,
    pub url: String,
    /// To be typed on the other side.
    pub code: String,
    pub status: StandingStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// What a stranger says of itself, bounded; it is shown to the owner.
pub(super) fn checked(asking: Asking) -> Result<Asking, LanError> {
    let invalid = |what: &str| LanError::Invalid {
        what: what.to_owned(),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !(1..=64).contains(&asking.agent_id.len()) || !asking.agent_id.bytes().all(is_plain) {
        return Err(invalid("agent_id is no id"));
    }
    if asking.commitment.len() != NONCE_LENGTH {
        return Err(invalid("commitment is no SHA-256 in hex"));
    }
    let fingerprint = asking.fingerprint.as_deref().map(normal).transpose();
    let fingerprint = fingerprint.map_err(|error| LanError::Invalid {
        what: error.to_string(),
    })?;
    let url = asking
        .url
        .as_deref()
        .map(crate::client::base_of)
        .transpose()?;
    Ok(Asking {
        name: cut(&asking.name, 64).replace('\n', " "),
        url,
        fingerprint,
        ..asking
    })
}
