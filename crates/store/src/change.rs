//! What can be written: a list of changes is one transaction.

use rusqlite::{Transaction, params};

use crate::{RecordRow, blobs::Blobs, worker::WriteError};

/// One change of the state, or one line of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    PutAgent {
        name: String,
        record: String,
    },
    DeleteAgent {
        name: String,
    },
    /// A small fact of the node itself, such as its id.
    PutFact {
        key: String,
        value: String,
    },
    Journal(Entry),
    PutSession(SessionRow),
    /// A run of events of one session, in order and without gaps.
    AppendEvents(EventBatch),
    PutRecord(RecordRow),
    /// As above, unless there is one that is not live any more.
    PutLiveRecord(RecordRow),
    DeleteRecord {
        kind: String,
        id: String,
    },
}

/// A line of the history. Its place in the order is given when it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Milliseconds since the Unix epoch.
    pub at: i64,
    /// What happened, such as `agent.running`.
    pub kind: String,
    pub agent: Option<String>,
    pub session: Option<String>,
    /// JSON.
    pub body: String,
}

/// A session as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    pub id: String,
    pub agent: String,
    /// Whether a new daemon takes it up.
    pub live: bool,
    /// JSON.
    pub record: String,
}

/// Events that were stored together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBatch {
    pub session: String,
    pub first: u64,
    pub last: u64,
    /// When the last one happened, in milliseconds since the Unix epoch.
    pub at: i64,
    /// One JSON value a line.
    pub lines: String,
}

impl Change {
    pub(crate) fn apply(
        &self,
        transaction: &Transaction<'_>,
        blobs: &Blobs,
    ) -> Result<(), WriteError> {
        match self {
            Self::PutAgent { name, record } => transaction
                .prepare_cached(
                    "INSERT INTO agents (name, record) VALUES (?1, ?2)
                     ON CONFLICT (name) DO UPDATE SET record = excluded.record",
                )?
                .execute(params![name, record]),
            Self::DeleteAgent { name } => transaction
                .prepare_cached("DELETE FROM agents WHERE name = ?1")?
                .execute(params![name]),
            Self::PutFact { key, value } => transaction
                .prepare_cached(
                    "INSERT INTO facts (key, value) VALUES (?1, ?2)
                     ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                )?
                .execute(params![key, value]),
            Self::Journal(entry) => transaction
                .prepare_cached(
                    "INSERT INTO journal (at, kind, agent, session, body) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![entry.at, entry.kind, entry.agent, entry.session, entry.body]),
            Self::PutSession(row) => transaction
                .prepare_cached(
                    "INSERT INTO sessions (id, agent, live, record) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (id) DO UPDATE SET live = excluded.live, record = excluded.record",
                )?
                .execute(params![row.id, row.agent, row.live, row.record]),
            Self::AppendEvents(batch) => return batch.append(transaction, blobs),
            Self::PutRecord(row) => transaction
                .prepare_cached(
                    "INSERT INTO records (kind, id, at, live, record) VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (kind, id) DO UPDATE
                     SET at = excluded.at, live = excluded.live, record = excluded.record",
                )?
                .execute(params![row.kind, row.id, row.at, row.live, row.record]),
            Self::PutLiveRecord(row) => transaction
                .prepare_cached(
                    "INSERT INTO records (kind, id, at, live, record) VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (kind, id) DO UPDATE
                     SET at = excluded.at, live = excluded.live, record = excluded.record
                     WHERE records.live = 1",
                )?
                .execute(params![row.kind, row.id, row.at, row.live, row.record]),
            Self::DeleteRecord { kind, id } => transaction
                .prepare_cached("DELETE FROM records WHERE kind = ?1 AND id = ?2")?
                .execute(params![kind, id]),
        }?;
        Ok(())
    }
}

impl EventBatch {
    /// Bodies are files before there is a row that speaks of them.
    fn append(&self, transaction: &Transaction<'_>, blobs: &Blobs) -> Result<(), WriteError> {
        let slim = blobs.take_out(&self.lines)?;
        let lines = slim.as_ref().map_or(&self.lines, |slim| &slim.lines);
        let first = number(self.first);
        transaction
            .prepare_cached(
                "INSERT INTO events (session, first, last, at, lines) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                self.session,
                first,
                number(self.last),
                self.at,
                lines
            ])?;
        for hash in slim.iter().flat_map(|slim| &slim.hashes) {
            transaction
                .prepare_cached("INSERT INTO blobs (session, first, hash) VALUES (?1, ?2, ?3)")?
                .execute(params![self.session, first, hash])?;
        }
        Ok(())
    }
}

/// SQLite counts with a sign; no session has half that many events.
pub(crate) fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}
