//! The schema, version by version. A newer store is refused; an older one is backed up and brought forward.

use rusqlite::{Connection, TransactionBehavior};

/// Each entry brings the store from the version of its index to the next.
const STEPS: &[&str] = &[
    "
    CREATE TABLE facts (
        key   TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE agents (
        name   TEXT PRIMARY KEY,
        record TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE journal (
        seq   INTEGER PRIMARY KEY AUTOINCREMENT,
        at    INTEGER NOT NULL,
        kind  TEXT NOT NULL,
        agent TEXT,
        body  TEXT NOT NULL
    );
    CREATE INDEX journal_by_agent ON journal (agent, seq);
    CREATE INDEX journal_by_time ON journal (at);
    ",
    "
    CREATE TABLE sessions (
        id     TEXT PRIMARY KEY,
        agent  TEXT NOT NULL,
        live   INTEGER NOT NULL,
        record TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX sessions_live ON sessions (live) WHERE live = 1;
    CREATE TABLE events (
        session TEXT NOT NULL,
        first   INTEGER NOT NULL,
        last    INTEGER NOT NULL,
        at      INTEGER NOT NULL,
        lines   TEXT NOT NULL
    );
    CREATE UNIQUE INDEX events_by_place ON events (session, first, last);
    ALTER TABLE journal ADD COLUMN session TEXT;
    CREATE INDEX journal_by_session ON journal (session, seq) WHERE session IS NOT NULL;
    ",
    "
    CREATE TABLE records (
        kind   TEXT NOT NULL,
        id     TEXT NOT NULL,
        at     INTEGER NOT NULL,
        live   INTEGER NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (kind, id)
    ) WITHOUT ROWID;
    CREATE INDEX records_by_time ON records (kind, at, id);
    CREATE INDEX records_live ON records (kind, at, id) WHERE live = 1;
    ",
    "
    CREATE TABLE blobs (
        session TEXT NOT NULL,
        first   INTEGER NOT NULL,
        hash    TEXT NOT NULL,
        PRIMARY KEY (session, first, hash)
    ) WITHOUT ROWID;
    CREATE INDEX blobs_by_hash ON blobs (hash);
    CREATE TRIGGER blobs_of_events AFTER DELETE ON events BEGIN
        DELETE FROM blobs WHERE session = old.session AND first = old.first;
    END;
    ",
    // No reader of the journal has used them: it is read backwards from its end, or forwards from a place.
    "
    DROP INDEX IF EXISTS journal_by_agent;
    DROP INDEX IF EXISTS journal_by_time;
    DROP INDEX IF EXISTS journal_by_session;
    ",
];

/// The version this program reads and writes.
pub(crate) fn current() -> i64 {
    STEPS.len() as i64
}

pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings the store to the current version, all or nothing. Of several processes that open it at once, one does.
pub(crate) fn run(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = version(&transaction)?;
    if from >= current() {
        return Ok(());
    }
    for step in STEPS.iter().skip(usize::try_from(from).unwrap_or(0)) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", current())?;
    transaction.commit()
}
