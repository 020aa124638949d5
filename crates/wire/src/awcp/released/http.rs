//! The executor's other endpoints: where they are, and what they answer.

use serde::{Deserialize, Serialize};

use super::daemon::DelegationFailure;

/// `{"ok":true}`: to START, CONTINUE, CLOSE and an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ok {
    pub ok: bool,
}

/// To `POST <url>/cancel/<id>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelAnswer {
    pub ok: bool,
    pub cancelled: bool,
}

/// To `GET …/tasks/<id>/result`; `not_found` comes with status 404.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultAnswer {
    pub status: ResultStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highlights: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<DelegationFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    Running,
    Completed,
    Error,
    NotApplicable,
    NotFound,
}

/// To `GET <url>/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusAnswer {
    pub pending_invitations: u64,
    pub active_delegations: u64,
    pub completed_delegations: u64,
    pub delegations: Vec<RunningDelegation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningDelegation {
    pub id: String,
    pub work_path: String,
    pub started_at: String,
}

/// Its client takes `/awcp` off the executor's URL and puts it back for tasks, so a URL without it serves both.
fn tasks_url(url: &str, id: &str, what: &str) -> String {
    let url = url.trim_end_matches('/');
    let base = url.strip_suffix("/awcp").unwrap_or(url);
    format!("{base}/awcp/tasks/{id}/{what}")
}

/// Where the events of a task are, for the executor at `url`. Ids are checked before they come here.
pub fn events_url(url: &str, id: &str) -> String {
    tasks_url(url, id, "events")
}

pub fn ack_url(url: &str, id: &str) -> String {
    tasks_url(url, id, "ack")
}

pub fn result_url(url: &str, id: &str) -> String {
    tasks_url(url, id, "result")
}

/// Cancelling and status hang on the URL as it is.
pub fn cancel_url(url: &str, id: &str) -> String {
    format!("{}/cancel/{id}", url.trim_end_matches('/'))
}

pub fn status_url(url: &str) -> String {
    format!("{}/status", url.trim_end_matches('/'))
}
