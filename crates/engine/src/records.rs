//! Documents that the faces keep: runs, tasks, delegations, peers, tokens. What they mean is the faces' business.

use serde::{Serialize, de::DeserializeOwned};
use store::{Change, Entry, RecordQuery, RecordRow, Store};
use tracing::warn;

use crate::{EngineError, agent::chain, clock, tally::Tally};

/// The documents of the node. Clones share them.
#[derive(Debug, Clone)]
pub struct Records {
    store: Store,
    tally: Tally,
}

/// Whether a document is taken up by a new daemon, or is history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Until somebody removes it.
    Live,
    /// Until the history is pruned.
    Finished,
}

/// A document as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored<T> {
    pub id: String,
    /// When it last changed, in milliseconds since the Unix epoch.
    pub at: i64,
    pub keep: Keep,
    pub value: T,
}

/// A line of the journal that tells what a change was for.
#[derive(Debug, Clone, Default)]
pub struct Note {
    /// What happened, such as `run.completed`.
    pub kind: String,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub body: serde_json::Value,
}

impl Records {
    /// The documents in a store.
    pub fn new(store: Store) -> Self {
        Self::counted(store, Tally::default())
    }

    /// The same, where what is written down is counted.
    pub(crate) fn counted(store: Store, tally: Tally) -> Self {
        Self { store, tally }
    }

    /// Writes all of a batch or nothing. When it returns, it is kept.
    pub async fn write_all(&self, batch: Batch) -> Result<(), EngineError> {
        self.write("a batch", batch.changes).await
    }

    /// Writes a document, and the line that tells of it, in one transaction. When it returns, both are kept.
    pub async fn put<T: Serialize>(
        &self,
        kind: &str,
        id: &str,
        keep: Keep,
        value: &T,
        note: Option<Note>,
    ) -> Result<(), EngineError> {
        let mut changes = vec![Change::PutRecord(row(kind, id, keep, value)?)];
        changes.extend(note.map(|note| Change::Journal(entry(note))));
        self.write(kind, changes).await
    }

    /// Removes a document; one that is not there is no error.
    pub async fn remove(
        &self,
        kind: &str,
        id: &str,
        note: Option<Note>,
    ) -> Result<(), EngineError> {
        let mut changes = vec![Change::DeleteRecord {
            kind: kind.to_owned(),
            id: id.to_owned(),
        }];
        changes.extend(note.map(|note| Change::Journal(entry(note))));
        self.write(kind, changes).await
    }

    /// Writes a line of the journal that belongs to no document.
    pub async fn note(&self, note: Note) -> Result<(), EngineError> {
        self.write("journal", vec![Change::Journal(entry(note))])
            .await
    }

    /// One document.
    pub async fn get<T: DeserializeOwned>(
        &self,
        kind: &str,
        id: &str,
    ) -> Result<Option<Stored<T>>, EngineError> {
        let row = self.store.record(kind, id).await;
        let row = row.map_err(|source| failed(kind, source))?;
        row.map(stored).transpose()
    }

    /// Those of the documents that there are.
    pub async fn get_all<T: DeserializeOwned>(
        &self,
        kind: &str,
        ids: Vec<String>,
    ) -> Result<Vec<T>, EngineError> {
        let rows = self.store.records_of(kind, ids).await;
        let rows = rows.map_err(|source| failed(kind, source))?;
        let values = rows.into_iter().map(stored);
        values
            .map(|stored| stored.map(|stored| stored.value))
            .collect()
    }

    /// Documents of a kind, the one that changed last first; `before` is the `at` and `id` of the last one seen.
    pub async fn list<T: DeserializeOwned>(
        &self,
        kind: &str,
        which: Which,
        before: Option<(i64, String)>,
        limit: u32,
    ) -> Result<Vec<Stored<T>>, EngineError> {
        let query = RecordQuery {
            kind: kind.to_owned(),
            only_live: which == Which::Live,
            before,
            limit,
        };
        let rows = self.store.records(query).await;
        let rows = rows.map_err(|source| failed(kind, source))?;
        Ok(readable(rows))
    }

