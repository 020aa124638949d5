//! Prompts that wait behind a turn, as the store has them: a document each, until the turn begins or is dropped. What a daemon
//! finds of them when it starts was accepted by the one before it and never begun.

use std::collections::BTreeMap;

use domain::{
    Trace,
    session::ClientId,
    turn::{EventKind, Stop, TurnId},
};
use serde::{Deserialize, Serialize};
use store::{Change, RecordQuery, RecordRow, Store, StoreError};

use super::work::WaitingPrompt;
use crate::clock;

const KIND: &str = "queued-prompt";

/// Documents that are read at once.
const PAGE: u32 = 256;

/// What is said of a prompt that the daemon did not live to give.
const NOT_BEGUN: &str =
    "not begun: the daemon ended while this prompt waited behind another turn; send it again";

/// A prompt that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Queued {
    session: String,
    turn: TurnId,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<ClientId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
}

impl Queued {
    /// With the prompt's text as it is written down.
    pub(super) fn new(session: &str, turn: TurnId, text: String, prompt: &WaitingPrompt) -> Self {
        Self {
            session: session.to_owned(),
            turn,
            text,
            by: prompt.by.clone(),
            trace: prompt.options.trace,
        }
    }

    pub(super) fn turn(&self) -> TurnId {
        self.turn
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn kept(&self) -> Change {
        Change::PutRecord(RecordRow {
            kind: KIND.to_owned(),
            id: id(&self.session, self.turn),
            at: clock::now().0,
            live: true,
            record: serde_json::to_string(self).expect("a prompt has only text keys"),
        })
    }

    pub(super) fn gone(session: &str, turn: TurnId) -> Change {
        Change::DeleteRecord {
            kind: KIND.to_owned(),
            id: id(session, turn),
        }
    }

    /// What everybody sees of it: the words, and why they came to nothing.
    pub(super) fn told(self) -> [EventKind; 2] {
        let (turn, message) = (self.turn, NOT_BEGUN.to_owned());
        let started = EventKind::TurnStarted {
            turn,
            prompt: self.text,
            trace: self.trace,
            by: self.by.map(|client| client.0),
        };
        let stop = Stop::Failed { message };
        [started, EventKind::TurnEnded { turn, stop }]
    }

    /// All there are, by their sessions, each in its order.
    pub(super) async fn all(store: &Store) -> Result<BTreeMap<String, Vec<Self>>, StoreError> {
        let mut found: BTreeMap<String, Vec<Self>> = BTreeMap::new();
        let mut before = None;
        loop {
            let query = RecordQuery {
                kind: KIND.to_owned(),
                only_live: true,
                before,
                limit: PAGE,
            };
            let rows = store.records(query).await?;
            let Some(last) = rows.last() else { break };
            before = Some((last.at, last.id.clone()));
            let read = rows.iter().map(|row| serde_json::from_str(&row.record));
            for queued in read.filter_map(Result::<Self, _>::ok) {
                let waiting = found.entry(queued.session.clone()).or_default();
                waiting.push(queued);
            }
        }
        for waiting in found.values_mut() {
            waiting.sort_by_key(|queued| queued.turn.0);
        }
        Ok(found)
    }
}

fn id(session: &str, turn: TurnId) -> String {
    format!("{session}/{}", turn.0)
}
