//! A checked plan: everything a workflow file says, with every name resolved and every number in its range.
//!
//! Plans are values. A run keeps the plan it began with, so that editing the file does not change a run in progress.

mod action;
mod flow;
mod input;
mod steps;

use serde::{Deserialize, Serialize};

pub use action::{
    Agent, Capture, Command, ConversationMode, Operation, OutputFormat, Prompt, Provider, Script,
    SessionTracking, Skill, ToolProxy, WorkflowCall,
};
pub(crate) use action::{KNOWN_PROVIDERS, UNSUPPORTED_PROVIDER};
pub use flow::{
    Approval, Backoff, ForEach, Hook, Items, Limit, OnDeny, Parallel, Retry, StepHooks, Strategy,
    Terminal, TerminalStatus, Transition, WhileLoop, WorkflowHooks,
};
pub(crate) use flow::{ROUNDS_DEFAULT, ROUNDS_MAX};
pub use input::{InputKind, InputSpec, InputValidation};
pub use steps::Steps;

/// Text with Go template actions in it, known to parse.
pub(crate) type Text = String;

/// Prefix of the terminal steps that inline `on_failure: {message, status}` makes.
pub(crate) const INLINE_ERROR_PREFIX: &str = "__inline_error_";

/// A workflow that can be run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub author: String,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub inputs: Vec<InputSpec>,
    /// Variables of the environment that must be set.
    #[serde(default)]
    pub environment: Vec<String>,
    pub initial: String,
    /// In the order of the file; the synthesised terminals come last.
    pub steps: Steps,
    #[serde(default)]
    pub hooks: WorkflowHooks,
    /// What the run hands back, by name: templates evaluated at the end.
    #[serde(default)]
    pub outputs: Vec<(String, Text)>,
}

impl Plan {
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.named(name)
    }

    /// Steps that can be shown: not those made from an inline error.
    pub fn written_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps
            .iter()
            .filter(|step| !step.name.starts_with(INLINE_ERROR_PREFIX))
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// Where the file has it, counted from one.
    #[serde(default)]
    pub line: u64,
    pub kind: StepKind,
    #[serde(default)]
    pub transitions: Vec<Transition>,
    #[serde(default)]
    pub on_success: Option<String>,
    #[serde(default)]
    pub on_failure: Option<String>,
    #[serde(default)]
    pub continue_on_error: bool,
    #[serde(default)]
    pub retry: Option<Retry>,
    #[serde(default, with = "millis")]
    pub timeout: Option<std::time::Duration>,
    #[serde(default)]
    pub hooks: StepHooks,
    #[serde(default)]
    pub approval: Option<Approval>,
    /// What the author said about doing the step a second time after an interruption.
    #[serde(default)]
    pub idempotent: Option<bool>,
}

impl Step {
    /// Whether a run that was interrupted in this step may do it again without asking.
    ///
    /// A retry says that a second attempt is fine; a sub-workflow is continued, not repeated; what only asks or
    /// decides has no effect. Anything else may have done half of its work.
    pub fn is_safe_to_repeat(&self) -> bool {
        if let Some(declared) = self.idempotent {
            return declared;
        }
        match &self.kind {
            StepKind::Command(_) | StepKind::Agent(_) | StepKind::Operation(_) => self
                .retry
                .as_ref()
                .is_some_and(|retry| retry.max_attempts > 1),
            StepKind::Parallel(_)
            | StepKind::ForEach(_)
            | StepKind::While(_)
            | StepKind::Workflow(_)
            | StepKind::Gate
            | StepKind::Terminal(_) => true,
        }
    }
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    Command(Command),
    Agent(Agent),
    Parallel(Parallel),
    ForEach(ForEach),
    While(WhileLoop),
    Operation(Operation),
    Workflow(WorkflowCall),
    /// Nothing but an approval.
    Gate,
    Terminal(Terminal),
}

impl StepKind {
    /// The word that files use for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            Self::Agent(_) => "agent",
            Self::Parallel(_) => "parallel",
            Self::ForEach(_) => "for_each",
            Self::While(_) => "while",
            Self::Operation(_) => "operation",
            Self::Workflow(_) => "call_workflow",
            Self::Gate => "approval",
            Self::Terminal(_) => "terminal",
        }
    }

    /// Names of the steps that run inside this one.
    pub fn inner(&self) -> &[String] {
        match self {
            Self::Parallel(parallel) => &parallel.branches,
            Self::ForEach(each) => &each.body,
            Self::While(repeat) => &repeat.body,
            Self::Command(_)
            | Self::Agent(_)
            | Self::Operation(_)
            | Self::Workflow(_)
            | Self::Gate
            | Self::Terminal(_) => &[],
        }
    }
}

/// Durations as whole milliseconds, the precision of every clock the machine is given.
pub(crate) mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let millis =
            duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        millis.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
