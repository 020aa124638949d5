//! What is kept of runs and sessions, and how it is told.

use std::collections::BTreeMap;

use domain::{
    Name, Timestamp, Trace,
    run::{Run, Status},
    turn::{AskId, AskKind, Standing, TurnId},
};
use engine::{Keep, Note};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wire::runs::{self, Message};

use crate::{awaits, error};

/// Kinds of records.
pub(crate) const RUN: &str = "run";
pub(crate) const SESSION: &str = "run-session";
pub(crate) const EVENTS: &str = "run-events";
pub(crate) const KEY: &str = "run-key";

/// Whose words a caller speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Dialect {
    /// The Agent Communication Protocol as it stands.
    Standard,
    /// Its extension for agents on a local network.
    Network,
}

/// A run as the store keeps it: enough to go on after any crash.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunRecord {
    pub(crate) id: String,
    pub(crate) agent: Name,
    /// Who asked for it; nobody else but the owner sees it.
    pub(crate) caller: String,
    pub(crate) dialect: Dialect,
    pub(crate) session: String,
    pub(crate) machine: Run,
    pub(crate) input: Vec<Message>,
    pub(crate) prompt: String,
    #[serde(default)]
    pub(crate) output: Vec<Message>,
    #[serde(default)]
    pub(crate) error: Option<Failure>,
    /// What the turn has asked and nobody has answered.
    #[serde(default)]
    pub(crate) asks: BTreeMap<String, AskKind>,
    /// The chain for calls that follow from this run.
    pub(crate) chain: Vec<String>,
    /// What the caller's request belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<Trace>,
    /// How the caller reached the node; addresses in answers begin so.
    pub(crate) base: String,
    #[serde(default)]
    pub(crate) master_session: Option<String>,
    pub(crate) created_at: Timestamp,
    #[serde(default)]
    pub(crate) finished_at: Option<Timestamp>,
    /// The engine's session and turn, once it has begun.
    #[serde(default)]
    pub(crate) engine_session: Option<String>,
    #[serde(default)]
    pub(crate) turn: Option<TurnId>,
    /// A permission given to a turn that was gone by then; it holds once, for the very same act.
    #[serde(default)]
    pub(crate) standing: Option<Standing>,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) details: Option<Value>,
    pub(crate) suggestion: String,
}

impl RunRecord {
    pub(crate) fn status(&self) -> Status {
        self.machine.status()
    }

    /// What the journal tells of the state that it is in.
    pub(crate) fn note(&self) -> Note {
        Note {
            kind: format!("run.{}", self.status().as_str()),
            agent: Some(self.agent.to_string()),
            session: self.engine_session.clone(),
            body: json!({
                "run": self.id, "caller": self.caller, "session": self.session,
                "masterSession": self.master_session, "chain": self.chain, "trace": self.trace,
            }),
        }
    }

    /// Whether a new daemon takes it up.
    pub(crate) fn keep(&self) -> Keep {
        match self.status().is_over() {
            true => Keep::Finished,
            false => Keep::Live,
        }
    }

    /// What the run asks its caller now.
    pub(crate) fn asked(&self) -> Option<(&AskId, &AskKind)> {
        let id = self.machine.awaits()?;
        Some((id, self.asks.get(&id.0)?))
    }

    /// As it is told.
    pub(crate) fn view(&self) -> runs::Run {
        let asked = self
            .asked()
            .map(|(id, kind)| awaits::request(id, kind, &self.agent));
        runs::Run {
            run_id: self.id.clone(),
            agent_name: self.agent.to_string(),
            session_id: Some(self.session.clone()),
            status: self.status().as_str().to_owned(),
            await_request: asked.clone(),
            awaits: asked.map(|request| runs::Await {
                message: request.message,
                metadata: request.metadata,
            }),
            output: self.output.clone(),
            error: self.error.as_ref().map(|failure| self.told(failure)),
            created_at: Some(text(self.created_at)),
            finished_at: self.finished_at.map(text),
        }
    }

    /// Standard clients know three codes and break on others; the exact one is in `data` for them.
    fn told(&self, failure: &Failure) -> runs::RunError {
        let code = match self.dialect {
            Dialect::Network => failure.code.clone(),
            Dialect::Standard => {
                error::class(axum::http::StatusCode::INTERNAL_SERVER_ERROR).to_owned()
            }
        };
        runs::RunError {
            code,
            message: failure.message.clone(),
            data: Some(json!({ "code": failure.code })),
            details: failure.details.clone(),
            suggestion: Some(failure.suggestion.clone()),
        }
    }
}

/// How long a session is meant to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Lifetime {
    /// The caller asked for no session; it is kept only long enough for a second thought.
    Ephemeral,
    Persistent,
}

/// A session of the runs API as the store keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRecord {
    pub(crate) id: String,
    pub(crate) agent: Name,
    pub(crate) caller: String,
    pub(crate) lifetime: Lifetime,
    #[serde(default)]
    pub(crate) engine_session: Option<String>,
    /// Ids of resources, one per message.
    #[serde(default)]
    pub(crate) history: Vec<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) last_active: Timestamp,
    pub(crate) ttl_ms: u64,
    /// The run that is not over.
    #[serde(default)]
    pub(crate) active_run: Option<String>,
    #[serde(default)]
    pub(crate) master_session: Option<String>,
    /// It has expired or was closed.
    #[serde(default)]
    pub(crate) over: bool,
}

impl SessionRecord {
    pub(crate) fn is_stale(&self, now: Timestamp) -> bool {
        let ttl = i64::try_from(self.ttl_ms).unwrap_or(i64::MAX);
        self.active_run.is_none() && self.last_active.0.saturating_add(ttl) <= now.0
    }
}

/// A moment as it is told, always in UTC and with a `Z`.
pub(crate) fn text(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .to_string()
}

pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}
