//! Parts of the node that answer in JSON, as tables and as details of one.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    fields::Fields,
    style::{Style, Tone},
    table::{Cell, Column, Table},
    time::{duration, relative},
};

/// A column: its title, and where in each value it is found.
pub(crate) type Field = (&'static str, &'static str);

/// One row for each value; the first column stays whole.
pub(crate) fn value_table<const N: usize>(values: &[Value], fields: [Field; N]) -> Table {
    let columns = std::array::from_fn(|index| match index {
        0 => Column::whole(fields[index].0),
        _ => Column::shortened(fields[index].0),
    });
    let rows = values
        .iter()
        .map(|value| fields.map(|(_, pointer)| Cell::new(&text(value.pointer(pointer)))));
    Table::new(columns, rows)
}

/// A node, and what it can do.
pub(crate) fn peer_detail(peer: &Value, style: Style) -> String {
    let field = |key: &str| text(peer.get(key));
    let now = Timestamp::now();
    let state = field("status");
    let tone = match state.as_str() {
        "online" => Tone::Good,
        _ => Tone::Doubtful,
    };
    let mut fields = Fields::new(style, &field("alias"), (tone, &state));
    fields
        .field("name", &field("name"))
        .field("about", &field("description"))
        .field("address", &field("url"))
        .field("id", &field("id"))
        .field("certificate", &field("fingerprint"))
        .field("version", &field("version"))
        .field("known by", &field("origin"))
        .field("first seen", &told(&field("firstSeen"), now))
        .field("last seen", &told(&field("lastSeen"), now));
    let is_paired = peer["paired"] == true;
    fields.field("paired", if is_paired { "yes" } else { "no" });
    if is_paired {
        let pace = peer["perMinute"].as_u64();
        fields
            .field("may here", &field("rights"))
            .field(
                "at most",
                &pace.map_or_else(String::new, |pace| format!("{pace} runs a minute")),
            )
            .field("hours", &field("hours"))
            .field("until", &told(&field("until"), now));
    }
    fields.toned("note", Tone::Doubtful, &field("trouble"));
    let capabilities = peer["capabilities"].as_array().into_iter().flatten();
    fields.list(
        "can",
        capabilities.map(|one| match text(one.get("description")).as_str() {
            "" => text(one.get("id")),
            about => format!("{}: {about}", text(one.get("id"))),
        }),
    );
    fields.finish()
}

/// What is or was lent, to whom, and how it ended.
pub(crate) fn delegation_detail(lent: &Value, style: Style) -> String {
    let field = |pointer: &str| text(lent.pointer(pointer));
    let now = Timestamp::now();
    let state = field("/state");
    let tone = match state.as_str() {
        "completed" => Tone::Good,
        "error" | "expired" => Tone::Bad,
        "cancelled" => Tone::Faint,
        _ => Tone::Doubtful,
    };
    let secs = lent.pointer("/agreement/ttl/secs").and_then(Value::as_u64);
    let ending = &lent["ending"][state.as_str()];
    let mut fields = Fields::new(style, &field("/id"), (tone, &state));
    fields
        .field("task", &field("/task"))
        .field("side", &field("/side"))
        .field("peer", &field("/peerUrl"))
        .field("folder", &field("/dir"))
        .field("access", &field("/agreement/access"))
        .field("carried by", &field("/agreement/transport"))
        .field(
            "lent for",
            &secs.map_or_else(String::new, |secs| duration(Duration::from_secs(secs))),
        )
        .field("created", &told(&field("/createdAt"), now))
        .field("ends", &told(&field("/expiresAt"), now))
        .field("goes on", &field("/continues"))
        .field("summary", &text(ending.get("summary")))
        .toned(
            "failed",
            Tone::Bad,
            &joined([ending.get("code"), ending.get("message")]),
        )
        .field("hint", &text(ending.get("hint")))
        .field(
            "changes",
            &joined([
                lent.pointer("/snapshot/changes"),
                lent.pointer("/snapshot/status"),
            ]),
        );
    if lent["cleanupDue"] == true {
        fields.toned(
            "left",
            Tone::Doubtful,
            "something of it; `agentcraft delegation prune` removes it",
        );
    }
    let log = lent["log"].as_array().into_iter().flatten();
    fields.list("log", log.map(|line| text(line.get("text"))));
    fields.finish()
}

/// When something ends that may go on for ever.
pub(crate) fn ends(millis: Option<i64>) -> String {
    match millis.and_then(|millis| Timestamp::from_millisecond(millis).ok()) {
        Some(moment) => told(&moment.to_string(), Timestamp::now()),
        None => "never".to_owned(),
    }
}

/// A moment by its distance and by itself; nothing for nothing.
fn told(moment: &str, now: Timestamp) -> String {
    match moment.parse::<Timestamp>() {
        Ok(then) => format!("{} ({then:.0})", relative(moment, now)),
        Err(_) => moment.to_owned(),
    }
}

/// Those that are there, with a space between.
fn joined<const N: usize>(values: [Option<&Value>; N]) -> String {
    let texts = values.map(text);
    let there: Vec<&str> = texts
        .iter()
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .collect();
    there.join(" ")
}

/// A value in a cell.
fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => {
            let items: Vec<String> = items.iter().map(|item| text(Some(item))).collect();
            items.join(", ")
        }
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_peer_and_a_delegation_are_told_in_lines_and_never_as_json() {
        let peer = json!({
            "id": "n-1", "alias": "nova9", "name": "Nova", "description": "", "origin": "added",
            "url": "http://nova9:7420", "status": "online", "firstSeen": "2026-11-15T12:00:00Z",
            "capabilities": [{"id": "news", "description": "the news"}, {"id": "radio", "description": ""}],
            "paired": true, "rights": ["runs"], "perMinute": 3,
        });
        let shown = peer_detail(&peer, Style::Plain);
        assert!(shown.starts_with("nova9  online\n"), "{shown}");
        for part in [
            "address     http://nova9:7420",
            "at most     3 runs a minute",
            "can         news: the news",
            "             radio",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let lent = json!({
            "id": "dlg-1", "side": "host", "state": "error", "dir": "/src", "task": "fix it", "createdAt": "2026-11-15T12:00:00Z",
            "agreement": {"access": "rw", "ttl": {"secs": 3600, "nanos": 0}, "transport": "git", "mount_point": "/m", "sandbox": null},
            "ending": {"error": {"code": "AUTH_FAILED", "message": "no", "hint": "invite again"}}, "cleanupDue": false, "log": [],
        });
        let shown = delegation_detail(&lent, Style::Plain);
        for part in [
            "lent for    1 h\n",
            "failed      AUTH_FAILED no\n",
            "hint        invite again\n",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        for text in [shown, peer_detail(&peer, Style::Plain)] {
            assert!(!text.contains(['{', '[']), "{text}");
        }
        assert_eq!(ends(None), "never");
    }

    #[test]
    fn what_a_value_lacks_is_an_empty_cell() {
        let values = [
            json!({"id": "a", "rights": ["runs", "mcp"]}),
            json!({"id": "b"}),
        ];
        let table = value_table(&values, [("ID", "/id"), ("MAY", "/rights")]);
        assert_eq!(
            table.render(Style::Plain, None),
            "ID  MAY\na   runs, mcp\nb\n"
        );
    }
}
