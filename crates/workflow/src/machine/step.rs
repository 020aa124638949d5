//! The life of one step: approval, hooks before, attempts, hooks after, and what it leaves behind.

use std::time::Duration;

use crate::plan::{ConversationMode, Hook, OnDeny, Step, StepKind};
use crate::problem::Code;
use crate::template;

use super::effect::{AskApproval, AskInput, Effect, Failure, Start, StopReason};
use super::input::{StepResult, StepStatus};
use super::resolve::Unresolved;
use super::state::{FrameId, Phase, StepEnding};
use super::turn::{Job, Turn};

/// Turns of one conversation, so that a script that always answers does not run for ever.
const CONVERSATION_TURNS_MAX: u32 = 1000;

impl Turn<'_> {
    pub(super) fn begin(&mut self, id: FrameId) {
        if let Some(ending) = self.stopped(id) {
            self.jobs.push_back(Job::Settle(id, Box::new(ending)));
            return;
        }
        let Some(step) = self.step_of(id) else { return };
        let Some(approval) = &step.approval else {
            self.jobs.push_back(Job::PreHook(id, 0));
            return;
        };
        let path = self.path(id);
        let loops = self.loops_of(id);
        let message = match &approval.message {
            Some(text) => template::render(text, &self.scope(&step.name, &loops))
                .unwrap_or_else(|_| text.clone()),
            None => format!("May step {} go ahead?", step.name),
        };
        let until = approval.timeout.map(|timeout| self.now + timeout);
        let ticket = self.ticket();
        let ask = AskApproval {
            ticket,
            step: step.name.clone(),
            path,
            message,
            summary: self.summary(id, step),
            destructive: approval.destructive,
            until,
        };
        self.set_phase(id, Phase::Approval { ticket, until });
        self.open(ticket, Some(id), Effect::AskApproval(ask));
    }

    pub(super) fn denied(&mut self, id: FrameId, reason: &str) {
        let Some(step) = self.step_of(id) else { return };
        self.set_phase(id, Phase::Entered);
        let on_deny = step
            .approval
            .as_ref()
            .map_or(OnDeny::Error, |approval| approval.on_deny);
        let result = match on_deny {
            OnDeny::Skip => StepResult {
                status: StepStatus::Skipped,
                ..StepResult::default()
            },
            OnDeny::Error | OnDeny::Abort => StepResult::failed(1, reason),
        };
        if on_deny == OnDeny::Abort {
            self.abort(Failure {
                code: Code::ApprovalDenied,
                message: format!("step {}: {reason}", step.name),
                step: step.name.clone(),
                exit_code: Code::ApprovalDenied.exit_code(),
            });
        }
        self.jobs
            .push_back(Job::Conclude(id, Box::new(result.into())));
    }

    pub(super) fn pre_hook(&mut self, id: FrameId, hook: usize) {
        if let Some(ending) = self.stopped(id) {
            self.jobs.push_back(Job::Settle(id, Box::new(ending)));
            return;
        }
        let Some(step) = self.step_of(id) else { return };
        match self.run_hook(id, step, step.hooks.pre.get(hook)) {
            HookRun::None => self.jobs.push_back(Job::Act(id)),
            HookRun::Done => self.jobs.push_back(Job::PreHook(id, hook + 1)),
            HookRun::Started(ticket) => self.set_phase(id, Phase::PreHook { ticket, hook }),
        }
    }

    pub(super) fn post_hook(&mut self, id: FrameId, hook: usize, ending: StepEnding) {
        let Some(step) = self.step_of(id) else { return };
        let is_stopped = self
            .stopped(id)
            .is_some_and(|ending| ending.result.status == StepStatus::Cancelled);
        let next = if is_stopped {
            None
        } else {
            step.hooks.post.get(hook)
        };
        let ending = Box::new(ending);
        match self.run_hook(id, step, next) {
            HookRun::None => self.jobs.push_back(Job::End(id, ending)),
            HookRun::Done => self.jobs.push_back(Job::PostHook(id, hook + 1, ending)),
            HookRun::Started(ticket) => {
                self.set_phase(
                    id,
                    Phase::PostHook {
                        ticket,
                        hook,
                        ending,
                    },
                );
            }
        }
    }

    fn run_hook(&mut self, id: FrameId, step: &Step, hook: Option<&Hook>) -> HookRun {
        let Some(hook) = hook else {
            return HookRun::None;
        };
        let (Hook::Log(text) | Hook::Command(text)) = hook;
        let path = self.path(id);
        let loops = self.loops_of(id);
        let rendered = template::render(text, &self.scope(&step.name, &loops));
        match (hook, rendered) {
            (_, Err(error)) => {
                self.log(&path, format!("a hook could not be filled in: {error}"));
                HookRun::Done
            }
            (Hook::Log(_), Ok(message)) => {
                self.log(&path, message);
                HookRun::Done
            }
            (Hook::Command(_), Ok(command)) => HookRun::Started(self.start_hook_command(
                Some(id),
                path,
                step.name.clone(),
                command,
            )),
        }
    }

    pub(super) fn act(&mut self, id: FrameId) {
        if let Some(ending) = self.stopped(id) {
            self.jobs.push_back(Job::Settle(id, Box::new(ending)));
            return;
        }
        let Some(step) = self.step_of(id) else { return };
        self.set_deadline(id, step.timeout);
        match &step.kind {
            StepKind::Command(_) | StepKind::Operation(_) | StepKind::Workflow(_) => {
                self.start_attempt(id, step, None, 0);
            }
            StepKind::Agent(agent) => {
                if agent.prompt.is_none() && agent.mode == ConversationMode::Conversation {
                    self.ask_user(id, step, 0, StepResult::default());
                } else {
                    self.start_attempt(id, step, None, 0);
                }
            }
            StepKind::Parallel(parallel) => self.begin_branches(id, parallel),
            StepKind::ForEach(each) => self.begin_for_each(id, step, each),
            StepKind::While(repeat) => self.begin_while(id, step, repeat),
            StepKind::Gate | StepKind::Terminal(_) => {
                let ending = StepEnding::from(StepResult::default());
                self.jobs.push_back(Job::Settle(id, Box::new(ending)));
            }
        }
    }

    /// Fills the action in and starts it; `said` are the user's words in a conversation.
    fn start_attempt(
        &mut self,
        id: FrameId,
        step: &Step,
        said: Option<(&str, Option<String>)>,
        turns: u32,
    ) {
        let loops = self.loops_of(id);
        let resolved = {
            let scope = self.scope(&step.name, &loops);
            self.action(step, &scope, said)
        };
        let action = match resolved {
            Ok(action) => action,
            Err(Unresolved { code, message }) => {
                let result = StepResult::failed(code.exit_code(), message);
                self.jobs
                    .push_back(Job::Conclude(id, Box::new(result.into())));
                return;
            }
        };
        let Some(frame) = self.state.frames.get(&id) else {
            return;
        };
        let (path, attempt) = (frame.path.clone(), frame.attempt);
        let ticket = self.ticket();
        let start = Start {
            ticket,
            step: step.name.clone(),
            path,
            attempt,
            timeout: step.timeout,
            resumed: false,
            action,
        };
        self.set_deadline(id, step.timeout);
        self.set_phase(
            id,
            Phase::Running {
                ticket,
                turns,
                session: None,
            },
        );
        if self.is_doubtful(&start.path) {
            return self.ask_before(id, start);
        }
        self.open(ticket, Some(id), Effect::Start(start));
    }

    /// What was started for an attempt has ended.
    pub(super) fn attempt_finished(&mut self, id: FrameId, turns: u32, mut result: StepResult) {
        let Some(step) = self.step_of(id) else { return };
        // A program that says it succeeded and exits with a number has not.
        if result.status == StepStatus::Succeeded && result.exit_code != 0 {
            result.status = StepStatus::Failed;
        }
        if result.status != StepStatus::Succeeded
            && result.status != StepStatus::Skipped
            && result.exit_code == 0
        {
            result.exit_code = 1;
        }
        let is_conversing = matches!(&step.kind, StepKind::Agent(agent) if agent.mode == ConversationMode::Conversation);
        if is_conversing
            && result.status.is_success()
            && self.stopped(id).is_none()
            && turns < CONVERSATION_TURNS_MAX
        {
            self.ask_user(id, step, turns, result);
            return;
        }
        self.jobs
            .push_back(Job::Settle(id, Box::new(result.into())));
    }

    fn ask_user(&mut self, id: FrameId, step: &Step, turns: u32, last: StepResult) {
        let ticket = self.ticket();
        let ask = AskInput {
            ticket,
            step: step.name.clone(),
            path: self.path(id),
            text: last.output.clone(),
            turns,
        };
        // People may take their time.
        self.set_deadline(id, None);
        let last = Box::new(last);
        self.set_phase(
            id,
            Phase::Conversing {
                ticket,
                turns,
                last,
            },
        );
        self.open(ticket, Some(id), Effect::AskInput(ask));
    }

    pub(super) fn user_said(&mut self, id: FrameId, text: &str) {
        let Some(step) = self.step_of(id) else { return };
        let Some(frame) = self.state.frames.get_mut(&id) else {
            return;
        };
        let Phase::Conversing { turns, last, .. } =
            std::mem::replace(&mut frame.phase, Phase::Entered)
        else {
            return;
        };
        let is_over = matches!(text.trim().to_lowercase().as_str(), "" | "exit" | "quit");
        if is_over {
            self.jobs
                .push_back(Job::Settle(id, Box::new(StepEnding::from(*last))));
        } else {
            self.start_attempt(id, step, Some((text, last.session)), turns);
        }
    }

    /// The result of a frame that is to stop, if it is.
    pub(super) fn stopped(&self, id: FrameId) -> Option<StepEnding> {
        let reason = self.state.frames.get(&id)?.stop?;
        let (status, words) = match reason {
            StopReason::TimedOut => (StepStatus::TimedOut, "timed out"),
            StopReason::Cancelled => (StepStatus::Cancelled, "cancelled"),
            StopReason::NotNeeded => (StepStatus::Cancelled, "no longer needed"),
        };
        let mut result = StepResult::failed(1, words);
        result.status = status;
        Some(result.into())
    }

    pub(super) fn set_phase(&mut self, id: FrameId, phase: Phase) {
        if let Some(frame) = self.state.frames.get_mut(&id) {
            frame.phase = phase;
        }
    }

    pub(super) fn set_deadline(&mut self, id: FrameId, timeout: Option<Duration>) {
        let deadline = timeout
            .filter(|timeout| !timeout.is_zero())
            .map(|timeout| self.now + timeout);
        if let Some(frame) = self.state.frames.get_mut(&id) {
            frame.deadline = deadline;
        }
    }

    fn summary(&self, id: FrameId, step: &Step) -> String {
        // A dialog shows a few lines.
        const SUMMARY_MAX: usize = 2000;
        let loops = self.loops_of(id);
        let scope = self.scope(&step.name, &loops);
        let text = match &step.kind {
            StepKind::Parallel(_) | StepKind::ForEach(_) | StepKind::While(_) => {
                step.kind.inner().join(", ")
            }
            StepKind::Gate | StepKind::Terminal(_) => step.description.clone(),
            StepKind::Command(_)
            | StepKind::Agent(_)
            | StepKind::Operation(_)
            | StepKind::Workflow(_) => self
                .action(step, &scope, None)
                .map(|action| super::resolve::in_words(&action))
                .unwrap_or_default(),
        };
        text.chars().take(SUMMARY_MAX).collect()
    }
}

enum HookRun {
    None,
    Done,
    Started(super::Ticket),
}
