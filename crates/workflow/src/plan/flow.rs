//! How a plan goes on: transitions, retries, loops, branches, approvals, hooks and ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Text, millis};

/// The first whose condition holds decides where the run goes, whether the step succeeded or failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// An expression; without one the transition always holds.
    #[serde(default)]
    pub when: Option<String>,
    pub goto: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// With the first one.
    pub max_attempts: u32,
    #[serde(default, with = "millis")]
    pub initial_delay: Option<Duration>,
    #[serde(default, with = "millis")]
    pub max_delay: Option<Duration>,
    #[serde(default)]
    pub backoff: Backoff,
    pub multiplier: f64,
    /// Part of the delay that chance may add or take, from 0 to 1.
    #[serde(default)]
    pub jitter: f64,
    /// Empty means any failure.
    #[serde(default)]
    pub retryable_exit_codes: Vec<i32>,
}

impl Retry {
    /// How long to wait after `attempt` failed; `chance` is from 0 to 1.
    pub fn delay(&self, attempt: u32, chance: f64) -> Duration {
        let initial = self.initial_delay.unwrap_or_default().as_secs_f64();
        let exponent = f64::from(attempt.saturating_sub(1));
        let grown = match self.backoff {
            Backoff::Constant => initial,
            Backoff::Linear => initial * f64::from(attempt.max(1)),
            Backoff::Exponential => initial * self.multiplier.powf(exponent),
        };
        let most = self.max_delay.unwrap_or(crate::duration::DURATION_MAX);
        let bounded = grown.clamp(0.0, most.as_secs_f64());
        let moved = bounded * (1.0 + self.jitter * (2.0 * chance.clamp(0.0, 1.0) - 1.0));
        Duration::from_secs_f64(moved.clamp(0.0, most.as_secs_f64()))
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    #[default]
    Constant,
    Linear,
    Exponential,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parallel {
    pub branches: Vec<String>,
    #[serde(default)]
    pub strategy: Strategy,
    /// At most so many at once; none means all.
    #[serde(default)]
    pub max_concurrent: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The first failure stops the others and is the step's.
    #[default]
    AllSucceed,
    /// The first success stops the others and is the step's.
    AnySucceed,
    /// Everybody runs to the end, and the step succeeds.
    BestEffort,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForEach {
    pub items: Items,
    pub body: Vec<String>,
    #[serde(default)]
    pub limit: Limit,
    #[serde(default)]
    pub break_when: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Items {
    /// Gives a JSON list, or words between commas.
    Text(Text),
    /// Texts in it are templates.
    List(Vec<Value>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhileLoop {
    pub condition: String,
    pub body: Vec<String>,
    #[serde(default)]
    pub limit: Limit,
    #[serde(default)]
    pub break_when: Option<String>,
}

/// Rounds of a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Rounds(u32),
    /// A template that gives a number or arithmetic.
    Text(Text),
}

/// Rounds of a loop whose file says nothing.
pub(crate) const ROUNDS_DEFAULT: u32 = 100;

/// Rounds of a loop, whatever the file says: a loop that needs more is a program.
pub(crate) const ROUNDS_MAX: u32 = 10_000;

impl Default for Limit {
    fn default() -> Self {
        Self::Rounds(ROUNDS_DEFAULT)
    }
}

/// Somebody has to agree before the step is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// A template.
    #[serde(default)]
    pub message: Option<Text>,
    #[serde(default)]
    pub on_deny: OnDeny,
    /// What is approved cannot be undone.
    #[serde(default)]
    pub destructive: bool,
    /// Silence for so long is a no.
    #[serde(default, with = "millis")]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDeny {
    /// The step is left out and the run goes on as after a success.
    Skip,
    /// The step has failed.
    #[default]
    Error,
    /// The run ends.
    Abort,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepHooks {
    #[serde(default)]
    pub pre: Vec<Hook>,
    #[serde(default)]
    pub post: Vec<Hook>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowHooks {
    #[serde(default)]
    pub start: Vec<Hook>,
    #[serde(default)]
    pub end: Vec<Hook>,
    #[serde(default)]
    pub error: Vec<Hook>,
    #[serde(default)]
    pub cancel: Vec<Hook>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    Log(Text),
    Command(Text),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    pub status: TerminalStatus,
    #[serde(default)]
    pub message: Option<Text>,
    /// What a run that ends here exits with.
    pub exit_code: i32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalStatus {
    #[default]
    Success,
    Failure,
}
