//! The shape of a plan: every name leads somewhere, every step can be reached, every run can end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::document::Place;
use crate::load::Places;
use crate::plan::{Plan, SessionTracking, Step, StepKind};
use crate::problem::{Code, Severity, nearest, quoted};
use crate::reader::Findings;

pub(super) fn check(plan: &Plan, places: &Places, findings: &Findings) {
    let shape = Shape {
        plan,
        places,
        findings,
        steps: plan
            .steps
            .iter()
            .map(|step| (step.name.as_str(), step))
            .collect(),
        inside: inner_of(plan),
    };
    shape.initial();
    shape.targets();
    shape.inner_steps();
    shape.containment();
    shape.sessions();
    // With a step that could not be read, ways are missing and what follows from them would mislead.
    if places
        .steps
        .iter()
        .all(|(name, _)| shape.steps.contains_key(name.as_str()))
    {
        shape.terminals();
        shape.endings();
        shape.reachable();
    }
}

/// For every step that runs inside others, which ones, and whether as a branch.
pub(super) fn inner_of(plan: &Plan) -> BTreeMap<&str, Vec<&Step>> {
    let mut inside: BTreeMap<&str, Vec<&Step>> = BTreeMap::new();
    for step in &plan.steps {
        for name in step.kind.inner() {
            inside.entry(name.as_str()).or_default().push(step);
        }
    }
    inside
}

/// Where the run may go from a step, with what decides it.
pub(crate) fn successors(step: &Step) -> Vec<(&str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    for transition in &step.transitions {
        let label = transition.when.clone().unwrap_or_default();
        found.push((&transition.goto, label));
    }
    // The last word of the transitions makes the others unreachable.
    if !step
        .transitions
        .iter()
        .any(|transition| transition.when.is_none())
    {
        found.extend(
            step.on_success
                .iter()
                .map(|name| (name.as_str(), "success".to_owned())),
        );
        found.extend(
            step.on_failure
                .iter()
                .map(|name| (name.as_str(), "failure".to_owned())),
        );
    }
    found
}

struct Shape<'a> {
    plan: &'a Plan,
    places: &'a Places,
    findings: &'a Findings,
    steps: BTreeMap<&'a str, &'a Step>,
    inside: BTreeMap<&'a str, Vec<&'a Step>>,
}

impl<'a> Shape<'a> {
    fn missing(&self, place: Place, name: &str, what: &str) {
        let known = self.plan.written_steps().map(|step| step.name.as_str());
        let hint = nearest(name, known).map(|known| format!("did you mean {known}?"));
        let message = format!(
            "{what} names the step {}, which does not exist",
            quoted(name)
        );
        self.findings
            .add(place, Code::MissingState, Severity::Error, message, hint);
    }

    fn initial(&self) {
        let initial = self.plan.initial.as_str();
        if !initial.is_empty() && !self.is_written(initial) {
            self.missing(self.places.initial, initial, "initial");
        }
    }

    /// Steps that could not be read are there all the same.
    fn is_written(&self, name: &str) -> bool {
        self.steps.contains_key(name) || self.places.steps.iter().any(|(step, _)| step == name)
    }

    fn terminals(&self) {
        let has_terminal = self
            .plan
            .steps
            .iter()
            .any(|step| matches!(step.kind, StepKind::Terminal(_)));
        if !has_terminal {
            let message = "there is no terminal step, so a run could not say how it ended";
            self.findings
                .error(self.places.initial, Code::MissingState, message);
        }
    }

    /// Steps of a loop's body may name what does not exist: other tools pass over it, and so does the machine.
    fn targets(&self) {
        for (step, key, place) in &self.places.targets {
            let Some(found) = self.steps.get(step.as_str()) else {
                continue;
            };
            let is_in_loop = self.inside.get(step.as_str()).is_some_and(|groups| {
                groups
                    .iter()
                    .any(|group| !matches!(group.kind, StepKind::Parallel(_)))
            });
            let (what, names): (&str, Vec<&str>) = match key.split_once(':') {
                Some((key, name)) => (key, vec![name]),
                None => match key.as_str() {
                    "on_failure" => (
                        "on_failure",
                        found.on_failure.as_deref().into_iter().collect(),
                    ),
                    key => (key, found.on_success.as_deref().into_iter().collect()),
                },
            };
            for name in names {
                if self.is_written(name) {
                    continue;
                }
                let is_passed_over = is_in_loop && what != "parallel" && what != "body";
                if is_passed_over {
                    let message = format!(
                        "{what} names the step {}, which does not exist; the loop goes on",
                        quoted(name)
                    );
                    self.findings.warning(*place, Code::MissingState, message);
                } else {
                    self.missing(*place, name, what);
                }
            }
        }
    }

