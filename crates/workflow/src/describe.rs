//! What a run would do, without doing any of it: for dry runs and for people who want to know before they agree.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::check::successors;
use crate::duration::format_duration;
use crate::machine::Setup;
use crate::mask::Mask;
use crate::plan::{Backoff, Items, Limit, Plan, Prompt, Script, Step, StepKind, Strategy};
use crate::scope::Scope;
use crate::template;
use crate::world::World;

/// What a run would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Description {
    pub workflow: String,
    pub inputs: Vec<(String, String)>,
    /// In the order of the file.
    pub steps: Vec<StepDescription>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepDescription {
    pub name: String,
    pub kind: String,
    pub description: String,
    /// With everything filled in that is known before the run; the rest stays a template.
    pub does: String,
    pub next: Vec<(String, String)>,
    /// Timeout, retry, approval, hooks.
    pub notes: Vec<String>,
}

impl Plan {
    /// Describes a run with these (checked) inputs. Nothing is read but variables.
    pub fn describe(&self, setup: &Setup, world: &Arc<dyn World>) -> Description {
        let records = std::collections::BTreeMap::new();
        let scope = Scope {
            workflow: &self.name,
            setup,
            records: &records,
            loops: &[],
            failure: None,
            elapsed: Duration::ZERO,
            current: "",
            world,
        };
        let shown = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Description {
            workflow: self.name.clone(),
            inputs: setup
                .inputs
                .iter()
                .map(|(name, value)| (name.clone(), shown(value)))
                .collect(),
            steps: self
                .written_steps()
                .map(|step| described(step, &scope))
                .collect(),
        }
    }
}

impl Description {
    /// As it may be shown: its texts are masked, never the names and kinds of its steps, which others go by.
    #[must_use]
    pub fn masked(self, mask: &Mask) -> Self {
        let step = |step: StepDescription| StepDescription {
            description: mask.text(&step.description),
            does: mask.text(&step.does),
            next: step
                .next
                .into_iter()
                .map(|(label, target)| (mask.text(&label), target))
                .collect(),
            ..step
        };
        let input = |(name, value): (String, String)| (name, mask.text(&value));
        Self {
            inputs: self.inputs.into_iter().map(input).collect(),
            steps: self.steps.into_iter().map(step).collect(),
            ..self
        }
    }
}

fn described(step: &Step, scope: &Scope<'_>) -> StepDescription {
    let next = successors(step)
        .into_iter()
        .map(|(target, label)| (label, target.to_owned()))
        .collect();
    StepDescription {
        name: step.name.clone(),
        kind: step.kind.word().to_owned(),
        description: step.description.clone(),
        does: does(step, scope),
        next,
        notes: notes(step),
    }
}

fn does(step: &Step, scope: &Scope<'_>) -> String {
    let known = |text: &str| filled_where_known(text, scope);
    match &step.kind {
        StepKind::Command(command) => match &command.script {
            Script::Inline(text) => known(text),
            Script::File(path) => format!("script {}", known(path)),
        },
        StepKind::Agent(agent) => {
            let prompt = match &agent.prompt {
                Some(Prompt::Inline(text)) => known(text),
                Some(Prompt::File(path)) => format!("prompt of {}", known(path)),
                None => "what the user says".to_owned(),
            };
            format!("{}: {prompt}", known(&agent.provider))
        }
        StepKind::Parallel(parallel) => {
            let strategy = match parallel.strategy {
                Strategy::AllSucceed => "all must succeed",
                Strategy::AnySucceed => "one must succeed",
                Strategy::BestEffort => "failures are passed over",
            };
            format!("{} side by side; {strategy}", parallel.branches.join(", "))
        }
        StepKind::ForEach(each) => {
            let items = match &each.items {
                Items::Text(text) => known(text),
                Items::List(items) => serde_json::Value::Array(items.clone()).to_string(),
            };
            format!(
                "{} for each of {items}{}",
                each.body.join(", "),
                at_most(&each.limit)
            )
        }
        StepKind::While(repeat) => {
            let body = repeat.body.join(", ");
            format!(
                "{body} while {}{}",
                repeat.condition,
                at_most(&repeat.limit)
            )
        }
        StepKind::Operation(operation) => {
            let inputs = serde_json::Value::Object(operation.inputs.clone()).to_string();
            format!("{} {}", operation.name, known(&inputs))
        }
        StepKind::Workflow(call) => {
            let inputs = serde_json::Value::Object(call.inputs.clone()).to_string();
            format!("workflow {} {}", known(&call.workflow), known(&inputs))
        }
        StepKind::Gate => "asks for approval".to_owned(),
        StepKind::Terminal(terminal) => {
            let message = terminal.message.as_deref().map(known).unwrap_or_default();
            format!("ends with exit code {} {message}", terminal.exit_code)
                .trim_end()
                .to_owned()
        }
    }
}

fn at_most(limit: &Limit) -> String {
    match limit {
        Limit::Rounds(rounds) => format!(", at most {rounds} rounds"),
        Limit::Text(text) => format!(", at most {text} rounds"),
    }
}

/// A text is filled in only if all of it can be: half of a command is misleading.
fn filled_where_known(text: &str, scope: &Scope<'_>) -> String {
    let Ok(parsed) = template::parse(text) else {
        return text.to_owned();
    };
    let is_known = parsed.references().iter().all(|reference| {
        matches!(
            reference.part(0),
            Some("inputs" | "env" | "context" | "awf")
        )
    });
    // A dry run reads no files.
    if !is_known || text.contains("readFile") {
        return text.to_owned();
    }
    template::render(text, scope).unwrap_or_else(|_| text.to_owned())
}

fn notes(step: &Step) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(timeout) = step.timeout {
        notes.push(format!("timeout {}", format_duration(timeout)));
    }
    if let Some(retry) = &step.retry {
        let backoff = match retry.backoff {
            Backoff::Constant => "constant",
            Backoff::Linear => "linear",
            Backoff::Exponential => "exponential",
        };
        let delay = format_duration(retry.initial_delay.unwrap_or_default());
        notes.push(format!(
            "up to {} attempts, {delay} apart, {backoff}",
            retry.max_attempts
        ));
    }
    if step.approval.is_some() {
        notes.push("asks for approval first".to_owned());
    }
    let hooks = step.hooks.pre.len() + step.hooks.post.len();
    if hooks > 0 {
        notes.push(format!("{hooks} hooks"));
    }
    if step.continue_on_error {
        notes.push("goes on after a failure".to_owned());
    }
    notes
}

impl fmt::Display for Description {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.workflow)?;
        for (name, value) in &self.inputs {
            writeln!(formatter, "  input {name} = {value}")?;
        }
        for step in &self.steps {
            writeln!(formatter, "{} ({})", step.name, step.kind)?;
            for line in step.does.lines() {
                writeln!(formatter, "    {line}")?;
            }
            for note in &step.notes {
                writeln!(formatter, "    [{note}]")?;
            }
            for (label, target) in &step.next {
                let label = if label.is_empty() { "always" } else { label };
                writeln!(formatter, "    {label} → {target}")?;
            }
        }
        Ok(())
    }
}
