//! One `apply`: an input becomes jobs, jobs become other jobs and effects, until nothing is left to decide.

use std::collections::VecDeque;
use std::sync::Arc;

use domain::Timestamp;

use crate::plan::{Plan, Step};
use crate::scope::{LoopView, Scope};
use crate::world::World;

use super::effect::{Announcement, Effect, Ticket};
use super::input::{Decision, Input, StepResult};
use super::state::{Doubt, Frame, FrameId, Open, Phase, Stage, State, StepEnding};
use super::{Action, Rejected, Start};

/// Steps that one run may enter; a run with more goes in circles.
pub(super) const STEPS_MAX: u64 = 100_000;

/// Steps of the top that a run remembers the order of.
const TRAIL_MAX: usize = 1000;

/// Something to decide within the same `apply`. A list of jobs instead of calls: loops must not grow the stack.
#[derive(Debug)]
pub(super) enum Job {
    /// Enter a step at the top of the run.
    Enter(String),
    /// Ask for approval if there is to be one.
    Begin(FrameId),
    PreHook(FrameId, usize),
    Act(FrameId),
    /// An attempt has ended; it may be repeated.
    Settle(FrameId, Box<StepEnding>),
    /// The step has ended, whatever its retry says.
    Conclude(FrameId, Box<StepEnding>),
    PostHook(FrameId, usize, Box<StepEnding>),
    End(FrameId, Box<StepEnding>),
    /// The next step of a loop.
    Round(FrameId),
    /// Start as many branches as may run.
    Fill(FrameId),
    StartHook(usize),
    EndHook,
}

