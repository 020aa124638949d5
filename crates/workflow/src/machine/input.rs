//! What the machine is told: how steps ended, what people answered, that time has passed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::effect::Ticket;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Start the run. Once.
    Begin,
    /// What `Effect::Start` asked for has ended, by itself or because it was stopped.
    Finished {
        ticket: Ticket,
        result: Box<StepResult>,
    },
    /// Time has passed. May come at any moment and any number of times.
    Tick,
    /// The user's words; nothing, `exit` or `quit` end the conversation.
    Answer {
        ticket: Ticket,
        text: String,
    },
    Approve {
        ticket: Ticket,
        decision: Decision,
    },
    Repeat {
        ticket: Ticket,
        decision: Repeat,
    },
    /// End the run. The second one does not wait for anything.
    Cancel,
    /// The runner was gone and has come back: nothing that was started is running any more.
    Recover,
    /// Run again from a step; forgets the results of that step and of all that came after it.
    Rewind {
        from: RewindFrom,
        /// Replace inputs of the run; they are checked like the first ones.
        inputs: Map<String, Value>,
    },
}

impl Input {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Finished { .. } => "finished",
            Self::Tick => "tick",
            Self::Answer { .. } => "answer",
            Self::Approve { .. } => "approve",
            Self::Repeat { .. } => "repeat",
            Self::Cancel => "cancel",
            Self::Recover => "recover",
            Self::Rewind { .. } => "rewind",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    Deny,
}

/// What becomes of a step that was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    Again,
    /// As if it had failed.
    Fail,
    /// As if it had succeeded without output.
    Skip,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewindFrom {
    /// The same step as `Current`, where nobody has named one: what was interrupted there is asked about before it is repeated.
    Left,
    /// The step the run stood at when it ended.
    Current,
    /// The step that was done before that one.
    Previous,
    Step(String),
}

/// How something that was started has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    pub status: StepStatus,
    #[serde(default)]
    pub output: String,
    #[serde(default)]
    pub stderr: String,
    #[serde(default)]
    pub exit_code: i32,
    /// In words, if it failed.
    #[serde(default)]
    pub error: Option<String>,
    /// What an agent or an operation answered, if it is structured.
    #[serde(default)]
    pub response: Option<Value>,
    /// Outputs by name: of an operation, of a sub-workflow.
    #[serde(default)]
    pub data: Map<String, Value>,
    /// The provider's session, to be continued later.
    #[serde(default)]
    pub session: Option<String>,
    #[serde(default)]
    pub tokens: Tokens,
    /// The output was longer than what is kept.
    #[serde(default)]
    pub truncated: bool,
    /// The file that has all of the output, where it was longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_path: Option<String>,
    /// The same for what went to the error stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_path: Option<String>,
    /// Of a called workflow: nobody has said what becomes of a step of it that was interrupted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doubtful: bool,
}

impl StepResult {
    pub fn succeeded(output: impl Into<String>) -> Self {
        Self {
            output: output.into(),
            ..Self::default()
        }
    }

    pub fn failed(exit_code: i32, error: impl Into<String>) -> Self {
        Self {
            status: StepStatus::Failed,
            exit_code,
            error: Some(error.into()),
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    #[default]
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    /// An approval was denied and the step left out, or somebody chose not to repeat it.
    Skipped,
}

impl StepStatus {
    /// Whether the run goes on as after a success.
    pub fn is_success(self) -> bool {
        match self {
            Self::Succeeded | Self::Skipped => true,
            Self::Failed | Self::TimedOut | Self::Cancelled => false,
        }
    }

    /// The word that templates and expressions see.
    pub fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "completed",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    #[serde(default)]
    pub input: u64,
    #[serde(default)]
    pub output: u64,
    #[serde(default)]
    pub estimated: bool,
}
