//! Removing what is too old, so that the file does not grow for ever.

use rusqlite::{Transaction, params};

use crate::{Store, StoreError, change::number};

impl Store {
    /// Removes journal lines before `before` (milliseconds since the Unix epoch) and beyond the newest `lines`, and
    /// sessions that are over and whose last event is before it. Says how many rows and bodies went.
    pub async fn prune(&self, before: i64, lines: u64) -> Result<usize, StoreError> {
        let rows = self
            .writer()
            .transact("the history", move |transaction| {
                prune(transaction, before, lines)
            })
            .await?;
        let blobs = self.blobs().clone();
        let bodies = self
            .writer()
            .read("the bodies", move |connection| blobs.sweep(connection))
            .await?;
        Ok(rows + bodies)
    }
}

fn prune(transaction: &Transaction<'_>, before: i64, lines: u64) -> rusqlite::Result<usize> {
    // Lines are in the order of time: the first that is young enough ends the search.
    let mut removed = transaction.execute(
        "DELETE FROM journal WHERE at < ?1
         AND seq < coalesce((SELECT seq FROM journal WHERE at >= ?1 ORDER BY seq LIMIT 1), 9223372036854775807)",
        [before],
    )?;
    removed += transaction.execute(
        "DELETE FROM journal WHERE seq <= (SELECT coalesce(max(seq), 0) FROM journal) - ?1",
        [number(lines)],
    )?;
    removed += transaction.execute("DELETE FROM records WHERE live = 0 AND at < ?1", [before])?;
    let old = "SELECT id FROM sessions WHERE live = 0
               AND NOT EXISTS (SELECT 1 FROM events WHERE session = sessions.id AND at >= ?1)";
    removed += transaction.execute(
        &format!("DELETE FROM events WHERE session IN ({old})"),
        params![before],
    )?;
    removed += transaction.execute(
        "DELETE FROM sessions WHERE live = 0 AND NOT EXISTS (SELECT 1 FROM events WHERE session = sessions.id)",
        [],
    )?;
    Ok(removed)
}
