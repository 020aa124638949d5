//! Several writes as one: what a later one replaces is not written at all.

use std::{borrow::Cow, collections::BTreeMap};

use crate::{Change, EventBatch};

/// How large merged events of one session grow: whoever wants one event of a row reads all of it.
const EVENTS_MAX: usize = 64 * 1024;

/// What a row is known by: its table, and its key there.
type Key<'a> = (u8, &'a str, &'a str);

/// How a later change treats what was there before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Later {
    /// It replaces whatever there is.
    Replaces,
    /// It replaces what is live.
    ReplacesLive,
}

/// The changes that come to the same as all of `changes` one after the other.
pub(super) fn merged<'a>(changes: &[&'a Change]) -> Vec<Cow<'a, Change>> {
    let mut later: BTreeMap<Key<'a>, Later> = BTreeMap::new();
    let mut left: Vec<&'a Change> = Vec::with_capacity(changes.len());
    for change in changes.iter().rev() {
        let Some((key, how)) = place(change) else {
            left.push(change);
            continue;
        };
        let is_replaced = match later.get(&key) {
            Some(Later::Replaces) => true,
            Some(Later::ReplacesLive) => {
                how == Later::ReplacesLive
                    && matches!(change, Change::PutLiveRecord(row) if row.live)
            }
            None => false,
        };
        if !is_replaced {
            later.insert(key, how);
            left.push(change);
        }
    }
    left.reverse();
    joined(left)
}

/// Where a change goes and how it treats what is there; nothing for lines and events, which only add.
fn place(change: &Change) -> Option<(Key<'_>, Later)> {
    let (key, how): (Key<'_>, _) = match change {
        Change::PutAgent { name, .. } | Change::DeleteAgent { name } => {
            ((0, name, ""), Later::Replaces)
        }
        Change::PutFact { key, .. } => ((1, key, ""), Later::Replaces),
        Change::PutSession(row) => ((2, &row.id, ""), Later::Replaces),
        Change::PutRecord(row) => ((3, &row.kind, &row.id), Later::Replaces),
        Change::DeleteRecord { kind, id } => ((3, kind, id), Later::Replaces),
        Change::PutLiveRecord(row) => ((3, &row.kind, &row.id), Later::ReplacesLive),
        Change::Journal(_) | Change::AppendEvents(_) => return None,
    };
    Some((key, how))
}

/// Events of one session that follow each other become one row.
fn joined(changes: Vec<&Change>) -> Vec<Cow<'_, Change>> {
    let mut joined: Vec<Cow<'_, Change>> = Vec::with_capacity(changes.len());
    let mut newest: BTreeMap<&str, usize> = BTreeMap::new();
    for change in changes {
        if let Change::AppendEvents(next) = change {
            let before = newest.get(next.session.as_str()).copied();
            if before.is_some_and(|before| join(&mut joined[before], next)) {
                continue;
            }
            newest.insert(&next.session, joined.len());
        }
        joined.push(Cow::Borrowed(change));
    }
    joined
}

fn join(before: &mut Cow<'_, Change>, next: &EventBatch) -> bool {
    let fits = matches!(before.as_ref(), Change::AppendEvents(batch)
        if batch.last + 1 == next.first && batch.lines.len() + next.lines.len() <= EVENTS_MAX);
    if !fits {
        return false;
    }
    if let Change::AppendEvents(batch) = before.to_mut() {
        batch.lines.push_str(&next.lines);
        batch.last = next.last;
        batch.at = next.at;
    }
    true
}
