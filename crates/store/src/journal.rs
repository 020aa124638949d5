//! Reading the history back.

use rusqlite::{Connection, params};

/// Which lines of the history are wanted; what is absent does not narrow it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalQuery {
    pub agent: Option<String>,
    pub session: Option<String>,
    /// Only kinds that begin so, such as `agent.`.
    pub kind_prefix: Option<String>,
    /// No kinds that begin so.
    pub without_prefix: Option<String>,
    /// Not before this moment, in milliseconds since the Unix epoch.
    pub since: Option<i64>,
    /// Only lines after this place in the order.
    pub after_seq: Option<i64>,
    /// Only lines whose body holds this text.
    pub contains: Option<String>,
    /// Only lines of this trace.
    pub trace: Option<String>,
    /// At most so many: the first ones after `after_seq`, else the newest. They come oldest first in both cases.
    pub limit: Option<u32>,
}

/// A line of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRow {
    pub seq: i64,
    pub at: i64,
    pub kind: String,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub body: String,
}

pub(crate) fn read(
    connection: &Connection,
    query: &JournalQuery,
) -> rusqlite::Result<Vec<JournalRow>> {
    // Bodies are JSON, in which a quote or a backslash is written as two characters.
    let escaped = query.contains.as_ref().map(|text| {
        let quoted = serde_json::Value::from(text.as_str()).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    });
    // Whatever writes a line names its trace so, and bodies are JSON without blanks.
    let trace = query
        .trace
        .as_ref()
        .map(|trace| format!("\"trace\":\"{trace}\""));
    let order = match query.after_seq {
        Some(_) => "ASC",
        None => "DESC",
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT seq, at, kind, agent, session, body FROM (
             SELECT * FROM journal
             WHERE (?1 IS NULL OR agent = ?1)
               AND (?2 IS NULL OR substr(kind, 1, length(?2)) = ?2)
               AND (?3 IS NULL OR at >= ?3)
               AND (?4 IS NULL OR seq > ?4)
               AND (?5 IS NULL OR instr(body, ?5) > 0 OR instr(body, ?8) > 0)
               AND (?6 IS NULL OR session = ?6)
               AND (?10 IS NULL OR instr(body, ?10) > 0)
               AND (?9 IS NULL OR substr(kind, 1, length(?9)) <> ?9)
             ORDER BY seq {order} LIMIT ?7
         ) ORDER BY seq"
    ))?;
    let limit = query.limit.map_or(-1, i64::from);
    let rows = statement.query_map(
        params![
            query.agent,
            query.kind_prefix,
            query.since,
            query.after_seq,
            query.contains,
            query.session,
            limit,
            escaped,
            query.without_prefix,
            trace
        ],
        |row| {
            Ok(JournalRow {
                seq: row.get(0)?,
                at: row.get(1)?,
                kind: row.get(2)?,
                agent: row.get(3)?,
                session: row.get(4)?,
                body: row.get(5)?,
            })
        },
    )?;
    rows.collect()
}
