//! Pictures of a plan: as lines of text, and as a Mermaid diagram.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::check::successors;
use crate::plan::{Plan, Step, StepKind, TerminalStatus};

/// A label longer than this makes a picture unreadable.
const LABEL_MAX: usize = 40;

/// One line for each step, the way on below it.
pub fn graph_text(plan: &Plan) -> String {
    let mut out = format!("{}\n", plan.name);
    for step in plan.written_steps() {
        let mark = if step.name == plan.initial {
            "▶"
        } else {
            "•"
        };
        let _ = writeln!(out, "{mark} {} ({})", step.name, step.kind.word());
        let inner = step.kind.inner();
        if !inner.is_empty() {
            let _ = writeln!(out, "    runs {}", inner.join(", "));
        }
        if let StepKind::Terminal(terminal) = &step.kind {
            let word = match terminal.status {
                TerminalStatus::Success => "success",
                TerminalStatus::Failure => "failure",
            };
            let _ = writeln!(out, "    ends the run: {word}");
        }
        for (target, label) in successors(step) {
            let label = if label.is_empty() { "always" } else { &label };
            let _ = writeln!(
                out,
                "    {} → {}",
                shortened(label),
                shown_target(plan, target)
            );
        }
    }
    out
}

fn shown_target(plan: &Plan, target: &str) -> String {
    match inline_exit_code(plan, target) {
        Some(code) => format!("ends with exit code {code}"),
        None => target.to_owned(),
    }
}

/// Terminals made from an inline error have no name that people wrote.
fn inline_exit_code(plan: &Plan, target: &str) -> Option<i32> {
    if !target.starts_with(crate::plan::INLINE_ERROR_PREFIX) {
        return None;
    }
    let StepKind::Terminal(terminal) = &plan.step(target)?.kind else {
        return None;
    };
    Some(terminal.exit_code)
}

/// A Mermaid flowchart. Names are numbered, so that no name of a step can break the diagram.
pub fn graph_mermaid(plan: &Plan) -> String {
    let mut out = String::from("flowchart TD\n");
    let ids: BTreeMap<&str, String> = plan
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| (step.name.as_str(), format!("s{index}")))
        .collect();
    let _ = writeln!(out, "    start((start))");
    for step in &plan.steps {
        let Some(id) = ids.get(step.name.as_str()) else {
            continue;
        };
        let _ = writeln!(out, "    {id}{}", shape(plan, step));
    }
    if let Some(id) = ids.get(plan.initial.as_str()) {
        let _ = writeln!(out, "    start --> {id}");
    }
    for step in &plan.steps {
        let Some(from) = ids.get(step.name.as_str()) else {
            continue;
        };
        for (target, label) in successors(step) {
            let Some(to) = ids.get(target) else { continue };
            if label.is_empty() {
                let _ = writeln!(out, "    {from} --> {to}");
            } else {
                let _ = writeln!(
                    out,
                    "    {from} -->|\"{}\"| {to}",
                    escaped(&shortened(&label))
                );
            }
        }
        for inner in step.kind.inner() {
            if let Some(to) = ids.get(inner.as_str()) {
                let _ = writeln!(out, "    {from} -.-> {to}");
            }
        }
    }
    out
}

fn shape(plan: &Plan, step: &Step) -> String {
    let name = match inline_exit_code(plan, &step.name) {
        Some(code) => format!("exit {code}"),
        None => step.name.clone(),
    };
    let name = escaped(&name);
    match &step.kind {
        StepKind::Terminal(_) => format!("([\"{name}\"])"),
        StepKind::Parallel(_) => format!("{{{{\"{name}\"}}}}"),
        StepKind::ForEach(_) | StepKind::While(_) => format!("[/\"{name}\"/]"),
        StepKind::Gate => format!("{{\"{name}\"}}"),
        StepKind::Workflow(_) => format!("[[\"{name}\"]]"),
        StepKind::Agent(_) => format!("(\"{name}\")"),
        StepKind::Command(_) | StepKind::Operation(_) => format!("[\"{name}\"]"),
    }
}

fn shortened(label: &str) -> String {
    let line = label.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LABEL_MAX {
        return line;
    }
    let head: String = line.chars().take(LABEL_MAX - 1).collect();
    format!("{head}…")
}

/// Characters that Mermaid would take for its own, as entities.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '"' => out.push_str("#quot;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '#' => out.push_str("#35;"),
            '&' => out.push_str("#amp;"),
            '|' => out.push_str("#124;"),
            _ if character.is_control() => out.push(' '),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
