//! The history on the page: search, and what agents have used over time.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::{Query, State};
use engine::{JournalQuery, JournalRow};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    answer::{Answer, json_of},
    router::Config,
};

/// Lines on one page.
const LINES: u32 = 200;
const LINES_MAX: u32 = 1_000;

/// Lines that usage is counted from at a time: a long history is never in memory as a whole.
const USAGE_LINES: u32 = 2_000;

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
    let query = JournalQuery {
        agent: given(search.agent),
        session: given(search.session),
        kind_prefix: given(search.kind),
        contains: given(search.text),
        without_prefix: search.news.then(|| AUDIT.to_owned()),
        limit: Some(search.limit.clamp(1, LINES_MAX)),
        ..JournalQuery::default()
    };
    let rows = config.engine.journal(query).await?;
    let lines: Vec<Value> = rows.iter().rev().map(line).collect();
    json_of(&lines)
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

type Usage = BTreeMap<String, BTreeMap<i64, Day>>;

/// Turns and tokens per agent and day, from everything that the journal keeps about turns.
pub(crate) async fn usage(State(config): State<Arc<Config>>) -> Answer {
    let mut agents = Usage::new();
    let mut counted = 0;
    loop {
        let query = JournalQuery {
            kind_prefix: Some("turn.ended".to_owned()),
            after_seq: Some(counted),
            limit: Some(USAGE_LINES),
            ..JournalQuery::default()
        };
        let rows = config.engine.journal(query).await?;
        let Some(last) = rows.last() else {
            return json_of(&agents);
        };
        counted = last.seq;
        rows.iter().for_each(|row| count(&mut agents, row));
    }
}

fn count(agents: &mut Usage, row: &JournalRow) {
    let Some(agent) = &row.agent else {
        return;
    };
    let day = agents.entry(agent.clone()).or_default();
    let day = day.entry(row.at / DAY_MS * DAY_MS).or_default();
    let body: Value = serde_json::from_str(&row.body).unwrap_or(Value::Null);
    day.turns += 1;
    day.input_tokens += body["usage"]["inputTokens"].as_u64().unwrap_or(0);
    day.output_tokens += body["usage"]["outputTokens"].as_u64().unwrap_or(0);
    day.cost_usd += body["usage"]["costUsd"].as_f64().unwrap_or(0.0);
}