pub(super) struct Turn<'a> {
    pub(super) plan: &'a Plan,
    pub(super) state: &'a mut State,
    pub(super) world: &'a Arc<dyn World>,
    pub(super) now: Timestamp,
    pub(super) effects: Vec<Effect>,
    pub(super) jobs: VecDeque<Job>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        state: &'a mut State,
        world: &'a Arc<dyn World>,
        now: Timestamp,
    ) -> Self {
        Self {
            plan,
            state,
            world,
            now,
            effects: Vec::new(),
            jobs: VecDeque::new(),
        }
    }

    pub(super) fn take(&mut self, input: Input) -> Result<(), Rejected> {
        let name = input.name();
        let stage = self.state.stage.name();
        let refuse = |reason: &str| Rejected {
            stage,
            input: name,
            reason: reason.to_owned(),
        };
        match input {
            Input::Begin => {
                if self.state.stage != Stage::New {
                    return Err(refuse("it has begun already"));
                }
                self.begin_run();
            }
            Input::Finished { ticket, result } => {
                if let Some(open) = self.answered(ticket).map_err(|reason| refuse(&reason))? {
                    if !matches!(open.effect, Effect::Start(_)) {
                        self.state.open.insert(ticket, open);
                        return Err(refuse("the ticket is of a question"));
                    }
                    self.finished(&open, *result);
                }
            }
            Input::Tick => self.tick(),
            Input::Answer { ticket, text } => {
                if let Some(open) = self.answered(ticket).map_err(|reason| refuse(&reason))? {
                    let (Effect::AskInput(_), Some(frame)) = (&open.effect, open.frame) else {
                        self.state.open.insert(ticket, open);
                        return Err(refuse("nobody asked for words with this ticket"));
                    };
                    self.user_said(frame, &text);
                }
            }
            Input::Approve { ticket, decision } => {
                if let Some(open) = self.answered(ticket).map_err(|reason| refuse(&reason))? {
                    let (Effect::AskApproval(_), Some(frame)) = (&open.effect, open.frame) else {
                        self.state.open.insert(ticket, open);
                        return Err(refuse("nobody asked for approval with this ticket"));
                    };
                    match decision {
                        Decision::Allow => self.jobs.push_back(Job::PreHook(frame, 0)),
                        Decision::Deny => self.denied(frame, "the approval was denied"),
                    }
                }
            }
            Input::Repeat { ticket, decision } => {
                self.repeat(ticket, decision)
                    .map_err(|reason| refuse(&reason))?;
            }
            Input::Cancel => self.cancel(),
            Input::Recover => {
                if self.state.stage == Stage::New {
                    return Err(refuse("it has not begun"));
                }
                self.recover();
            }
            Input::Rewind { from, inputs } => {
                self.rewind(&from, inputs)
                    .map_err(|reason| refuse(&reason))?;
            }
        }
        self.run_jobs();
        Ok(())
    }

    /// Takes the ticket out of what is open. An answer that comes late is nothing; one to a ticket never given is wrong.
    fn answered(&mut self, ticket: Ticket) -> Result<Option<Open>, String> {
        let is_interrupted = |open: &Open| open.interrupted;
        if self.state.open.get(&ticket).is_some_and(is_interrupted) {
            return Err("it was interrupted; say whether to repeat it".to_owned());
        }
        match self.state.open.remove(&ticket) {
            Some(open) => Ok(Some(open)),
            None if ticket.0 < self.state.tickets => Ok(None),
            None => Err("this ticket was never given".to_owned()),
        }
    }

    fn run_jobs(&mut self) {
        while let Some(job) = self.jobs.pop_front() {
            match job {
                Job::Enter(step) => self.enter_top(&step),
                Job::Begin(frame) => self.begin(frame),
                Job::PreHook(frame, hook) => self.pre_hook(frame, hook),
                Job::Act(frame) => self.act(frame),
                Job::Settle(frame, ending) => self.settle(frame, *ending),
                Job::Conclude(frame, ending) => self.conclude(frame, *ending),
                Job::PostHook(frame, hook, ending) => self.post_hook(frame, hook, *ending),
                Job::End(frame, ending) => self.end(frame, *ending),
                Job::Round(frame) => self.next_round(frame),
                Job::Fill(frame) => self.fill_branches(frame),
                Job::StartHook(hook) => self.start_hook(hook),
                Job::EndHook => self.end_hook(),
            }
        }
    }

    /// What was started has ended: which phase it was of decides what that means.
    pub(super) fn finished(&mut self, open: &Open, result: StepResult) {
        let Some(id) = open.frame else {
            self.workflow_hook_finished(&result);
            return;
        };
        let Some(frame) = self.state.frames.get_mut(&id) else {
            return;
        };
        if result.doubtful {
            let path = frame.path.clone();
            self.state.doubtful.insert(path, Doubt::Asked);
        }
        match std::mem::replace(&mut frame.phase, Phase::Entered) {
            Phase::PreHook { hook, .. } => {
                self.warn_of_hook(id, &result);
                let job = match self.stopped(id) {
                    Some(ending) => Job::Settle(id, Box::new(ending)),
                    None => Job::PreHook(id, hook + 1),
                };
                self.jobs.push_back(job);
            }
            Phase::Running { turns, .. } => self.attempt_finished(id, turns + 1, result),
            Phase::PostHook { hook, ending, .. } => {
                self.warn_of_hook(id, &result);
                self.jobs.push_back(Job::PostHook(id, hook + 1, ending));
            }
            // Nothing was started in these.
            other @ (Phase::Entered
            | Phase::Approval { .. }
            | Phase::Conversing { .. }
            | Phase::Waiting { .. }
            | Phase::Branches(_)
            | Phase::Rounds(_)) => {
                if let Some(frame) = self.state.frames.get_mut(&id) {
                    frame.phase = other;
                }
            }
        }
    }

    fn warn_of_hook(&mut self, id: FrameId, result: &StepResult) {
        if result.status.is_success() && result.exit_code == 0 {
            return;
        }
        let path = self.path(id);
        let reason = result
            .error
            .clone()
            .unwrap_or_else(|| format!("exit code {}", result.exit_code));
        self.log(
            &path,
            format!("a hook failed, and the step goes on: {reason}"),
        );
    }

    pub(super) fn log(&mut self, path: &str, message: String) {
        self.effects.push(Effect::Log {
            path: path.to_owned(),
            message,
        });
    }

    pub(super) fn announce(&mut self, announcement: Announcement) {
        self.effects.push(Effect::Announce(announcement));
    }

    pub(super) fn path(&self, id: FrameId) -> String {
        self.state
            .frames
            .get(&id)
            .map(|frame| frame.path.clone())
            .unwrap_or_default()
    }

    pub(super) fn step_of(&self, id: FrameId) -> Option<&'a Step> {
        let frame = self.state.frames.get(&id)?;
        self.plan.step(&frame.step)
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.state.tickets);
        self.state.tickets += 1;
        ticket
    }

    /// Asks the runner for something, and remembers it until it is answered.
    pub(super) fn open(&mut self, ticket: Ticket, frame: Option<FrameId>, effect: Effect) {
        self.effects.push(effect.clone());
        self.state.open.insert(
            ticket,
            Open {
                frame,
                effect,
                stopping: false,
                interrupted: false,
            },
        );
    }

    /// Starts a command of a hook; the runner ends it after this time.
    pub(super) fn start_hook_command(
        &mut self,
        frame: Option<FrameId>,
        path: String,
        step: String,
        command: String,
    ) -> Ticket {
        // A hook tells somebody something; minutes are generous.
        const HOOK_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(300);
        let ticket = self.ticket();
        let start = Start {
            ticket,
            step,
            path,
            attempt: 1,
            timeout: Some(HOOK_TIME_MAX),
            resumed: false,
            action: Action::Hook { command },
        };
        self.open(ticket, frame, Effect::Start(start));
        ticket
    }

    /// Makes a frame for a step. `None` if the run goes in circles, which ends it.
    pub(super) fn enter(
        &mut self,
        step: &str,
        parent: Option<FrameId>,
        path: String,
        round: Option<super::state::Round>,
    ) -> Option<FrameId> {
        if self.state.frames_made >= STEPS_MAX {
            self.abort_circling(step);
            return None;
        }
        let id = FrameId(self.state.frames_made);
        self.state.frames_made += 1;
        let found = self.plan.step(step);
        self.announce(Announcement::StepStarted {
            step: step.to_owned(),
            path: path.clone(),
            kind: found.map_or("", |step| step.kind.word()).to_owned(),
            description: found
                .map(|step| step.description.clone())
                .unwrap_or_default(),
        });
        self.state.frames.insert(
            id,
            Frame {
                step: step.to_owned(),
                path,
                parent,
                attempt: 1,
                began: self.now,
                deadline: None,
                stop: None,
                round,
                phase: Phase::Entered,
            },
        );
        self.jobs.push_back(Job::Begin(id));
        Some(id)
    }

    pub(super) fn remember_trail(&mut self, step: &str) {
        if self.state.trail.len() >= TRAIL_MAX {
            self.state.trail.pop_front();
        }
        self.state.trail.push_back(step.to_owned());
    }

    /// Loops around a frame, the innermost first.
    pub(super) fn loops_of(&self, id: FrameId) -> Vec<LoopView> {
        let mut views = Vec::new();
        let mut next = Some(id);
        while let Some(frame) = next.and_then(|id| self.state.frames.get(&id)) {
            if let Some(round) = &frame.round {
                views.push(LoopView {
                    item: round.item.clone(),
                    index: round.index,
                    length: round.length,
                });
            }
            next = frame.parent;
        }
        views
    }

    pub(super) fn scope<'b>(&'b self, current: &'b str, loops: &'b [LoopView]) -> Scope<'b> {
        let elapsed = self.state.started.map(|started| self.now.since(started));
        Scope {
            workflow: &self.plan.name,
            setup: &self.state.setup,
            records: &self.state.records,
            loops,
            failure: self.state.last_failure.as_ref(),
            elapsed: elapsed.unwrap_or_default(),
            current,
            world: self.world,
        }
    }
}
