//! From the start of a proxy to the first answer of its agent, beside the agent alone.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Way, bare_agent, proxy};
use crate::bench::editor::Editor;
use crate::bench::figure::{Figure, Goal};
use crate::bench::samples::Samples;
use crate::bench::turn::{Stage, TALKER};

const STARTS: usize = 21;
/// Fills the page cache before anything counts.
const WARM_UP_STARTS: usize = 2;
/// An editor that opens a panel waits for its agent, not for us.
const ADDED_GOAL_MS: f64 = 15.0;

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let mut stage = Stage::new(binary)?;
    stage.start_agent("leased", TALKER)?;
    let create = json!({"name": "direct", "template": TALKER});
    stage.control().call("agent.create", &create)?;
    let home = stage.daemon.home();
    let (mut bare, mut direct, mut lease) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP_STARTS + STARTS {
        let alone = first_answer(&mut bare_agent()?)?;
        let bridged = first_answer(&mut proxy(home, binary, "direct", Way::Direct))?;
        let leased = first_answer(&mut proxy(home, binary, "leased", Way::Lease))?;
        if round >= WARM_UP_STARTS {
            bare.push(alone);
            direct.push(bridged);
            lease.push(leased);
        }
    }
    let bare = Samples::milliseconds(&bare)?.median();
    let mut figures = Vec::new();
    for (way, times) in [("bridge", direct), ("lease", lease)] {
        let ours = Samples::milliseconds(&times)?.median();
        figures.push(
            Figure::new(format!("start to the first answer, {way}"), ours, "ms")
                .beside("the agent alone", bare),
        );
        figures.push(
            Figure::new(
                format!("added to the start by the {way}"),
                ours - bare,
                "ms",
            )
            .goal(Goal::AtMost(ADDED_GOAL_MS)),
        );
    }
    Ok(figures)
}

/// The agent is gone when this returns, so that the next one finds its place free.
fn first_answer(command: &mut Command) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let mut editor = Editor::start(command)?;
    editor.initialize()?;
    let duration = start.elapsed();
    editor.leave()?;
    Ok(duration)
}
