//! Documents of the other parts on the page: runs, tasks, runs of workflows, peers, delegations, tokens.

use std::sync::Arc;

use axum::extract::{Path, State};
use engine::Which;
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Refused, json_of},
    router::Config,
};

/// Documents on one page.
const LIMIT: u32 = 200;

/// Kinds that the page shows, and fields that it does not: they are long, or secret.
const KINDS: [(&str, &[&str]); 6] = [
    ("run", &["events", "log"]),
    ("a2a-task", &["events", "history"]),
    ("workflow-run", &["snapshot", "text"]),
    ("peer", &["token", "secret"]),
    ("delegation", &["secret", "credential"]),
    ("token", &["hash"]),
];

pub(crate) async fn list(State(config): State<Arc<Config>>, Path(kind): Path<String>) -> Answer {
    let known = KINDS.iter().find(|(known, _)| *known == kind);
    let (_, hidden) = known.ok_or_else(|| Refused::missing(format!("there is no {kind} here")))?;
    let records = match kind.as_str() {
        "workflow-run" => config.runs.clone(),
        _ => config.engine.records(),
    };
    let rows = records
        .list::<Value>(&kind, Which::All, None, LIMIT)
        .await?;
    let rows: Vec<Value> = rows
        .into_iter()
        .map(|row| {
            let mut value = row.value;
            if let Some(fields) = value.as_object_mut() {
                hidden.iter().for_each(|field| drop(fields.remove(*field)));
            }
            json!({ "id": row.id, "at": row.at, "record": value })
        })
        .collect();
    json_of(&rows)
}
