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
            Cell::new(&words(&line.body)),
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

/// A body in one line: `key=value` of an object, everything else as it is.
fn words(body: &Value) -> String {
    let bare = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = match body {
        Value::Object(object) => object
            .iter()
            // The kind of the line says it already.
            .filter(|(key, _)| *key != "type")
            .map(|(key, value)| format!("{key}={}", bare(value)))
            .collect::<Vec<_>>()
            .join(" "),
        Value::Null => String::new(),
        other => bare(other),
    };
    match text.char_indices().nth(BODY_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::Style;

    #[test]
    fn a_line_tells_when_what_who_and_how() {
        let line = JournalLine {
            seq: 1,
            at: 1_794_744_000_000,
            kind: "turn.ended".to_owned(),
            agent: Some("reviewer".to_owned()),
            session: None,
            body: json!({"type": "turn-ended", "stop": "end_turn", "turn": 2}),
        };
        assert_eq!(
            table(&[line], &TimeZone::UTC).render(Style::Plain, None),
            "WHEN            KIND        AGENT     WHAT\n\
             11-15 12:00:00  turn.ended  reviewer  stop=end_turn turn=2\n"
        );
    }
}
