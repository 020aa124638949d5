//! What a chat knows of its session: how far it has seen, what waits for an answer, and how it is shown.

use std::collections::VecDeque;

use domain::turn::{Ask, AskId, EventKind};
use engine::SessionView;
use serde_json::value::RawValue;
use wire::daemon::SessionEventsParams;

use crate::{
    commands::talk::{note_asks, seq},
    conversation::{Conversation, SessionEvent, kind_of},
    error::CommandError,
    render::{Surface, Symbols, Transcript},
};

#[derive(Debug)]
pub(super) struct View {
    pub(super) session: String,
    pub(super) transcript: Transcript,
    /// The number of the newest event that was shown.
    pub(super) seen: u64,
    asks: VecDeque<Ask>,
}

impl View {
    pub(super) fn new(
        session: &SessionView,
        style: crate::render::Style,
        symbols: Symbols,
        width: usize,
    ) -> Self {
        Self {
            session: session.session_id.clone(),
            transcript: Transcript::new(style, symbols, Surface::Terminal { width }),
            seen: 0,
            asks: VecDeque::new(),
        }
    }

    /// Takes an event in, and gives what to write for it.
    pub(super) fn event(&mut self, event: &SessionEvent) -> String {
        if event.session_id != self.session {
            return String::new();
        }
        self.seen = self.seen.max(event.seq());
        let Some(kind) = event.kind() else {
            return String::new();
        };
        note_asks(&mut self.asks, Some(&kind));
        self.transcript.event(&kind)
    }

    /// What the agent waits for.
    pub(super) fn ask(&self) -> Option<&Ask> {
        self.asks.front()
    }

    pub(super) fn still_asks(&self, id: &AskId) -> bool {
        self.asks.iter().any(|ask| ask.id == *id)
    }

    /// We have answered this one.
    pub(super) fn answered(&mut self, id: &AskId) {
        self.asks.retain(|ask| ask.id != *id);
        self.transcript.answered(id);
    }
}

/// The number of the event that the last few turns begin with, so that one who comes back sees where it was.
pub(super) fn past_begin(
    conversation: &mut Conversation,
    session: &SessionView,
    turns: usize,
) -> Result<u64, CommandError> {
    /// Events that are looked at from the end: enough for a few turns, little enough to come at once.
    const PAST_MAX: u64 = 2_000;
    let mut from_seq = session.last_seq.saturating_sub(PAST_MAX) + 1;
    let mut begins = VecDeque::new();
    while from_seq <= session.last_seq {
        let params = SessionEventsParams {
            session_id: session.session_id.clone(),
            from_seq,
            limit: None,
        };
        let page: Vec<Box<RawValue>> = conversation.call("session.events", &params)?;
        let Some(last) = page.last() else { break };
        from_seq = seq(last) + 1;
        let started =
            |event: &&RawValue| matches!(kind_of(event), Some(EventKind::TurnStarted { .. }));
        let page = page.iter().map(|event| &**event);
        begins.extend(page.filter(started).map(seq));
    }
    let first = begins.len().saturating_sub(turns);
    Ok(begins.get(first).copied().unwrap_or(session.last_seq + 1))
}
