//! Files of steps that do nothing, as many as wanted.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{COMMAND, Shape};
use crate::bench::context::Home;

/// Writes a workflow into the home; gives its path.
pub(super) fn write(home: &Home, shape: Shape, steps: usize) -> anyhow::Result<PathBuf> {
    let name = format!("{}-{steps}", shape.word());
    let path = home.path().join(format!("{name}.yaml"));
    write_to(&path, &text(&name, shape, steps))?;
    Ok(path)
}

/// Writes a workflow of one step that is done so often.
pub(super) fn write_loop(home: &Home, rounds: usize) -> anyhow::Result<PathBuf> {
    let path = home.path().join(format!("loop-{rounds}.yaml"));
    let items: Vec<String> = (0..rounds).map(|round| round.to_string()).collect();
    let text = format!(
        "name: loop\nstates:\n  initial: each\n  each:\n    type: for_each\n    items: [{}]\n    \
         max_iterations: {rounds}\n    body: [step]\n    on_complete: done\n  step: {{type: command, command: \"{COMMAND}\"}}\n  \
         done: {{type: terminal, status: success}}\n",
        items.join(", ")
    );
    write_to(&path, &text)?;
    Ok(path)
}

/// Writes so many workflows of one step into a folder.
pub(in crate::bench) fn write_many(folder: &Path, count: usize) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    for number in 0..count {
        let name = format!("flow-{number}");
        let text = text(&name, Shape::Sequence, 1);
        write_to(&folder.join(format!("{name}.yaml")), &text)?;
    }
    Ok(())
}

fn write_to(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("could not write {}", path.display()))
}

fn text(name: &str, shape: Shape, steps: usize) -> String {
    let first = match shape {
        Shape::Sequence => "step-0",
        Shape::Parallel => "all",
    };
    let mut text = format!(
        "name: {name}\ndescription: Does nothing\nversion: \"1.0.0\"\nstates:\n  initial: {first}\n"
    );
    if shape == Shape::Parallel {
        let names: Vec<String> = (0..steps).map(|number| format!("step-{number}")).collect();
        let branches = names.join(", ");
        let _ = write!(
            text,
            "  all:\n    type: parallel\n    parallel: [{branches}]\n    max_concurrent: {steps}\n    on_success: done\n    on_failure: failed\n"
        ); // A text takes everything.
    }
    for number in 0..steps {
        let _ = write!(
            text,
            "  step-{number}:\n    type: command\n    command: \"{COMMAND}\"\n"
        ); // As above.
        if shape == Shape::Sequence {
            let next = match number + 1 {
                next if next == steps => "done".to_owned(),
                next => format!("step-{next}"),
            };
            let _ = write!(text, "    on_success: {next}\n    on_failure: failed\n"); // As above.
        }
    }
    text.push_str("  done: {type: terminal, status: success}\n");
    text.push_str("  failed: {type: terminal, status: failure}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_ends_where_it_is_done() {
        let text = text("two", Shape::Sequence, 2);
        assert!(text.contains("initial: step-0\n"), "{text}");
        assert!(text.contains("on_success: step-1\n"), "{text}");
        assert!(!text.contains("step-2"), "{text}");
    }

    #[test]
    fn branches_have_no_next_step_of_their_own() {
        let text = text("two", Shape::Parallel, 2);
        assert!(text.contains("parallel: [step-0, step-1]\n"), "{text}");
        assert_eq!(text.matches("on_success").count(), 1, "{text}");
    }
}
