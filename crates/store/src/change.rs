//! What can be written: a list of changes is one transaction.

use rusqlite::{Transaction, params};

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
}

/// A line of the history. Its place in the order is given when it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Milliseconds since the Unix epoch.
    pub at: i64,
    /// What happened, such as `agent.running`.
    pub kind: String,
    pub agent: Option<String>,
    /// JSON.
    pub body: String,
}

impl Change {
    pub(crate) fn apply(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
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
                    "INSERT INTO journal (at, kind, agent, body) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![entry.at, entry.kind, entry.agent, entry.body]),
        }
        .map(drop)
    }
}
