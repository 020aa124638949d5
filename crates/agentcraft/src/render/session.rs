//! Sessions: the table of all, the detail of one.

use std::time::Duration;

use domain::session::Lease;
use engine::SessionView;
use jiff::Timestamp;

use super::{
    fields::Fields,
    style::{Style, Tone},
    table::{Cell, Column, Table},
    time::{duration, relative},
};

pub(crate) fn session_table(sessions: &[SessionView]) -> Table {
    let now = Timestamp::now();
    let columns = [
        Column::whole("ID"),
        Column::shortened("AGENT"),
        Column::shortened("STATE"),
        Column::shortened("TURNS"),
        Column::shortened("CLIENTS"),
        Column::shortened("USED"),
    ];
    let row = |session: &SessionView| {
        let (tone, state) = state(session);
        [
            Cell::toned(Tone::Strong, &session.session_id),
            Cell::new(&session.agent_name),
            Cell::toned(tone, &state),
            Cell::new(&session.turns.to_string()),
            Cell::new(&session.clients.to_string()),
            Cell::new(&relative(&session.last_activity_at, now)),
        ]
    };
    Table::new(columns, sessions.iter().map(row))
}

pub(crate) fn session_detail(session: &SessionView, style: Style) -> String {
    detail(session, style, Timestamp::now())
}

fn detail(session: &SessionView, style: Style, now: Timestamp) -> String {
    let (tone, state) = state(session);
    let moment = |moment: &str| format!("{} ({moment})", relative(moment, now));
    let mut fields = Fields::new(style, &session.session_id, (tone, &state));
    fields
        .field("agent", &session.agent_name)
        .field("turns", &session.turns.to_string())
        .field("asked", session.prompt.as_deref().unwrap_or_default())
        .field("events", &session.last_seq.to_string())
        .field("clients", &session.clients.to_string())
        .field("client", session.client_id.as_deref().unwrap_or_default())
        .field("created", &moment(&session.created_at))
        .field("used", &moment(&session.last_activity_at))
        .field(
            "ends",
            &format!(
                "{} after the last use",
                duration(Duration::from_millis(session.idle_ttl_ms))
            ),
        );
    fields.finish()
}

fn state(session: &SessionView) -> (Tone, String) {
    match (session.state, session.asks, session.busy) {
        (Lease::Closed, _, _) => (Tone::Faint, "closed".to_owned()),
        (Lease::Expired, _, _) => (Tone::Faint, "expired".to_owned()),
        (_, asks @ 1.., _) => (Tone::Doubtful, format!("asks {asks}")),
        (_, 0, true) => (Tone::Good, "working".to_owned()),
        (Lease::Active, 0, false) => (Tone::Good, "active".to_owned()),
        (Lease::Idle, 0, false) => (Tone::Normal, "idle".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detail_of_a_session_begins_with_its_state() {
        let session = SessionView {
            session_id: "s-1".to_owned(),
            agent_name: "reviewer".to_owned(),
            client_id: None,
            state: Lease::Active,
            created_at: "2026-11-15T10:00:00Z".to_owned(),
            last_activity_at: "2026-11-15T11:59:00Z".to_owned(),
            idle_ttl_ms: 1_800_000,
            turns: 3,
            prompt: Some("look around".to_owned()),
            busy: true,
            clients: 0,
            asks: 2,
            last_seq: 17,
        };
        assert_eq!(
            detail(
                &session,
                Style::Plain,
                "2026-11-15T12:00:00Z".parse().unwrap()
            ),
            "s-1  asks 2
  agent       reviewer
  turns       3
  asked       look around
  events      17
  clients     0
  created     2 h ago (2026-11-15T10:00:00Z)
  used        1 min ago (2026-11-15T11:59:00Z)
  ends        30 min after the last use
"
        );
    }
}
