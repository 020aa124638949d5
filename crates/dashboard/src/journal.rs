//! The history on the page: search, and what agents have used over time.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::{Query, State};
use engine::{EngineError, JournalQuery, JournalRow};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    answer::{Answer, json_of},
    router::Config,
};

/// Lines on one page.
const LINES: u32 = 200;
const LINES_MAX: u32 = 1_000;

/// Lines that usage is counted from.
const USAGE_LINES: u32 = 20_000;

/// Lines in which news are looked for, one after the other.
const NEWS_LINES: [u32; 3] = [60, 600, 6_000];

/// What lines of who asked for what at the port begin with.
const AUDIT: &str = "audit.";

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

#[derive(Debug, Deserialize)]
#[serde(default)]
pub(crate) struct Search {
    agent: Option<String>,
    session: Option<String>,
    kind: Option<String>,
    text: Option<String>,
    /// Without who asked for what at the port: of a busy page that is nearly everything.
    news: bool,
    limit: u32,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            agent: None,
            session: None,
            kind: None,
            text: None,
            news: false,
            limit: LINES,
        }
    }
}

pub(crate) async fn search(
    State(config): State<Arc<Config>>,
    Query(search): Query<Search>,
) -> Answer {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let limit = search.limit.clamp(1, LINES_MAX);
    let query = JournalQuery {
        agent: given(search.agent),
        session: given(search.session),
        kind_prefix: given(search.kind),
        contains: given(search.text),
        limit: Some(limit),
        ..JournalQuery::default()
    };
    let rows = match search.news {
        true => news(&config, query, limit).await?,
        false => config.engine.journal(query).await?,
    };
    let lines: Vec<Value> = rows.iter().rev().map(line).collect();
    json_of(&lines)
}

/// The newest lines that are no audit, looked for further and further back.
async fn news(
    config: &Config,
    query: JournalQuery,
    limit: u32,
) -> Result<Vec<JournalRow>, EngineError> {
    let mut found = Vec::new();
    for looked_at in NEWS_LINES {
        let query = JournalQuery {
            limit: Some(looked_at),
            ..query.clone()
        };
        let rows = config.engine.journal(query).await?;
        let is_all = u32::try_from(rows.len()).is_ok_and(|count| count < looked_at);
        found = rows;
        found.retain(|row| !row.kind.starts_with(AUDIT));
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        found.drain(..found.len().saturating_sub(wanted));
        if is_all || found.len() == wanted {
            break;
        }
    }
    Ok(found)
}

/// A line as the page reads it.
pub(crate) fn line(row: &JournalRow) -> Value {
    json!({
        "seq": row.seq,
        "at": row.at,
        "kind": row.kind,
        "agent": row.agent,
        "session": row.session,
        "body": serde_json::from_str::<Value>(&row.body).unwrap_or(Value::Null),
    })
}

/// What one agent did on one day.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Day {
    turns: u64,
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: f64,
}

/// Turns and tokens per agent and day, from the journal's lines about turns.
pub(crate) async fn usage(State(config): State<Arc<Config>>) -> Answer {
    let rows = config
        .engine
        .journal(JournalQuery {
            kind_prefix: Some("turn.".to_owned()),
            limit: Some(USAGE_LINES),
            ..JournalQuery::default()
        })
        .await?;
    let mut agents: BTreeMap<String, BTreeMap<i64, Day>> = BTreeMap::new();
    for row in rows {
        let Some(agent) = row.agent.filter(|_| row.kind == "turn.ended") else {
            continue;
        };
        let day = agents.entry(agent).or_default();
        let day = day.entry(row.at / DAY_MS * DAY_MS).or_default();
        let body: Value = serde_json::from_str(&row.body).unwrap_or(Value::Null);
        day.turns += 1;
        day.input_tokens += body["usage"]["inputTokens"].as_u64().unwrap_or(0);
        day.output_tokens += body["usage"]["outputTokens"].as_u64().unwrap_or(0);
        day.cost_usd += body["usage"]["costUsd"].as_f64().unwrap_or(0.0);
    }
    json_of(&agents)
}
