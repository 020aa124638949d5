//! The audit: a line of the journal for every request that was turned away, and for every one that may change something.
//!
//! Requests never wait for it. What comes faster than the store can write is counted and told in one line.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use engine::{Batch, Note, Records};
use platform::Tasks;
use serde_json::json;
use tokio::sync::mpsc;
use tracing::warn;

use crate::tokens::PREFIX;

/// Lines that may wait for the store: a burst of a busy second.
const WAITING_MAX: usize = 512;

/// Lines that share a write: what came while the last one was under way, rarely more than a few.
const TOGETHER_MAX: usize = 64;

/// An address of a request in a line: longer ones are cut, they are somebody's trial.
const PATH_MAX: usize = 256;

#[derive(Debug, Clone)]
pub(crate) struct Audit {
    lines: mpsc::Sender<Note>,
    lost: Arc<AtomicU64>,
}

/// Who did what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Act<'a> {
    pub(crate) who: &'a str,
    pub(crate) from: &'a str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
}

impl Audit {
    pub(crate) fn start(records: Records, tasks: &Tasks) -> Self {
        let (lines, inbox) = mpsc::channel(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let audit = Self {
            lines,
            lost: lost.clone(),
        };
        tasks.spawn(|stop| async move {
            write(records, inbox, lost, stop).await;
        });
        audit
    }

    pub(crate) fn call(&self, act: Act<'_>, status: u16) {
        self.line("audit.call", act, json!(status));
    }

    pub(crate) fn refused(&self, act: Act<'_>, why: &str) {
        self.line("audit.refused", act, json!(why));
    }

    fn line(&self, kind: &str, act: Act<'_>, outcome: serde_json::Value) {
        let path: String = without_tokens(act.path).chars().take(PATH_MAX).collect();
        let note = Note {
            kind: kind.to_owned(),
            body: json!({
                "who": act.who,
                "from": act.from,
                "method": act.method,
                "path": path,
                "outcome": outcome,
            }),
            ..Note::default()
        };
        if self.lines.try_send(note).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Clients that cannot send a header have their token in the path, where nobody else shall read it.
fn without_tokens(path: &str) -> String {
    let shown = path.split('/').map(|part| match part.starts_with(PREFIX) {
        true => "***",
        false => part,
    });
    shown.collect::<Vec<_>>().join("/")
}

async fn write(
    records: Records,
    mut inbox: mpsc::Receiver<Note>,
    lost: Arc<AtomicU64>,
    stop: tokio_util::sync::CancellationToken,
) {
    let mut notes = Vec::new();
    loop {
        tokio::select! { biased;
            () = stop.cancelled() => break,
            count = inbox.recv_many(&mut notes, TOGETHER_MAX) => if count == 0 {
                return; // Every handle is gone.
            },
        }
        let count = lost.swap(0, Ordering::Relaxed);
        if count > 0 {
            notes.push(Note {
                kind: "audit.lost".to_owned(),
                body: json!({ "lines": count }),
                ..Note::default()
            });
        }
        keep(&records, &mut notes).await;
    }
    // What was said before the end is kept.
    while let Ok(note) = inbox.try_recv() {
        notes.push(note);
    }
    keep(&records, &mut notes).await;
}

async fn keep(records: &Records, notes: &mut Vec<Note>) {
    let mut batch = Batch::default();
    for note in notes.drain(..) {
        batch.note(note);
    }
    if let Err(error) = records.write_all(batch).await {
        warn!(%error, "lines of the audit could not be kept");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_of_a_path_is_in_the_journal() {
        let path = "/awcp/daemon/act_0123/delegation/dlg_1";
        let shown = without_tokens(path);
        assert_eq!(shown, "/awcp/daemon/***/delegation/dlg_1");
        assert_eq!(without_tokens("/runs/contract_1"), "/runs/contract_1");
    }
}
