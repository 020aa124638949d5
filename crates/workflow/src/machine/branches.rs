//! Branches: steps side by side, and when enough of them have ended.

use serde_json::{Map, Value};

use crate::plan::{Parallel, Step, StepKind, Strategy};

use super::effect::StopReason;
use super::input::{StepResult, StepStatus};
use super::state::{Branches, FrameId, Phase};
use super::turn::{Job, Turn};

impl Turn<'_> {
    pub(super) fn begin_branches(&mut self, id: FrameId, parallel: &Parallel) {
        let branches = Branches {
            pending: parallel.branches.iter().cloned().collect(),
            ..Branches::default()
        };
        self.set_phase(id, Phase::Branches(branches));
        self.jobs.push_back(Job::Fill(id));
    }

    /// Starts branches up to the limit, or settles the step when none is left.
    pub(super) fn fill_branches(&mut self, id: FrameId) {
        let Some(step) = self.step_of(id) else { return };
        let StepKind::Parallel(parallel) = &step.kind else {
            return;
        };
        let most = parallel
            .max_concurrent
            .map_or(usize::MAX, |most| most as usize);
        loop {
            let Some(frame) = self.state.frames.get_mut(&id) else {
                return;
            };
            let path = frame.path.clone();
            let Phase::Branches(branches) = &mut frame.phase else {
                return;
            };
            if branches.running.len() >= most {
                return;
            }
            let Some(branch) = branches.pending.pop_front() else {
                break;
            };
            let child = self.enter(&branch, Some(id), format!("{path}/{branch}"), None);
            let Some(child) = child else { return };
            if let Some(branches) = self.branches(id) {
                branches.running.insert(child);
            }
        }
        let Some(branches) = self.branches(id) else {
            return;
        };
        if branches.running.is_empty() {
            let mut result = joined(parallel, branches);
            if parallel.strategy == Strategy::AnySucceed {
                let winner = branches
                    .ended
                    .iter()
                    .find(|(_, status)| status.is_success());
                let winner = winner.map(|(name, _)| name.clone());
                let record = winner.and_then(|name| self.state.records.get(&name));
                result.output = record
                    .map(|record| record.output.clone())
                    .unwrap_or_default();
            }
            self.set_phase(id, Phase::Entered);
            let ending = match self.stopped(id) {
                Some(stopped) if !result.status.is_success() => stopped,
                Some(_) | None => result.into(),
            };
            self.jobs.push_back(Job::Settle(id, Box::new(ending)));
        }
    }

    fn branches(&mut self, id: FrameId) -> Option<&mut Branches> {
        let Phase::Branches(branches) = &mut self.state.frames.get_mut(&id)?.phase else {
            return None;
        };
        Some(branches)
    }

    pub(super) fn branch_ended(
        &mut self,
        id: FrameId,
        child: FrameId,
        parallel: &Parallel,
        step: &Step,
        result: &StepResult,
    ) {
        let Some(branches) = self.branches(id) else {
            return;
        };
        branches.running.remove(&child);
        // A branch that may fail counts as done.
        let status = match result.status {
            StepStatus::Failed | StepStatus::TimedOut if step.continue_on_error => {
                StepStatus::Succeeded
            }
            status => status,
        };
        branches.ended.push((step.name.clone(), status));
        if !status.is_success() && branches.first_error.is_none() {
            let words = result
                .error
                .clone()
                .unwrap_or_else(|| format!("exit code {}", result.exit_code));
            branches.first_error = Some(format!("branch {} failed: {words}", step.name));
        }
        let is_decided = match parallel.strategy {
            Strategy::AllSucceed => !status.is_success(),
            Strategy::AnySucceed => status.is_success(),
            Strategy::BestEffort => false,
        };
        if is_decided {
            branches.pending.clear();
            let others: Vec<FrameId> = branches.running.iter().copied().collect();
            for other in others {
                self.stop_frame(other, StopReason::NotNeeded);
            }
        }
        self.jobs.push_back(Job::Fill(id));
    }
}

fn joined(parallel: &Parallel, branches: &Branches) -> StepResult {
    let succeeded = branches
        .ended
        .iter()
        .filter(|(_, status)| status.is_success())
        .count();
    let is_fine = match parallel.strategy {
        Strategy::AllSucceed => succeeded == parallel.branches.len(),
        Strategy::AnySucceed => succeeded > 0,
        Strategy::BestEffort => true,
    };
    let statuses = branches.ended.iter();
    let data: Map<String, Value> = statuses
        .map(|(name, status)| (name.clone(), Value::String(status.word().to_owned())))
        .collect();
    let mut result = if is_fine {
        StepResult::default()
    } else {
        let fallback = || "not every branch was run".to_owned();
        StepResult::failed(1, branches.first_error.clone().unwrap_or_else(fallback))
    };
    result.data = data;
    result
}
