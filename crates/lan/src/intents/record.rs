//! What is kept of an intent: to whom it went, what came of it, who answered for whom.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::runs::Message;

use crate::{
    answers::{AnsweredBy, Question},
    client::ClientError,
};

pub(super) const INTENT: &str = "intent";

/// An intent and everything that came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    pub id: String,
    pub text: String,
    /// The main session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub status: IntentStatus,
    /// One for each peer that took it.
    pub legs: Vec<Leg>,
    /// Peers that could not take it, in the order they were tried.
    pub tried: Vec<Tried>,
    /// What the human said, from which questions are answered.
    #[serde(default)]
    pub context: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntentStatus {
    /// Peers are at it; a node that ends meanwhile follows them again when it begins.
    Working,
    Completed,
    /// Some peers have done it and some have not.
    Partial,
    Awaiting,
    Failed,
}

/// What one peer made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leg {
    pub peer: String,
    pub peer_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    pub score: f64,
    pub why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    pub status: LegStatus,
    pub text: String,
    pub output: Vec<Message>,
    /// What waits for the human, and why it was not answered for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Which of the run's questions it is, where the peer says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_because: Option<String>,
    pub answers: Vec<Answered>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<LegError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LegStatus {
    /// Its run goes on.
    Working,
    Completed,
    Awaiting,
    Failed,
    Cancelled,
}

/// A question that was answered, by whom, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answered {
    pub question: String,
    pub answer: String,
    pub by: AnsweredBy,
    pub confidence: f64,
    pub because: String,
}

/// Why a peer did not do it, in its own words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LegError {
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// A peer that could not take the intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    pub peer: String,
    pub peer_name: String,
    pub why: String,
}

impl Leg {
    /// The question waits for the human.
    pub(super) fn waits_for(&mut self, question: &Question) {
        self.status = LegStatus::Awaiting;
        self.question = Some(question.text.clone());
        self.ask = question.ask.clone();
    }

    /// Whether it is this question that waits for the human. Where the peer names its questions, another one with the
    /// same words is another one.
    pub(super) fn waits_on(&self, question: &Question) -> bool {
        let is_named = self.ask.is_none() || question.ask.is_none() || self.ask == question.ask;
        is_named && self.question.as_ref() == Some(&question.text)
    }
}

impl Intent {
    pub(super) fn settle(&mut self) {
        let has = |status| self.legs.iter().any(|leg| leg.status == status);
        self.status = if has(LegStatus::Awaiting) {
            IntentStatus::Awaiting
        } else if !has(LegStatus::Completed) {
            IntentStatus::Failed
        } else if self
            .legs
            .iter()
            .all(|leg| leg.status == LegStatus::Completed)
        {
            IntentStatus::Completed
        } else {
            IntentStatus::Partial
        };
    }
}

impl From<&ClientError> for LegError {
    fn from(error: &ClientError) -> Self {
        match error {
            ClientError::Refused {
                code,
                message,
                suggestion,
                details,
                ..
            } => Self {
                code: code.clone(),
                message: message.clone(),
                suggestion: suggestion.clone(),
                details: details.as_deref().cloned(),
            },
            ClientError::Unreachable { .. } | ClientError::Lost { .. } => Self {
                suggestion: Some("look whether the peer is on, then ask again".to_owned()),
                ..Self::plain("peer_offline", &error.to_string())
            },
            ClientError::Address { .. } | ClientError::Protocol { .. } => {
                Self::plain("peer_unusable", &error.to_string())
            }
        }
    }
}

impl LegError {
    pub(super) fn plain(code: &str, message: &str) -> Self {
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
            suggestion: None,
            details: None,
        }
    }

    /// A failed run's own error, whatever its shape.
    pub(super) fn of_run(error: Option<&Value>) -> Self {
        let text = |key: &str| {
            error
                .and_then(|error| error.get(key))
                .and_then(Value::as_str)
        };
        let data = error.and_then(|error| error.get("data"));
        let exact = data
            .and_then(|data| data.get("code"))
            .and_then(Value::as_str);
        Self {
            code: exact.or(text("code")).unwrap_or("failed").to_owned(),
            message: text("message")
                .unwrap_or("the run failed and did not say why")
                .to_owned(),
            suggestion: text("suggestion").map(str::to_owned),
            details: error.and_then(|error| error.get("details")).cloned(),
        }
    }
}
