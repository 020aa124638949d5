//! What happens in a turn, in order.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Answer, Ask, AskId, ToolCall, ToolUpdate};
use crate::{Timestamp, Trace};

/// A turn of one session, counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(pub u64);

/// One thing that happened in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Its place in the session, counted from one without gaps.
    pub seq: u64,
    pub at: Timestamp,
    #[serde(flatten)]
    pub kind: EventKind,
    /// What it came from, word for word, for faces that speak the same protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Raw>,
}

/// A message as it came, so that what we do not understand survives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raw {
    pub dialect: Dialect,
    /// One JSON value.
    pub frame: Arc<str>,
}

/// Whose words a raw frame is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// The `params` of an ACP notification or request to the client.
    Acp,
    /// A line that a program printed in its own streaming format.
    Print,
}

/// The meaning of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum EventKind {
    /// Somebody prompted.
    TurnStarted {
        turn: TurnId,
        prompt: String,
        /// What the turn belongs to, here and on other nodes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<Trace>,
        /// The client that asked for it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A part of the agent's answer.
    Text {
        text: String,
    },
    /// A part of what the agent thinks aloud.
    Thought {
        text: String,
    },
    ToolCall(ToolCall),
    ToolUpdate(ToolUpdate),
    /// The whole plan, every time it changes.
    Plan {
        entries: Vec<PlanEntry>,
    },
    /// The turn waits for somebody.
    Ask(Ask),
    /// It waits no longer.
    AskSettled {
        ask: AskId,
        answer: Answer,
        /// The client that answered, `policy`, or nobody.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The rule that decided, where the policy did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A file that the turn left changed in the workspace.
    Artifact {
        path: String,
        change: FileChange,
    },
    Usage(Usage),
    /// Something we say ourselves, such as why a tool was denied.
    Notice {
        text: String,
    },
    /// Something of the driver's own that has no meaning here; its raw form does.
    Other {
        name: String,
    },
    TurnEnded {
        turn: TurnId,
        stop: Stop,
    },
}

/// Why a turn is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Stop {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
    /// It could not be carried out; the session goes on.
    Failed {
        message: String,
    },
}

impl Stop {
    /// The word on every wire.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
            Self::Failed { .. } => "failed",
        }
    }
}

/// One line of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    pub text: String,
    pub status: PlanStatus,
}

/// How far a line of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanStatus {
    Pending,
    InProgress,
    Completed,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileChange {
    Created,
    Modified,
    Deleted,
}

/// What a turn has cost so far, as far as the agent says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// What is known after a later word, which may say only a part.
    #[must_use]
    pub fn updated(self, later: Self) -> Self {
        Self {
            input_tokens: later.input_tokens.or(self.input_tokens),
            output_tokens: later.output_tokens.or(self.output_tokens),
            cost_usd: later.cost_usd.or(self.cost_usd),
        }
    }

    /// What two have used together, as far as either says.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        fn sum<T>(left: Option<T>, right: Option<T>, add: fn(T, T) -> T) -> Option<T> {
            match (left, right) {
                (Some(left), Some(right)) => Some(add(left, right)),
                (left, right) => left.or(right),
            }
        }
        Self {
            input_tokens: sum(self.input_tokens, other.input_tokens, u64::saturating_add),
            output_tokens: sum(self.output_tokens, other.output_tokens, u64::saturating_add),
            cost_usd: sum(self.cost_usd, other.cost_usd, |left, right| left + right),
        }
    }
}

impl Event {
    /// About how many bytes it takes in memory: what queues and windows are bounded by.
    pub fn weight(&self) -> usize {
        /// Ids, times and pointers.
        const FIXED: usize = 128;
        let raw = self.raw.as_ref().map_or(0, |raw| raw.frame.len());
        FIXED + raw + self.kind.weight()
    }
}

impl EventKind {
    fn weight(&self) -> usize {
        match self {
            Self::Text { text } | Self::Thought { text } | Self::Notice { text } => text.len(),
            Self::TurnStarted { prompt, .. } => prompt.len(),
            Self::ToolCall(call) => call.weight(),
            Self::ToolUpdate(update) => update.weight(),
            Self::Plan { entries } => entries.iter().map(|entry| entry.text.len() + 16).sum(),
            Self::Ask(ask) => ask.weight(),
            Self::AskSettled { .. } | Self::Usage(_) => 64,
            Self::Artifact { path, .. } => path.len(),
            Self::Other { name } => name.len(),
            Self::TurnEnded { .. } => 64,
        }
    }
}
