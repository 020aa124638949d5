//! Loops: items or a condition, a body that may jump, a limit.

use serde_json::{Map, Value};

use crate::expression;
use crate::plan::{ForEach, Items, Limit, Step, StepKind, WhileLoop};
use crate::scope::{LoopView, Scope};
use crate::template;

use super::input::StepResult;
use super::resolve::filled;
use super::state::{FrameId, Phase, Round, Rounds, StepEnding};
use super::turn::{Job, Turn};

impl Turn<'_> {
    /// A step inside a group has ended.
    pub(super) fn child_ended(
        &mut self,
        parent: FrameId,
        child: FrameId,
        step: &Step,
        result: &StepResult,
        next: Result<Option<String>, String>,
    ) {
        let Some(group) = self.step_of(parent) else {
            return;
        };
        match &group.kind {
            StepKind::Parallel(parallel) => {
                self.branch_ended(parent, child, parallel, step, result)
            }
            StepKind::ForEach(_) | StepKind::While(_) => {
                self.body_step_ended(parent, group, step, result, next);
            }
            StepKind::Command(_)
            | StepKind::Agent(_)
            | StepKind::Operation(_)
            | StepKind::Workflow(_)
            | StepKind::Gate
            | StepKind::Terminal(_) => {}
        }
    }

    pub(super) fn begin_for_each(&mut self, id: FrameId, step: &Step, each: &ForEach) {
        let loops = self.loops_of(id);
        let scope = self.scope(&step.name, &loops);
        let prepared = items_of(&each.items, &scope).and_then(|items| {
            let limit = limit_of(&each.limit, &scope)?;
            Ok((items, limit))
        });
        match prepared {
            Ok((mut items, limit)) => {
                let path = self.state.frames.get(&id).map(|frame| frame.path.clone());
                if let Some(path) = path.filter(|_| items.len() > limit as usize) {
                    let words = format!(
                        "of {} items the first {limit} are taken; max_iterations allows more",
                        items.len()
                    );
                    self.log(&path, words);
                }
                items.truncate(limit as usize);
                self.begin_rounds(id, Some(items), limit);
            }
            Err(words) => self.fail_loop(id, words),
        }
    }

    pub(super) fn begin_while(&mut self, id: FrameId, step: &Step, repeat: &WhileLoop) {
        let loops = self.loops_of(id);
        match limit_of(&repeat.limit, &self.scope(&step.name, &loops)) {
            Ok(limit) => self.begin_rounds(id, None, limit),
            Err(words) => self.fail_loop(id, words),
        }
    }

    fn begin_rounds(&mut self, id: FrameId, items: Option<Vec<Value>>, limit: u32) {
        let rounds = Rounds {
            items,
            limit,
            index: 0,
            position: 0,
            child: None,
        };
        self.set_phase(id, Phase::Rounds(rounds));
        self.jobs.push_back(Job::Round(id));
    }

    /// Templates and conditions give the same again, so there is nothing to retry.
    fn fail_loop(&mut self, id: FrameId, words: String) {
        let ending = StepEnding::from(StepResult::failed(1, words));
        self.jobs.push_back(Job::Conclude(id, Box::new(ending)));
    }

    /// Goes to the next step of the body, the next round, or the end of the loop.
    pub(super) fn next_round(&mut self, id: FrameId) {
        let Some(step) = self.step_of(id) else { return };
        let body = step.kind.inner();
        let Some(frame) = self.state.frames.get(&id) else {
            return;
        };
        let Phase::Rounds(rounds) = &frame.phase else {
            return;
        };
        let (path, mut index, mut position) = (frame.path.clone(), rounds.index, rounds.position);
        let length = rounds
            .items
            .as_ref()
            .map(|items| u32::try_from(items.len()).unwrap_or(u32::MAX));
        let limit = length.unwrap_or(rounds.limit);
        if position >= body.len() {
            match self.breaks(id, step) {
                Ok(true) => return self.end_loop(id, index + 1, None),
                Ok(false) => {}
                Err(words) => {
                    self.log(&path, format!("break_when could not be evaluated: {words}"))
                }
            }
            index += 1;
            position = 0;
        }
        if index >= limit {
            if length.is_none() {
                self.log(
                    &path,
                    format!("the loop ended after its limit of {limit} rounds"),
                );
            }
            return self.end_loop(id, index, None);
        }
        self.set_rounds(id, index, position, None);
        if let (StepKind::While(repeat), 0) = (&step.kind, position) {
            let loops = self.loops_inside(id);
            match expression::holds(&repeat.condition, &self.scope(&step.name, &loops)) {
                Ok(true) => {}
                Ok(false) => return self.end_loop(id, index, None),
                Err(words) => return self.fail_loop(id, words),
            }
        }
        let Some(name) = body.get(position) else {
            return self.end_loop(id, index, None);
        };
        let round = self.loops_inside(id).into_iter().next().map(|view| Round {
            item: view.item,
            index: view.index,
            length: view.length,
        });
        let child = self.enter(name, Some(id), format!("{path}[{index}]/{name}"), round);
        self.set_rounds(id, index, position, child);
    }

    fn set_rounds(&mut self, id: FrameId, index: u32, position: usize, child: Option<FrameId>) {
        if let Some(frame) = self.state.frames.get_mut(&id)
            && let Phase::Rounds(rounds) = &mut frame.phase
        {
            rounds.index = index;
            rounds.position = position;
            rounds.child = child;
        }
    }

    /// Loops as a step of the body sees them.
    fn loops_inside(&self, id: FrameId) -> Vec<LoopView> {
        let mut views = Vec::new();
        if let Some(frame) = self.state.frames.get(&id)
            && let Phase::Rounds(rounds) = &frame.phase
        {
            let item = rounds
                .items
                .as_ref()
                .and_then(|items| items.get(rounds.index as usize));
            let length = rounds
                .items
                .as_ref()
                .map(|items| u32::try_from(items.len()).unwrap_or(u32::MAX));
            views.push(LoopView {
                item: item.cloned().unwrap_or(Value::Null),
                index: rounds.index,
                length,
            });
        }
        views.extend(self.loops_of(id));
        views
    }

    fn breaks(&self, id: FrameId, step: &Step) -> Result<bool, String> {
        let condition = match &step.kind {
            StepKind::ForEach(each) => each.break_when.as_deref(),
            StepKind::While(repeat) => repeat.break_when.as_deref(),
            StepKind::Command(_)
            | StepKind::Agent(_)
            | StepKind::Parallel(_)
            | StepKind::Operation(_)
            | StepKind::Workflow(_)
            | StepKind::Gate
            | StepKind::Terminal(_) => None,
        };
        let Some(condition) = condition else {
            return Ok(false);
        };
        let loops = self.loops_inside(id);
        expression::holds(condition, &self.scope(&step.name, &loops))
    }

    fn body_step_ended(
        &mut self,
        id: FrameId,
        group: &Step,
        step: &Step,
        result: &StepResult,
        next: Result<Option<String>, String>,
    ) {
        let Some(frame) = self.state.frames.get_mut(&id) else {
            return;
        };
        let Phase::Rounds(rounds) = &mut frame.phase else {
            return;
        };
        rounds.child = None;
        let (index, position) = (rounds.index, rounds.position);
        if let Some(stopped) = self.stopped(id) {
            self.set_phase(id, Phase::Entered);
            self.jobs.push_back(Job::Settle(id, Box::new(stopped)));
            return;
        }
        let is_fine = result.status.is_success() || step.continue_on_error;
        let body = group.kind.inner();
        let target = match next {
            Ok(target) => target,
            Err(words) => return self.fail_loop(id, format!("step {}: {words}", step.name)),
        };
        let following = match target {
            None if is_fine => position + 1,
            None => {
                let words = result
                    .error
                    .clone()
                    .unwrap_or_else(|| format!("exit code {}", result.exit_code));
                let ending = StepResult::failed(
                    result.exit_code.max(1),
                    format!("round {index}, step {}: {words}", step.name),
                );
                self.set_phase(id, Phase::Entered);
                self.jobs
                    .push_back(Job::Settle(id, Box::new(ending.into())));
                return;
            }
            Some(target) => {
                if let Some(there) = body.iter().position(|name| *name == target) {
                    there
                } else if target == group.name || self.plan.step(&target).is_none() {
                    // Files name the loop itself to say "and round again"; names nobody has are passed over.
                    position + 1
                } else {
                    return self.end_loop(id, index + 1, Some(target));
                }
            }
        };
        self.set_rounds(id, index, following, None);
        self.jobs.push_back(Job::Round(id));
    }

    fn end_loop(&mut self, id: FrameId, rounds: u32, leave: Option<String>) {
        self.set_phase(id, Phase::Entered);
        let mut data = Map::new();
        data.insert("Rounds".to_owned(), Value::from(rounds));
        let result = StepResult {
            data,
            ..StepResult::default()
        };
        let ending = StepEnding {
            result,
            json: None,
            leave,
        };
        self.jobs.push_back(Job::Settle(id, Box::new(ending)));
    }
}

