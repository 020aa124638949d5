//! The run as a whole: how it begins, where it goes from step to step at the top, how it ends.

use serde_json::{Map, Value};

use crate::plan::{Hook, Step, StepKind, TerminalStatus};
use crate::problem::Code;
use crate::template;

use super::effect::{Announcement, Effect, Failure, Finish, Outcome, StopReason, Ticket};
use super::input::{StepResult, StepStatus};
use super::outcome::failure_of;
use super::state::{Ending, Stage};
use super::turn::{Job, STEPS_MAX, Turn};

/// What a run that was cancelled exits with, as shells tell an interrupt.
const EXIT_CANCELLED: i32 = 130;

impl Turn<'_> {
    pub(super) fn begin_run(&mut self) {
        self.state.started = Some(self.now);
        self.state.stage = Stage::Starting(0);
        self.jobs.push_back(Job::StartHook(0));
    }

    pub(super) fn start_hook(&mut self, hook: usize) {
        if self.state.cancelled {
            return self.end_cancelled();
        }
        self.state.stage = Stage::Starting(hook);
        match self.workflow_hook(self.plan.hooks.start.get(hook)) {
            WorkflowHook::None => {
                self.state.stage = Stage::Running;
                let first = match &self.state.beginning {
                    Some(beginning) => &beginning.step,
                    None => &self.plan.initial,
                };
                self.jobs.push_back(Job::Enter(first.clone()));
            }
            WorkflowHook::Done => self.jobs.push_back(Job::StartHook(hook + 1)),
            WorkflowHook::Started => {}
        }
    }

    fn workflow_hook(&mut self, hook: Option<&Hook>) -> WorkflowHook {
        let Some(hook) = hook.filter(|_| !self.state.is_of_one_step()) else {
            return WorkflowHook::None;
        };
        let (Hook::Log(text) | Hook::Command(text)) = hook;
        match (hook, template::render(text, &self.scope("", &[]))) {
            (_, Err(words)) => {
                self.log("", format!("a hook could not be filled in: {words}"));
                WorkflowHook::Done
            }
            (Hook::Log(_), Ok(message)) => {
                self.log("", message);
                WorkflowHook::Done
            }
            (Hook::Command(_), Ok(command)) => {
                self.start_hook_command(None, String::new(), String::new(), command);
                WorkflowHook::Started
            }
        }
    }

    pub(super) fn workflow_hook_finished(&mut self, result: &StepResult) {
        if !result.status.is_success() || result.exit_code != 0 {
            let words = result
                .error
                .clone()
                .unwrap_or_else(|| format!("exit code {}", result.exit_code));
            self.log("", format!("a hook of the workflow failed: {words}"));
        }
        match &mut self.state.stage {
            Stage::Starting(hook) => {
                let next = *hook + 1;
                self.jobs.push_back(Job::StartHook(next));
            }
            Stage::Ending(ending) => {
                ending.hook += 1;
                self.jobs.push_back(Job::EndHook);
            }
            Stage::New | Stage::Running | Stage::Done(_) => {}
        }
    }

    /// Enters a step at the top; a terminal ends the run.
    pub(super) fn enter_top(&mut self, name: &str) {
        self.remember_trail(name);
        let Some(step) = self.plan.step(name) else {
            // A checked plan has every name; a plan read back from an older journal may not.
            return self.end_run(Ending {
                outcome: Outcome::Failed,
                exit_code: Code::MissingState.exit_code(),
                message: format!("there is no step {name}"),
                failure: Some(Failure {
                    code: Code::MissingState,
                    message: format!("there is no step {name}"),
                    step: name.to_owned(),
                    exit_code: Code::MissingState.exit_code(),
                }),
                hook: 0,
            });
        };
        if let StepKind::Terminal(_) = &step.kind {
            self.end_at_terminal(step);
        } else {
            self.state.root = self.enter(name, None, name.to_owned(), None);
        }
    }

    fn end_at_terminal(&mut self, step: &Step) {
        let StepKind::Terminal(terminal) = &step.kind else {
            return;
        };
        self.announce(Announcement::StepStarted {
            step: step.name.clone(),
            path: step.name.clone(),
            kind: step.kind.word().to_owned(),
            description: step.description.clone(),
        });
        let message = terminal.message.as_ref().map(|text| {
            // The run has ended either way; a message that cannot be filled in is shown as it is written.
            template::render(text, &self.scope(&step.name, &[])).unwrap_or_else(|_| text.clone())
        });
        let (outcome, status) = match terminal.status {
            TerminalStatus::Success => (Outcome::Succeeded, StepStatus::Succeeded),
            TerminalStatus::Failure => (Outcome::Failed, StepStatus::Failed),
        };
        let message = message.unwrap_or_default();
        let failure = match terminal.status {
            TerminalStatus::Success => None,
            TerminalStatus::Failure => Some(self.state.last_failure.clone().unwrap_or(Failure {
                code: Code::CommandFailed,
                message: if message.is_empty() {
                    format!("ended at {}", step.name)
                } else {
                    message.clone()
                },
                step: step.name.clone(),
                exit_code: terminal.exit_code,
            })),
        };
        self.announce(Announcement::StepEnded {
            step: step.name.clone(),
            path: step.name.clone(),
            status,
            exit_code: terminal.exit_code,
            attempts: 1,
            duration: Some(std::time::Duration::ZERO),
            error: None,
        });
        let shown = if message.is_empty() {
            failure
                .as_ref()
                .map(|failure| failure.message.clone())
                .unwrap_or_default()
        } else {
            message
        };
        self.end_run(Ending {
            outcome,
            exit_code: terminal.exit_code,
            message: shown,
            failure,
            hook: 0,
        });
    }

    /// The step at the top has ended.
    pub(super) fn top_ended(
        &mut self,
        step: &Step,
        result: &StepResult,
        next: Result<Option<String>, String>,
    ) {
        self.state.root = None;
        if self.state.cancelled {
            return self.end_cancelled();
        }
        if let Some(failure) = self.state.abort.take() {
            return self.end_failed(failure);
        }
        let next = match self.state.is_of_one_step() {
            true => Ok(None),
            false => next,
        };
        match next {
            Ok(Some(target)) => self.jobs.push_back(Job::Enter(target)),
            Ok(None) if result.status.is_success() || step.continue_on_error => {
                self.end_run(Ending {
                    outcome: Outcome::Succeeded,
                    exit_code: 0,
                    message: String::new(),
                    failure: None,
                    hook: 0,
                })
            }
            Ok(None) => self.end_failed(failure_of(step, result)),
            Err(words) => self.end_failed(Failure {
                code: Code::InvalidExpression,
                message: format!("step {}: {words}", step.name),
                step: step.name.clone(),
                exit_code: Code::InvalidExpression.exit_code(),
            }),
        }
    }

    fn end_failed(&mut self, failure: Failure) {
        self.state.last_failure = Some(failure.clone());
        self.end_run(Ending {
            outcome: Outcome::Failed,
            exit_code: failure.code.exit_code(),
            message: failure.message.clone(),
            failure: Some(failure),
            hook: 0,
        });
    }

    pub(super) fn end_cancelled(&mut self) {
        self.end_run(Ending {
            outcome: Outcome::Cancelled,
            exit_code: EXIT_CANCELLED,
            message: "cancelled".to_owned(),
            failure: None,
            hook: 0,
        });
    }

    fn end_run(&mut self, ending: Ending) {
        self.state.stage = Stage::Ending(Box::new(ending));
        self.jobs.push_back(Job::EndHook);
    }

    pub(super) fn end_hook(&mut self) {
        let Stage::Ending(ending) = &self.state.stage else {
            return;
        };
        let hooks = match ending.outcome {
            Outcome::Succeeded => &self.plan.hooks.end,
            Outcome::Failed => &self.plan.hooks.error,
            Outcome::Cancelled => &self.plan.hooks.cancel,
        };
        match self.workflow_hook(hooks.get(ending.hook)) {
            WorkflowHook::None => self.finish_run(),
            WorkflowHook::Done => {
                if let Stage::Ending(ending) = &mut self.state.stage {
                    ending.hook += 1;
                }
                self.jobs.push_back(Job::EndHook);
            }
            WorkflowHook::Started => {}
        }
    }

    /// Says that the run is over. Whatever is still open is forgotten.
    pub(super) fn finish_run(&mut self) {
        let Stage::Ending(ending) = &self.state.stage else {
            return;
        };
        let ending = ending.as_ref().clone();
        let mut outputs = Map::new();
        if ending.outcome == Outcome::Succeeded && !self.state.is_of_one_step() {
            for (name, text) in &self.plan.outputs {
                let value = template::render(text, &self.scope("", &[]));
                let value = value.map(Value::String).unwrap_or_else(|words| {
                    self.log("", format!("output {name} could not be filled in: {words}"));
                    Value::Null
                });
                outputs.insert(name.clone(), value);
            }
        }
        let finish = Finish {
            outcome: ending.outcome,
            exit_code: ending.exit_code,
            message: ending.message,
            failure: ending.failure,
            outputs,
            doubtful: !self.state.doubtful.is_empty(),
        };
        self.state.frames.clear();
        self.state.open.clear();
        self.state.root = None;
        self.state.stage = Stage::Done(Box::new(finish.clone()));
        self.effects.push(Effect::Finish(finish));
    }

    /// Ends the run with a failure, whatever the steps in progress give.
    pub(super) fn abort(&mut self, failure: Failure) {
        if self.state.abort.is_none() {
            self.state.abort = Some(failure);
        }
        if let Some(root) = self.state.root {
            self.stop_frame(root, StopReason::NotNeeded);
        }
    }

    pub(super) fn abort_circling(&mut self, step: &str) {
        let message = format!("the run has entered {STEPS_MAX} steps and goes in circles");
        let failure = Failure {
            code: Code::StepsMax,
            message,
            step: step.to_owned(),
            exit_code: Code::StepsMax.exit_code(),
        };
        if self.state.root.is_some() {
            self.abort(failure);
        } else {
            self.end_failed(failure);
        }
    }

    pub(super) fn cancel(&mut self) {
        let is_second = std::mem::replace(&mut self.state.cancelled, true);
        match &self.state.stage {
            Stage::Done(_) => {}
            Stage::New => self.finish_cancelled(),
            Stage::Ending(_) => {
                self.stop_everything_open();
                self.finish_run();
            }
            Stage::Starting(_) | Stage::Running if is_second => self.finish_cancelled(),
            Stage::Starting(_) => {
                let hooks: Vec<Ticket> = self.state.open.keys().copied().collect();
                for ticket in hooks {
                    self.stop_ticket(ticket, StopReason::Cancelled);
                }
            }
            Stage::Running => match self.state.root {
                Some(root) => self.stop_frame(root, StopReason::Cancelled),
                None => self.end_cancelled(),
            },
        }
    }

    fn finish_cancelled(&mut self) {
        self.stop_everything_open();
        self.end_cancelled();
        // Hooks of the end would be another wait.
        self.jobs.clear();
        self.finish_run();
    }

    fn stop_everything_open(&mut self) {
        let open = std::mem::take(&mut self.state.open);
        for (ticket, open) in open {
            let is_running = matches!(open.effect, Effect::Start(_)) && !open.interrupted;
            let effect = if is_running {
                Effect::Stop {
                    ticket,
                    reason: StopReason::Cancelled,
                }
            } else {
                Effect::Withdraw { ticket }
            };
            self.effects.push(effect);
        }
    }
}

enum WorkflowHook {
    None,
    Done,
    Started,
}
