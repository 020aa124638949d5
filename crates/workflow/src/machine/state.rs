//! Where a run stands: everything that has to survive a kill, as one value that serialises.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use domain::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::again::{Beginning, Extent};
use super::effect::{Effect, Failure, Finish, Outcome, StopReason, Ticket};
use super::input::{StepResult, StepStatus, Tokens};

/// What a run is given at its start, apart from the plan and the world.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The run's id; `workflow.id` in templates.
    pub run: String,
    #[serde(default)]
    pub parent_run: Option<String>,
    /// Checked by `check_inputs` when the machine is made.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// Of `Action::Workflow`; empty for a run that nobody called.
    #[serde(default)]
    pub call_stack: Vec<String>,
    #[serde(default)]
    pub working_dir: String,
    #[serde(default)]
    pub user: String,
    #[serde(default)]
    pub hostname: String,
    /// `awf.*` in templates: config_dir, data_dir, prompts_dir, scripts_dir, skills_dir, workflows_dir, plugins_dir.
    #[serde(default)]
    pub directories: BTreeMap<String, String>,
    /// Any number; the jitter of retries comes from it.
    #[serde(default)]
    pub seed: u64,
}

/// How a step ended, the last time it ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub status: StepStatus,
    #[serde(default)]
    pub output: String,
    #[serde(default)]
    pub stderr: String,
    #[serde(default)]
    pub exit_code: i32,
    #[serde(default)]
    pub error: Option<String>,
    #[serde(default)]
    pub response: Option<Value>,
    #[serde(default)]
    pub json: Option<Value>,
    #[serde(default)]
    pub data: Map<String, Value>,
    #[serde(default)]
    pub session: Option<String>,
    #[serde(default)]
    pub tokens: Tokens,
    #[serde(default)]
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_path: Option<String>,
    #[serde(default)]
    pub attempts: u32,
    pub path: String,
    pub started: Millis,
    pub ended: Millis,
    /// Which of the run's steps it was to end, from one.
    pub order: u64,
}

/// A moment in a state: milliseconds since the epoch.
pub(super) type Millis = i64;

/// Names one step in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct FrameId(pub(super) u64);

/// The whole state of a run. Opaque; write it down after every `apply` and give it to `Machine::restore`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub(super) setup: Setup,
    /// Where it begins, if not where the plan does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) beginning: Option<Beginning>,
    pub(super) stage: Stage,
    pub(super) started: Option<Timestamp>,
    pub(super) cancelled: bool,
    /// The run is to end with this, whatever the steps in progress give.
    pub(super) abort: Option<Failure>,
    /// The last step that failed, as templates see it.
    pub(super) last_failure: Option<Failure>,
    /// The step at the top; those inside it are found through the frames.
    pub(super) root: Option<FrameId>,
    pub(super) frames: BTreeMap<FrameId, Frame>,
    /// What has been asked of the runner and not been answered.
    pub(super) open: BTreeMap<Ticket, Open>,
    /// Paths of steps that were interrupted and may have done part of their work, as long as nobody has said that they may be
    /// done again or left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) doubtful: BTreeMap<String, Doubt>,
    pub(super) records: BTreeMap<String, Record>,
    /// Steps of the top in the order they were entered, for `Rewind`.
    pub(super) trail: VecDeque<String>,
    pub(super) tickets: u64,
    pub(super) frames_made: u64,
    pub(super) records_made: u64,
    pub(super) chance: u64,
}

impl State {
    /// What the steps have come to, by their names.
    pub fn records(&self) -> &BTreeMap<String, Record> {
        &self.records
    }

    /// Whether one step is all that is run.
    pub(super) fn is_of_one_step(&self) -> bool {
        let extent = self.beginning.as_ref().map(|beginning| beginning.extent);
        extent == Some(Extent::Alone)
    }

    /// The earliest moment at which time alone changes something.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        let times = self.frames.values().flat_map(|frame| {
            let deadline = frame.deadline.filter(|_| frame.stop.is_none());
            let phase = match &frame.phase {
                Phase::Waiting { until } => Some(*until),
                Phase::Approval { until, .. } => *until,
                Phase::Entered
                | Phase::PreHook { .. }
                | Phase::Running { .. }
                | Phase::Conversing { .. }
                | Phase::Branches(_)
                | Phase::Rounds(_)
                | Phase::PostHook { .. } => None,
            };
            [deadline, phase]
        });
        times.flatten().min()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    New,
    /// Hooks of the start; the number of the one that runs.
    Starting(usize),
    Running,
    /// Hooks of the end.
    Ending(Box<Ending>),
    Done(Box<Finish>),
}

impl Stage {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Starting(_) => "starting",
            Self::Running => "running",
            Self::Ending(_) => "ending",
            Self::Done(_) => "done",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Ending {
    pub(super) outcome: Outcome,
    pub(super) exit_code: i32,
    pub(super) message: String,
    pub(super) failure: Option<Failure>,
    pub(super) hook: usize,
}

/// One step in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Frame {
    pub(super) step: String,
    pub(super) path: String,
    pub(super) parent: Option<FrameId>,
    pub(super) attempt: u32,
    pub(super) began: Timestamp,
    pub(super) deadline: Option<Timestamp>,
    pub(super) stop: Option<StopReason>,
    /// Which round of the parent's loop this is.
    pub(super) round: Option<Round>,
    pub(super) phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) item: Value,
    pub(super) index: u32,
    /// Unknown for `while`.
    pub(super) length: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// Nothing is open; the next job of the same `apply` moves it on.
    Entered,
    Approval {
        ticket: Ticket,
        until: Option<Timestamp>,
    },
    PreHook {
        ticket: Ticket,
        hook: usize,
    },
    Running {
        ticket: Ticket,
        turns: u32,
        session: Option<String>,
    },
    /// The user has the word.
    Conversing {
        ticket: Ticket,
        turns: u32,
        last: Box<StepResult>,
    },
    Waiting {
        until: Timestamp,
    },
    Branches(Branches),
    Rounds(Rounds),
    PostHook {
        ticket: Ticket,
        hook: usize,
        ending: Box<StepEnding>,
    },
}

/// A step that has ended except for its hooks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StepEnding {
    pub(super) result: StepResult,
    /// The answer of an agent that was asked for JSON.
    pub(super) json: Option<Value>,
    /// Where a loop was left to, if a step of its body did.
    pub(super) leave: Option<String>,
}

impl From<StepResult> for StepEnding {
    fn from(result: StepResult) -> Self {
        Self {
            result,
            json: None,
            leave: None,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Branches {
    pub(super) pending: VecDeque<String>,
    pub(super) running: BTreeSet<FrameId>,
    pub(super) ended: Vec<(String, StepStatus)>,
    /// The failure that is told.
    pub(super) first_error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Rounds {
    /// Of `for_each`.
    pub(super) items: Option<Vec<Value>>,
    pub(super) limit: u32,
    pub(super) index: u32,
    /// Which step of the body is next.
    pub(super) position: usize,
    pub(super) child: Option<FrameId>,
}

/// What is still to be said about a step that was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Doubt {
    /// Somebody was asked in this attempt. What the workflow itself does after a no is what its file says.
    Asked,
    /// The run is tried again: nobody was asked yet.
    ToAsk,
}

/// Something the runner has been asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Open {
    /// None for the hooks of the workflow.
    pub(super) frame: Option<FrameId>,
    /// As it was asked, so that it can be asked again after an interruption.
    pub(super) effect: Effect,
    pub(super) stopping: bool,
    /// It was interrupted, and somebody has to say whether to repeat it.
    pub(super) interrupted: bool,
}
