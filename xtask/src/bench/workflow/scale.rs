//! Much of it: a folder of a thousand files, and a run of ten thousand steps.

use std::path::Path;

use super::{ROUNDS, Shape, files, milliseconds, peak_kib, workflow_run};
use crate::bench::context::Home;
use crate::bench::figure::{Figure, Goal};
use crate::bench::samples::Samples;
use crate::bench::workflow::peers::bare_sequence;

const FILES: usize = 1000;
/// A person who lists workflows waits for it.
const FILES_GOAL_MS: f64 = 500.0;
/// The cost of a step must not grow from the short run to the long one. The long one is run once: it takes a while, and has
/// ten thousand steps to be steady.
const SHORT_STEPS: usize = 1000;
const LONG_STEPS: usize = 10_000;
/// What still counts as flat, given the noise of a machine.
const FLAT_GOAL: f64 = 1.5;
const KIB_PER_MIB: f64 = 1024.0;

/// `workflow list` reads and checks every file as `workflow validate` does, in one process.
pub(super) fn many_files(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let (full, empty) = (Home::new()?, Home::new()?);
    files::write_many(&full.path().join(".agentcraft/workflows"), FILES)?;
    let list = |home: &Home| {
        let mut command = home.command(binary);
        milliseconds(command.args(["workflow", "list", "-f", "json"]))
    };
    let (mut ours, mut none) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(list(&full)?);
        none.push(list(&empty)?);
    }
    let file = full.path().join(".agentcraft/workflows/flow-0.yaml");
    let mut validate = Vec::new();
    for _ in 0..ROUNDS {
        let mut command = full.command(binary);
        validate.push(milliseconds(
            command.args(["workflow", "validate"]).arg(&file),
        )?);
    }
    let none = Samples::new(none)?.median();
    Ok(vec![
        Figure::new(
            format!("load and check {FILES} files"),
            Samples::new(ours)?.median(),
            "ms",
        )
        .beside("no file", none)
        .goal(Goal::AtMost(FILES_GOAL_MS)),
        Figure::new(
            "workflow validate, one file",
            Samples::new(validate)?.median(),
            "ms",
        )
        .beside("list of no file", none),
    ])
}

pub(super) fn many_steps(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let home = Home::new()?;
    let per_step = |steps: usize| {
        let file = files::write(&home, Shape::Sequence, steps)?;
        let whole = milliseconds(&mut workflow_run(&home, binary, &file))?;
        anyhow::Ok(whole / f64::from(u32::try_from(steps)?))
    };
    let mut short = Vec::new();
    let mut bare = Vec::new();
    for _ in 0..ROUNDS {
        short.push(per_step(SHORT_STEPS)?);
        bare.push(bare_sequence(&home, SHORT_STEPS)? / f64::from(u32::try_from(SHORT_STEPS)?));
    }
    let short = Samples::new(short)?.median();
    let bare = Samples::new(bare)?.median();
    let memory = |rounds: usize| {
        let file = files::write_loop(&home, rounds)?;
        let peak = peak_kib(&mut workflow_run(&home, binary, &file))?;
        anyhow::Ok(peak / KIB_PER_MIB)
    };
    let (little, much) = (memory(SHORT_STEPS)?, memory(LONG_STEPS)?);
    Ok(vec![
        Figure::new(format!("memory of {LONG_STEPS} rounds"), much, "MiB")
            .beside(format!("of {SHORT_STEPS} rounds"), little)
            .goal(Goal::RatioAtMost(FLAT_GOAL)),
        Figure::new(format!("step of {SHORT_STEPS}"), short, "ms").beside("bare spawn", bare),
        Figure::new(format!("step of {LONG_STEPS}"), per_step(LONG_STEPS)?, "ms")
            .beside(format!("step of {SHORT_STEPS}"), short)
            .goal(Goal::RatioAtMost(FLAT_GOAL)),
    ])
}
