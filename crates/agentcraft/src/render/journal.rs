//! The journal as a table.

use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;
use wire::daemon::JournalLine;

use super::{
    style::Tone,
    table::{Cell, Column, Table},
};

/// Characters of a body that a row shows where no terminal limits it.
const BODY_MAX: usize = 400;

pub(crate) fn journal_table(lines: &[JournalLine]) -> Table {
    table(lines, &TimeZone::system())
}

fn table(lines: &[JournalLine], zone: &TimeZone) -> Table {
    let columns = [
        Column::whole("WHEN"),
        Column::whole("KIND"),
        Column::shortened("AGENT"),
        Column::shortened("WHAT"),
    ];
    let row = |line: &JournalLine| {
        [
            Cell::toned(Tone::Faint, &when(line.at, zone)),
            Cell::toned(Tone::Strong, &line.kind),
            Cell::new(line.agent.as_deref().unwrap_or_default()),
            Cell::new(&words(&line.kind, &line.body)),
        ]
    };
    Table::new(columns, lines.iter().map(row))
}

fn when(milliseconds: i64, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(milliseconds) {
        Ok(moment) => moment
            .to_zoned(zone.clone())
            .strftime("%m-%d %H:%M:%S")
            .to_string(),
        Err(_) => milliseconds.to_string(),
    }
}

/// What no person reads: said by the kind of the line already, or for programs (`--format json` has all of it).
const LEFT_OUT: [&str; 4] = ["type", "trace", "since", "started"];

/// A body in one line of `key=value`. What is empty, zero or false is left out.
fn words(kind: &str, body: &Value) -> String {
    let mut parts = Vec::new();
    gather(kind, "", body, &mut parts);
    let text = parts.join(" ");
    match text.char_indices().nth(BODY_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// An object of one member is that member: `stop=end-turn`, and the state that `agent.running` is about is not named twice.
fn gather(kind: &str, path: &str, value: &Value, parts: &mut Vec<String>) {
    let Value::Object(object) = value else {
        parts.extend(word(value).map(|word| match path {
            "" => word,
            path => format!("{path}={word}"),
        }));
        return;
    };
    let is_read = |key: &str| !LEFT_OUT.contains(&key);
    let is_alone = object.keys().filter(|key| is_read(key)).count() == 1;
    for (key, value) in object.iter().filter(|(key, _)| is_read(key)) {
        let is_kind = value.is_object() && kind.ends_with(&format!(".{key}"));
        let path = match (path, is_alone) {
            _ if is_kind => path.to_owned(),
            ("", _) => key.clone(),
            (path, true) => path.to_owned(),
            (path, false) => format!("{path}.{key}"),
        };
        gather(kind, &path, value, parts);
    }
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Number(number) if number.as_f64() == Some(0.0) => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) if text.contains(char::is_whitespace) => Some(format!("{text:?}")),
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::Style;

    #[test]
    fn a_line_tells_when_what_who_and_how() {
        let line = |kind: &str, body: Value| JournalLine {
            seq: 1,
            at: 1_794_744_000_000,
            kind: kind.to_owned(),
            agent: Some("reviewer".to_owned()),
            session: None,
            body,
        };
        let lines = [
            line(
                "turn.started",
                json!({"type": "turn-started", "prompt": "look again", "turn": 2, "trace": "4711"}),
            ),
            line(
                "turn.ended",
                json!({"type": "turn-ended", "stop": {"reason": "end-turn"}, "turn": 2}),
            ),
            line("agent.starting", json!({"starting": {"restarts": 0}})),
            line(
                "agent.running",
                json!({"running": {"process": {"pid": 12, "started": 34}, "ownership": "managed"}}),
            ),
        ];
        assert_eq!(
            table(&lines, &TimeZone::UTC).render(Style::Plain, None),
            "WHEN            KIND            AGENT     WHAT\n\
             11-15 12:00:00  turn.started    reviewer  prompt=\"look again\" turn=2\n\
             11-15 12:00:00  turn.ended      reviewer  stop=end-turn turn=2\n\
             11-15 12:00:00  agent.starting  reviewer\n\
             11-15 12:00:00  agent.running   reviewer  process=12 ownership=managed\n"
        );
    }
}
