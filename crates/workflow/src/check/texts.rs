//! Templates and conditions: they can be read, and what they refer to exists.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::Place;
use crate::expression;
use crate::load::{ConditionUse, Places, Purpose, TextUse};
use crate::plan::{InputKind, Items, Plan, Step, StepKind};
use crate::problem::{Code, Severity, nearest, quoted};
use crate::reader::Findings;
use crate::scope::STATE_PROPERTIES;
use crate::template::{self, NAMESPACES, Reference};

use super::graph::{inner_of, successors};

const WORKFLOW_PROPERTIES: [&str; 9] = [
    "id",
    "name",
    "duration",
    "current_state",
    "parent_run_id",
    "ID",
    "Name",
    "Duration",
    "CurrentState",
];
const LOOP_PROPERTIES: [&str; 14] = [
    "Item", "Index", "Index1", "First", "Last", "Length", "Parent", "item", "index", "index1",
    "first", "last", "length", "parent",
];
const ERROR_PROPERTIES: [&str; 8] = [
    "type",
    "message",
    "exit_code",
    "state",
    "Type",
    "Message",
    "ExitCode",
    "State",
];
const CONTEXT_PROPERTIES: [&str; 6] = [
    "working_dir",
    "user",
    "hostname",
    "WorkingDir",
    "User",
    "Hostname",
];
const DIRECTORIES: [&str; 7] = [
    "config_dir",
    "data_dir",
    "prompts_dir",
    "scripts_dir",
    "skills_dir",
    "workflows_dir",
    "plugins_dir",
];

/// Properties whose text somebody else has written.
const UNTRUSTED: [&str; 6] = ["Output", "Stderr", "Response", "JSON", "Data", "Error"];

pub(super) fn check(
    plan: &Plan,
    places: &Places,
    uses: &[TextUse],
    conditions: &[ConditionUse],
    findings: &Findings,
) {
    let checker = Checker {
        plan,
        places,
        findings,
        steps: plan
            .steps
            .iter()
            .map(|step| (step.name.as_str(), step))
            .collect(),
        before: steps_before(plan),
    };
    for text in uses {
        checker.text(text);
    }
    for condition in conditions {
        checker.condition(condition);
    }
}

/// For every step, the steps that may have ended when it starts.
fn steps_before(plan: &Plan) -> Option<BTreeMap<&str, BTreeSet<&str>>> {
    // Forward reachability from every step; a plan has dozens of steps, and the bound below keeps hostile ones cheap.
    const STEPS_ANALYSED_MAX: usize = 500;
    if plan.steps.len() > STEPS_ANALYSED_MAX {
        return None;
    }
    let steps: BTreeMap<&str, &Step> = plan
        .steps
        .iter()
        .map(|step| (step.name.as_str(), step))
        .collect();
    let inside = inner_of(plan);
    let mut after: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for step in &plan.steps {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut queue: Vec<&str> = following(step, &inside);
        while let Some(name) = queue.pop() {
            let Some(next) = steps.get(name) else {
                continue;
            };
            if seen.insert(&next.name) {
                queue.extend(following(next, &inside));
                queue.extend(next.kind.inner().iter().map(String::as_str));
            }
        }
        for name in seen {
            after.entry(name).or_default().insert(&step.name);
        }
    }
    Some(after)
}

/// What may run after a step has ended: its successors; for a step inside a group, its fellows and what follows the group.
fn following<'a>(step: &'a Step, inside: &BTreeMap<&'a str, Vec<&'a Step>>) -> Vec<&'a str> {
    let mut next: Vec<&str> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut queue = vec![step];
    while let Some(step) = queue.pop() {
        if !seen.insert(&step.name) {
            continue;
        }
        next.extend(successors(step).into_iter().map(|(name, _)| name));
        for group in inside.get(step.name.as_str()).into_iter().flatten() {
            // Branches run side by side: what another one gives may not be there.
            if !matches!(group.kind, StepKind::Parallel(_)) {
                next.extend(group.kind.inner().iter().map(String::as_str));
            }
            queue.push(group);
        }
    }
    next
}

struct Checker<'a> {
    plan: &'a Plan,
    places: &'a Places,
    findings: &'a Findings,
    steps: BTreeMap<&'a str, &'a Step>,
    /// None if the plan is too large to tell.
    before: Option<BTreeMap<&'a str, BTreeSet<&'a str>>>,
}

