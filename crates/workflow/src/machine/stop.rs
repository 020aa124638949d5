//! Ending what is in progress: a frame with everything below it, or one ticket.

use super::effect::{Effect, StopReason, Ticket};
use super::input::StepResult;
use super::state::{FrameId, Phase};
use super::turn::{Job, Turn};

impl Turn<'_> {
    /// Ends what a frame is doing. The frame settles when everything below it is gone.
    pub(super) fn stop_frame(&mut self, id: FrameId, reason: StopReason) {
        let Some(frame) = self.state.frames.get_mut(&id) else {
            return;
        };
        match frame.stop {
            // A cancel outranks a timeout, since it also forbids another attempt.
            Some(_) if reason == StopReason::TimedOut => return,
            Some(_) | None => frame.stop = Some(reason),
        }
        match &mut frame.phase {
            Phase::PreHook { ticket, .. }
            | Phase::Running { ticket, .. }
            | Phase::PostHook { ticket, .. } => {
                let ticket = *ticket;
                self.stop_ticket(ticket, reason);
            }
            Phase::Approval { ticket, .. } | Phase::Conversing { ticket, .. } => {
                let ticket = *ticket;
                self.state.open.remove(&ticket);
                self.effects.push(Effect::Withdraw { ticket });
                self.settle_stopped(id);
            }
            Phase::Waiting { .. } => self.settle_stopped(id),
            Phase::Branches(branches) => {
                branches.pending.clear();
                let running: Vec<FrameId> = branches.running.iter().copied().collect();
                if running.is_empty() {
                    self.settle_stopped(id);
                }
                for child in running {
                    self.stop_frame(child, inner_reason(reason));
                }
            }
            Phase::Rounds(rounds) => match rounds.child {
                Some(child) => self.stop_frame(child, inner_reason(reason)),
                None => self.settle_stopped(id),
            },
            // A job of this very `apply` is about to move it on, and sees that it is to stop.
            Phase::Entered => {}
        }
    }

    fn settle_stopped(&mut self, id: FrameId) {
        if let Some(frame) = self.state.frames.get_mut(&id) {
            frame.phase = Phase::Entered;
        }
        if let Some(ending) = self.stopped(id) {
            self.jobs.push_back(Job::Settle(id, Box::new(ending)));
        }
    }

    pub(super) fn stop_ticket(&mut self, ticket: Ticket, reason: StopReason) {
        let Some(open) = self.state.open.get_mut(&ticket) else {
            return;
        };
        if open.interrupted {
            // It is gone already, and whether to repeat it is no longer the question.
            let Some(open) = self.state.open.remove(&ticket) else {
                return;
            };
            self.effects.push(Effect::Withdraw { ticket });
            self.finished(&open, StepResult::failed(1, "interrupted"));
            return;
        }
        if !std::mem::replace(&mut open.stopping, true) {
            self.effects.push(Effect::Stop { ticket, reason });
        }
    }
}

/// Steps inside a group that has run out of time are not tried again one by one.
fn inner_reason(reason: StopReason) -> StopReason {
    match reason {
        StopReason::TimedOut | StopReason::NotNeeded => StopReason::NotNeeded,
        StopReason::Cancelled => StopReason::Cancelled,
    }
}
