//! What is kept of a session, and what is shown of it.

use std::{path::PathBuf, time::Duration};

use domain::{
    Name, Timestamp,
    session::Lease,
    turn::{Ask, TurnId},
};
use serde::{Deserialize, Serialize};
use store::{Change, SessionRow};

use super::NativeOpen;
use crate::{clock, engine::Via};

/// Letters of a prompt that a list shows: a line of a wide table. It is written with every turn.
const PROMPT_MAX: usize = 160;

/// A session as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRecord {
    pub(crate) id: String,
    pub(crate) agent: Name,
    /// Tells this agent from a later one of the same name.
    pub(crate) agent_id: String,
    /// Where the conversation takes place; the same after a restart.
    pub(crate) cwd: PathBuf,
    /// The agent's own id of the conversation, once there is one.
    #[serde(default)]
    pub(crate) agent_session: Option<String>,
    /// How its agent is reached.
    pub(crate) via: Via,
    /// Who created it.
    #[serde(default)]
    pub(crate) client: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) last_activity_at: Timestamp,
    pub(crate) idle_ttl_ms: u64,
    /// How many turns have been given a number.
    pub(crate) turns: u64,
    /// The beginning of what was asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<String>,
    /// The turn that runs; after a crash, the one that was interrupted.
    #[serde(default)]
    pub(crate) running: Option<TurnId>,
    pub(crate) lease: Lease,
    /// Whether it gives its task up while nobody uses it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) rests: bool,
    /// The words it was opened with, for an agent that speaks its client's protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) open: Option<NativeOpen>,
}

impl SessionRecord {
    pub(crate) fn idle_ttl(&self) -> Duration {
        Duration::from_millis(self.idle_ttl_ms)
    }

    pub(crate) fn change(&self) -> Change {
        Change::PutSession(SessionRow {
            id: self.id.clone(),
            agent: self.agent.to_string(),
            live: self.is_live(),
            record: serde_json::to_string(self).expect("a record has only text keys"),
        })
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self.lease, Lease::Active | Lease::Idle)
    }

    /// As it is worth keeping: who is attached is gone with the daemon.
    pub(crate) fn as_kept(&self) -> Self {
        let lease = match self.lease {
            Lease::Active => Lease::Idle,
            lease => lease,
        };
        Self {
            lease,
            ..self.clone()
        }
    }
}

/// A session as everybody sees it. Serialised, it is the contract's `SessionLeaseInfo` and a little more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    pub session_id: String,
    pub agent_name: String,
    /// The first client that is attached; nothing while idle.
    pub client_id: Option<String>,
    pub state: Lease,
    pub created_at: String,
    pub last_activity_at: String,
    pub idle_ttl_ms: u64,
    pub turns: u64,
    /// What was asked last, as far as a list shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Whether a turn runs now.
    pub busy: bool,
    /// How many clients are attached.
    pub clients: usize,
    /// How many asks wait for an answer.
    pub asks: usize,
    /// The number of the newest event.
    pub last_seq: u64,
}

/// As much of a prompt as a list shows.
pub(crate) fn in_short(prompt: &str) -> String {
    let prompt = prompt.trim();
    let mut shown: String = prompt.chars().take(PROMPT_MAX).collect();
    if shown.len() < prompt.len() {
        shown.push('…');
    }
    shown
}

/// What waits in a session at a moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Waiting {
    /// What the turn that runs has asked and nobody has answered.
    pub asks: Vec<Ask>,
    /// Prompts whose turns have not begun, the next one first.
    pub prompts: Vec<(TurnId, String)>,
}

impl SessionRecord {
    /// What is seen of a session that has no task, because it is over.
    pub(crate) fn past_view(&self, last_seq: u64) -> SessionView {
        SessionView {
            session_id: self.id.clone(),
            agent_name: self.agent.to_string(),
            client_id: None,
            state: self.lease,
            created_at: clock::text(self.created_at),
            last_activity_at: clock::text(self.last_activity_at),
            idle_ttl_ms: self.idle_ttl_ms,
            turns: self.turns,
            prompt: self.prompt.clone(),
            busy: false,
            clients: 0,
            asks: 0,
            last_seq,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_prompt_is_shown_in_part() {
        assert_eq!(in_short(" look around\n"), "look around");
        let shown = in_short(&"é".repeat(500));
        assert_eq!(shown.chars().count(), PROMPT_MAX + 1);
    }
}