impl Checker<'_> {
    fn text(&self, text: &TextUse) {
        let parsed = match template::parse(&text.text) {
            Ok(parsed) => parsed,
            Err(error) => {
                let place = within(text.place, &text.text, error.line);
                let message = format!("the template cannot be read: {}", error.message);
                self.findings.error(place, Code::InvalidTemplate, message);
                return;
            }
        };
        for name in parsed.unknown_functions() {
            let known = [
                "escape",
                "shell_quote",
                "json",
                "split",
                "join",
                "readFile",
                "trimSpace",
            ];
            let known = known.into_iter().chain(NAMESPACES);
            let hint = nearest(&name, known).map(|known| format!("did you mean {known}?"));
            let message = format!("{} is not a function of templates", quoted(&name));
            self.findings.add(
                text.place,
                Code::InvalidTemplate,
                Severity::Error,
                message,
                hint,
            );
        }
        for reference in parsed.references() {
            let place = within(text.place, &text.text, reference.line);
            self.reference(&reference, place, &text.step, text.purpose);
            if matches!(text.purpose, Purpose::Command | Purpose::HookCommand) {
                self.unquoted(&reference, place, &text.step);
            }
        }
    }

    fn condition(&self, condition: &ConditionUse) {
        if let Err(words) = expression::check(&condition.text) {
            let message = format!(
                "the condition {} cannot be used: {words}",
                quoted(&condition.text)
            );
            self.findings
                .error(condition.place, Code::InvalidExpression, message);
            return;
        }
        for name in expression::unknown_functions(&condition.text) {
            let message = format!("{} is not a function of conditions", quoted(&name));
            self.findings
                .error(condition.place, Code::InvalidExpression, message);
        }
        for reference in expression::references(&condition.text) {
            let root = reference.part(0).unwrap_or_default();
            // Names without members are words of the language, or of a predicate.
            if reference.path.len() > 1 || NAMESPACES.contains(&root) {
                self.reference(&reference, condition.place, &condition.step, Purpose::Other);
            } else if !["true", "false", "nil"].contains(&root) && !condition.text.contains('#') {
                self.unknown(
                    condition.place,
                    root,
                    "what conditions can refer to",
                    &NAMESPACES,
                );
            }
        }
    }

    fn reference(&self, reference: &Reference, place: Place, step: &str, purpose: Purpose) {
        let Some(root) = reference.part(0) else {
            return;
        };
        let Some(member) = reference.part(1) else {
            if !NAMESPACES.contains(&root) {
                self.unknown(place, root, "what texts can refer to", &NAMESPACES);
            }
            return;
        };
        match root {
            "inputs" => {
                let names: Vec<&str> = self
                    .plan
                    .inputs
                    .iter()
                    .map(|input| input.name.as_str())
                    .collect();
                if !names.contains(&member) {
                    self.unknown(place, member, "an input of this workflow", &names);
                }
            }
            "states" => self.state(reference, member, place, step, purpose),
            "workflow" => self.property(place, member, "workflow", &WORKFLOW_PROPERTIES),
            "loop" => self.property(place, member, "loop", &LOOP_PROPERTIES),
            "error" => self.property(place, member, "error", &ERROR_PROPERTIES),
            "context" => self.property(place, member, "context", &CONTEXT_PROPERTIES),
            "awf" => {
                if !DIRECTORIES.contains(&member) {
                    let message = format!("awf.{member} may not be set");
                    self.findings
                        .warning(place, Code::InvalidReference, message);
                }
            }
            "env" => {}
            "parameters" => {
                let message = format!("the parameter {} has no value", quoted(member));
                self.findings.error(place, Code::InvalidReference, message);
            }
            other => self.unknown(place, other, "what texts can refer to", &NAMESPACES),
        }
    }

    fn state(&self, reference: &Reference, name: &str, place: Place, step: &str, purpose: Purpose) {
        if !self.steps.contains_key(name) {
            if self.places.steps.iter().any(|(step, _)| step == name) {
                return;
            }
            let names: Vec<&str> = self
                .plan
                .written_steps()
                .map(|step| step.name.as_str())
                .collect();
            self.unknown(place, name, "a step of this workflow", &names);
            return;
        }
        if let Some(property) = reference.part(2) {
            self.property(
                place,
                property,
                &format!("states.{name}"),
                &STATE_PROPERTIES,
            );
        }
        let is_later = !step.is_empty()
            && name != step
            && !self.contains(step, name)
            && purpose != Purpose::Output
            && self.before.as_ref().is_some_and(|before| {
                !before.get(step).is_some_and(|before| before.contains(name))
            });
        if is_later {
            let message = format!(
                "step {} has not run when step {} uses it",
                quoted(name),
                quoted(step)
            );
            self.findings.error(place, Code::InvalidReference, message);
        }
    }

    /// What runs inside a step has run when the step decides where to go.
    fn contains(&self, step: &str, name: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut queue = vec![step];
        while let Some(outer) = queue.pop() {
            let Some(outer) = self.steps.get(outer) else {
                continue;
            };
            for inner in outer.kind.inner() {
                if inner == name {
                    return true;
                }
                if seen.insert(inner.as_str()) {
                    queue.push(inner);
                }
            }
        }
        false
    }

    fn property(&self, place: Place, name: &str, of: &str, known: &[&str]) {
        if !known.contains(&name) {
            let hint =
                nearest(name, known.iter().copied()).map(|known| format!("did you mean {known}?"));
            let message = format!("{} is not a property of {of}", quoted(name));
            self.findings.add(
                place,
                Code::InvalidReference,
                Severity::Error,
                message,
                hint,
            );
        }
    }

    fn unknown(&self, place: Place, name: &str, what: &str, known: &[&str]) {
        let hint =
            nearest(name, known.iter().copied()).map(|known| format!("did you mean {known}?"));
        let message = format!("{} is not {what}", quoted(name));
        self.findings.add(
            place,
            Code::InvalidReference,
            Severity::Error,
            message,
            hint,
        );
    }

    /// What a program, an agent or whoever asks for a run has written can hold anything, and a shell would run it.
    fn unquoted(&self, reference: &Reference, place: Place, step: &str) {
        if !reference.is_printed_unquoted {
            return;
        }
        let is_untrusted = match (reference.part(0), reference.part(2)) {
            (Some("states"), Some(property)) => UNTRUSTED.contains(&property),
            // All of a step, or of the run, holds what it has printed.
            (Some("states") | None, None) => true,
            // The words of a failure end with what the command complained about.
            (Some("error"), _) => reference
                .part(1)
                .is_none_or(|part| part.eq_ignore_ascii_case("message")),
            (Some("inputs"), _) => reference
                .part(1)
                .is_some_and(|name| self.may_hold_anything(name)),
            (Some("loop"), _) => {
                let is_item = reference
                    .path
                    .iter()
                    .any(|part| part.eq_ignore_ascii_case("item"));
                is_item && self.loops_over_output(step)
            }
            _ => false,
        };
        if is_untrusted {
            let path = match reference.path.join(".") {
                path if path.is_empty() => "all that the run knows".to_owned(),
                path => path,
            };
            let hint = match reference.path.is_empty() {
                true => "write | shell_quote behind what is printed of it".to_owned(),
                false => format!("write {{{{.{path} | shell_quote}}}}"),
            };
            self.findings.add(
                place,
                Code::UnsafeCommand,
                Severity::Warning,
                format!("{path} goes into a command as it is; the shell would run what it holds"),
                Some(hint),
            );
        }
    }

    /// Inputs come from prompts and from the network, as whatever text somebody likes.
    fn may_hold_anything(&self, input: &str) -> bool {
        let mut inputs = self.plan.inputs.iter();
        inputs.any(|spec| {
            spec.name == input
                && spec.kind == InputKind::String
                && spec.validation.choices.is_empty()
                && spec.validation.pattern.is_none()
        })
    }

    fn loops_over_output(&self, step: &str) -> bool {
        self.plan.steps.iter().any(|group| {
            let StepKind::ForEach(each) = &group.kind else {
                return false;
            };
            let is_of_output = match &each.items {
                Items::Text(text) => text.contains("states"),
                Items::List(_) => false,
            };
            is_of_output && each.body.iter().any(|name| name == step)
        })
    }
}

/// The place of a line inside a text: blocks begin on the line after their key.
fn within(place: Place, text: &str, line: u64) -> Place {
    if text.contains('\n') {
        Place {
            line: place.line + line,
            column: 1,
        }
    } else {
        place
    }
}
