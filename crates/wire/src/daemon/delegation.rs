//! `delegation.*`: folders that are lent. The parameters of `delegation.create` are read by who lends.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `delegation.status`, `delegation.audit` and `delegation.cancel`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegationIdParams {
    pub delegation_id: String,
}

/// `delegation.wait`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegationWaitParams {
    pub delegation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// `delegation.message`, and its answer: the data of a part of A2A.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegationMessage {
    pub message: Value,
}