    fn inner_steps(&self) {
        for (name, groups) in &self.inside {
            let Some(step) = self.steps.get(name) else {
                continue;
            };
            let group = groups.first().map_or("", |group| group.name.as_str());
            let place = self.places.step(name);
            if matches!(step.kind, StepKind::Terminal(_)) {
                let message = format!(
                    "the terminal step {} cannot run inside {}",
                    quoted(name),
                    quoted(group)
                );
                self.findings.error(place, Code::InvalidTransition, message);
            }
            let is_branch_only = groups
                .iter()
                .all(|group| matches!(group.kind, StepKind::Parallel(_)));
            if is_branch_only && !step.transitions.is_empty() {
                let message = format!(
                    "transitions of {} have no effect: it is a branch of {}",
                    quoted(name),
                    quoted(group)
                );
                self.findings
                    .warning(place, Code::InvalidTransition, message);
            }
        }
    }

    /// A group that contains itself would never end.
    fn containment(&self) {
        for step in &self.plan.steps {
            let mut seen = BTreeSet::new();
            let mut queue: Vec<&str> = step.kind.inner().iter().map(String::as_str).collect();
            while let Some(name) = queue.pop() {
                if name == step.name {
                    let message = format!("step {} contains itself", quoted(&step.name));
                    self.findings
                        .error(self.places.step(&step.name), Code::CycleDetected, message);
                    break;
                }
                if seen.insert(name)
                    && let Some(inner) = self.steps.get(name)
                {
                    queue.extend(inner.kind.inner().iter().map(String::as_str));
                }
            }
        }
    }

    /// Steps that say nothing about what comes next, and steps from which no end can be reached.
    fn endings(&self) {
        let mut ends: BTreeSet<&str> = BTreeSet::new();
        let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for step in &self.plan.steps {
            let next = successors(step);
            let is_inside = self.inside.contains_key(step.name.as_str());
            let is_terminal = matches!(step.kind, StepKind::Terminal(_));
            if next.is_empty() && !is_terminal && !is_inside {
                let message = format!(
                    "step {} says nothing about what comes next",
                    quoted(&step.name)
                );
                let hint = Some("add on_success, on_failure or transitions".to_owned());
                self.findings.add(
                    self.places.step(&step.name),
                    Code::InvalidTransition,
                    Severity::Error,
                    message,
                    hint,
                );
            }
            let may_fall_through = !step
                .transitions
                .iter()
                .any(|transition| transition.when.is_none())
                && (step.on_success.is_none()
                    || step.on_failure.is_none() && !step.continue_on_error);
            if is_terminal || may_fall_through {
                ends.insert(&step.name);
            }
            for (target, _) in next {
                before.entry(target).or_default().push(&step.name);
            }
        }
        let mut queue: VecDeque<&str> = ends.iter().copied().collect();
        while let Some(name) = queue.pop_front() {
            for earlier in before.get(name).into_iter().flatten() {
                if ends.insert(earlier) {
                    queue.push_back(earlier);
                }
            }
        }
        for step in &self.plan.steps {
            let name = step.name.as_str();
            if !ends.contains(name) && !self.inside.contains_key(name) {
                let message = format!(
                    "a run that comes to {} goes in circles for ever",
                    quoted(name)
                );
                self.findings
                    .error(self.places.step(name), Code::CycleDetected, message);
            }
        }
    }

    fn sessions(&self) {
        for step in &self.plan.steps {
            let StepKind::Agent(agent) = &step.kind else {
                continue;
            };
            let SessionTracking::ContinueFrom(from) = &agent.tracking else {
                continue;
            };
            let place = self.places.step(&step.name);
            match self.steps.get(from.as_str()).map(|step| &step.kind) {
                None if self.is_written(from) => {}
                None => self.missing(place, from, "continue_from"),
                Some(StepKind::Agent(other)) => {
                    if other.tracking == SessionTracking::None
                        && other.mode == crate::plan::ConversationMode::Single
                    {
                        let message = format!("step {} keeps no session", quoted(from));
                        let hint = Some(format!("add conversation: {{}} to {from}"));
                        self.findings.add(
                            place,
                            Code::InvalidReference,
                            Severity::Error,
                            message,
                            hint,
                        );
                    } else if other.provider != agent.provider {
                        let message =
                            format!("continue_from: {} has another provider", quoted(from));
                        self.findings.error(place, Code::InvalidReference, message);
                    }
                }
                Some(_) => {
                    let message = format!("continue_from: {} is not an agent step", quoted(from));
                    self.findings.error(place, Code::InvalidReference, message);
                }
            }
        }
    }

    fn reachable(&self) {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut queue = vec![self.plan.initial.as_str()];
        while let Some(name) = queue.pop() {
            let Some(step) = self.steps.get(name) else {
                continue;
            };
            if !seen.insert(&step.name) {
                continue;
            }
            queue.extend(successors(step).into_iter().map(|(target, _)| target));
            queue.extend(step.kind.inner().iter().map(String::as_str));
        }
        if seen.is_empty() {
            return;
        }
        for step in self
            .plan
            .written_steps()
            .filter(|step| !seen.contains(step.name.as_str()))
        {
            let message = format!("step {} is never reached", quoted(&step.name));
            self.findings
                .warning(self.places.step(&step.name), Code::Unreachable, message);
        }
    }
}