    /// Documents of a kind that have not changed since a moment, the one that changed first first; `after` is the `at`
    /// and `id` of the last one seen.
    pub async fn list_unchanged_since<T: DeserializeOwned>(
        &self,
        kind: &str,
        since: i64,
        after: Option<(i64, String)>,
        limit: u32,
    ) -> Result<Vec<Stored<T>>, EngineError> {
        let rows = self.store.live_records_until(kind, since, after, limit);
        let rows = rows.await.map_err(|source| failed(kind, source))?;
        Ok(readable(rows))
    }

    async fn write(&self, kind: &str, changes: Vec<Change>) -> Result<(), EngineError> {
        let noted = changes.iter().filter_map(|change| match change {
            Change::Journal(entry) => Some(entry.kind.clone()),
            _ => None,
        });
        let noted: Vec<String> = noted.collect();
        let written = self.store.write(changes).await;
        written.map_err(|source| failed(kind, source))?;
        for kind in noted {
            self.tally.noted(&kind);
        }
        Ok(())
    }
}

/// Changes of several documents that are one: all of them are kept, or none.
#[derive(Debug, Default)]
pub struct Batch {
    changes: Vec<Change>,
}

impl Batch {
    /// Writes a document.
    pub fn put<T: Serialize>(
        &mut self,
        kind: &str,
        id: &str,
        keep: Keep,
        value: &T,
    ) -> Result<(), EngineError> {
        self.changes
            .push(Change::PutRecord(row(kind, id, keep, value)?));
        Ok(())
    }

    /// Writes a document, unless there is one that is history by now.
    pub fn put_unless_finished<T: Serialize>(
        &mut self,
        kind: &str,
        id: &str,
        keep: Keep,
        value: &T,
    ) -> Result<(), EngineError> {
        self.changes
            .push(Change::PutLiveRecord(row(kind, id, keep, value)?));
        Ok(())
    }

    /// Removes a document; one that is not there is no error.
    pub fn remove(&mut self, kind: &str, id: &str) {
        self.changes.push(Change::DeleteRecord {
            kind: kind.to_owned(),
            id: id.to_owned(),
        });
    }

    /// Writes a line of the journal.
    pub fn note(&mut self, note: Note) {
        self.changes.push(Change::Journal(entry(note)));
    }

    pub(crate) fn into_changes(self) -> Vec<Change> {
        self.changes
    }
}

fn row<T: Serialize>(
    kind: &str,
    id: &str,
    keep: Keep,
    value: &T,
) -> Result<RecordRow, EngineError> {
    let record = serde_json::to_string(value).map_err(|source| EngineError::Record {
        kind: kind.to_owned(),
        id: id.to_owned(),
        source,
    })?;
    Ok(RecordRow {
        kind: kind.to_owned(),
        id: id.to_owned(),
        at: clock::now().0,
        live: keep == Keep::Live,
        record,
    })
}

/// Which documents of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Live,
    All,
}

fn entry(note: Note) -> Entry {
    Entry {
        at: clock::now().0,
        kind: note.kind,
        agent: note.agent,
        session: note.session,
        body: note.body.to_string(),
    }
}

/// One document that nobody can read any more must not keep a node from all the others.
fn readable<T: DeserializeOwned>(rows: Vec<RecordRow>) -> Vec<Stored<T>> {
    let read = |row: RecordRow| match stored(row) {
        Ok(stored) => Some(stored),
        Err(error) => {
            warn!(error = %chain(&error), "a document is left out");
            None
        }
    };
    rows.into_iter().filter_map(read).collect()
}

fn stored<T: DeserializeOwned>(row: RecordRow) -> Result<Stored<T>, EngineError> {
    let value = serde_json::from_str(&row.record).map_err(|source| EngineError::Record {
        kind: row.kind,
        id: row.id.clone(),
        source,
    })?;
    Ok(Stored {
        id: row.id,
        at: row.at,
        keep: if row.live { Keep::Live } else { Keep::Finished },
        value,
    })
}

fn failed(kind: &str, source: store::StoreError) -> EngineError {
    EngineError::Store {
        name: kind.to_owned(),
        source,
    }
}