/// The items of a loop: a list, or a text that gives a JSON list or words between commas.
fn items_of(items: &Items, scope: &Scope<'_>) -> Result<Vec<Value>, String> {
    match items {
        Items::List(items) => items.iter().map(|item| filled(item, scope)).collect(),
        Items::Text(text) => {
            let rendered = template::render(text, scope)?;
            if let Ok(Value::Array(items)) = serde_json::from_str(&rendered) {
                return Ok(items);
            }
            if rendered.trim().is_empty() {
                return Ok(Vec::new());
            }
            let words = rendered.split(',');
            Ok(words
                .map(|word| Value::String(word.trim().to_owned()))
                .collect())
        }
    }
}

fn limit_of(limit: &Limit, scope: &Scope<'_>) -> Result<u32, String> {
    let rounds = match limit {
        Limit::Rounds(rounds) => i64::from(*rounds),
        Limit::Text(text) => {
            let rendered = template::render(text, scope)?;
            let rendered = rendered.trim();
            rendered
                .parse()
                .or_else(|_| expression::whole_number(rendered))
                .map_err(|words| format!("max_iterations: {words}"))?
        }
    };
    let most = crate::plan::ROUNDS_MAX;
    match u32::try_from(rounds) {
        Ok(rounds) if (1..=most).contains(&rounds) => Ok(rounds),
        Ok(_) | Err(_) => Err(format!(
            "max_iterations must be from 1 to {most}, but is {rounds}"
        )),
    }
}
