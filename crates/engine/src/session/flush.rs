//! Events on their way to the store: in batches, so that a stream costs little, and at once where a decision depends on it.

use std::{sync::Arc, time::Duration};

use domain::{
    Name, Trace,
    turn::{Event, EventKind, Usage},
};
use platform::crash;
use serde::Serialize;
use store::{Change, Entry, EventBatch, Store, StoreError};

use crate::{EventLog, event_log::SoFar, tally::Tally};

/// How long an event may wait for others to be stored with: what a crash of the daemon may lose of a stream.
pub(super) const FLUSH_AFTER: Duration = Duration::from_millis(50);

/// How much may wait before it is stored at once.
pub(super) const FLUSH_BYTES: usize = 64 * 1024;

/// How large a batch grows in the store: whoever wants one event of it reads all of it.
const BATCH_BYTES: usize = 256 * 1024;

/// The longest body of a journal line: a tool's input may be a whole file, which is among the events.
const BODY_MAX: usize = 16 * 1024;

/// Stores everything that is not stored yet, together with `changes`.
pub(super) async fn flush(
    (store, tally): (&Store, &Tally),
    log: &EventLog,
    session: &str,
    agent: &Name,
    mut changes: Vec<Change>,
) -> Result<(), StoreError> {
    let events = log.unstored();
    let last = events.last().map(|event| event.seq);
    changes.extend(batches(session, &events));
    let before = log.so_far();
    let mut so_far = before;
    changes.extend(events.iter().filter_map(|event| {
        so_far.follow(event);
        journal_entry(session, agent, event, &so_far)
    }));
    if changes.is_empty() {
        return Ok(());
    }
    crash::point("session.before-flush");
    store.write(changes).await?;
    crash::point("session.after-flush");
    count(tally, before, &events);
    if let Some(last) = last {
        log.stored(last);
    }
    Ok(())
}

/// Counts what was kept.
fn count(tally: &Tally, mut so_far: SoFar, events: &[Arc<Event>]) {
    for event in events {
        so_far.follow(event);
        tally.happened(&event.kind, event.at, so_far.began(), so_far.usage());
    }
}

/// The events as rows of the store, in order.
fn batches(session: &str, events: &[Arc<Event>]) -> Vec<Change> {
    let mut batches: Vec<EventBatch> = Vec::new();
    for event in events {
        let line = serde_json::to_string(event.as_ref()).expect("an event has only text keys");
        let batch = match batches.pop() {
            Some(batch) if batch.lines.len() + line.len() < BATCH_BYTES => batch,
            full => {
                batches.extend(full);
                EventBatch {
                    session: session.to_owned(),
                    first: event.seq,
                    last: event.seq,
                    at: event.at.0,
                    lines: String::new(),
                }
            }
        };
        batches.push(EventBatch {
            last: event.seq,
            at: event.at.0,
            lines: batch.lines + &line + "\n",
            ..batch
        });
    }
    batches.into_iter().map(Change::AppendEvents).collect()
}

const TURN_ENDED: &str = "turn.ended";

/// The body of a line: the event, and what can be searched for.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    kind: &'a EventKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
}

/// Whether an event belongs to the turn that runs, and does not say so by itself.
fn is_of_turn(kind: &EventKind) -> bool {
    !matches!(
        kind,
        EventKind::TurnStarted { .. } | EventKind::Notice { .. }
    )
}

