//! Time that has passed, and runs that are taken up again after their runner was gone.

use serde_json::{Map, Value};

use crate::inputs::check_inputs;
use crate::plan::StepKind;
use crate::problem::Code;

use super::effect::{Effect, Start, StopReason, Ticket};
use super::input::{Repeat, RewindFrom, StepResult, StepStatus};
use super::state::{Doubt, FrameId, Open, Phase, Stage};
use super::turn::{Job, Turn};
use super::{Action, AskRepeat};

impl Turn<'_> {
    pub(super) fn tick(&mut self) {
        let now = self.now;
        let late: Vec<FrameId> = self
            .state
            .frames
            .iter()
            .filter(|(_, frame)| frame.stop.is_none() && frame.deadline.is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.stop_frame(id, StopReason::TimedOut);
        }
        let due: Vec<FrameId> = self.state.frames.keys().copied().collect();
        for id in due {
            let Some(frame) = self.state.frames.get_mut(&id) else {
                continue;
            };
            match &frame.phase {
                Phase::Waiting { until } if *until <= now => {
                    frame.phase = Phase::Entered;
                    self.jobs.push_back(Job::Act(id));
                }
                Phase::Approval {
                    ticket,
                    until: Some(until),
                } if *until <= now => {
                    let ticket = *ticket;
                    self.state.open.remove(&ticket);
                    self.effects.push(Effect::Withdraw { ticket });
                    self.denied(id, "nobody approved in time");
                }
                Phase::Waiting { .. }
                | Phase::Approval { .. }
                | Phase::Entered
                | Phase::PreHook { .. }
                | Phase::Running { .. }
                | Phase::Conversing { .. }
                | Phase::Branches(_)
                | Phase::Rounds(_)
                | Phase::PostHook { .. } => {}
            }
        }
    }

    /// Nothing that was started is running any more: asks again, starts again, or asks whether to.
    pub(super) fn recover(&mut self) {
        let tickets: Vec<Ticket> = self.state.open.keys().copied().collect();
        for ticket in tickets {
            let Some(open) = self.state.open.get_mut(&ticket) else {
                continue;
            };
            let frame = open.frame;
            let Effect::Start(start) = &open.effect else {
                self.effects.push(open.effect.clone());
                continue;
            };
            let start = start.clone();
            if open.stopping {
                // It was to end, and has.
                if let Some(open) = self.state.open.remove(&ticket) {
                    let mut result = StepResult::failed(1, "stopped");
                    result.status = StepStatus::Cancelled;
                    self.finished(&open, result);
                }
                continue;
            }
            let step = self.plan.step(&start.step);
            let is_hook = matches!(start.action, Action::Hook { .. });
            let is_safe = is_hook || step.is_some_and(crate::plan::Step::is_safe_to_repeat);
            // Whoever was being asked has not answered.
            if is_safe && !open.interrupted {
                self.start_again(ticket, frame, start);
            } else {
                open.interrupted = true;
                if let Some(frame) = frame.and_then(|id| self.state.frames.get_mut(&id)) {
                    frame.deadline = None;
                }
                self.ask_repeat(ticket, &start);
            }
        }
        if let Some(at) = self.state.next_wake() {
            self.effects.push(Effect::WakeAt { at });
        }
    }

    fn start_again(&mut self, ticket: Ticket, frame: Option<FrameId>, mut start: Start) {
        start.resumed = true;
        let is_hook = matches!(start.action, Action::Hook { .. });
        if let Some(id) = frame
            && !is_hook
        {
            // The time it was gone does not count.
            self.set_deadline(id, start.timeout);
        }
        self.open(ticket, frame, Effect::Start(start));
    }

    /// Whether somebody has to be asked before this is done again, in a run that is tried again.
    pub(super) fn is_doubtful(&self, path: &str) -> bool {
        self.state.doubtful.get(path) == Some(&Doubt::ToAsk)
    }

    /// Asks before something is started that an interruption may have left half done.
    pub(super) fn ask_before(&mut self, frame: FrameId, start: Start) {
        self.set_deadline(frame, None);
        let open = Open {
            frame: Some(frame),
            effect: Effect::Start(start.clone()),
            stopping: false,
            interrupted: true,
        };
        self.state.open.insert(start.ticket, open);
        self.ask_repeat(start.ticket, &start);
    }

    fn ask_repeat(&mut self, ticket: Ticket, start: &Start) {
        const WORDS_MAX: usize = 300;
        self.state.doubtful.insert(start.path.clone(), Doubt::Asked);
        let words = super::resolve::in_words(&start.action);
        let message = format!(
            "step {} was interrupted and may have done part of its work: {}",
            start.step,
            words.chars().take(WORDS_MAX).collect::<String>()
        );
        self.effects.push(Effect::AskRepeat(AskRepeat {
            ticket,
            step: start.step.clone(),
            path: start.path.clone(),
            message,
        }));
    }

    pub(super) fn repeat(&mut self, ticket: Ticket, decision: Repeat) -> Result<(), String> {
        let is_asked = self
            .state
            .open
            .get(&ticket)
            .is_some_and(|open| open.interrupted);
        if !is_asked {
            return if ticket.0 < self.state.tickets && !self.state.open.contains_key(&ticket) {
                Ok(())
            } else {
                Err("nobody asked whether to repeat this".to_owned())
            };
        }
        let Some(open) = self.state.open.remove(&ticket) else {
            return Ok(());
        };
        let Effect::Start(start) = &open.effect else {
            return Ok(());
        };
        match decision {
            Repeat::Again | Repeat::Skip => drop(self.state.doubtful.remove(&start.path)),
            Repeat::Fail => {} // It is as doubtful as before, whenever the run is tried again.
        }
        match decision {
            Repeat::Again => self.start_again(ticket, open.frame, start.clone()),
            Repeat::Fail => {
                let words = "interrupted, and not repeated";
                self.conclude_interrupted(
                    open.frame,
                    StepResult::failed(Code::StepInterrupted.exit_code(), words),
                );
            }
            Repeat::Skip => {
                let result = StepResult {
                    status: StepStatus::Skipped,
                    ..StepResult::default()
                };
                self.conclude_interrupted(open.frame, result);
            }
        }
        Ok(())
    }

    fn conclude_interrupted(&mut self, frame: Option<FrameId>, result: StepResult) {
        if let Some(id) = frame {
            self.set_phase(id, Phase::Entered);
            self.jobs
                .push_back(Job::Conclude(id, Box::new(result.into())));
        }
    }

    pub(super) fn rewind(
        &mut self,
        from: &RewindFrom,
        inputs: Map<String, Value>,
    ) -> Result<(), String> {
        let target = self.rewind_target(from)?;
        let mut given = self.state.setup.inputs.clone();
        given.extend(inputs);
        let checked = check_inputs(self.plan, &given, self.world.as_ref()).map_err(|problems| {
            problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ")
        })?;
        self.state.setup.inputs = checked;
        match from {
            RewindFrom::Left => {
                let doubts = self.state.doubtful.values_mut();
                doubts.for_each(|doubt| *doubt = Doubt::ToAsk);
            }
            // Whoever names a step wants it done.
            RewindFrom::Current | RewindFrom::Previous | RewindFrom::Step(_) => {
                self.state.doubtful.clear();
            }
        }
        if let Some(order) = self.state.records.get(&target).map(|record| record.order) {
            self.state.records.retain(|_, record| record.order < order);
        }
        self.state.frames.clear();
        self.state.open.clear();
        self.state.root = None;
        self.state.abort = None;
        self.state.last_failure = None;
        self.state.cancelled = false;
        self.state.started.get_or_insert(self.now);
        // The guard against circles counts this attempt alone; ids of frames only need to differ among the living.
        self.state.frames_made = 0;
        self.state.stage = Stage::Running;
        self.jobs.push_back(Job::Enter(target));
        Ok(())
    }

    fn rewind_target(&self, from: &RewindFrom) -> Result<String, String> {
        if self.state.stage == Stage::New {
            return Err("it has not begun".to_owned());
        }
        let is_work = |name: &&String| {
            self.plan
                .step(name)
                .is_some_and(|step| !matches!(step.kind, StepKind::Terminal(_)))
        };
        let mut trail = self.state.trail.iter().rev().filter(is_work);
        let found = match from {
            RewindFrom::Left | RewindFrom::Current => trail.next().cloned(),
            RewindFrom::Previous => trail.nth(1).cloned(),
            RewindFrom::Step(name) => {
                let step = self
                    .plan
                    .step(name)
                    .ok_or_else(|| format!("there is no step {name}"))?;
                Some(step.name.clone())
            }
        };
        found.ok_or_else(|| "there is no such step to go back to".to_owned())
    }
}
