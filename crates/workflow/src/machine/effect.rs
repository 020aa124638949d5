//! What the machine wants done, said as values; the runner performs them and answers with inputs.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::plan::{Capture, OutputFormat, Provider, ToolProxy, millis};
use crate::problem::Code;

use super::input::{StepResult, StepStatus};
use super::state::Record;

/// Names one thing that was asked for; inputs give it back. Never used twice in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticket(pub u64);

/// Perform them in order, after the machine's new state has been written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Do it, and answer with `Input::Finished`.
    Start(Start),
    /// End what the ticket names and answer with `Input::Finished` when it is gone.
    Stop { ticket: Ticket, reason: StopReason },
    /// Ask the user for words; answer with `Input::Answer`.
    AskInput(AskInput),
    /// Ask the user for a yes or a no; answer with `Input::Approve`.
    AskApproval(AskApproval),
    /// A step was interrupted and may have done half of its work; answer with `Input::Repeat`.
    AskRepeat(AskRepeat),
    /// The question is no longer of interest; nothing is to be answered.
    Withdraw { ticket: Ticket },
    /// Send `Input::Tick` at that time or a little later. One timer is enough: the earliest.
    WakeAt { at: Timestamp },
    /// Something for the log and for whoever watches.
    Log { path: String, message: String },
    /// Something that has happened, for whoever watches. Needs no answer.
    Announce(Announcement),
    /// The run is over; nothing is open any more.
    Finish(Finish),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    pub ticket: Ticket,
    pub step: String,
    /// Where in the run: `build`, `checks/lint`, `each[2]/fix`.
    pub path: String,
    /// From one.
    pub attempt: u32,
    /// The machine stops the step itself when this has passed; it is told for display.
    #[serde(default, with = "millis")]
    pub timeout: Option<Duration>,
    /// It had been started before the run was interrupted. A sub-workflow is to be taken up where it stood.
    #[serde(default)]
    pub resumed: bool,
    pub action: Action,
}

/// What to do, with every template evaluated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Command(CommandAction),
    Agent(Box<AgentAction>),
    Operation(OperationAction),
    Workflow(WorkflowAction),
    /// A command of a hook: its end changes nothing but the log.
    Hook {
        command: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandAction {
    /// For `sh -c`; the text of a script if `script` is given.
    pub line: String,
    /// The file the text came from; one that begins with `#!` wants its own interpreter.
    #[serde(default)]
    pub script: Option<String>,
    #[serde(default)]
    pub dir: Option<String>,
    #[serde(default)]
    pub capture: Capture,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentAction {
    pub provider: Provider,
    pub prompt: String,
    #[serde(default)]
    pub system_prompt: Option<String>,
    #[serde(default)]
    pub role: Option<String>,
    /// Names, or paths if they hold a slash.
    #[serde(default)]
    pub skills: Vec<String>,
    #[serde(default)]
    pub options: Map<String, Value>,
    #[serde(default)]
    pub output_format: OutputFormat,
    pub session: SessionUse,
    #[serde(default)]
    pub tool_proxy: Option<ToolProxy>,
    #[serde(default)]
    pub dir: Option<String>,
}

/// What becomes of the provider's session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionUse {
    /// A new one that nobody continues.
    Once,
    /// A new one; tell its id in the result.
    Keep,
    /// That one; tell its id in the result.
    Continue { session: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationAction {
    pub name: String,
    pub inputs: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowAction {
    pub workflow: String,
    pub inputs: Map<String, Value>,
    /// For the child's `Setup`: the workflows that are being run above it, this one included.
    pub call_stack: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    TimedOut,
    Cancelled,
    /// The result of its parallel step is decided without it.
    NotNeeded,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskInput {
    pub ticket: Ticket,
    pub step: String,
    pub path: String,
    /// What the agent has said last; empty if the conversation begins with the user.
    pub text: String,
    /// How many turns the conversation has had.
    pub turns: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskApproval {
    pub ticket: Ticket,
    pub step: String,
    pub path: String,
    pub message: String,
    /// What will be done: the command line, the prompt…
    pub summary: String,
    /// It cannot be undone.
    #[serde(default)]
    pub destructive: bool,
    /// Silence until then is a no.
    #[serde(default)]
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskRepeat {
    pub ticket: Ticket,
    pub step: String,
    pub path: String,
    /// Why it is not simply repeated, and what it was doing.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Announcement {
    StepStarted {
        step: String,
        path: String,
        /// As files write it: `command`, `agent`…
        kind: String,
        description: String,
    },
    StepRetrying {
        step: String,
        path: String,
        /// The one that has failed.
        attempt: u32,
        #[serde(with = "millis")]
        delay: Option<Duration>,
        error: String,
    },
    StepEnded {
        step: String,
        path: String,
        status: StepStatus,
        exit_code: i32,
        attempts: u32,
        #[serde(with = "millis")]
        duration: Option<Duration>,
        error: Option<String>,
    },
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finish {
    pub outcome: Outcome,
    pub exit_code: i32,
    /// Of the terminal step, or what went wrong.
    pub message: String,
    #[serde(default)]
    pub failure: Option<Failure>,
    /// What the workflow declares as outputs.
    #[serde(default)]
    pub outputs: Map<String, Value>,
    /// A step was interrupted, may have done part of its work, and nobody has said what becomes of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doubtful: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    Failed,
    Cancelled,
}

/// Why a run failed; hooks see it as `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub code: Code,
    pub message: String,
    pub step: String,
    pub exit_code: i32,
}

impl Finish {
    /// The result of a `call_workflow` step whose child ended like this, with what its steps had come to.
    pub fn of_step(&self, records: &BTreeMap<String, Record>) -> StepResult {
        let finish = self;
        let status = match finish.outcome {
            Outcome::Succeeded => StepStatus::Succeeded,
            Outcome::Failed => StepStatus::Failed,
            Outcome::Cancelled => StepStatus::Cancelled,
        };
        let mut data = Map::new();
        for (name, record) in records {
            data.insert(name.clone(), Value::String(record.output.clone()));
        }
        data.extend(finish.outputs.clone());
        let declared =
            (!finish.outputs.is_empty()).then(|| Value::Object(finish.outputs.clone()).to_string());
        StepResult {
            status,
            output: declared.unwrap_or_else(|| finish.message.clone()),
            exit_code: finish.exit_code,
            error: finish
                .failure
                .as_ref()
                .map(|failure| failure.message.clone()),
            data,
            doubtful: finish.doubtful,
            ..StepResult::default()
        }
    }
}
