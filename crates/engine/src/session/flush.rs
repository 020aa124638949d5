//! Events on their way to the store: in batches, so that a stream costs little, and at once where a decision depends on it.

use std::{sync::Arc, time::Duration};

use domain::{
    Name,
    turn::{Event, EventKind},
};
use platform::crash;
use store::{Change, Entry, EventBatch, Store, StoreError};

use crate::EventLog;

/// How long an event may wait for others to be stored with: what a crash of the daemon may lose of a stream.
pub(super) const FLUSH_AFTER: Duration = Duration::from_millis(50);

/// How much may wait before it is stored at once.
pub(super) const FLUSH_BYTES: usize = 64 * 1024;

/// The longest body of a journal line: a tool's input may be a whole file, which is among the events.
const BODY_MAX: usize = 16 * 1024;

/// Stores everything that is not stored yet, together with `changes`.
pub(super) async fn flush(
    store: &Store,
    log: &EventLog,
    session: &str,
    agent: &Name,
    mut changes: Vec<Change>,
) -> Result<(), StoreError> {
    let events = log.unstored();
    let last = events.last().map(|event| event.seq);
    changes.extend(batch(session, &events));
    changes.extend(
        events
            .iter()
            .filter_map(|event| journal_entry(session, agent, event)),
    );
    if changes.is_empty() {
        return Ok(());
    }
    crash::point("session.before-flush");
    store.write(changes).await?;
    crash::point("session.after-flush");
    if let Some(last) = last {
        log.stored(last);
    }
    Ok(())
}

fn batch(session: &str, events: &[Arc<Event>]) -> Option<Change> {
    let (first, last) = (events.first()?, events.last()?);
    let mut lines = String::new();
    for event in events {
        lines
            .push_str(&serde_json::to_string(event.as_ref()).expect("an event has only text keys"));
        lines.push('\n');
    }
    Some(Change::AppendEvents(EventBatch {
        session: session.to_owned(),
        first: first.seq,
        last: last.seq,
        at: last.at.0,
        lines,
    }))
}

/// What the journal tells of an event: turns, tool calls and decisions, not every word.
fn journal_entry(session: &str, agent: &Name, event: &Event) -> Option<Change> {
    let kind = match &event.kind {
        EventKind::TurnStarted { .. } => "turn.started",
        EventKind::TurnEnded { .. } => "turn.ended",
        EventKind::ToolCall(_) => "tool.call",
        EventKind::Ask(_) => "ask.opened",
        EventKind::AskSettled { .. } => "ask.settled",
        EventKind::Artifact { .. } => "artifact",
        EventKind::Text { .. }
        | EventKind::Thought { .. }
        | EventKind::ToolUpdate(_)
        | EventKind::Plan { .. }
        | EventKind::Usage(_)
        | EventKind::Notice { .. }
        | EventKind::Other { .. } => return None,
    };
    let mut body = serde_json::to_string(&event.kind).expect("an event has only text keys");
    if body.len() > BODY_MAX {
        let cut = (0..=BODY_MAX)
            .rev()
            .find(|at| body.is_char_boundary(*at))
            .unwrap_or(0);
        body = serde_json::json!({ "cut": &body[..cut] }).to_string();
    }
    Some(Change::Journal(Entry {
        at: event.at.0,
        kind: kind.to_owned(),
        agent: Some(agent.to_string()),
        session: Some(session.to_owned()),
        body,
    }))
}
