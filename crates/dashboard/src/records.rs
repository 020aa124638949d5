//! Documents of the other parts on the page: runs, tasks, runs of workflows.
//!
//! The parts keep secrets in them, so each field that is shown is named here.

use std::sync::Arc;

use axum::extract::{Path, State};
use engine::{Stored, Which};
use serde_json::{Map, Value, json};

use crate::{
    answer::{Answer, Refused, json_of},
    router::Config,
};

/// Documents on one page.
const LIMIT: u32 = 200;

/// A field as the page calls it, and where the document has it.
type Field = (&'static str, &'static str);

/// Kinds that the page shows.
const KINDS: [(&str, &[Field]); 3] = [
    (
        "run",
        &[
            ("agent", "/agent"),
            ("caller", "/caller"),
            ("session", "/engineSession"),
            ("prompt", "/prompt"),
            ("state", "/machine/state"),
        ],
    ),
    (
        "a2a-task",
        &[
            ("agent", "/agent"),
            ("caller", "/caller"),
            ("session", "/session"),
            ("state", "/task/status/state"),
        ],
    ),
    (
        "workflow-run",
        &[
            ("workflow", "/workflow"),
            ("state", "/state"),
            ("startedAt", "/started_at"),
            ("message", "/finish/message"),
            ("talk", "/talk"),
        ],
    ),
];

pub(crate) async fn list(State(config): State<Arc<Config>>, Path(kind): Path<String>) -> Answer {
    let known = KINDS.iter().find(|(known, _)| *known == kind);
    let (_, fields) = known.ok_or_else(|| Refused::missing(format!("there is no {kind} here")))?;
    let records = match kind.as_str() {
        "workflow-run" => config.runs.clone(),
        _ => config.engine.records(),
    };
    let rows = records
        .list::<Value>(&kind, Which::All, None, LIMIT)
        .await?;
    let rows = rows.into_iter();
    let rows: Vec<Value> = rows.map(|row| worded_row(&config, fields, row)).collect();
    json_of(&rows)
}

/// A document as the page shows it; nothing of kinds that it does not show.
pub(crate) fn view(config: &Config, kind: &str, row: Stored<Value>) -> Option<Value> {
    let (_, fields) = KINDS.iter().find(|(known, _)| *known == kind)?;
    Some(worded_row(config, fields, row))
}

fn worded_row(config: &Config, fields: &[Field], row: Stored<Value>) -> Value {
    let mut record = shown(&row.value, fields);
    // The run knows the conversation by the runner's id.
    if let Some(talk) = record["talk"].as_str() {
        record["session"] = json!(config.engine.sessions().of_conversation(talk));
    }
    json!({ "id": row.id, "at": row.at, "record": record })
}

/// How a document of a kind that the page shows stands, in a word.
pub fn state_of(kind: &str, document: &Value) -> Option<String> {
    let (_, fields) = KINDS.iter().find(|(known, _)| *known == kind)?;
    shown(document, fields)["state"].as_str().map(plain)
}

/// A state without the prefix that tasks have on the wire.
pub(crate) fn plain(state: &str) -> String {
    let state = state.strip_prefix("TASK_STATE_").unwrap_or(state);
    state.to_lowercase().replace('_', "-")
}

fn shown(document: &Value, fields: &[Field]) -> Value {
    let found = fields.iter().filter_map(|(name, place)| {
        let value = document.pointer(place).filter(|value| !value.is_null())?;
        Some(((*name).to_owned(), worded(name, value)))
    });
    Value::Object(Map::from_iter(found))
}

/// A state is a word, whether its document has it alone, as a tag or as the only key.
fn worded(name: &str, value: &Value) -> Value {
    match value {
        Value::Object(fields) if name == "state" => match fields.get("state") {
            Some(word) => word.clone(),
            None => json!(fields.keys().next()),
        },
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields_of(kind: &str) -> &'static [Field] {
        KINDS.iter().find(|(known, _)| *known == kind).unwrap().1
    }

    #[test]
    fn what_is_not_named_is_not_shown() {
        let document = json!({
            "agent": "a", "prompt": "look", "token": "t0ken", "machine": { "state": "created" },
            "caller": null,
        });
        let shown = shown(&document, fields_of("run"));
        assert_eq!(
            shown,
            json!({ "agent": "a", "prompt": "look", "state": "created" })
        );
    }

    #[test]
    fn a_state_is_a_word_however_its_document_has_it() {
        for state in [
            json!("input-required"),
            json!({ "state": "input-required", "asks": [] }),
            json!({ "input-required": {} }),
            json!("TASK_STATE_INPUT_REQUIRED"),
        ] {
            let document = json!({ "task": { "status": { "state": state } } });
            assert_eq!(
                state_of("a2a-task", &document).as_deref(),
                Some("input-required")
            );
        }
        assert_eq!(state_of("run", &json!({})), None);
        assert_eq!(state_of("token", &json!({})), None);
    }

    #[test]
    fn the_state_of_a_run_is_its_tag() {
        let document =
            json!({ "agent": "a", "machine": { "state": { "state": "awaiting", "asks": [] } } });
        let shown = shown(&document, fields_of("run"));
        assert_eq!(shown, json!({ "agent": "a", "state": "awaiting" }));
    }
}