/// What the journal tells of an event: turns, tool calls and decisions, not every word. The end of a turn tells what the
/// turn used, which agents say in several events or in none.
fn journal_entry(session: &str, agent: &Name, event: &Event, so_far: &SoFar) -> Option<Change> {
    let kind = match &event.kind {
        EventKind::TurnStarted { .. } => "turn.started",
        EventKind::TurnEnded { .. } => TURN_ENDED,
        EventKind::ToolCall(_) => "tool.call",
        EventKind::Ask(_) => "ask.opened",
        EventKind::AskSettled { .. } => "ask.settled",
        EventKind::Artifact { .. } => "artifact",
        EventKind::Notice { .. } => "notice",
        EventKind::Text { .. }
        | EventKind::Thought { .. }
        | EventKind::ToolUpdate(_)
        | EventKind::Plan { .. }
        | EventKind::Usage(_)
        | EventKind::Other { .. } => return None,
    };
    let line = Line {
        kind: &event.kind,
        usage: so_far.usage().filter(|_| kind == TURN_ENDED),
        trace: so_far.trace().filter(|_| is_of_turn(&event.kind)),
    };
    let mut body = serde_json::to_string(&line).expect("an event has only text keys");
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

#[cfg(test)]
mod tests {
    use domain::{
        Timestamp,
        turn::{Stop, TurnId},
    };

    use super::*;

    fn event(seq: u64, size: usize) -> Arc<Event> {
        Arc::new(Event {
            seq,
            at: Timestamp(7),
            kind: EventKind::Text {
                text: "x".repeat(size),
            },
            raw: None,
        })
    }

    /// The first and last event and the number of lines of each batch.
    fn shapes(events: &[Arc<Event>]) -> Vec<(u64, u64, usize)> {
        let shape = |change| match change {
            Change::AppendEvents(batch) => (batch.first, batch.last, batch.lines.lines().count()),
            other => panic!("{other:?}"),
        };
        batches("s", events).into_iter().map(shape).collect()
    }

    #[test]
    fn the_end_of_a_turn_tells_the_journal_what_the_turn_used() {
        let usage = |input_tokens, cost_usd| {
            EventKind::Usage(Usage {
                input_tokens,
                output_tokens: None,
                cost_usd,
            })
        };
        let begun = || EventKind::TurnStarted {
            turn: TurnId(1),
            prompt: String::new(),
            trace: None,
            by: None,
        };
        let ended = || EventKind::TurnEnded {
            turn: TurnId(1),
            stop: Stop::EndTurn,
        };
        let log = EventLog::new(1);
        let told = |kinds: Vec<EventKind>| {
            let mut so_far = log.so_far();
            for kind in kinds {
                log.append(kind, None);
            }
            let agent = "writer".parse::<Name>().unwrap();
            let events = log.unstored();
            let lines = events.iter().filter_map(|event| {
                so_far.follow(event);
                journal_entry("s", &agent, event, &so_far)
            });
            let bodies: Vec<serde_json::Value> = lines
                .map(|line| match line {
                    Change::Journal(entry) => serde_json::from_str(&entry.body).unwrap(),
                    other => panic!("{other:?}"),
                })
                .collect();
            log.stored(events.last().unwrap().seq);
            bodies.last().unwrap()["usage"].clone()
        };
        assert_eq!(
            told(vec![
                begun(),
                usage(Some(7), None),
                usage(Some(9), Some(0.5)),
                ended()
            ]),
            serde_json::json!({"inputTokens": 9, "costUsd": 0.5}),
            "what was said last counts"
        );
        told(vec![begun(), usage(Some(3), None)]);
        assert_eq!(
            told(vec![ended()]),
            serde_json::json!({"inputTokens": 3}),
            "what was stored before the end counts, too"
        );
        assert_eq!(
            told(vec![begun(), ended()]),
            serde_json::Value::Null,
            "and not in the next turn"
        );
    }

    #[test]
    fn a_flood_is_stored_in_batches_of_bounded_size_without_a_gap() {
        assert_eq!(shapes(&[]), []);
        assert_eq!(shapes(&[event(3, 1), event(4, 1)]), [(3, 4, 2)]);
        let third = BATCH_BYTES / 3;
        let flood: Vec<_> = (1..=5).map(|seq| event(seq, third)).collect();
        assert_eq!(shapes(&flood), [(1, 2, 2), (3, 4, 2), (5, 5, 1)]);
        let huge = [event(1, 1), event(2, 2 * BATCH_BYTES), event(3, 1)];
        assert_eq!(shapes(&huge), [(1, 1, 1), (2, 2, 1), (3, 3, 1)]);
    }
}
