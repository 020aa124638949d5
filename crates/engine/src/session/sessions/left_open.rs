//! What a turn that was cut off has left at work: tool calls that never ended, and a plan in progress.

use std::collections::BTreeMap;

use domain::turn::{
    EventKind, PlanEntry, PlanStatus, ToolCall, ToolContent, ToolStatus, ToolUpdate, TurnId,
};

use crate::{EngineError, session::EventReader};

/// Events looked at, from the newest on: what was at work was told lately.
const EVENTS_MAX: u64 = 20_000;

/// What is said of it.
const INTERRUPTED: &str = "interrupted";

/// Goes through the events of a turn.
#[derive(Debug, Default)]
pub(super) struct LeftOpen {
    calls: BTreeMap<String, ToolCall>,
    plan: Vec<PlanEntry>,
}

/// The number from which on events are looked at.
pub(super) fn first_looked_at(next: u64) -> u64 {
    next.saturating_sub(EVENTS_MAX).max(1)
}

impl LeftOpen {
    pub(super) async fn read(mut events: EventReader, turn: TurnId) -> Result<Self, EngineError> {
        let mut left = Self::default();
        while let Some(event) = events.try_next().await? {
            match &event.kind {
                EventKind::TurnStarted { turn: begun, .. } if *begun == turn => {
                    left = Self::default();
                }
                kind => left.follow(kind),
            }
        }
        Ok(left)
    }

    fn follow(&mut self, kind: &EventKind) {
        match kind {
            EventKind::ToolCall(call) => {
                self.calls.insert(call.id.clone(), call.clone());
            }
            EventKind::ToolUpdate(update) => {
                if let Some(call) = self.calls.get_mut(&update.id) {
                    call.merge(update);
                }
            }
            EventKind::Plan { entries } => self.plan.clone_from(entries),
            EventKind::TurnStarted { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::Text { .. }
            | EventKind::Thought { .. }
            | EventKind::Ask(_)
            | EventKind::AskSettled { .. }
            | EventKind::Notice { .. }
            | EventKind::Artifact { .. }
            | EventKind::Usage(_)
            | EventKind::Other { .. } => return,
        }
        self.calls
            .retain(|_, call| !matches!(call.status, ToolStatus::Completed | ToolStatus::Failed));
    }

    /// The words that end it.
    pub(super) fn ends(self) -> Vec<EventKind> {
        let calls = self.calls.into_values().map(|call| {
            let said = ToolContent::Text {
                text: INTERRUPTED.to_owned(),
            };
            EventKind::ToolUpdate(ToolUpdate {
                id: call.id,
                status: Some(ToolStatus::Failed),
                content: Some(call.content.into_iter().chain([said]).collect()),
                ..ToolUpdate::default()
            })
        });
        let is_at_work = |entry: &PlanEntry| entry.status == PlanStatus::InProgress;
        let plan = self.plan.iter().any(is_at_work).then(|| {
            let entries = self.plan.iter().map(|entry| match entry.status {
                PlanStatus::InProgress => PlanEntry {
                    text: format!("{} ({INTERRUPTED})", entry.text),
                    status: PlanStatus::Pending,
                },
                PlanStatus::Pending | PlanStatus::Completed => entry.clone(),
            });
            EventKind::Plan {
                entries: entries.collect(),
            }
        });
        calls.chain(plan).collect()
    }
}
