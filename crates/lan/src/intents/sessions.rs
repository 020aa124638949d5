//! Which sessions at peers belong to a main session: one to many, kept.

use engine::{Keep, Records, Which};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::record::{Leg, LegStatus};
use crate::{error::LanError, peer::now};

const KIND: &str = "remote-sessions";

/// Runs of one main session that are remembered; the oldest go first.
const REMOTES_MAX: usize = 256;

/// Main sessions that are listed.
const TREES_MAX: u32 = 256;

/// The sessions at peers that one main session has led to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteSessions {
    pub main: String,
    pub remotes: Vec<RemoteSession>,
}

/// A run at a peer, and the session it was in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteSession {
    pub peer: String,
    /// What the peer is called here.
    #[serde(default)]
    pub peer_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// What became of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<LegStatus>,
    pub at: i64,
}

#[derive(Debug)]
pub(super) struct Sessions {
    records: Records,
    /// Legs of one intent end at the same time; none of them may be lost.
    gate: Mutex<()>,
}

impl Sessions {
    pub(super) fn new(records: Records) -> Self {
        Self {
            records,
            gate: Mutex::default(),
        }
    }

    pub(super) async fn of(&self, main: &str) -> Result<RemoteSessions, LanError> {
        let found = self.records.get::<RemoteSessions>(KIND, main).await?;
        Ok(found
            .map(|found| found.value)
            .unwrap_or_else(|| RemoteSessions {
                main: main.to_owned(),
                remotes: Vec::new(),
            }))
    }

    pub(super) async fn all(&self) -> Result<Vec<RemoteSessions>, LanError> {
        let rows = self
            .records
            .list::<RemoteSessions>(KIND, Which::Live, None, TREES_MAX)
            .await?;
        let mut all: Vec<RemoteSessions> = rows.into_iter().map(|row| row.value).collect();
        let latest = |tree: &RemoteSessions| tree.remotes.last().map(|remote| remote.at);
        all.sort_by_key(|tree| std::cmp::Reverse(latest(tree)));
        Ok(all)
    }

    /// The session at the peer in which the main session goes on.
    pub(super) async fn last(&self, main: &str, peer: &str) -> Result<Option<String>, LanError> {
        let known = self.of(main).await?;
        let last = known
            .remotes
            .into_iter()
            .rev()
            .find(|remote| remote.peer == peer);
        Ok(last.and_then(|remote| remote.session_id))
    }

    pub(super) async fn add(&self, main: &str, leg: &Leg) -> Result<(), LanError> {
        let _gate = self.gate.lock().await;
        let mut known = self.of(main).await?;
        // Ids of runs are the peers' own; two of them may choose the same.
        known.remotes.retain(|remote| {
            remote.run_id.is_none() || (&remote.peer, &remote.run_id) != (&leg.peer, &leg.run_id)
        });
        known.remotes.push(RemoteSession {
            peer: leg.peer.clone(),
            peer_name: leg.peer_name.clone(),
            session_id: leg.session_id.clone(),
            run_id: leg.run_id.clone(),
            capability: leg.capability.clone(),
            status: Some(leg.status),
            at: now(),
        });
        let over = known.remotes.len().saturating_sub(REMOTES_MAX);
        known.remotes.drain(..over);
        self.records
            .put(KIND, main, Keep::Live, &known, None)
            .await?;
        Ok(())
    }
}
