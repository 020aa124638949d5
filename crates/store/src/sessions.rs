//! Reading sessions and their events back.

use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    Store, StoreError,
    blobs::Blobs,
    change::{EventBatch, SessionRow, number},
};

/// About how many bytes of events one read gives: a page, so that a long history is never in memory at once.
const PAGE_BYTES: usize = 1024 * 1024;

impl Store {
    /// Sessions, by id; only those that a new daemon takes up, or all.
    pub async fn sessions(&self, only_live: bool) -> Result<Vec<SessionRow>, StoreError> {
        self.read("the sessions", move |connection| {
            read_sessions(connection, only_live)
        })
        .await
    }

    /// One session.
    pub async fn session(&self, id: &str) -> Result<Option<SessionRow>, StoreError> {
        let id = id.to_owned();
        let read = move |connection: &Connection| {
            let mut statement = connection
                .prepare_cached("SELECT id, agent, live, record FROM sessions WHERE id = ?1")?;
            let mut rows = statement.query([id])?;
            rows.next()?.map(session_row).transpose()
        };
        self.read("a session", read).await
    }

    /// Sessions of an agent that are over, by their last activity, the newest first; so many at most.
    pub async fn ended_sessions(
        &self,
        agent: &str,
        max: usize,
    ) -> Result<Vec<SessionRow>, StoreError> {
        let agent = agent.to_owned();
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let read = move |connection: &Connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, agent, live, record FROM sessions WHERE live = 0 AND agent = ?1
                 ORDER BY record ->> '$.lastActivityAt' DESC LIMIT ?2",
            )?;
            let rows = statement.query_map(params![agent, max], session_row)?;
            rows.collect()
        };
        self.read("the sessions of an agent", read).await
    }

    /// Those of the sessions that there are.
    pub async fn sessions_of(&self, ids: Vec<String>) -> Result<Vec<SessionRow>, StoreError> {
        let read = move |connection: &Connection| {
            let mut statement = connection
                .prepare_cached("SELECT id, agent, live, record FROM sessions WHERE id = ?1")?;
            let mut found = Vec::new();
            for id in ids {
                found.extend(statement.query_row([id], session_row).optional()?);
            }
            Ok(found)
        };
        self.read("sessions", read).await
    }

    /// The number of the last event of a session that is stored.
    pub async fn last_event(&self, session: &str) -> Result<u64, StoreError> {
        let session = session.to_owned();
        let read = move |connection: &Connection| {
            let mut statement =
                connection.prepare_cached("SELECT max(last) FROM events WHERE session = ?1")?;
            statement.query_row([session], |row| row.get::<_, Option<i64>>(0))
        };
        let last = self.read("the last event", read).await?;
        Ok(last.map_or(0, |last| u64::try_from(last).unwrap_or(0)))
    }

    /// A page of batches that hold events from number `from` on, in order; empty when there are no more.
    pub async fn events(&self, session: &str, from: u64) -> Result<Vec<EventBatch>, StoreError> {
        let (session, blobs) = (session.to_owned(), self.blobs().clone());
        self.read("the events", move |connection| {
            read_events(connection, &blobs, &session, from)
        })
        .await
    }
}

fn read_sessions(connection: &Connection, only_live: bool) -> rusqlite::Result<Vec<SessionRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, agent, live, record FROM sessions WHERE live = 1 OR NOT ?1 ORDER BY id",
    )?;
    let rows = statement.query_map([only_live], session_row)?;
    rows.collect()
}

fn session_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        id: row.get(0)?,
        agent: row.get(1)?,
        live: row.get(2)?,
        record: row.get(3)?,
    })
}

fn read_events(
    connection: &Connection,
    blobs: &Blobs,
    session: &str,
    from: u64,
) -> rusqlite::Result<Vec<EventBatch>> {
    let mut statement = connection.prepare_cached(
        "SELECT first, last, at, lines,
                EXISTS (SELECT 1 FROM blobs WHERE session = events.session AND first = events.first)
         FROM events
         WHERE session = ?1 AND last >= ?2
           AND first >= coalesce((SELECT max(first) FROM events WHERE session = ?1 AND first <= ?2), 0)
         ORDER BY first",
    )?;
    let mut rows = statement.query(params![session, number(from)])?;
    let mut page: Vec<EventBatch> = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let lines: String = row.get(3)?;
        let batch = EventBatch {
            session: session.to_owned(),
            first: u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0),
            last: u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
            at: row.get(2)?,
            lines: match row.get(4)? {
                true => blobs.put_back(&lines),
                false => lines,
            },
        };
        bytes += batch.lines.len();
        page.push(batch);
        if bytes >= PAGE_BYTES {
            break;
        }
    }
    Ok(page)
}
