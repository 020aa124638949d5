//! How a step ends: perhaps another attempt, what it leaves behind, and where the run goes from there.

use serde_json::Value;

use crate::expression;
use crate::plan::{Agent, OutputFormat, Retry, Step, StepKind};
use crate::problem::Code;

use super::effect::{Announcement, Failure, StopReason};
use super::input::{StepResult, StepStatus};
use super::state::{FrameId, Phase, Record, StepEnding};
use super::turn::{Job, Turn};

/// Bytes of output that a run remembers of a step; the runner's journal has the rest.
const OUTPUT_MAX: usize = 1024 * 1024;

impl Turn<'_> {
    /// An attempt has ended: perhaps there is another one.
    pub(super) fn settle(&mut self, id: FrameId, mut ending: StepEnding) {
        let Some(step) = self.step_of(id) else { return };
        let stop = self.state.frames.get(&id).and_then(|frame| frame.stop);
        if let Some(reason) = stop
            && !ending.result.status.is_success()
        {
            ending.result.status = match reason {
                StopReason::TimedOut => StepStatus::TimedOut,
                StopReason::Cancelled | StopReason::NotNeeded => StepStatus::Cancelled,
            };
            if reason == StopReason::TimedOut {
                let limit = step.timeout.unwrap_or_default();
                let words = format!(
                    "timed out after {}",
                    crate::duration::format_duration(limit)
                );
                ending.result.error = Some(words);
            }
        }
        shape_output(step, &mut ending);
        let may_repeat = !self.state.cancelled
            && self.state.abort.is_none()
            && matches!(stop, None | Some(StopReason::TimedOut));
        match &step.retry {
            Some(retry) if may_repeat && !ending.result.status.is_success() => {
                self.retry_or_conclude(id, step, retry, ending);
            }
            Some(_) | None => self.jobs.push_back(Job::Conclude(id, Box::new(ending))),
        }
    }

    fn retry_or_conclude(&mut self, id: FrameId, step: &Step, retry: &Retry, ending: StepEnding) {
        let chance = self.chance();
        let Some(frame) = self.state.frames.get_mut(&id) else {
            return;
        };
        let codes = &retry.retryable_exit_codes;
        let is_retryable = codes.is_empty()
            || codes.contains(&ending.result.exit_code)
            || ending.result.status == StepStatus::TimedOut;
        if frame.attempt >= retry.max_attempts || !is_retryable {
            self.jobs.push_back(Job::Conclude(id, Box::new(ending)));
            return;
        }
        let failed = frame.attempt;
        let delay = retry.delay(failed, chance);
        frame.attempt += 1;
        frame.stop = None;
        frame.deadline = None;
        frame.phase = Phase::Waiting {
            until: self.now + delay,
        };
        let path = frame.path.clone();
        self.announce(Announcement::StepRetrying {
            step: step.name.clone(),
            path,
            attempt: failed,
            delay: Some(delay),
            error: ending.result.error.clone().unwrap_or_default(),
        });
        if delay.is_zero() {
            self.set_phase(id, Phase::Entered);
            self.jobs.push_back(Job::Act(id));
        }
    }

    pub(super) fn conclude(&mut self, id: FrameId, ending: StepEnding) {
        let Some(step) = self.step_of(id) else { return };
        self.set_deadline(id, None);
        self.set_phase(id, Phase::Entered);
        if !ending.result.status.is_success() && ending.result.status != StepStatus::Cancelled {
            self.state.last_failure = Some(failure_of(step, &ending.result));
        }
        self.record(id, step, &ending);
        self.jobs.push_back(Job::PostHook(id, 0, Box::new(ending)));
    }

    fn record(&mut self, id: FrameId, step: &Step, ending: &StepEnding) {
        let Some(frame) = self.state.frames.get(&id) else {
            return;
        };
        self.state.records_made += 1;
        let result = &ending.result;
        let mut record = Record {
            status: result.status,
            output: result.output.clone(),
            stderr: result.stderr.clone(),
            exit_code: result.exit_code,
            error: result.error.clone(),
            response: result.response.clone(),
            json: ending.json.clone(),
            data: result.data.clone(),
            session: result.session.clone(),
            tokens: result.tokens,
            truncated: result.truncated,
            output_path: result.output_path.clone(),
            stderr_path: result.stderr_path.clone(),
            attempts: frame.attempt,
            path: frame.path.clone(),
            started: frame.began.0,
            ended: self.now.0,
            order: self.state.records_made,
        };
        let mut most = OUTPUT_MAX;
        if let StepKind::Command(command) = &step.kind
            && let Some(size) = command.capture.max_size
        {
            most = usize::try_from(size).unwrap_or(OUTPUT_MAX).min(OUTPUT_MAX);
        }
        for text in [&mut record.output, &mut record.stderr] {
            if text.len() > most {
                text.truncate(text.floor_char_boundary(most));
                record.truncated = true;
            }
        }
        self.state.records.insert(step.name.clone(), record);
    }

    /// The step is over: tells whoever watches, and whoever waits for it.
    pub(super) fn end(&mut self, id: FrameId, ending: StepEnding) {
        let Some(step) = self.step_of(id) else { return };
        let loops = self.loops_of(id);
        let next = match &ending.leave {
            Some(target) => Ok(Some(target.clone())),
            None => self.next_of(step, &ending.result, &loops),
        };
        let Some(frame) = self.state.frames.remove(&id) else {
            return;
        };
        self.announce(Announcement::StepEnded {
            step: step.name.clone(),
            path: frame.path,
            status: ending.result.status,
            exit_code: ending.result.exit_code,
            attempts: frame.attempt,
            duration: Some(self.now.since(frame.began)),
            error: ending.result.error.clone(),
        });
        match frame.parent {
            Some(parent) => self.child_ended(parent, id, step, &ending.result, next),
            None => self.top_ended(step, &ending.result, next),
        }
    }

    /// Where the run goes after a step; nothing if the step does not say.
    fn next_of(
        &self,
        step: &Step,
        result: &StepResult,
        loops: &[crate::scope::LoopView],
    ) -> Result<Option<String>, String> {
        for transition in &step.transitions {
            let holds = match &transition.when {
                Some(when) => expression::holds(when, &self.scope(&step.name, loops))?,
                None => true,
            };
            if holds {
                return Ok(Some(transition.goto.clone()));
            }
        }
        let is_fine = result.status.is_success() || step.continue_on_error;
        Ok(if is_fine {
            step.on_success.clone()
        } else {
            step.on_failure.clone()
        })
    }

    /// A number from 0 to 1 from the run's own seed, so that a resumed run goes on as it would have.
    fn chance(&mut self) -> f64 {
        let mut word = self.state.chance;
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.state.chance = word;
        (word >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What templates and the end of the run tell of a step that failed.
pub(super) fn failure_of(step: &Step, result: &StepResult) -> Failure {
    let code = if result.status == StepStatus::TimedOut {
        Code::CommandTimeout
    } else {
        match &step.kind {
            StepKind::Command(_) | StepKind::Terminal(_) => Code::CommandFailed,
            StepKind::Agent(_) => Code::AgentFailed,
            StepKind::Parallel(_) => Code::ParallelPartialFailure,
            StepKind::ForEach(_) | StepKind::While(_) => Code::LoopFailed,
            StepKind::Operation(_) => Code::OperationFailed,
            StepKind::Workflow(_) => Code::WorkflowFailed,
            StepKind::Gate => Code::ApprovalDenied,
        }
    };
    let reason = match (&result.error, result.stderr.trim().lines().last()) {
        (Some(error), _) => error.clone(),
        (None, Some(line)) => format!("exit code {}: {line}", result.exit_code),
        (None, None) => format!("exit code {}", result.exit_code),
    };
    Failure {
        code,
        message: format!("step {}: {reason}", step.name),
        step: step.name.clone(),
        exit_code: result.exit_code,
    }
}

/// Makes of an answer what the step asked for.
fn shape_output(step: &Step, ending: &mut StepEnding) {
    let result = &mut ending.result;
    if !result.status.is_success() || result.status == StepStatus::Skipped {
        return;
    }
    match &step.kind {
        StepKind::Agent(Agent { output_format, .. }) => match output_format {
            OutputFormat::Raw => {}
            OutputFormat::Text => result.output = without_fences(&result.output).to_owned(),
            OutputFormat::Json => {
                match serde_json::from_str::<Value>(without_fences(&result.output)) {
                    Ok(value) => ending.json = Some(value),
                    Err(error) => {
                        result.status = StepStatus::Failed;
                        result.exit_code = 1;
                        result.error = Some(format!("the answer is not JSON: {error}"));
                    }
                }
            }
        },
        StepKind::Operation(_) => ending.json = result.response.clone(),
        StepKind::Workflow(call) if !call.outputs.is_empty() => {
            let mut renamed = serde_json::Map::new();
            for (output, name) in &call.outputs {
                let value = result.data.get(output).cloned().unwrap_or(Value::Null);
                renamed.insert(name.clone(), value);
            }
            result.output = Value::Object(renamed.clone()).to_string();
            result.data = renamed;
        }
        StepKind::Workflow(_)
        | StepKind::Command(_)
        | StepKind::Parallel(_)
        | StepKind::ForEach(_)
        | StepKind::While(_)
        | StepKind::Gate
        | StepKind::Terminal(_) => {}
    }
}

/// The inside of a block of code, if the text is one.
fn without_fences(text: &str) -> &str {
    let trimmed = text.trim();
    let inner = trimmed
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'));
    inner.map_or(trimmed, |(_, inside)| inside.trim_end())
}
