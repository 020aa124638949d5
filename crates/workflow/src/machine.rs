//! The machine of a run: takes what has happened, decides what comes next, and can be written down at any moment.
//!
//! A step in progress is a *frame*; steps inside loops and branches are frames with a parent. What the runner has been asked
//! and has not answered is *open* under its ticket. `turn` dispatches inputs; `step` and `outcome` are the life of one frame;
//! `branches` and `rounds` are those that contain others; `resolve` fills templates in; `stop` ends what is in progress;
//! `ending` begins and ends the run; `recover` takes it up again; `again` begins one in the middle.

mod again;
mod branches;
mod effect;
mod ending;
mod input;
mod outcome;
mod recover;
mod resolve;
mod rounds;
mod state;
mod step;
mod stop;
mod turn;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use domain::Timestamp;

use crate::inputs::check_inputs;
use crate::plan::Plan;
use crate::problem::{Code, Problem};
use crate::world::World;

use state::Stage;
use turn::Turn;

pub use again::{Beginning, Extent};
pub use effect::{
    Action, AgentAction, Announcement, AskApproval, AskInput, AskRepeat, CommandAction, Effect,
    Failure, Finish, OperationAction, Outcome, SessionUse, Start, StopReason, Ticket,
    WorkflowAction,
};
pub use input::{Decision, Input, Repeat, RewindFrom, StepResult, StepStatus, Tokens};
pub use state::{Record, Setup, State};

/// Workflows that call workflows that call workflows…
pub const CALL_DEPTH_MAX: usize = 10;

/// A run of a plan.
#[derive(Debug, Clone)]
pub struct Machine {
    plan: Arc<Plan>,
    state: State,
    world: Arc<dyn World>,
}

/// An input that has no place where the run stands. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the run is {stage} and does not take {input}: {reason}")]
pub struct Rejected {
    pub stage: &'static str,
    pub input: &'static str,
    pub reason: String,
}

/// A step that was in progress when the runner went away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupted {
    pub ticket: Ticket,
    pub step: String,
    pub path: String,
    pub attempt: u32,
    /// Whether `Input::Recover` does it again by itself.
    pub is_safe_to_repeat: bool,
}

impl Machine {
    /// A run that has not begun. Fails with every input that is missing or wrong.
    pub fn new(
        plan: Arc<Plan>,
        mut setup: Setup,
        world: Arc<dyn World>,
    ) -> Result<Self, Vec<Problem>> {
        if setup.call_stack.len() >= CALL_DEPTH_MAX {
            return Err(vec![Problem::placeless(
                Code::WorkflowNesting,
                format!("workflows call each other more than {CALL_DEPTH_MAX} deep"),
            )]);
        }
        setup.inputs = check_inputs(&plan, &setup.inputs, world.as_ref())?;
        // An odd number keeps the generator of the jitter away from its only fixed point.
        let chance = setup.seed | 1;
        let state = State {
            setup,
            beginning: None,
            stage: Stage::New,
            started: None,
            cancelled: false,
            abort: None,
            last_failure: None,
            root: None,
            frames: BTreeMap::new(),
            open: BTreeMap::new(),
            doubtful: BTreeMap::new(),
            records: BTreeMap::new(),
            trail: VecDeque::new(),
            tickets: 0,
            frames_made: 0,
            records_made: 0,
            chance,
        };
        Ok(Self { plan, state, world })
    }

    /// A run as it was written down. Tell it `Input::Recover` next.
    pub fn restore(plan: Arc<Plan>, state: State, world: Arc<dyn World>) -> Self {
        Self { plan, state, world }
    }

    /// Takes an input. On `Ok`, write `state()` down, then perform the effects in order.
    pub fn apply(&mut self, input: Input, now: Timestamp) -> Result<Vec<Effect>, Rejected> {
        let wake_before = self.next_wake();
        let plan = Arc::clone(&self.plan);
        let mut turn = Turn::new(&plan, &mut self.state, &self.world, now);
        turn.take(input)?;
        let mut effects = turn.effects;
        match self.next_wake() {
            Some(at) if Some(at) != wake_before => effects.push(Effect::WakeAt { at }),
            Some(_) | None => {}
        }
        Ok(effects)
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    pub fn setup(&self) -> &Setup {
        &self.state.setup
    }

    /// How the run ended, if it has.
    pub fn finish(&self) -> Option<&Finish> {
        match &self.state.stage {
            Stage::Done(finish) => Some(finish),
            Stage::New | Stage::Starting(_) | Stage::Running | Stage::Ending(_) => None,
        }
    }

    /// Results so far, by the name of the step.
    pub fn records(&self) -> &BTreeMap<String, Record> {
        &self.state.records
    }

    /// The paths of the steps in progress, the outer before the inner.
    pub fn in_progress(&self) -> Vec<&str> {
        self.state
            .frames
            .values()
            .map(|frame| frame.path.as_str())
            .collect()
    }

    /// When `Input::Tick` is wanted next.
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.state.next_wake()
    }

    /// What was in progress when this state was written down.
    pub fn interrupted(&self) -> Vec<Interrupted> {
        let mut found = Vec::new();
        for (ticket, open) in &self.state.open {
            let Effect::Start(start) = &open.effect else {
                continue;
            };
            let is_hook = matches!(start.action, Action::Hook { .. });
            let step = self.plan.step(&start.step);
            found.push(Interrupted {
                ticket: *ticket,
                step: start.step.clone(),
                path: start.path.clone(),
                attempt: start.attempt,
                is_safe_to_repeat: is_hook
                    || step.is_some_and(crate::plan::Step::is_safe_to_repeat),
            });
        }
        found
    }
}

#[cfg(test)]
#[path = "machine_tests/mod.rs"]
mod tests;
