//! Documents of the parts that keep things beside agents and sessions: runs, tasks, delegations, peers, tokens.
//!
//! One table for all of them: a part names its kind, and only it knows what its JSON says.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{Store, StoreError};

/// One document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRow {
    /// Whose it is, such as `run`.
    pub kind: String,
    pub id: String,
    /// When it last changed, in milliseconds since the Unix epoch.
    pub at: i64,
    /// Whether a new daemon takes it up. One that is not live goes when the history is pruned.
    pub live: bool,
    /// JSON.
    pub record: String,
}

/// Which documents of a kind to read, newest change first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordQuery {
    pub kind: String,
    pub only_live: bool,
    /// Only those older than this row: its `at` and `id`.
    pub before: Option<(i64, String)>,
    pub limit: u32,
}

const COLUMNS: &str = "kind, id, at, live, record";

impl Store {
    /// One document.
    pub async fn record(&self, kind: &str, id: &str) -> Result<Option<RecordRow>, StoreError> {
        let key = (kind.to_owned(), id.to_owned());
        let read = move |connection: &Connection| {
            let sql = format!("SELECT {COLUMNS} FROM records WHERE kind = ?1 AND id = ?2");
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_row(params![key.0, key.1], row).optional()
        };
        self.read("a record", read).await
    }

    /// Those of the documents that there are.
    pub async fn records_of(
        &self,
        kind: &str,
        ids: Vec<String>,
    ) -> Result<Vec<RecordRow>, StoreError> {
        let kind = kind.to_owned();
        let read = move |connection: &Connection| {
            let sql = format!("SELECT {COLUMNS} FROM records WHERE kind = ?1 AND id = ?2");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut found = Vec::new();
            for id in ids {
                found.extend(statement.query_row(params![kind, id], row).optional()?);
            }
            Ok(found)
        };
        self.read("records", read).await
    }

    /// A page of documents.
    pub async fn records(&self, query: RecordQuery) -> Result<Vec<RecordRow>, StoreError> {
        let read = move |connection: &Connection| page(connection, &query);
        self.read("records", read).await
    }

    /// Live documents that have not changed since `until`, the one that changed first first, after the row with the `at` and
    /// `id` that are given.
    pub async fn live_records_until(
        &self,
        kind: &str,
        until: i64,
        after: Option<(i64, String)>,
        limit: u32,
    ) -> Result<Vec<RecordRow>, StoreError> {
        let kind = kind.to_owned();
        let (at, id) = after.unwrap_or((i64::MIN, String::new()));
        let read = move |connection: &Connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM records
                 WHERE kind = ?1 AND live = 1 AND at <= ?2 AND (at, id) > (?3, ?4)
                 ORDER BY at, id LIMIT ?5"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params![kind, until, at, id, limit], row)?;
            rows.collect()
        };
        self.read("records", read).await
    }
}

fn page(connection: &Connection, query: &RecordQuery) -> rusqlite::Result<Vec<RecordRow>> {
    // Two statements, so that the small index of what is live serves a restart with a long history.
    let live = if query.only_live { "AND live = 1" } else { "" };
    let sql = format!(
        "SELECT {COLUMNS} FROM records WHERE kind = ?1 {live} AND (at, id) < (?2, ?3)
         ORDER BY at DESC, id DESC LIMIT ?4"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let (at, id) = query.before.clone().unwrap_or((i64::MAX, String::new()));
    let rows = statement.query_map(params![query.kind, at, id, query.limit], row)?;
    rows.collect()
}

fn row(row: &Row<'_>) -> rusqlite::Result<RecordRow> {
    Ok(RecordRow {
        kind: row.get(0)?,
        id: row.get(1)?,
        at: row.get(2)?,
        live: row.get(3)?,
        record: row.get(4)?,
    })
}
